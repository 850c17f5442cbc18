// Package bound is what keeps a use case that people wait for within bounds: a page
// ends in time and at a length, a store is asked for so many things at once, and
// what was refused or has no answer is tried so often.
package bound

import (
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

const (
	// AtOnce is how many things one call of the store is asked for.
	AtOnce = 1000
	// Tries is how often a change is begun again because somebody else was faster
	// or an answer was lost.
	Tries = 4
	// pageBytes is how long an answer may get: a function answers with 6 MB at most.
	pageBytes = 4 << 20
)

// Page is what one answer still has room and time for. Its end is measured by a
// clock that nobody sets.
type Page struct {
	Until    time.Time
	Together int             // things are done at a time
	Bad      core.Unreadable // jobs that were passed over
	bytes    int
	begun    bool
}

// NewPage begins a page that ends after a while.
func NewPage(after time.Duration, together int) *Page {
	return &Page{Until: time.Now().Add(after), Together: together, bytes: pageBytes}
}

// Over reports that the page is over.
func (p *Page) Over() bool { return time.Now().After(p.Until) }

// Passed is the jobs that were passed over before next, or with 0 before the end.
func (p *Page) Passed(next core.JobID) core.Unreadable {
	maps.DeleteFunc(p.Bad, func(id core.JobID, _ error) bool { return next != 0 && id > next })
	return p.Bad
}

// Takes reports whether something goes into the answer too: the first does always.
func (p *Page) Takes(v any) bool {
	text, err := json.Marshal(v)
	if err != nil {
		panic("bound: marshal of what is stored: " + err.Error())
	}
	if p.begun && len(text) > p.bytes {
		return false
	}
	p.begun, p.bytes = true, p.bytes-len(text)
	return true
}

// SideBySide does n things, Together at a time, and begins none once the page
// is over; the first ones always. It answers how many were done before the rest, or
// before one that failed.
func (p *Page) SideBySide(n int, do func(i int) error) (done int, err error) {
	for done < n && (done == 0 || !p.Over()) {
		errs := make([]error, min(p.Together, n-done))
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { errs[i] = do(done + i) })
		}
		all.Wait()
		for _, err := range errs {
			if err != nil {
				return done, err
			}
			done++
		}
	}
	return done, nil
}

// Chunks walks over s in pieces of at most n.
func Chunks[T any](s []T, n int) func(yield func([]T) bool) {
	return func(yield func([]T) bool) {
		for start := 0; start < len(s); start += n {
			if !yield(s[start:min(start+n, len(s))]) {
				return
			}
		}
	}
}
