/*
 * Many contenders in one process, each in a thread: like bench/programs/crowd.lua, which describes it; a long queue, like line.lua;
 * and clients whose server comes back, like storm.lua.
 */
import java.io.File;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;

final class Crowd {
    private Crowd() {
    }

    private static List<CuratorFramework> connect(String servers, int sessionMs, int count) throws InterruptedException {
        List<CuratorFramework> clients = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            clients.add(Contestant.connect(servers, sessionMs));
        }
        return clients;
    }

    /* Prints, and ends the process. The server closes the sessions, since closing each of them takes long. */
    private static void end(String format, Object... values) {
        System.out.println(String.format(Locale.ROOT, format, values));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    static void crowd(String servers, String path, String kind, int count, int each, double warmUp, double seconds, String dir)
        throws Exception {
        List<CuratorFramework> clients = connect(servers, 10000, count);
        Gate gate = new Gate(dir);
        AtomicLong turns = new AtomicLong();
        Team team = new Team();
        long from = System.nanoTime() + (long) (warmUp * 1e9);
        long to = from + (long) (seconds * 1e9);
        for (int i = 0; i < count * each; i++) {
            CuratorFramework client = clients.get(i % count);
            String itsPath = kind.equals("many") ? path + "-" + (i + 1) : path;
            Lock lock = Lock.make(kind.equals("read") ? "read" : "mutex", client, itsPath);
            team.start(() -> {
                long at;
                do {
                    lock.acquire();
                    at = System.nanoTime();
                    if (kind.equals("one")) {
                        gate.pass();
                    }
                    if (at >= from && at < to) {
                        turns.incrementAndGet();
                    }
                    lock.release();
                } while (at < to);
            });
        }
        long failures = team.join();
        end("name=Curator clients=%d each=%d seconds=%.3f turns=%d violations=%d failures=%d", count, each, seconds, turns.get(),
            gate.violations.get(), failures);
    }

    static void line(String servers, String proxy, String path, int count, int each, String dir) throws Exception {
        Lock held = Lock.make("mutex", Contestant.connect(servers, 60000), path);
        held.acquire();
        List<CuratorFramework> clients = connect(proxy, 60000, count);
        Gate gate = new Gate(dir);
        AtomicLong turns = new AtomicLong();
        Team team = new Team();
        for (int i = 0; i < count * each; i++) {
            Lock lock = Lock.make("mutex", clients.get(i % count), path);
            team.start(() -> {
                lock.acquire();
                turns.incrementAndGet();
                gate.pass();
                lock.release();
            });
        }
        Start.await(new File(dir), 1);
        held.release();
        long failures = team.join();
        end("name=Curator turns=%d violations=%d failures=%d", turns.get(), gate.violations.get(), failures);
    }

    /* Acquires a lock; tries again as long as there is no server. */
    private static void insist(Lock lock) throws InterruptedException {
        while (true) {
            try {
                lock.acquire();
                return;
            } catch (Exception e) {
                Thread.sleep(1);
            }
        }
    }

    static void storm(String servers, String path, int count, double patience, String dir) throws Exception {
        List<Lock> locks = new ArrayList<>();
        for (CuratorFramework client : connect(servers, 30000, count)) {
            Lock lock = Lock.make("mutex", client, path + "-" + (locks.size() + 1));
            lock.acquire();
            lock.release();
            locks.add(lock);
        }
        Start.await(new File(dir), 1);
        AtomicLong last = new AtomicLong();
        CountDownLatch without = new CountDownLatch(count);
        Team team = new Team();
        for (Lock lock : locks) {
            team.start(() -> {
                insist(lock);
                last.accumulateAndGet(System.currentTimeMillis(), Math::max);
                without.countDown();
            });
        }
        without.await((long) (patience * 1e3), TimeUnit.MILLISECONDS);
        end("name=Curator clients=%d failures=0 last=%.3f without=%d", count, last.get() / 1e3, without.getCount());
    }
}
