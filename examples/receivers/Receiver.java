import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.function.Function;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * Receives webhooks. Needs nothing but Java 17 or newer:
 *
 * <pre>PORT=8080 WEBHOOK_SECRETS_FILE=secrets.txt java Receiver.java</pre>
 *
 * The file has one signing secret a line: two while one is being replaced.
 */
public class Receiver {
    private static final int MAX_BODY_BYTES = 1024 * 1024;
    private static final long TOLERANCE_SECONDS = Long.parseLong(setting("WEBHOOK_TOLERANCE_SECONDS", "300"));

    /** Why a request is not taken for a webhook. */
    static final class Refused extends Exception {
        final int status;

        Refused(int status, String code) {
            super(code);
            this.status = status;
        }
    }

    /** What one family of headers says. */
    record Claim(String id, String timestamp, String prefix, List<byte[]> signatures, Function<String, byte[]> keyOf) {
        boolean isGenuine(byte[] body, List<String> secrets) throws GeneralSecurityException {
            boolean genuine = false;
            for (String secret : secrets) {
                Mac mac = Mac.getInstance("HmacSHA256");
                mac.init(new SecretKeySpec(keyOf.apply(secret), "HmacSHA256"));
                mac.update(prefix.getBytes(UTF_8));
                byte[] expected = mac.doFinal(body);
                for (byte[] signature : signatures) genuine |= MessageDigest.isEqual(expected, signature);
            }
            return genuine;
        }
    }

    /** Returns the webhook's id. Every family of headers that is there must be right. */
    static String verify(Headers headers, byte[] body, List<String> secrets) throws Refused, GeneralSecurityException {
        List<Claim> claims = new ArrayList<>();
        String own = text(headers, "X-Webhook-Signature") + " " + text(headers, "X-Webhook-Signature-Next");
        if (!own.isBlank()) {
            String timestamp = text(headers, "X-Webhook-Timestamp");
            claims.add(new Claim(text(headers, "X-Webhook-Id"), timestamp, timestamp + ".",
                found(own, "\\b([0-9a-f]{64})\\b", HexFormat.of()::parseHex), secret -> secret.getBytes(UTF_8)));
        }
        String standard = text(headers, "Webhook-Signature");
        if (!standard.isBlank()) {
            String id = text(headers, "Webhook-Id");
            String timestamp = text(headers, "Webhook-Timestamp");
            claims.add(new Claim(id, timestamp, id + "." + timestamp + ".",
                found(standard, "v1,([A-Za-z0-9+/]{43}=)", Base64.getDecoder()::decode), Receiver::standardKey));
        }
        if (claims.isEmpty()) throw new Refused(401, "missing-signature");
        for (Claim claim : claims) {
            if (!claim.id.matches("[!-~]{1,256}") || !claim.id.equals(claims.get(0).id)) throw new Refused(400, "bad-id");
            if (!claim.timestamp.matches("[0-9]{1,12}")) throw new Refused(400, "bad-timestamp");
            if (!claim.isGenuine(body, secrets)) throw new Refused(401, "wrong-signature");
            long age = System.currentTimeMillis() / 1000 - Long.parseLong(claim.timestamp);
            if (Math.abs(age) > TOLERANCE_SECONDS) throw new Refused(401, "stale-timestamp");
        }
        return claims.get(0).id;
    }

    private static byte[] standardKey(String secret) {
        return secret.startsWith("whsec_") ? Base64.getDecoder().decode(secret.substring(6)) : secret.getBytes(UTF_8);
    }

    private static List<byte[]> found(String text, String pattern, Function<String, byte[]> decode) {
        return Pattern.compile(pattern).matcher(text).results().map((MatchResult match) -> decode.apply(match.group(1))).toList();
    }

    private static String text(Headers headers, String name) {
        String value = headers.getFirst(name);
        return value == null ? "" : value;
    }

    /** Runs once for each id. Throw if it should come again; return for events that you do not use. */
    static void handle(byte[] body) {
        // Java has no JSON of its own: use the library that your application has.
        String json = new String(body, UTF_8);
        if (!json.contains("\"payment.status_changed\"")) return;
        var payment = Pattern.compile("\"payment_id\"\\s*:\\s*\"([^\"\\\\]+)\"").matcher(json);
        if (!payment.find()) throw new IllegalStateException("a payment event without payment_id");
        System.err.println("order of " + payment.group(1) + " has changed");
    }

    /**
     * Remembers ids in memory. With a database, insert the id in the transaction that handle writes in, with a unique
     * key: INSERT INTO handled_webhooks (id) VALUES (?) ON CONFLICT DO NOTHING; no row inserted is a duplicate.
     */
    private static final Map<String, String> states = Collections.synchronizedMap(new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, String> eldest) {
            return size() > 100_000;
        }
    });

    static String handleOnce(String id, byte[] body) {
        String state = states.putIfAbsent(id, "busy");
        if (state != null) return state;
        try {
            handle(body);
        } catch (Throwable failed) {
            states.remove(id);
            throw failed;
        }
        states.put(id, "duplicate");
        return "handled";
    }

    private static void receive(HttpExchange exchange) throws IOException {
        int status = 500;
        String outcome = "failed";
        try {
            byte[] body = exchange.getRequestBody().readNBytes(MAX_BODY_BYTES + 1);
            if (!exchange.getRequestMethod().equals("POST")) throw new Refused(405, "not-post");
            if (body.length > MAX_BODY_BYTES) throw new Refused(413, "body-too-large");
            List<String> secrets = Files.readAllLines(Path.of(setting("WEBHOOK_SECRETS_FILE", "secrets.txt"))).stream()
                .filter(line -> !line.isEmpty()).toList();
            if (secrets.isEmpty()) throw new IOException("there is no secret in WEBHOOK_SECRETS_FILE");
            outcome = handleOnce(verify(exchange.getRequestHeaders(), body, secrets), body);
            // Never 4xx while somebody else is at it: that would end the delivery.
            status = outcome.equals("busy") ? 503 : 200;
        } catch (Refused refused) {
            status = refused.status;
            outcome = refused.getMessage();
        } catch (Exception error) { // It comes again.
            System.err.println("not handled: " + error);
        }
        System.err.println(text(exchange.getRequestHeaders(), "X-Webhook-Id") + " " + status + " " + outcome);
        byte[] answer = ("{\"outcome\":\"" + outcome + "\"}").getBytes(UTF_8);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(status, answer.length);
        exchange.getResponseBody().write(answer);
        exchange.close();
    }

    private static String setting(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    public static void main(String[] args) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(setting("PORT", "8080"))), 0);
        server.createContext("/webhooks", Receiver::receive);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.start();
        System.out.println("listening on http://127.0.0.1:" + server.getAddress().getPort() + "/webhooks");
    }
}
