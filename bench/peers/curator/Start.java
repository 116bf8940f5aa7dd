/* Makes programs begin together, by files in a directory that they share: like bench/start.lua, which describes it. */
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;

final class Start {
    private Start() {
    }

    /* Reports that this program is ready, and waits until it may begin. Returns that time, as System.nanoTime(). */
    static long await(File dir, int number) throws Exception {
        Files.createFile(new File(dir, "ready-" + number).toPath());
        File go = new File(dir, "go");
        while (!go.exists()) {
            Thread.sleep(10);
        }
        double moment = Double.parseDouble(new String(Files.readAllBytes(go.toPath()), StandardCharsets.US_ASCII).trim());
        long waitNs = (long) (moment * 1e9 - System.currentTimeMillis() * 1e6);
        long began = System.nanoTime() + waitNs;
        Thread.sleep(Math.max(0, waitNs / 1000000));
        return began;
    }
}
