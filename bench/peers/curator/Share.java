/*
 * Some clients of many take turns at a lock that several may hold at once: like bench/programs/share.lua, which describes it. Each
 * client has a CuratorFramework and a thread.
 */
import java.io.File;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;

final class Share {
    private static final int PERMITS = 10;
    private static final int SCANS = 3; // of the permits' files: a free one may be among those already checked

    private final String servers;
    private final String path;
    private final String kind;
    private final int first;
    private final int count;
    private final int total;
    private final double warmUp;
    private final double seconds;
    private final File dir;

    private final AtomicLong turns = new AtomicLong();
    private final AtomicLong violations = new AtomicLong();
    private long from; // System.nanoTime()
    private long to;

    private interface Inside {
        /* Whether all clients that must be excluded were excluded. */
        boolean look(int number);
    }

    Share(String[] args) {
        servers = args[1];
        path = args[2];
        kind = args[3];
        first = Integer.parseInt(args[4]);
        count = Integer.parseInt(args[5]);
        total = Integer.parseInt(args[6]);
        warmUp = Double.parseDouble(args[7]);
        seconds = Double.parseDouble(args[8]);
        dir = new File(args[9]);
    }

    private File file(String what, int number, String state) {
        return new File(dir, what + "-" + number + "-" + state);
    }

    private boolean read(int number) {
        File out = file("reader", number, "out");
        File in = file("reader", number, "in");
        boolean alone = out.renameTo(in) && new File(dir, "free").exists();
        in.renameTo(out);
        return alone;
    }

    private boolean write(int ignored) {
        File free = new File(dir, "free");
        File taken = new File(dir, "taken");
        boolean alone = free.renameTo(taken);
        for (int i = 1; i <= total; i++) {
            alone = alone && file("reader", i, "out").exists();
        }
        taken.renameTo(free);
        return alone;
    }

    private boolean permit(int number) {
        for (int i = 0; i < SCANS * PERMITS; i++) {
            int slot = (number + i) % PERMITS + 1;
            File free = file("permit", slot, "free");
            File taken = file("permit", slot, "taken");
            if (free.renameTo(taken)) {
                taken.renameTo(free);
                return true;
            }
        }
        return false;
    }

    /* Takes a turn; false when the time is up. */
    private boolean turn(Lock lock, Inside inside, int number) throws Exception {
        lock.acquire();
        long at = System.nanoTime();
        if (!inside.look(number)) {
            violations.incrementAndGet();
        }
        if (at >= from && at < to) {
            turns.incrementAndGet();
        }
        lock.release();
        return at < to;
    }

    private void takeTurns(CuratorFramework client, int number) throws Exception {
        if (kind.equals("semaphore")) {
            Lock semaphore = Lock.permits(client, path, PERMITS, 1);
            while (turn(semaphore, this::permit, number)) {
                continue;
            }
            return;
        }
        Lock read = Lock.make("read", client, path);
        Lock write = Lock.make("write", client, path);
        int index = number;
        boolean goesOn = true;
        while (goesOn) {
            index++;
            goesOn = index % 10 == 0 ? turn(write, this::write, number) : turn(read, this::read, number);
        }
    }

    void run() throws Exception {
        List<CuratorFramework> clients = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            CuratorFramework client = Contestant.connect(servers, 10000);
            Lock lock = kind.equals("semaphore") ? Lock.permits(client, path, PERMITS, 1) : Lock.make("read", client, path);
            lock.acquire();
            lock.release(); // the directories exist from here on
            clients.add(client);
        }
        from = Start.await(dir, first) + (long) (warmUp * 1e9);
        to = from + (long) (seconds * 1e9);
        Team team = new Team();
        for (int i = 0; i < count; i++) {
            CuratorFramework client = clients.get(i);
            int number = first + i;
            team.start(() -> takeTurns(client, number));
        }
        long failures = team.join();
        System.out.println(String.format(Locale.ROOT, "name=Curator turns=%d violations=%d failures=%d", turns.get(),
            violations.get(), failures));
        System.out.flush();
        Runtime.getRuntime().halt(0); // the server closes the sessions: closing each takes long
    }
}
