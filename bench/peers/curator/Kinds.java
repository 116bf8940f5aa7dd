/*
 * What each kind of Curator's locks sends and waits for, and the queues: like bench/programs/kinds.lua and queues.lua, which
 * describe the measurements.
 */
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

final class Kinds {
    private static final int PERMITS = 5; // of the semaphore with a queue

    private final Counter counter;
    private final int settleMs;
    private double roundTrip = 1;

    private Kinds(String control, int settleMs) throws Exception {
        this.counter = new Counter(control);
        this.settleMs = settleMs;
    }

    /* A session's thread: a mutex belongs to the thread that acquired it. */
    private static ExecutorService worker() {
        return Executors.newSingleThreadExecutor(task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        });
    }

    /* Runs work that returns two times or none, and prints the traffic meanwhile. */
    private void measure(String what, String kind, Callable<long[]> work) throws Exception {
        counter.settle(settleMs);
        Counter.Counts before = counter.counts();
        long[] times = work.call();
        counter.settle(settleMs);
        Counter.Counts after = counter.counts();
        System.out.println(String.format(Locale.ROOT,
            "name=Curator what=%s kind=%s requests=%d writes=%d notifications=%d acquire=%.2f release=%.2f", what, kind,
            after.requests - before.requests, after.writes - before.writes, after.notifications - before.notifications,
            times[0] / roundTrip, times[1] / roundTrip));
    }

    private static long[] alone(Lock lock) throws Exception {
        long before = System.nanoTime();
        lock.acquire();
        long between = System.nanoTime();
        lock.release();
        return new long[] {between - before, System.nanoTime() - between};
    }

    private long[] contended(Lock lock, Lock rival, ExecutorService worker) throws Exception {
        rival.acquire();
        long beforeAsking = counter.total();
        Future<long[]> waiter = worker.submit(() -> {
            lock.acquire();
            long granted = System.nanoTime();
            lock.release();
            return new long[] {granted, System.nanoTime()};
        });
        counter.settle(settleMs, beforeAsking);
        if (waiter.isDone()) {
            throw new IllegalStateException("granted while somebody else held");
        }
        long before = System.nanoTime();
        rival.release();
        long[] its = waiter.get();
        return new long[] {its[0] - before, its[1] - its[0]};
    }

    private static long[] refused(Lock lock, Lock rival, ExecutorService worker) throws Exception {
        rival.acquire();
        if (worker.submit(lock::tryAcquire).get()) {
            throw new IllegalStateException("granted while somebody else held");
        }
        rival.release();
        return new long[2];
    }

    private void measureKind(String kind, CuratorFramework direct, CuratorFramework client, String path, int count)
        throws Exception {
        Lock lock = Lock.make(kind, client, path);
        Lock rival = Lock.makeRival(kind, direct, path);
        ExecutorService worker = worker();
        alone(rival);
        alone(lock); // makes directories
        long[] times = new long[9];
        for (int i = 0; i < times.length; i++) {
            long before = System.nanoTime();
            client.checkExists().forPath("/");
            times[i] = System.nanoTime() - before;
        }
        Arrays.sort(times);
        roundTrip = times[times.length / 2];
        for (int i = 0; i < count; i++) {
            measure("alone", kind, () -> alone(lock));
        }
        if (kind.equals("multi")) {
            Lock first = Lock.of(new InterProcessMutex(direct, path + "/1"));
            Lock last = Lock.of(new InterProcessMutex(direct, path + "/3"));
            for (int i = 0; i < count; i++) {
                measure("refused", "multi-first", () -> refused(lock, first, worker));
            }
            for (int i = 0; i < count; i++) {
                measure("refused", "multi-last", () -> refused(lock, last, worker));
            }
        } else if (!kind.equals("downgrade")) {
            for (int i = 0; i < count; i++) {
                measure("refused", kind, () -> refused(lock, rival, worker));
            }
        }
        for (int i = 0; i < count; i++) {
            measure("contended", kind, () -> contended(lock, rival, worker));
        }
    }

    static void kinds(String servers, String proxy, String control, String path, int count, int delay) throws Exception {
        Kinds kinds = new Kinds(control, Math.max(30, delay * 6));
        CuratorFramework direct = Contestant.connect(servers, 60000);
        CuratorFramework client = Contestant.connect(proxy, 60000);
        kinds.counter.delay(delay);
        for (String kind : Lock.KINDS) {
            kinds.measureKind(kind, direct, client, path + "-" + kind, count);
        }
        kinds.counter.delay(0);
        client.close();
        direct.close();
    }

    /* A waiter: acquires, reports it, and releases when told. */
    private static final class Waiter {
        private final ExecutorService worker = worker();
        private final Lock lock;
        private final Future<?> granted;

        Waiter(Lock lock) {
            this.lock = lock;
            this.granted = worker.submit(() -> {
                lock.acquire();
                return null;
            });
        }

        void awaitGrant() throws Exception {
            granted.get(30, TimeUnit.SECONDS);
        }

        Future<?> letGo() {
            return worker.submit(() -> {
                lock.release();
                return null;
            });
        }
    }

    private List<Waiter> lineUp(List<Lock> locks) throws Exception {
        List<Waiter> line = new ArrayList<>();
        for (Lock lock : locks) {
            long beforeAsking = counter.total();
            Waiter waiter = new Waiter(lock);
            counter.settle(settleMs, beforeAsking);
            if (waiter.granted.isDone()) {
                throw new IllegalStateException("granted while others held");
            }
            line.add(waiter);
        }
        return line;
    }

    private long readers(CuratorFramework holder, List<CuratorFramework> clients, String path) throws Exception {
        Lock writer = Lock.make("write", holder, path);
        List<Lock> locks = new ArrayList<>();
        for (CuratorFramework client : clients) {
            locks.add(Lock.make("read", client, path));
        }
        writer.acquire();
        List<Waiter> line = lineUp(locks);
        long before = counter.counts().notifications;
        writer.release();
        for (Waiter waiter : line) {
            waiter.awaitGrant();
        }
        counter.settle(settleMs);
        long woken = counter.counts().notifications - before;
        List<Future<?>> ends = new ArrayList<>();
        for (Waiter waiter : line) {
            ends.add(waiter.letGo());
        }
        for (Future<?> end : ends) {
            end.get();
        }
        return woken;
    }

    private long semaphore(CuratorFramework holder, List<CuratorFramework> clients, String path) throws Exception {
        List<Lock> first = new ArrayList<>();
        for (int i = 0; i < PERMITS; i++) {
            Lock lock = Lock.permits(holder, path, PERMITS, 1);
            lock.acquire();
            first.add(lock);
        }
        List<Lock> locks = new ArrayList<>();
        for (CuratorFramework client : clients) {
            locks.add(Lock.permits(client, path, PERMITS, 1));
        }
        List<Waiter> line = lineUp(locks);
        for (int i = 0; i < line.size(); i++) {
            if (i < PERMITS) {
                first.get(i).release();
            } else {
                line.get(i - PERMITS).letGo().get();
            }
            line.get(i).awaitGrant();
            counter.settle(settleMs);
        }
        for (int i = Math.max(0, line.size() - PERMITS); i < line.size(); i++) {
            line.get(i).letGo().get();
        }
        return 0;
    }

    private void measureQueue(String what, int count, Callable<Long> work) throws Exception {
        counter.settle(settleMs);
        Counter.Counts before = counter.counts();
        long woken = work.call();
        counter.settle(settleMs);
        Counter.Counts after = counter.counts();
        System.out.println(String.format(Locale.ROOT,
            "name=Curator what=%s count=%d requests=%d writes=%d notifications=%d woken=%d", what, count,
            after.requests - before.requests, after.writes - before.writes, after.notifications - before.notifications,
            woken));
    }

    static void queues(String servers, String proxy, String control, String path, int count) throws Exception {
        Kinds kinds = new Kinds(control, 30);
        CuratorFramework holder = Contestant.connect(servers, 60000);
        List<CuratorFramework> clients = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            clients.add(Contestant.connect(proxy, 60000));
        }
        kinds.measureQueue("readers", count, () -> kinds.readers(holder, clients, path + "-rwlock"));
        for (String what : new String[] {"semaphore", "again"}) {
            kinds.measureQueue(what, count, () -> kinds.semaphore(holder, clients, path + "-semaphore"));
        }
        System.out.flush();
        Runtime.getRuntime().halt(0); // the server closes the sessions: closing each takes long
    }
}
