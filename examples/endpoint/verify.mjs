import { createHmac, timingSafeEqual } from "node:crypto";

// verified reports whether tickring signed the request within the last five minutes. request is from node:http; in Express,
// replace url with originalUrl. body is a Buffer with the raw body.
export function verified(token, request, body) {
  const h = (name) => request.headers[name] ?? "";
  const said = [h("tickring-time"), request.method, h("host").toLowerCase(), request.url,
    ...["run", "job", "attempt", "scheduled-at", "callback"].map((name) => h("tickring-" + name))];
  const mac = createHmac("sha256", token).update(said.join("\n") + "\n").update(body);
  const want = Buffer.from("v2=" + mac.digest("hex")), got = Buffer.from(h("tickring-signature"));
  const recent = Math.abs(Date.now() - Date.parse(h("tickring-time"))) <= 300_000;
  return recent && got.length === want.length && timingSafeEqual(got, want);
}
