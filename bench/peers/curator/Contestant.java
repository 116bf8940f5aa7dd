/*
 * Curator as a contestant: each client has a CuratorFramework, each contender a thread.
 *
 * Usage: Contestant cycle SERVERS PATH COUNT [KIND|all]
 *        Contestant contend SERVERS PATH CLIENTS WARM_UP SECONDS DIR
 *        Contestant crowd SERVERS PATH one|many|read CLIENTS EACH WARM_UP SECONDS DIR
 *        Contestant line SERVERS PROXY PATH CLIENTS EACH DIR
 *        Contestant storm SERVERS PATH CLIENTS PATIENCE DIR
 *        Contestant kinds SERVERS PROXY CONTROL PATH COUNT DELAY_MS
 *        Contestant queues SERVERS PROXY CONTROL PATH COUNT
 *        Contestant share SERVERS PATH rwlock|semaphore FIRST COUNT TOTAL WARM_UP SECONDS DIR
 *
 * bench/contestants.lua says where each of these is described.
 */
import java.util.Arrays;
import java.util.Locale;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
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

    /* The quantiles of sorted values: 0, 1, ... 100 percent. */
    private static String quantiles(long[] values) {
        StringBuilder text = new StringBuilder();
        for (int percent = 0; percent <= 100; percent++) {
            int index = (int) ((values.length - 1L) * percent / 100);
            text.append(percent == 0 ? "" : ",").append(String.format(Locale.ROOT, "%.1f", values[index] / 1000.0));
        }
        return text.toString();
    }

    private static void cycle(CuratorFramework client, String kind, String path, int count, int warmUp) throws Exception {
        Lock lock = Lock.make(kind, client, path);
        long[] acquires = new long[count];
        long[] releases = new long[count];
        long[] cycles = new long[count];
        for (int i = -warmUp; i < count; i++) { // compiled code is measured
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
            "name=Curator kind=%s count=%d acquire_us=%.1f release_us=%.1f cycle_us=%.1f quantiles_us=%s", kind,
            count, medianMicroseconds(acquires), medianMicroseconds(releases), medianMicroseconds(cycles),
            quantiles(cycles)));
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

    /* Each kind in turn. They have most of their code in common. */
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

    public static void main(String[] args) throws Exception {
        if ((args.length == 4 || args.length == 5) && args[0].equals("cycle")) {
            cycle(args[1], args[2], Integer.parseInt(args[3]), args.length == 5 ? args[4] : "mutex");
        } else if (args.length == 7 && args[0].equals("contend")) {
            Crowd.crowd(args[1], args[2], "one", Integer.parseInt(args[3]), 1, Double.parseDouble(args[4]),
                Double.parseDouble(args[5]), args[6]);
        } else if (args.length == 9 && args[0].equals("crowd")) {
            Crowd.crowd(args[1], args[2], args[3], Integer.parseInt(args[4]), Integer.parseInt(args[5]),
                Double.parseDouble(args[6]), Double.parseDouble(args[7]), args[8]);
        } else if (args.length == 7 && args[0].equals("line")) {
            Crowd.line(args[1], args[2], args[3], Integer.parseInt(args[4]), Integer.parseInt(args[5]), args[6]);
        } else if (args.length == 6 && args[0].equals("storm")) {
            Crowd.storm(args[1], args[2], Integer.parseInt(args[3]), Double.parseDouble(args[4]), args[5]);
        } else if (args.length == 7 && args[0].equals("kinds")) {
            Kinds.kinds(args[1], args[2], args[3], args[4], Integer.parseInt(args[5]), Integer.parseInt(args[6]));
        } else if (args.length == 6 && args[0].equals("queues")) {
            Kinds.queues(args[1], args[2], args[3], args[4], Integer.parseInt(args[5]));
        } else if (args.length == 10 && args[0].equals("share")) {
            new Share(args).run();
        } else {
            System.err.println("Usage: Contestant cycle|contend|crowd|line|storm|kinds|queues|share SERVERS ...");
            System.exit(2);
        }
    }
}
