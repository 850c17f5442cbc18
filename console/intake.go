package console

import (
	"io"
	"net/http"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/fairsem"
)

// Limits of incoming forms, which bound memory. Unknown clients send long forms too, because a form that was posted
// after its session ended is kept.
const (
	formFor     = 10 * time.Second // to arrive
	longForm    = 32 << 10         // bytes
	longPlaces  = 4                // of unknown clients, and the same number of users
	placeWithin = 5 * time.Second
	strangerFor = 30 * time.Second // for a long form and the transfer of its answer
)

// intake limits the long forms in progress.
type intake struct {
	strangers, people *fairsem.Semaphore
}

func newIntake() intake { return intake{fairsem.New(longPlaces), fairsem.New(longPlaces)} }

var errNoPlace = core.Errorf(core.CodeUnavailable,
	"the server cannot accept more long forms now: go back and submit the form again (your input is kept)")

// take limits the size and the time of a form. A long form first waits for a place, which leave releases.
func (c *Console) take(w http.ResponseWriter, r *http.Request, bound int64) (leave func(), err error) {
	leave = func() {}
	r.Body = http.MaxBytesReader(w, r.Body, bound)
	if r.Method != http.MethodPost || r.ContentLength == 0 {
		return leave, nil
	}
	rc := http.NewResponseController(w) // a function has no deadlines, but there the whole form has already arrived
	if r.ContentLength < 0 || r.ContentLength > longForm {
		of, who := c.intake.strangers, access.House(from(r).Address)
		if p, err := c.whoIs(r); err == nil {
			of, who = c.intake.people, p.Name
		}
		if !of.Acquire(r.Context(), who, placeWithin) {
			_ = rc.SetReadDeadline(time.Now().Add(formFor))
			_, _ = io.Copy(io.Discard, r.Body) // else a browser that is still sending gets no answer
			w.Header().Set("Retry-After", "10")
			return nil, errNoPlace
		}
		leave = func() { of.Release(who) }
		if of == c.intake.strangers {
			_ = rc.SetWriteDeadline(time.Now().Add(strangerFor))
		}
	}
	_ = rc.SetReadDeadline(time.Now().Add(formFor))
	r.Body = &timely{r.Body, rc}
	return leave, nil
}

// timely is a body with a deadline that ends with the body, so that it does not interrupt the work on the form.
type timely struct {
	io.ReadCloser
	rc *http.ResponseController
}

func (b *timely) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}
