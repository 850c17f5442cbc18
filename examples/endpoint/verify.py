# verified reports whether tickring signed the request within the last five minutes. path includes the query, headers is a dict,
# and body is bytes.
import hashlib
import hmac
from datetime import datetime, timezone

def verified(token, method, path, headers, body):
    h = {name.lower(): value for name, value in headers.items()}
    said = [h.get("tickring-time", ""), method, h.get("host", "").lower(), path]
    said += [h.get("tickring-" + name, "") for name in ("run", "job", "attempt", "scheduled-at", "callback")]
    mac = hmac.new(token.encode(), "".join(s + "\n" for s in said).encode() + body, hashlib.sha256)
    try:
        at = datetime.strptime(said[0], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return False
    recent = abs((datetime.now(timezone.utc) - at).total_seconds()) <= 300
    return recent and hmac.compare_digest(("v2=" + mac.hexdigest()).encode(), h.get("tickring-signature", "").encode())
