// Package budget limits the work of one request or pass: time, response size, items per call of the store, and attempts after
// a conflict or a lost response.
package budget

import (
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

const (
	// AtOnce is the maximum number of items in one call of the store.
	AtOnce = 1000
	// Tries is the maximum number of attempts to make a change, including the first.
	Tries = 4
	// pageBytes is the maximum length of an answer: a function answers with 6 MB at most.
	pageBytes = 4 << 20
)

// A Page limits the time and the size of one response. Its time is measured by the monotonic clock.
type Page struct {
	Until    time.Time
	Together int                  // number of concurrent calls
	Bad      map[core.JobID]error // jobs that were skipped because they cannot be read
	bytes    int
	begun    bool
}

// NewPage returns a Page that ends after the given duration. The parameter together is the number of concurrent calls.
func NewPage(after time.Duration, together int) *Page {
	return &Page{Until: time.Now().Add(after), Together: together, Bad: map[core.JobID]error{}, bytes: pageBytes}
}

// Over reports whether the time limit of the page has passed.
func (p *Page) Over() bool { return time.Now().After(p.Until) }

// Passed returns the unreadable jobs with IDs up to next. The next page continues after this ID. If next is 0, Passed returns
// all unreadable jobs.
func (p *Page) Passed(next core.JobID) map[core.JobID]error {
	maps.DeleteFunc(p.Bad, func(id core.JobID, _ error) bool { return next != 0 && id > next })
	return p.Bad
}

// Takes reports whether the value v fits into the rest of the response. If it fits, Takes reserves the space. The first value
// always fits.
func (p *Page) Takes(v any) bool {
	text, err := json.Marshal(v)
	if err != nil {
		panic("budget: encode a stored value: " + err.Error())
	}
	if p.begun && len(text) > p.bytes {
		return false
	}
	p.begun, p.bytes = true, p.bytes-len(text)
	return true
}

// SideBySide calls the function do for the numbers from 0 to n-1. At most Together calls run at a time. After the time limit
// of the page, it starts no further calls, except the first Together. SideBySide returns the number of successful calls before
// the first error.
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
