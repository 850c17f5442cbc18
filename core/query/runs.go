package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/store"
)

// RunFilter selects runs. The zero value selects all runs.
type RunFilter struct {
	Job     string // the job, as app/name or number
	App     string // used if Job is empty
	States  []core.State
	Causes  []core.Cause
	Address string // executor address
	Failed  bool   // selects only failed runs without a following attempt
	// From and To filter by scheduled time. If neither Job nor Thorough is set, only runs that were created from one
	// hour before From to one hour after To are found.
	From, To time.Time
	Thorough bool
	// Longer and Shorter are the minimum and the maximum time from the send to the end of a run, or to now for open
	// runs. Late is the minimum delay from the due time to the send. Zero does not filter.
	Longer, Shorter, Late time.Duration
	// Text is a part of the run's message, or of its params from a trigger, ignoring case.
	Text  string
	Limit int    // maximum number of runs, at most 1000; 0: 100
	After string // value of Next from the previous page
	// Sees reports whether the caller can see an app; nil: the caller can see all apps.
	Sees func(app string) bool
}

// RunPage is one page of runs, newest first.
type RunPage struct {
	Runs []core.Run
	// Skips lists the skip records that overlap the time span of the page, if RunFilter.Job is set.
	Skips []core.Skip
	Next  string // value of After for the next page; empty: this is the last page
	// LookedTo is the time back to which the page has searched; zero if the page is full or the last one.
	LookedTo time.Time
	// NoWaiting is true if the page cannot contain runs that wait for their due time. Only pages of one job can
	// contain these runs.
	NoWaiting bool
	// Jobs has the jobs of the runs in Runs, except deleted jobs.
	Jobs map[core.JobID]*core.Job
	// ThenAt maps the IDs of the retries that followed the runs in Runs to their due times. Removed retries are left
	// out.
	ThenAt map[core.RunID]core.Instant
	// Waits has the times when runs stop waiting for an executor. Runs with a concurrency limit are left out.
	Waits map[core.RunID]time.Time
}

// apart is the maximum time between creation and scheduled time of the runs that a time filter finds. Runs are
// created later after an outage, and earlier for waiting triggers.
const apart = time.Hour

// maxLooks is how many store calls with fewer runs than requested make a page.
const maxLooks = 4

func (f *RunFilter) takes(r *core.Run, now time.Time) bool {
	return (f.Sees == nil || f.Sees(r.App)) &&
		(len(f.States) == 0 || slices.Contains(f.States, r.State)) && (!f.Failed || r.FailedForGood()) &&
		(len(f.Causes) == 0 || slices.Contains(f.Causes, r.Cause)) &&
		(f.From.IsZero() || !r.Slot.Time().Before(f.From)) && (f.To.IsZero() || !r.Slot.Time().After(f.To)) &&
		(f.Address == "" || r.Address == f.Address) && f.took(r, now) && (f.Late == 0 || r.HasLateness() && r.Lateness() > f.Late) &&
		(f.Text == "" || contains(r.Message, f.Text) || r.Params != nil && contains(*r.Params, f.Text))
}

// contains reports whether text contains part, ignoring case.
func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// took reports whether the duration of a run matches the filter.
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

// states returns the possible states of matching runs; empty: any.
func (f *RunFilter) states() []core.State {
	if f.Failed && len(f.States) == 0 {
		return []core.State{core.Failed, core.TimedOut, core.Lost, core.Skipped}
	}
	return f.States
}

// takesPlanned reports whether the filter matches runs that wait for their time.
func (f *RunFilter) takesPlanned() bool {
	return !f.Failed && f.Address == "" && (len(f.States) == 0 || slices.Contains(f.States, core.Planned))
}

func (f *RunFilter) check() (limit int, err error) {
	for _, s := range f.States {
		if !slices.Contains(core.States, s) {
			return 0, core.Invalid("state", string(s), "allowed values: %s", core.JoinAllowed(core.States))
		}
	}
	for _, c := range f.Causes {
		if !slices.Contains(core.Causes, c) {
			return 0, core.Invalid("cause", string(c), "allowed values: %s", core.JoinAllowed(core.Causes))
		}
	}
	if err := checkPeriod(f.From, f.To); err != nil {
		return 0, err
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
			return 0, core.Invalid(span.name, core.FormatDuration(span.is), "the duration cannot be negative")
		}
	}
	if f.Shorter > 0 && f.Longer >= f.Shorter {
		return 0, core.Invalid("longer", core.FormatDuration(f.Longer), "no run can take longer than this value and less than "+
			"%s",
			core.FormatDuration(f.Shorter))
	}
	return limitOf(f.Limit)
}

