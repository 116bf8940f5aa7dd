/*
 * Curator as a contender. README.md lists its commands and answers.
 *
 * Usage: Contender SERVERS PATH KIND PERMITS NAME
 */
import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Collection;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.ExponentialBackoffRetry;

public final class Contender {
    /**
     * The common interface of the locks.
     */
    private interface Lock {
        /**
         * Returns false if not acquired within `seconds`; a negative number waits for ever.
         */
        boolean acquire(double seconds) throws Exception;

        void release() throws Exception;

        Collection<String> participants() throws Exception;

        void makeRevocable(Runnable told);
    }

    private static final class Mutex implements Lock {
        private final InterProcessMutex mutex;

        Mutex(InterProcessMutex mutex) {
            this.mutex = mutex;
        }

        @Override
        public boolean acquire(double seconds) throws Exception {
            if (seconds < 0) {
                mutex.acquire();
                return true;
            }
            return mutex.acquire((long) (seconds * 1e3), TimeUnit.MILLISECONDS);
        }

        @Override
        public void release() throws Exception {
            mutex.release();
        }

        @Override
        public Collection<String> participants() throws Exception {
            return mutex.getParticipantNodes();
        }

        @Override
        public void makeRevocable(Runnable told) {
            mutex.makeRevocable(lock -> told.run());
        }
    }

    private static final class Semaphore implements Lock {
        private final InterProcessSemaphoreV2 semaphore;
        private Lease lease;

        Semaphore(InterProcessSemaphoreV2 semaphore) {
            this.semaphore = semaphore;
        }

        @Override
        public boolean acquire(double seconds) throws Exception {
            lease = seconds < 0 ? semaphore.acquire() : semaphore.acquire((long) (seconds * 1e3), TimeUnit.MILLISECONDS);
            return lease != null;
        }

        @Override
        public void release() {
            semaphore.returnLease(lease);
        }

        @Override
        public Collection<String> participants() throws Exception {
            return semaphore.getParticipantNodes();
        }

        @Override
        public void makeRevocable(Runnable told) {
            throw new UnsupportedOperationException("a semaphore cannot be revoked");
        }
    }

    /**
     * Checks which contenders are inside at the same time; README.md says how.
     */
    private static final class Check {
        private final Path directory;
        private final Path exclusive;
        private final Path shared;
        private final String name;
        private final int permits;
        private final FileOutputStream log;
        private Path made;

        Check(String directory, String name, int permits) throws IOException {
            this.directory = Paths.get(directory);
            this.exclusive = this.directory.resolve("exclusive");
            this.shared = this.directory.resolve("shared." + name);
            this.name = name;
            this.permits = permits;
            this.log = new FileOutputStream(this.directory.resolve("log").toFile(), true);
        }

        private int countShared() throws IOException {
            int count = 0;
            try (var entries = Files.newDirectoryStream(directory, "shared.*")) {
                for (Path entry : entries) {
                    count += entry == null ? 0 : 1;
                }
            }
            return count;
        }

        /**
         * Enters. Returns true if a conflicting contender is inside.
         */
        boolean enter(String mode) throws IOException {
            boolean alone = mode.equals("mutex") || mode.equals("write");
            boolean overlap = false;
            made = alone ? exclusive : shared;
            try {
                Files.createFile(made);
            } catch (FileAlreadyExistsException e) {
                made = null;
                overlap = true;
            }
            log.write((name + " " + mode + "\n").getBytes(StandardCharsets.US_ASCII));
            switch (mode) {
            case "write":
                return overlap | countShared() > 0;
            case "read":
                return overlap | Files.exists(exclusive);
            case "semaphore":
                return overlap | countShared() > permits;
            default:
                return overlap;
            }
        }

        void leave() throws IOException {
            if (made != null) {
                Files.delete(made);
                made = null;
            }
        }
    }

    private final CuratorFramework client;
    private final String kind;
    private final int permits;
    private final String name;
    private final Lock reading; // the lock of a turn that reads, and of a turn of a kind with only one lock
    private final Lock writing;
    private final CountDownLatch told = new CountDownLatch(1);
    private Lock single; // the lock of single steps: of a read/write lock first the writing one
    private Check check;

    private Contender(CuratorFramework client, String path, String kind, int permits, String name) {
        this.client = client;
        this.kind = kind;
        this.permits = permits;
        this.name = name;
        switch (kind) {
        case "mutex":
            reading = writing = new Mutex(new InterProcessMutex(client, path));
            break;
        case "semaphore":
            reading = writing = new Semaphore(new InterProcessSemaphoreV2(client, path, permits));
            break;
        default:
            InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
            reading = new Mutex(kind.equals("write") ? both.writeLock() : both.readLock());
            writing = new Mutex(kind.equals("read") ? both.readLock() : both.writeLock());
        }
        single = writing;
    }

    private String modeOf(int turn) {
        return !kind.equals("rw") ? kind : turn % 4 == 0 ? "write" : "read";
    }

    private int turns(int count, String directory, boolean unlocked) throws Exception {
        Check each = new Check(directory, name, permits);
        int overlaps = 0;
        for (int turn = 0; turn < count; turn++) {
            String mode = modeOf(turn);
            Lock lock = mode.equals("write") ? writing : reading;
            if (!unlocked) {
                lock.acquire(-1);
            }
            overlaps += each.enter(mode) ? 1 : 0;
            each.leave();
            if (!unlocked) {
                lock.release();
            }
        }
        return overlaps;
    }

    private String answer(String[] words) throws Exception {
        switch (words[0]) {
        case "turns":
            return "done " + words[1] + " " + turns(Integer.parseInt(words[1]), words[2], words.length > 3);
        case "acquire":
            return single.acquire(words.length > 1 ? Double.parseDouble(words[1]) : -1) ? "ok" : "timeout";
        case "release":
            single.release();
            return "ok";
        case "downgrade":
            reading.acquire(-1);
            writing.release();
            single = reading;
            return "ok";
        case "enter":
            check = new Check(words[1], name, permits);
            return check.enter(kind) ? "overlap" : "ok";
        case "leave":
            check.leave();
            return "ok";
        case "participants":
            return String.join(" ", single.participants());
        case "revoke":
            Revoker.attemptRevoke(client, words[1]);
            return "ok";
        case "revocable":
            single.makeRevocable(told::countDown);
            return "ok";
        case "revoked":
            return told.await((long) (Double.parseDouble(words[1]) * 1e3), TimeUnit.MILLISECONDS) ? "revoked" : "timeout";
        case "close":
            client.close();
            return "ok";
        default:
            return "error: no such command";
        }
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 5) {
            System.err.println("Usage: Contender SERVERS PATH KIND PERMITS NAME");
            System.exit(2);
        }
        CuratorFramework client =
            CuratorFrameworkFactory.newClient(args[0], 20000, 20000, new ExponentialBackoffRetry(100, 3));
        client.start();
        client.blockUntilConnected();
        Contender warm = new Contender(client, args[1] + "-warm-" + args[4], args[2], Integer.parseInt(args[3]), args[4]);
        warm.writing.acquire(-1);
        warm.writing.release();
        Contender contender = new Contender(client, args[1], args[2], Integer.parseInt(args[3]), args[4]);
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String answer;
            try {
                answer = contender.answer(line.split(" "));
            } catch (Exception e) {
                answer = "error: " + e.toString().replace('\n', ' ');
            }
            System.out.println(answer);
            if (line.equals("close")) {
                break;
            }
        }
    }
}
