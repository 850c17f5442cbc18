import static java.nio.charset.StandardCharsets.UTF_8;

import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.time.format.DateTimeParseException;
import java.util.HexFormat;
import java.util.function.UnaryOperator;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Signatures verifies the requests of tickring. It needs Java 17. */
class Signatures {
    /**
     * Reports whether tickring signed the request within the last five minutes. path includes the query. header returns a header or
     * null, such as request::getHeader of a servlet.
     */
    static boolean verified(String token, String method, String path, UnaryOperator<String> header, byte[] body)
            throws GeneralSecurityException {
        UnaryOperator<String> h = name -> header.apply(name) == null ? "" : header.apply(name);
        var mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(token.getBytes(UTF_8), "HmacSHA256"));
        for (var s : new String[] {h.apply("Tickring-Time"), method, h.apply("Host").toLowerCase(), path, h.apply("Tickring-Run"),
                h.apply("Tickring-Job"), h.apply("Tickring-Attempt"), h.apply("Tickring-Scheduled-At"), h.apply("Tickring-Callback")}) {
            mac.update((s + "\n").getBytes(UTF_8));
        }
        var want = "v2=" + HexFormat.of().formatHex(mac.doFinal(body));
        try {
            var age = Duration.between(Instant.parse(h.apply("Tickring-Time")), Instant.now()).abs();
            return age.compareTo(Duration.ofMinutes(5)) <= 0
                    && MessageDigest.isEqual(want.getBytes(UTF_8), h.apply("Tickring-Signature").getBytes(UTF_8));
        } catch (DateTimeParseException e) {
            return false;
        }
    }
}