// placeText returns a position in the form of RunPage.Next.
func placeText(at store.RunPlace) string {
	s := strconv.FormatInt(at.Before, 10)
	if at.Row != 0 {
		s += "." + strconv.FormatInt(at.Row, 10)
	}
	return s
}

func runPlace(s string) (at store.RunPlace, ok bool) {
	before, row, both := strings.Cut(s, ".")
	var err, rowErr error
	if at.Before, err = strconv.ParseInt(before, 10, 64); both {
		at.Row, rowErr = strconv.ParseInt(row, 10, 64)
	}
	return at, err == nil && rowErr == nil && at.Before > 0 && (at.Row > 0 || !both)
}

// recent lists the runs of an app, or of all, by creation time.
func (q *Queries) recent(ctx context.Context, f *RunFilter, limit int, p *budget.Page) (RunPage, error) {
	if f.App != "" {
		if err := core.CheckAppName("app", f.App); err != nil {
			return RunPage{}, err
		}
	}
	now := q.o.Now()
	from, reach := store.RunPlace{}, apart
	if f.Thorough {
		reach = core.MaxAhead
	}
	if f.After != "" {
		var ok bool
		if from, ok = runPlace(f.After); !ok {
			return RunPage{}, core.Invalid("after", f.After, "not the value of `next` from a page of these runs")
		}
	} else if last := f.To.Add(apart); !f.To.IsZero() && !f.Thorough && last.Before(now) {
		from.Before = core.Millis(last) + 1
	}
	res := RunPage{NoWaiting: q.store.ByJournal && f.takesPlanned()}
	end := func(at store.RunPlace) (RunPage, error) {
		res.Next = placeText(at)
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
		if next == (store.RunPlace{}) || len(res.Runs) == had && !f.From.IsZero() && next.Before < core.Millis(f.From.Add(-reach)) {
			return res, nil
		}
		from = next
		if len(res.Runs) >= limit || looked >= budget.Looked || short >= maxLooks || !fits || p.Over() {
			return end(next)
		}
	}
}

// recentThatFit reads as many recent runs as fit into the page; fits is false if some did not fit.
func (q *Queries) recentThatFit(ctx context.Context, f *RunFilter, from store.RunPlace, n int, p *budget.Page) (
	runs []core.Run, next store.RunPlace, fits bool, err error,
) {
	now := q.o.Now()
	of := store.Recent{App: f.App, States: f.states()}
	if !f.From.IsZero() {
		of.From = core.InstantOf(f.From)
	}
	if !f.To.IsZero() {
		of.To = core.InstantOf(f.To)
	}
	for fits = true; ; {
		runs, next, err := q.store.Runs.Recent(ctx, of, from, n)
		if err != nil {
			return nil, store.RunPlace{}, false, core.Retryable(err)
		}
		was, taken := *p, 0
		for taken < len(runs) && (!f.takes(&runs[taken], now) || p.Takes(&runs[taken])) {
			taken++
		}
		switch {
		case taken >= min(n, len(runs)): // a store can return more than requested
			return runs, next, fits, nil
		case taken == 0:
			return nil, from, false, nil
		}
		*p, n, fits = was, taken, false // read again, because only the store knows the next position
	}
}

// Runs returns one page of runs, newest first. The page ends after Options.PageFor, or when the maximum size is
// reached. So a page with fewer runs than the limit, or without runs, can still have a next page.
func (q *Queries) Runs(ctx context.Context, f RunFilter) (RunPage, error) {
	res, err := q.runs(ctx, f, q.Page())
	if err == nil {
		res.Jobs, err = q.jobsOf(ctx, res.Runs)
	}
	if err == nil {
		res.ThenAt, err = q.thenAt(ctx, res.Runs)
	}
	if err == nil {
		// Runs with a limit may wait for a slot instead: only the page of one run reads that.
		free := slices.DeleteFunc(slices.Clone(res.Runs), func(r core.Run) bool { return r.Permit != "" })
		res.Waits, err = q.waits(ctx, free, res.Jobs)
	}
	return res, err
}

