package wirehttp

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/tickring/tickring/internal/fairsem"
)

// Room limits the number of request bodies that a server holds in memory at the same time. Long bodies have a separate limit,
// so that a backlog of callbacks blocks no heartbeat. Each app, identified by its token, gets a fair share of both limits.
type Room struct {
	short, long *fairsem.Semaphore
	wait        time.Duration
}

// heldShort is how many bodies of at most MaxRegistration bytes are held at once.
const heldShort = 1024

// NewRoom returns a Room. The parameter long is the maximum number of bodies longer than MaxRegistration; 0 means 4. The
// parameter wait is how long each body waits for its turn; 0 means 5 s.
func NewRoom(long int, wait time.Duration) *Room {
	return &Room{fairsem.New(heldShort), fairsem.New(cmp.Or(long, 4)), cmp.Or(wait, 5*time.Second)}
}

// Enter waits until the body of a request may be read. The parameter most is the maximum size of the body in bytes, and the
// parameter who identifies the app of the request. Call leave when the body is not needed any more. The result ok is false if
// the wait was too long.
func (m *Room) Enter(r *http.Request, who string, most int64) (leave func(), ok bool) {
	return m.enter(r.Context(), who, sizeOf(r, most))
}

// sizeOf returns how many bytes the body of a request may have: its Content-Length, or most
// without one.
func sizeOf(r *http.Request, most int64) int64 {
	if r.ContentLength < 0 {
		return most
	}
	return r.ContentLength
}

// enter waits for a place for a body of a size; leave gives it back.
func (m *Room) enter(ctx context.Context, token string, size int64) (leave func(), ok bool) {
	p := m.short
	if size > MaxRegistration {
		p = m.long
	}
	return func() { p.Release(token) }, p.Acquire(ctx, token, m.wait)
}

// ReadBody reads the body of a request into buf. If buf is too small, it allocates a larger buffer once. The parameter most is
// the maximum size of the body in bytes; a larger body is an *http.MaxBytesError. The parameter within is how long the body
// may take to arrive; 0 means 10 s.
func ReadBody(w http.ResponseWriter, r *http.Request, buf []byte, most int64, within time.Duration) ([]byte, error) {
	if r.ContentLength != 0 { // else the deadline would apply to the next request
		// Without deadlines (a function), the body has already arrived.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(cmp.Or(within, 10*time.Second)))
	}
	if size := 1 + min(sizeOf(r, most), most); size > int64(cap(buf)) { // 1 more, so that the last read finds the end
		buf = make([]byte, 0, size)
	}
	return readToEnd(http.MaxBytesReader(w, r.Body, most), buf, int(most)) // a function's body may be longer than its Content-Length
}
