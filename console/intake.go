package console

import (
	"io"
	"net/http"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/places"
)

// How forms come in: memory is everybody's, and also strangers send long ones, for what was typed when
// a session had ended is kept.
const (
	formFor     = 10 * time.Second // to come
	longForm    = 32 << 10         // bytes
	longPlaces  = 4                // of long ones of strangers, and as many of people
	placeWithin = 5 * time.Second
	strangerFor = 30 * time.Second // for a long one and the taking of its answer
)

// intake has the places of long forms.
type intake struct {
	strangers, people *places.Places
}

func newIntake() intake { return intake{places.New(longPlaces), places.New(longPlaces)} }

var errNoPlace = core.Errorf(core.CodeUnavailable,
	"the server cannot accept more long forms now: go back, where your input is kept, and submit it again")

// take has a form of at most so many bytes come in within a while, and a long one find a place first,
// which leave gives back.
func (c *Console) take(w http.ResponseWriter, r *http.Request, bound int64) (leave func(), err error) {
	leave = func() {}
	r.Body = http.MaxBytesReader(w, r.Body, bound)
	if r.Method != http.MethodPost || r.ContentLength == 0 {
		return leave, nil
	}
	rc := http.NewResponseController(w) // in a function, where it has no deadlines, all has come before
	if r.ContentLength < 0 || r.ContentLength > longForm {
		of, who := c.intake.strangers, access.House(from(r).Address)
		if p, err := c.whoIs(r); err == nil {
			of, who = c.intake.people, p.Name
		}
		if !of.Enter(r.Context(), who, placeWithin) {
			_ = rc.SetReadDeadline(time.Now().Add(formFor))
			_, _ = io.Copy(io.Discard, r.Body) // else a browser that is still sending hears no answer
			w.Header().Set("Retry-After", "10")
			return nil, errNoPlace
		}
		leave = func() { of.Leave(who) }
		if of == c.intake.strangers {
			_ = rc.SetWriteDeadline(time.Now().Add(strangerFor))
		}
	}
	_ = rc.SetReadDeadline(time.Now().Add(formFor))
	r.Body = &timely{r.Body, rc}
	return leave, nil
}

// timely is a body with a deadline, which is over when the body is: it would end what is done then.
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
