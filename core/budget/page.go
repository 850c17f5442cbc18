// Package budget limits interactive use cases: the time and length of a page, the size of a call of the store,
// and the tries after a conflict or a lost answer.
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
	// Tries is the maximum number of attempts at a change, including the first.
	Tries = 4
	// pageBytes is the maximum length of an answer: a function answers with 6 MB at most.
	pageBytes = 4 << 20
)

// Page is the remaining time and length of one answer. Its time is measured by the monotonic clock.
type Page struct {
	Until    time.Time
	Together int             // number of concurrent calls
	Bad      core.Unreadable // unreadable jobs that were skipped
	bytes    int
	begun    bool
}

// NewPage begins a page that ends after a while.
func NewPage(after time.Duration, together int) *Page {
	return &Page{Until: time.Now().Add(after), Together: together, bytes: pageBytes}
}

// Over reports whether the time of the page is over.
func (p *Page) Over() bool { return time.Now().After(p.Until) }

// Passed returns the unreadable jobs before next; 0: all of them.
func (p *Page) Passed(next core.JobID) core.Unreadable {
	maps.DeleteFunc(p.Bad, func(id core.JobID, _ error) bool { return next != 0 && id > next })
	return p.Bad
}

// Takes reports whether a value still fits into the answer; the first value always fits.
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

// SideBySide calls do n times, Together at a time. After the end of the page it starts no more calls, except the first ones.
// It returns how many calls succeeded before the first error or the end of the page.
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

// Chunks iterates over s in pieces of at most n.
func Chunks[T any](s []T, n int) func(yield func([]T) bool) {
	return func(yield func([]T) bool) {
		for start := 0; start < len(s); start += n {
			if !yield(s[start:min(start+n, len(s))]) {
				return
			}
		}
	}
}
