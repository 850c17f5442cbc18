package wirehttp

import (
	"context"
	"net/netip"
	"strconv"
	"time"

	"github.com/tickring/tickring/wire"
)

// An exchange is one request and the room for its answer.
type exchange struct {
	host     *host
	path     string // under the base's path, with its slash
	auth     Auth
	about    wire.About // of a run
	body     []byte
	most     int        // bytes of the response body
	cut      bool       // of a longer one the first most bytes are read, and ErrTooLarge
	deadline time.Time  // of everything: dial, write and read
	room     []byte     // the response body is appended to it
	date     *time.Time // receives the Date of the response; nil: not wanted
}

// A response is the result of a round trip, including a failed one.
type response struct {
	status int    // 0: the head of the response did not arrive
	body   []byte // whole only if there was no error
	began  bool   // at least one byte of the request was handed to the network
}

// transport carries one exchange. began must be true if any byte of the
// request may have left this process, and false if it is certain that none
// has: whether a run may be sent elsewhere hangs on it. A transport repeats a
// request by itself only while began is false.
//
// The plain one keeps its own connections, because with net/http's the server
// uses 38 % more processor a fire (0.95 s for 10,000, not 0.69) and the last of a
// burst of 10,000 leaves 40 % later (1.35 s, not 0.96): medians of five
// alternating runs of test/load/bench with burst-10000 on two busy cores. TLS is
// left to net/http.
type transport interface {
	roundTrip(ctx context.Context, x *exchange) (response, error)
	closeIdle()
}

// guard judges the IP address of a connection that is about to be used.
type guard func(ctx context.Context, ip netip.Addr) error

// appendHead appends the head of the request.
func appendHead(dst []byte, x *exchange) []byte {
	dst = append(dst, "POST "...)
	dst = append(dst, x.host.base.Path...)
	dst = append(dst, x.path...)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, x.host.base.Authority...)
	dst = append(dst, "\r\nUser-Agent: tickring\r\nContent-Type: "+wire.ContentType+"\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(x.body)), 10)
	if x.auth.Token != "" {
		dst = append(dst, "\r\n"+wire.HeaderToken+": "...)
		dst = append(dst, x.auth.Token...)
	}
	if x.auth.App != "" {
		dst = append(dst, "\r\n"+wire.HeaderApp+": "...)
		dst = append(dst, x.auth.App...)
	}
	x.about.Headers(func(name, value string) {
		dst = append(append(append(append(dst, "\r\n"...), name...), ": "...), value...)
	})
	return append(dst, "\r\n\r\n"...)
}

// headerValue reports whether s is safe as a header value: no control characters, which could end it and begin another, and no
// space at its ends.
func headerValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == 0x7f {
			return false
		}
	}
	return s == "" || s[0] != ' ' && s[len(s)-1] != ' '
}
