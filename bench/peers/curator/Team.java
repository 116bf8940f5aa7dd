/* Threads that work at the same time, and their failures. */
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;

final class Team {
    interface Work {
        void run() throws Exception;
    }

    private final List<Thread> threads = new ArrayList<>();
    private final AtomicLong failures = new AtomicLong();

    void start(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Exception e) {
                failures.incrementAndGet();
                System.err.println("Curator: " + e);
            }
        });
        threads.add(thread);
        thread.start();
    }

    /* Waits for all threads. Returns how many failed. */
    long join() throws InterruptedException {
        for (Thread thread : threads) {
            thread.join();
        }
        return failures.get();
    }
}
