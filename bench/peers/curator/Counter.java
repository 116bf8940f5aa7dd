/* Counts the traffic through tools/faultproxy.lua, which also delays it: like bench/counter.lua. */
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;

final class Counter {
    static final class Counts {
        long requests;
        long writes;
        long notifications;
    }

    private static final Set<String> NO_REQUESTS = new HashSet<>(Arrays.asList(
        "connections", "connect", "ping", "closeSession", "replies", "notifications", "bytes_up", "bytes_down"));
    private static final Set<String> WRITES = new HashSet<>(Arrays.asList("create", "create2", "createContainer",
        "createTTL", "delete", "deleteContainer", "setData", "setACL", "multi"));

    private final OutputStream out;
    private final BufferedReader in;

    Counter(String address) throws IOException {
        int colon = address.lastIndexOf(':');
        Socket socket = new Socket(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
        socket.setTcpNoDelay(true);
        out = socket.getOutputStream();
        in = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.US_ASCII));
    }

    private String ask(String command) throws IOException {
        out.write((command + "\n").getBytes(StandardCharsets.US_ASCII));
        out.flush();
        String answer = in.readLine();
        if (answer == null || !answer.startsWith("ok")) {
            throw new IOException("the proxy answers '" + answer + "' to '" + command + "'");
        }
        return answer.substring(2).trim();
    }

    /* Delays everything by `ms` milliseconds each way. */
    void delay(int ms) throws IOException {
        ask("delay " + ms);
    }

    Counts counts() throws IOException {
        Counts counts = new Counts();
        for (String word : ask("counts").split(" ")) {
            String name = word.substring(0, word.indexOf('='));
            long number = Long.parseLong(word.substring(word.indexOf('=') + 1));
            if (!NO_REQUESTS.contains(name)) {
                counts.requests += number;
            } else if (name.equals("notifications")) {
                counts.notifications = number;
            }
            if (WRITES.contains(name)) {
                counts.writes += number;
            }
        }
        return counts;
    }

    /* Requests and notifications that have passed, together. */
    long total() throws IOException {
        Counts counts = counts();
        return counts.requests + counts.notifications;
    }

    /* Waits until nothing has passed for `ms` milliseconds. */
    void settle(int ms) throws Exception {
        settle(ms, -1);
    }

    /* The same, but quiet does not count as long as nothing has passed since total() returned `since`. */
    void settle(int ms, long since) throws Exception {
        int quiet = 0;
        long last = -1;
        while (quiet < ms) {
            long now = total();
            quiet = now == last && now != since ? quiet + 5 : 0;
            last = now;
            Thread.sleep(5);
        }
    }
}