func (q *Queries) runs(ctx context.Context, f RunFilter, p *budget.Page) (RunPage, error) {
	limit, err := f.check()
	if err != nil {
		return RunPage{}, err
	}
	if f.Job == "" {
		return q.recent(ctx, &f, limit, p)
	}
	job, err := q.JobID(ctx, f.Job)
	if err != nil {
		return RunPage{}, err
	}
	from, to := firstInstant, core.Horizon
	if !f.From.IsZero() {
		from = max(core.Ceil(f.From.Add(-schedule.MaxJitter)), from) // because From refers to the due time
	}
	if !f.To.IsZero() {
		to = min(core.InstantOf(f.To), to)
	}
	low, high := core.RunRange(job, from, to)
	nlow, nhigh := core.NumberedRange(job)
	if f.After != "" {
		one, other, ok := strings.Cut(f.After, "-")
		a, err1 := core.ParseRunID(one)
		b, err2 := core.ParseRunID(other)
		if !ok || err1 != nil || err2 != nil || a < low-1 || a > high || b < nlow-1 || b > nhigh {
			return RunPage{}, core.Invalid("after", f.After, "not the value of `next` from a page of these runs")
		}
		high, nhigh = a, b
	}
	planned := &reader{q: q, at: high, to: low, down: true, n: limit + 1}
	numbered := &reader{q: q, at: nhigh, to: nlow, down: true, n: limit + 1}
	var res RunPage
	now := q.o.Now()
	first := f.After == ""
	full := false
	for looked := 0; ; looked++ {
		// Checked only before another read.
		if looked > 0 && (planned.empty() || numbered.empty()) && p.Over() {
			full = true
			break
		}
		take, r, err := newer(ctx, planned, numbered)
		if err != nil {
			return RunPage{}, err
		}
		if r == nil {
			break
		}
		fits := f.takes(r, now)
		if len(res.Runs) == limit || looked >= budget.Looked || fits && !p.Takes(r) {
			full = true
			break
		}
		if fits {
			res.Runs = append(res.Runs, *r)
		}
		take.drop()
	}
	// The skip records between the newest run of this page and the newest of the next.
	upper, lower := to, from
	if !first {
		if at, ok := (high + 1).Planned(); ok {
			upper = at
		}
	}
	if full {
		res.Next = fmt.Sprintf("%d-%d", planned.at, numbered.at)
		if at, ok := planned.at.Planned(); ok && len(res.Runs) < limit {
			res.LookedTo = at.Time()
		}
		if at, ok := (planned.at + 1).Planned(); ok {
			lower = at
		}
	}
	if lower <= upper && !f.Failed && (len(f.States) == 0 || slices.Contains(f.States, core.Skipped)) {
		skips, err := q.store.Skips(ctx, job, lower, upper)
		if err != nil {
			return RunPage{}, core.Retryable(err)
		}
		slices.SortFunc(skips, func(a, b core.Skip) int { return cmp.Compare(b.First, a.First) })
		res.Skips = skips
	}
	return res, nil
}

// reader reads the stored runs from at to to, in ascending or descending order of IDs.
type reader struct {
	q      *Queries
	at, to core.RunID // the part that is not consumed
	down   bool
	n      int // runs per read; it grows, because few of many may match
	buf    []core.Run
	end    bool
}

func (r *reader) empty() bool { return len(r.buf) == 0 && !r.end }

func (r *reader) peek(ctx context.Context) (*core.Run, error) {
	if r.empty() && (r.down && r.at < r.to || !r.down && r.at > r.to) {
		r.end = true
	}
	if r.empty() {
		runs, err := r.q.store.Runs.Span(ctx, r.at, r.to, min(r.n, budget.AtOnce))
		if err != nil {
			return nil, core.Retryable(err)
		}
		r.buf, r.end, r.n = runs, len(runs) == 0, 4*r.n
	}
	if len(r.buf) == 0 {
		return nil, nil
	}
	return &r.buf[0], nil
}

// newer returns the reader whose next run is due last, and this run; nil if both are at their end.
func newer(ctx context.Context, planned, numbered *reader) (*reader, *core.Run, error) {
	r, err := planned.peek(ctx)
	if err != nil {
		return nil, nil, err
	}
	n, err := numbered.peek(ctx)
	if err != nil {
		return nil, nil, err
	}
	if r == nil || n != nil && n.Slot > r.Slot {
		return numbered, n, nil
	}
	return planned, r, nil
}

// drop consumes the run that peek returned.
func (r *reader) drop() {
	if r.at = r.buf[0].ID + 1; r.down {
		r.at -= 2
	}
	r.buf = r.buf[1:]
}
