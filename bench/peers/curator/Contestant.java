/*
 * Curator as a contestant: each client a CuratorFramework of its own and a thread.
 *
 * Usage: Contestant cycle SERVERS PATH COUNT [KIND|all]
 *        Contestant contend SERVERS PATH CLIENTS WARM_UP SECONDS DIR
 *        Contestant kinds SERVERS PROXY CONTROL PATH COUNT DELAY_MS
 *        Contestant queues SERVERS PROXY CONTROL PATH COUNT
 *        Contestant share SERVERS PATH rwlock|semaphore FIRST COUNT TOTAL WARM_UP SECONDS DIR
 *
 * A holder renames a file in DIR that only one can rename: `violations` counts the times that somebody else had.
 */
import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

public final class Contestant {
    static CuratorFramework connect(String servers, int sessionMs) throws InterruptedException {
        CuratorFramework client =
            CuratorFrameworkFactory.newClient(servers, sessionMs, 10000, new ExponentialBackoffRetry(100, 3));
        client.start();
        client.blockUntilConnected();
        return client;
    }

    private static double medianMicroseconds(long[] values) {
        Arrays.sort(values);
        return values[values.length / 2] / 1000.0;
    }

    private static void cycle(CuratorFramework client, String kind, String path, int count, int warmUp) throws Exception {
        Lock lock = Lock.make(kind, client, path);
        long[] acquires = new long[count];
        long[] releases = new long[count];
        long[] cycles = new long[count];
        for (int i = -warmUp; i < count; i++) { // what is compiled is measured
            long before = System.nanoTime();
            lock.acquire();
            long between = System.nanoTime();
            lock.release();
            if (i >= 0) {
                long after = System.nanoTime();
                acquires[i] = between - before;
                releases[i] = after - between;
                cycles[i] = after - before;
            }
        }
        System.out.println(String.format(Locale.ROOT,
            "name=Curator kind=%s count=%d acquire_us=%.1f release_us=%.1f cycle_us=%.1f", kind, count,
            medianMicroseconds(acquires), medianMicroseconds(releases), medianMicroseconds(cycles)));
    }

    private static void cycle(String servers, String path, int count, String which) throws Exception {
        CuratorFramework client = connect(servers, 60000);
        if (which.equals("all")) {
            cycleAll(client, path, count);
        } else {
            cycle(client, which, path, count, Math.max(count / 10 + 1, 2000));
        }
        client.close();
    }

    /* Each kind in its turn. They have most of their code in common. */
    private static void cycleAll(CuratorFramework client, String path, int count) throws Exception {
        Lock mutex = Lock.make("mutex", client, path);
        for (int i = 0; i < 1500; i++) {
            mutex.acquire();
            mutex.release();
        }
        for (String kind : Lock.KINDS) {
            cycle(client, kind, path + "-" + kind, count, Math.max(count / 10 + 1, 300));
        }
    }

    private static void contend(String servers, String path, int clients, double warmUp, double seconds, String dir)
        throws Exception {
        File free = new File(dir, "free");
        File taken = new File(dir, "taken");
        List<CuratorFramework> connections = new ArrayList<>();
        for (int i = 0; i < clients; i++) {
            connections.add(connect(servers, 10000));
        }
        AtomicLong turns = new AtomicLong();
        AtomicLong violations = new AtomicLong();
        AtomicLong failures = new AtomicLong();
        long from = System.nanoTime() + (long) (warmUp * 1e9);
        long to = from + (long) (seconds * 1e9);
        List<Thread> threads = new ArrayList<>();
        for (CuratorFramework client : connections) {
            Thread thread = new Thread(() -> {
                InterProcessMutex lock = new InterProcessMutex(client, path);
                try {
                    long at;
                    do {
                        lock.acquire();
                        at = System.nanoTime();
                        if (!free.renameTo(taken)) {
                            violations.incrementAndGet();
                        }
                        if (at >= from && at < to) {
                            turns.incrementAndGet();
                        }
                        taken.renameTo(free);
                        lock.release();
                    } while (at < to);
                } catch (Exception e) {
                    failures.incrementAndGet();
                    System.err.println("Curator: " + e);
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println(String.format(Locale.ROOT,
            "name=Curator clients=%d seconds=%.3f turns=%d violations=%d failures=%d", clients, seconds, turns.get(),
            violations.get(), failures.get()));
        System.out.flush();
        Runtime.getRuntime().halt(0); // the sessions are closed by the server: closing each takes long
    }

    public static void main(String[] args) throws Exception {
        if ((args.length == 4 || args.length == 5) && args[0].equals("cycle")) {
            cycle(args[1], args[2], Integer.parseInt(args[3]), args.length == 5 ? args[4] : "mutex");
        } else if (args.length == 7 && args[0].equals("contend")) {
            contend(args[1], args[2], Integer.parseInt(args[3]), Double.parseDouble(args[4]),
                Double.parseDouble(args[5]), args[6]);
        } else if (args.length == 7 && args[0].equals("kinds")) {
            Kinds.kinds(args[1], args[2], args[3], args[4], Integer.parseInt(args[5]), Integer.parseInt(args[6]));
        } else if (args.length == 6 && args[0].equals("queues")) {
            Kinds.queues(args[1], args[2], args[3], args[4], Integer.parseInt(args[5]));
        } else if (args.length == 10 && args[0].equals("share")) {
            new Share(args).run();
        } else {
            System.err.println("Usage: Contestant cycle|contend|kinds|queues|share SERVERS ...");
            System.exit(2);
        }
    }
}
