package manage

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

// pageBytes is how long an answer may get: a function answers with 6 MB at most.
const pageBytes = 4 << 20

// page is what one answer still has room and time for. Its end is measured by a
// clock that nobody sets.
type page struct {
	until time.Time
	bytes int
	begun bool
	bad   core.Unreadable // jobs that eachJob passed over
}

func (m *Manage) page() *page { return &page{until: time.Now().Add(m.o.PageFor), bytes: pageBytes} }

func (p *page) over() bool { return time.Now().After(p.until) }

// takes reports whether something goes into the answer too: the first does always.
func (p *page) takes(v any) bool {
	text, err := json.Marshal(v)
	if err != nil {
		panic("manage: marshal of what is stored: " + err.Error())
	}
	if p.begun && len(text) > p.bytes {
		return false
	}
	p.begun, p.bytes = true, p.bytes-len(text)
	return true
}

// sideBySide does n things, Options.Together at a time, and begins none once the page
// is over; the first ones always. It answers how many were done before the rest, or
// before one that failed.
func (m *Manage) sideBySide(p *page, n int, do func(i int) error) (done int, err error) {
	for done < n && (done == 0 || !p.over()) {
		errs := make([]error, min(m.o.Together, n-done))
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

// eachJob walks over the jobs of an app, or of all if it is empty, behind a number,
// until one is no longer to be in the page or that is over. It answers the number
// to go on behind; 0 is the end. What an error cut off is left to the next page, unless
// this one came to nothing. A job that cannot be read is passed over, and in p.bad.
func (m *Manage) eachJob(
	ctx context.Context, app string, after core.JobID, p *page, do func(j *core.Job) bool,
) (next core.JobID, err error) {
	for begun := after; ; {
		jobs, next, err := m.store.ListJobs(ctx, app, after, batch)
		bad, err := core.Besides(err)
		switch {
		case err != nil && after != begun:
			return after, nil
		case err != nil:
			return 0, passing(err)
		}
		for id, why := range bad {
			p.bad.Add(id, why)
		}
		for i := range jobs {
			if !do(&jobs[i]) {
				return after, nil
			}
			if after = jobs[i].Def.ID; p.over() {
				return after, nil
			}
		}
		if after = next; next == 0 || p.over() {
			return next, nil
		}
	}
}

// passed is the jobs that were passed over before next, or with 0 before the end.
func (p *page) passed(next core.JobID) core.Unreadable {
	maps.DeleteFunc(p.bad, func(id core.JobID, _ error) bool { return next != 0 && id > next })
	return p.bad
}
