package ask

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/bound"
)

// RunFilter says which runs; the zero value is all, newest first.
type RunFilter struct {
	Job     string // app/name or number
	App     string // where Job is empty
	States  []core.State
	Causes  []core.Cause
	Address string // where it ran
	Failed  bool   // for good
	// From and To are of instants. Without a job it is what was made from an hour before the
	// first to an hour after the last, or with Thorough whenever it was made.
	From, To time.Time
	Thorough bool
	// Longer and Shorter are of how long it took from the send, or has until now; Late of
	// how long after its slot it was sent. Zero leaves each open.
	Longer, Shorter, Late time.Duration
	// Text is part, whatever its case, of the message or of the params that a trigger gave.
	Text  string
	Limit int    // at most 1000; 0 is 100
	After string // Next of the page before
	// Sees leaves out the apps that it denies; nil: none.
	Sees func(app string) bool
}

// apart is how far from its instant a run is looked for by time: what is made later is made
// after an outage, and what is made earlier waits as a trigger.
const apart = time.Hour

// maxLooks is how many calls of a store that find less than was asked for make a page.
const maxLooks = 4

func (f *RunFilter) takes(r *core.Run, now time.Time) bool {
	return (f.Sees == nil || f.Sees(r.App)) &&
		(len(f.States) == 0 || slices.Contains(f.States, r.State)) && (!f.Failed || r.FailedForGood()) &&
		(len(f.Causes) == 0 || slices.Contains(f.Causes, r.Cause)) &&
		(f.From.IsZero() || !r.Slot.Time().Before(f.From)) && (f.To.IsZero() || !r.Slot.Time().After(f.To)) &&
		(f.Address == "" || r.Address == f.Address) && f.took(r, now) && (f.Late == 0 || r.HasLateness() && r.Lateness() > f.Late) &&
		(f.Text == "" || contains(r.Message, f.Text) || r.Params != nil && contains(*r.Params, f.Text))
}

// contains reports whether a text has another in it, whatever their case.
func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// took reports whether a run took as long as is asked for.
func (f *RunFilter) took(r *core.Run, now time.Time) bool {
	if f.Longer == 0 && f.Shorter == 0 {
		return true
	}
	if !r.Sent() {
		return false
	}
	took := now.Sub(r.SentAt)
	if !r.State.Open() {
		took = r.EndedAt.Sub(r.SentAt)
	}
	return (f.Longer == 0 || took > f.Longer) && (f.Shorter == 0 || took < f.Shorter)
}

// states are those in which what the filter takes can be; empty: any.
func (f *RunFilter) states() []core.State {
	if f.Failed && len(f.States) == 0 {
		return []core.State{core.Failed, core.TimedOut, core.Lost, core.Skipped}
	}
	return f.States
}

// takesUnclaimed reports whether the filter takes runs that were never claimed nor skipped by a dispatcher.
func (f *RunFilter) takesUnclaimed() bool {
	return !f.Failed && f.Address == "" &&
		(len(f.States) == 0 || slices.Contains(f.States, core.Planned) || slices.Contains(f.States, core.Skipped))
}

func (f *RunFilter) check() (limit int, err error) {
	for _, s := range f.States {
		if !slices.Contains(core.States, s) {
			return 0, core.Invalid("state", string(s), "allowed values: %s", core.Words(core.States))
		}
	}
	for _, c := range f.Causes {
		if !slices.Contains(core.Causes, c) {
			return 0, core.Invalid("cause", string(c), "allowed values: %s", core.Words(core.Causes))
		}
	}
	if !f.From.IsZero() && !f.To.IsZero() && f.From.After(f.To) {
		return 0, core.Invalid("from", f.From.Format(time.RFC3339), "must be earlier than to, %s", f.To.Format(time.RFC3339))
	}
	if f.Address = core.NormalAddress(f.Address); len(f.Address) > core.MaxAddress {
		return 0, core.Invalid("address", f.Address, "at most %d bytes are allowed", core.MaxAddress)
	}
	if len(f.Text) > maxSought {
		return 0, core.Invalid("text", f.Text, "at most %d bytes are allowed", maxSought)
	}
	for _, span := range []struct {
		name string
		is   time.Duration
	}{{"longer", f.Longer}, {"shorter", f.Shorter}, {"late", f.Late}} {
		if span.is < 0 {
			return 0, core.Invalid(span.name, span.is.String(), "the duration cannot be negative")
		}
	}
	if f.Shorter > 0 && f.Longer >= f.Shorter {
		return 0, core.Invalid("longer", f.Longer.String(), "no run can take longer than this and less than %s", f.Shorter.String())
	}
	return limitOf(f.Limit)
}

