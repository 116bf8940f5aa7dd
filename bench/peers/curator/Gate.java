/*
 * Who looks whether a lock keeps others out: a holder renames a file that only one can rename.
 */
import java.io.File;
import java.util.concurrent.atomic.AtomicLong;

final class Gate {
    final AtomicLong violations = new AtomicLong();
    private final File free;
    private final File taken;

    Gate(String dir) {
        free = new File(dir, "free");
        taken = new File(dir, "taken");
    }

    void pass() {
        if (!free.renameTo(taken)) {
            violations.incrementAndGet();
        }
        taken.renameTo(free);
    }
}
