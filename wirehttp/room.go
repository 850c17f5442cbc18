package wirehttp

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/tickring/tickring/internal/fairsem"
)

// Room limits the request bodies that an endpoint holds at once. Long ones have a separate limit, so that a backlog of reports
// blocks no heartbeat. Each app, identified by its token, has a fair share of both limits (internal/fairsem).
type Room struct {
	short, long *fairsem.Semaphore
	wait        time.Duration
}

// heldShort is how many bodies of at most MaxRegistration bytes are held at once.
const heldShort = 1024

// NewRoom returns a Room. long is the maximum number of long bodies and wait how long each body waits for room;
// 0 means the default: 4, and 5 s.
func NewRoom(long int, wait time.Duration) *Room {
	return &Room{fairsem.New(heldShort), fairsem.New(cmp.Or(long, 4)), cmp.Or(wait, 5*time.Second)}
}

// Enter waits for room for the body of a request, of most bytes at most, on behalf of who; leave releases it.
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

// ReadBody reads the body of a request into buf, or into a larger buffer that it allocates once. A body of more than most bytes is
// a *http.MaxBytesError. The body must arrive within the duration within (0: 10 s).
func ReadBody(w http.ResponseWriter, r *http.Request, buf []byte, most int64, within time.Duration) ([]byte, error) {
	if r.ContentLength != 0 { // else the deadline would apply to the next request
		// Without deadlines (a function), the body has already arrived.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(cmp.Or(within, 10*time.Second)))
	}
	if size := 1 + min(sizeOf(r, most), most); size > int64(cap(buf)) { // 1 more, so that the last read finds the end
		buf = make([]byte, 0, size)
	}
	body := http.MaxBytesReader(w, r.Body, most)
	for {
		if len(buf) == cap(buf) { // a function's body may be longer than its Content-Length
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return buf, err
		}
	}
}