// String is the place as the Next of a page.
func (at RunPlace) String() string {
	s := strconv.FormatInt(at.Before, 10)
	if at.Row != 0 {
		s += "." + strconv.FormatInt(at.Row, 10)
	}
	return s
}

func runPlace(s string) (at RunPlace, ok bool) {
	before, row, both := strings.Cut(s, ".")
	var err, rowErr error
	if at.Before, err = strconv.ParseInt(before, 10, 64); both {
		at.Row, rowErr = strconv.ParseInt(row, 10, 64)
	}
	return at, err == nil && rowErr == nil && at.Before > 0 && (at.Row > 0 || !both)
}

// recent lists runs of an app or of all by when they were made.
func (q *Ask) recent(ctx context.Context, f *RunFilter, limit int, p *bound.Page) (RunPage, error) {
	if f.App != "" {
		if err := core.CheckAppName("app", f.App); err != nil {
			return RunPage{}, err
		}
	}
	now := q.o.Now()
	from, reach := RunPlace{}, apart
	if f.Thorough {
		reach = core.MaxAhead
	}
	if f.After != "" {
		var ok bool
		if from, ok = runPlace(f.After); !ok {
			return RunPage{}, core.Invalid("after", f.After, "not the value of next from a page of these runs")
		}
	} else if last := f.To.Add(apart); !f.To.IsZero() && !f.Thorough && last.Before(now) {
		from.Before = core.Millis(last) + 1
	}
	res := RunPage{NoWaiting: q.o.ByJournal && f.takesUnclaimed()}
	end := func(at RunPlace) (RunPage, error) {
		res.Next = at.String()
		if len(res.Runs) < limit {
			res.LookedTo = core.FromMillis(at.Before)
		}
		return res, nil
	}
	for looked, short := 0, 0; ; {
		left := limit - len(res.Runs)
		runs, next, fits, err := q.recentThatFit(ctx, f, from, left, p)
		if err != nil {
			return RunPage{}, err
		}
		if len(runs) == 0 && !fits {
			return end(from)
		}
		had := len(res.Runs)
		for i := range runs {
			if f.takes(&runs[i], now) {
				res.Runs = append(res.Runs, runs[i])
			}
		}
		if looked += len(runs); len(runs) < left {
			short++
		}
		if next == (RunPlace{}) || len(res.Runs) == had && !f.From.IsZero() && next.Before < core.Millis(f.From.Add(-reach)) {
			return res, nil
		}
		from = next
		if len(res.Runs) >= limit || looked >= bound.Looked || short >= maxLooks || !fits || p.Over() {
			return end(next)
		}
	}
}

// recentThatFit reads as many recent runs as the page takes; fits is false where they
// are not all that were to be read.
func (q *Ask) recentThatFit(ctx context.Context, f *RunFilter, from RunPlace, n int, p *bound.Page) (
	runs []core.Run, next RunPlace, fits bool, err error,
) {
	now := q.o.Now()
	of := Recent{App: f.App, States: f.states()}
	if !f.From.IsZero() {
		of.From = core.InstantOf(f.From)
	}
	if !f.To.IsZero() {
		of.To = core.InstantOf(f.To)
	}
	for fits = true; ; {
		runs, next, err := q.store.RecentRuns(ctx, of, from, n)
		if err != nil {
			return nil, RunPlace{}, false, core.Passing(err)
		}
		was, taken := *p, 0
		for taken < len(runs) && (!f.takes(&runs[taken], now) || p.Takes(&runs[taken])) {
			taken++
		}
		switch {
		case taken >= min(n, len(runs)): // a store may answer some more than it was asked for
			return runs, next, fits, nil
		case taken == 0:
			return nil, from, false, nil
		}
		*p, n, fits = was, taken, false // read again, for only the store knows what is behind them
	}
}
