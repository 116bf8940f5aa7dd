/* The kinds of locks that are measured, made with Curator. The names are those of bench/kinds.lua. */
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

interface Lock {
    String[] KINDS = {"mutex", "read", "write", "downgrade", "permit", "permits", "multi"};

    void acquire() throws Exception;

    boolean tryAcquire() throws Exception;

    void release() throws Exception;

    static Lock make(String kind, CuratorFramework client, String path) {
        switch (kind) {
        case "mutex":
            return of(new InterProcessMutex(client, path));
        case "read":
            return of(new InterProcessReadWriteLock(client, path).readLock());
        case "write":
            return of(new InterProcessReadWriteLock(client, path).writeLock());
        case "downgrade":
            return downgrade(new InterProcessReadWriteLock(client, path));
        case "permit":
            return permits(client, path, 1, 1);
        case "permits":
            return permits(client, path, 3, 3);
        case "multi":
            List<InterProcessLock> members = new ArrayList<>();
            for (int i = 1; i <= 3; i++) {
                members.add(new InterProcessMutex(client, path + "/" + i));
            }
            return of(new InterProcessMultiLock(members));
        default:
            throw new IllegalArgumentException(kind);
        }
    }

    /* A lock that excludes all others from a lock of that kind on that path while it is held. */
    static Lock makeRival(String kind, CuratorFramework client, String path) {
        switch (kind) {
        case "read":
            return make("write", client, path);
        case "write":
        case "downgrade":
            return make("read", client, path);
        default:
            return make(kind, client, path);
        }
    }

    static Lock of(InterProcessLock lock) {
        return new Lock() {
            @Override
            public void acquire() throws Exception {
                lock.acquire();
            }

            @Override
            public boolean tryAcquire() throws Exception {
                return lock.acquire(0, TimeUnit.SECONDS);
            }

            @Override
            public void release() throws Exception {
                lock.release();
            }
        };
    }

    /* Acquires the write lock and returns with the read lock. */
    static Lock downgrade(InterProcessReadWriteLock lock) {
        return new Lock() {
            @Override
            public void acquire() throws Exception {
                lock.writeLock().acquire();
                lock.readLock().acquire();
                lock.writeLock().release();
            }

            @Override
            public boolean tryAcquire() {
                throw new UnsupportedOperationException();
            }

            @Override
            public void release() throws Exception {
                lock.readLock().release();
            }
        };
    }

    static Lock permits(CuratorFramework client, String path, int limit, int count) {
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, limit);
        return new Lock() {
            private Collection<Lease> leases;

            @Override
            public void acquire() throws Exception {
                leases = semaphore.acquire(count);
            }

            @Override
            public boolean tryAcquire() throws Exception {
                leases = semaphore.acquire(count, 0, TimeUnit.SECONDS);
                return leases != null;
            }

            @Override
            public void release() {
                semaphore.returnAll(leases);
            }
        };
    }
}
