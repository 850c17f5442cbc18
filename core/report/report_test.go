package report_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// world is a store with known runs, and a clock.
type world struct {
	t    *testing.T
	now  time.Time
	data *store.Store // without faults
	s    *store.Store
	runs map[core.RunID]core.Run
	dice *rand.Rand
	n    uint32
}

func newWorld(t *testing.T, from time.Time) *world {
	w := &world{t: t, now: from, runs: map[core.RunID]core.Run{}, dice: rand.New(rand.NewPCG(1, 2))}
	w.data = memory.Open(t, memory.Options{Now: func() time.Time { return w.now }})
	w.s = new(*w.data)
	return w
}

func (w *world) reports(o report.Options) *report.Reports {
	o.Now = func() time.Time { return w.now }
	o.PassFor, o.LiveFor = cmp.Or(o.PassFor, time.Minute), cmp.Or(o.LiveFor, time.Hour)
	return report.New(w.s, o)
}

// appOf returns the app of a job from 1 to 9.
func appOf(job core.JobID) string { return []string{"pay", "shop", "web"}[job%3] }

// began creates a run that begins now, ended or open.
func (w *world) began(job core.JobID, open bool) core.RunID {
	w.t.Helper()
	w.n++
	r := core.Run{ID: core.NumberedRun(job, w.n), App: appOf(job), State: core.Running, Cause: core.CauseSchedule, Owner: "o", Address: "a",
		Slot: core.InstantOf(w.now), Journal: core.JournalKey{Minute: w.now.Unix() / 60, Nonce: "n"}, Attempt: 1,
		SentAt: w.now.Add(time.Duration(w.dice.IntN(5000)) * time.Millisecond).Truncate(time.Millisecond)}
	r.First = r.ID
	if !open {
		end(&r, w.dice)
	}
	w.runs[r.ID] = r
	check.OK(w.t, w.data.CreateRuns(w.t.Context(), []core.Run{r})[0])
	return r.ID
}

func end(r *core.Run, dice *rand.Rand) {
	ends := []core.Run{{State: core.Succeeded}, {State: core.Succeeded}, {State: core.Failed, Reason: core.ReasonHandler},
		{State: core.Failed, Reason: core.ReasonCrashed}, {State: core.Skipped, Reason: core.ReasonOverlap},
		{State: core.Lost, Reason: core.ReasonGone}}
	as := ends[dice.IntN(len(ends))]
	r.State, r.Reason = as.State, as.Reason
	r.EndedAt = r.SentAt.Add(time.Duration(dice.IntN(100_000)) * time.Millisecond)
}

// ends ends an open run.
func (w *world) ends(id core.RunID) {
	w.t.Helper()
	r := w.runs[id]
	end(&r, w.dice)
	w.runs[id] = r
	put := core.End(id, core.Run{State: r.State, Reason: r.Reason, EndedAt: r.EndedAt})
	check.OK(w.t, w.data.ChangeRuns(w.t.Context(), []core.RunPut{put})[0])
}

func (w *world) pass(r *report.Reports) {
	w.t.Helper()
	check.OK(w.t, r.Pass(w.t.Context()))
}

// live creates runs for some time, with a pass every 20 minutes; some runs end hours later.
func (w *world) live(d time.Duration, r *report.Reports) {
	w.t.Helper()
	late := map[core.RunID]time.Time{}
	for until := w.now.Add(d); w.now.Before(until); {
		next := w.now.Add(20 * time.Minute)
		for range w.dice.IntN(4) {
			w.now = w.now.Add(time.Duration(w.dice.IntN(400)) * time.Second)
			id := w.began(core.JobID(1+w.dice.IntN(9)), w.dice.IntN(8) == 0)
			if run := w.runs[id]; run.State.Open() {
				late[id] = w.now.Add(time.Duration(w.dice.IntN(50)) * time.Hour)
			}
		}
		w.now = next
		for id, at := range late {
			if at.Before(w.now) {
				w.ends(id)
				delete(late, id)
			}
		}
		if r != nil {
			w.pass(r)
		}
	}
	for id := range late {
		w.ends(id)
	}
}

// told formats the exact values of a row.
func told(at core.Instant, app string, job core.JobID, counts map[string]int64, most time.Duration) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		if counts[k] != 0 {
			list = append(list, fmt.Sprintf("%s %d", k, counts[k]))
		}
	}
	return fmt.Sprintf("%s %s %d: %s, longest %s", at, app, job, strings.Join(list, ", "), most)
}

// want returns the expected rows of an answer, counted from the runs.
func (w *world) want(q report.Question, begin func(core.Run) core.Instant) []string {
	type key struct {
		at  core.Instant
		app string
		job core.JobID
	}
	counts, most := map[key]map[string]int64{}, map[key]time.Duration{}
	for _, r := range w.runs {
		at := core.Instant(r.Journal.Minute * 60)
		switch {
		case at < q.From, at >= q.To, q.App != "" && r.App != q.App, q.Job != 0 && r.ID.Job() != q.Job, q.State != "" && r.State != q.State,
			q.Reason != "" && r.Reason != q.Reason:
			continue
		}
		k := key{at: begin(r)}
		switch q.Each {
		case report.EachApp:
			k.app = r.App
		case report.EachJob:
			k.app, k.job = r.App, r.ID.Job()
		}
		if counts[k] == nil {
			counts[k] = map[string]int64{}
		}
		if r.State.Open() {
			counts[k]["open"]++
			continue
		}
		counts[k][string(r.State)+":"+string(r.Reason)]++
		if r.Sent() {
			most[k] = max(most[k], r.EndedAt.Sub(r.SentAt))
		}
	}
	var list []string
	for k, n := range counts {
		list = append(list, told(k.at, k.app, k.job, n, most[k]))
	}
	slices.Sort(list)
	return list
}

func said(a report.Answer) []string {
	var list []string
	for _, r := range a.Rows {
		n, most := map[string]int64{"open": r.Open}, time.Duration(0)
		for _, e := range r.Ends {
			n[string(e.State)+":"+string(e.Reason)] = e.N
			most = max(most, e.Took.Most)
		}
		list = append(list, told(r.At, r.App, r.Job, n, most))
	}
	slices.Sort(list)
	return list
}

// holds compares the answers to many questions about a span of whole days with the runs.
func (w *world) holds(r *report.Reports, from, to time.Time, zone *time.Location, day bool) {
	w.t.Helper()
	_, off := time.Date(2020, 1, 1, 0, 0, 0, 0, zone).Zone()
	shift := int64((-off%3600 + 3600) % 3600)
	for _, q := range []report.Question{{}, {App: "shop"}, {Each: report.EachApp}, {Each: report.EachJob}, {Job: 5},
		{Each: report.EachJob, App: "pay"},
		{State: core.Failed}, {State: core.Failed, Reason: core.ReasonCrashed, Each: report.EachApp}, {Job: 3, State: core.Succeeded}} {
		q.From, q.To, q.Zone, q.ByDay = core.InstantOf(from), core.InstantOf(to), zone, day
		a, err := r.Answer(w.t.Context(), q)
		if err != nil {
			w.t.Errorf("%+v: %v", q, err)
			continue
		}
		want := w.want(q, func(r core.Run) core.Instant {
			at := r.Journal.Minute * 60
			if day {
				y, m, d := time.Unix(at, 0).In(zone).Date()
				return core.InstantOf(time.Date(y, m, d, 0, 0, 0, 0, zone))
			}
			return core.Instant((at-shift)/3600*3600 + shift)
		})
		if got := said(a); !slices.Equal(got, want) || len(want) == 0 {
			w.t.Errorf("%s, day %t, app %q job %d each %q %s: (-want +got)\n%s", zone, day, q.App, q.Job, q.Each, q.State, diff.Diff(want, got))
		}
		check.Equal(w.t, a.Until, a.To, "%+v: until", q)
	}
}

func zone(t *testing.T, name string) *time.Location {
	z, err := time.LoadLocation(name)
	check.OK(t, err)
	return z
}

// TestSums compares answers by hour and by day with the runs: over clock changes, in a zone with half
// hours, while days are combined, after runs are removed, with late ends, and with unsummed hours.
func TestSums(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "Asia/Kolkata"} {
		t.Run(name, func(t *testing.T) {
			z := zone(t, name)
			w := newWorld(t, time.Date(2026, 10, 23, 0, 0, 0, 0, z))
			r := w.reports(report.Options{Zone: z})
			begin := w.now
			w.pass(r)
			w.live(4*24*time.Hour, r)
			w.now = w.now.Add(9 * time.Hour) // the last check is due by then
			w.pass(r)
			end := time.Date(2026, 10, 27, 0, 0, 0, 0, z)
			w.holds(r, begin, end, z, false)
			w.holds(r, begin, end, z, true)
			if name == "Europe/Berlin" { // the same hours in other days
				paris := zone(t, "America/New_York")
				w.holds(r, time.Date(2026, 10, 24, 0, 0, 0, 0, paris), time.Date(2026, 10, 26, 0, 0, 0, 0, paris), paris, true)
			}
			for range 20 {
				w.now = w.now.Add(3 * time.Hour)
				w.pass(r)
			}
			w.holds(r, begin, end, z, true)
			for { // until no run is left
				n, err := w.data.Sweep(t.Context(), w.now.Add(30*24*time.Hour), time.Hour, time.Hour, 1000)
				check.OK(t, err)
				if n == 0 {
					break
				}
			}
			w.holds(r, begin, end, z, false)
			w.holds(r, begin, end, z, true)
			h, err := r.Health(t.Context())
			if err != nil || h.Open != 0 || h.Failed != "" || h.Until.Time().Before(w.now.Add(-2*time.Hour)) {
				t.Errorf("%+v, %v", h, err)
			}
		})
	}
}

// TestLive checks that unsummed hours are counted from runs, and that the answer ends earlier if that takes
// too long.
func TestLive(t *testing.T) {
	w := newWorld(t, time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC))
	begin := w.now
	w.pass(w.reports(report.Options{}))
	w.live(20*time.Hour, nil)
	w.holds(w.reports(report.Options{}), begin, w.now, time.UTC, false)
	a, err := w.reports(report.Options{LiveFor: time.Nanosecond}).Answer(t.Context(),
		report.Question{From: core.InstantOf(begin), To: core.InstantOf(w.now)})
	if err != nil || len(a.Rows) > 0 || a.Until != core.InstantOf(begin) {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestOld checks that old days can be read by day only.
func TestOld(t *testing.T) {
	w := newWorld(t, time.Date(2026, 3, 4, 7, 0, 0, 0, time.UTC))
	begin := time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)
	r := w.reports(report.Options{Hours: 10 * 24 * time.Hour})
	w.pass(r)
	w.live(65*time.Hour, r)
	for range 30 {
		w.now = w.now.Add(12 * time.Hour)
		w.pass(r)
	}
	w.holds(r, begin, begin.Add(72*time.Hour), time.UTC, true)
	for _, q := range []report.Question{{}, {ByDay: true, Zone: zone(t, "Asia/Shanghai")}} {
		q.From, q.To = core.InstantOf(begin), core.InstantOf(begin.Add(72*time.Hour))
		if _, err := r.Answer(t.Context(), q); core.CodeOf(err) != core.CodeInvalid {
			t.Errorf("%+v: %v", q, err)
		}
	}
	for {
		n, err := w.data.Sweep(t.Context(), w.now.Add(31*24*time.Hour), 1000*24*time.Hour, time.Hour, 1000)
		check.OK(t, err)
		if n == 0 {
			break
		}
	}
	w.holds(r, begin, begin.Add(72*time.Hour), time.UTC, true)
	for _, list := range []string{"hours/jobs/0", "hours/apps", "hours/all"} {
		left, err := w.data.Records.List(t.Context(), "report#"+list, fmt.Sprint(begin.Unix()), fmt.Sprint(begin.Unix()+72*3600), 10)
		if err != nil || len(left) > 0 {
			t.Errorf("%s: %d records are left, %v", list, len(left), err)
		}
	}
}

// TestReportsKeepDaysOfAnEarlierZone checks that each run counts in one day after a change of the zone, also if an earlier day
// is combined again.
func TestReportsKeepDaysOfAnEarlierZone(t *testing.T) {
	w := newWorld(t, time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC))
	begin := w.now
	r := w.reports(report.Options{Zone: zone(t, "America/New_York")})
	w.pass(r)
	var open []core.RunID
	for hour := range 120 {
		if hour == 75 {
			r = w.reports(report.Options{})
		}
		for job := range core.JobID(2) { // of two lists
			if id := w.began(30*job+1, hour%50 == 7); w.runs[id].State.Open() {
				open = append(open, id)
			}
		}
		w.now = w.now.Add(time.Hour)
		w.pass(r)
	}
	for _, id := range open {
		w.ends(id)
	}
	for range 20 {
		w.now = w.now.Add(time.Hour)
		w.pass(r)
	}
	for _, each := range []report.Each{report.EachAll, report.EachJob} {
		n := int64(0)
		a, err := r.Answer(t.Context(), report.Question{ByDay: true, Each: each, From: core.InstantOf(begin.AddDate(0, 0, -1)),
			To: core.InstantOf(w.now)})
		for i := range a.Rows {
			n += a.Rows[i].Runs() + 1000*a.Rows[i].Open
		}
		if err != nil || n != 240 {
			t.Errorf("each %q: %d runs, want 240: %v", each, n, err)
		}
	}
}

// dying fails from the nth write on; did makes the nth write happen.
type dying struct {
	store.Records
	left *int
	did  bool
}

var errDied = errors.New("died")

func (d dying) Write(ctx context.Context, groups ...store.Group) []error {
	errs := make([]error, len(groups))
	for i := range groups { // each is a write of its own
		*d.left--
		if *d.left > 0 || *d.left == 0 && d.did {
			errs[i] = d.Records.Write(ctx, groups[i])[0]
		}
		if *d.left <= 0 {
			errs[i] = errDied
		}
	}
	return errs
}

// TestDies checks that a process may die at each write, done or not, and the sums still match the runs.
func TestDies(t *testing.T) {
	for n := 2; n < 16; n++ {
		w := newWorld(t, time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC))
		begin := w.now
		left := n
		w.s.Records = dying{w.data.Records, &left, n%2 == 0}
		steps := 0
		for i := range 60 {
			if i%4 < 3 {
				w.began(core.JobID(1+i%5), i%7 == 0)
			}
			w.now = w.now.Add(30 * time.Minute)
			if err := w.reports(report.Options{}).Pass(t.Context()); errors.Is(err, errDied) {
				left = n // the next process
				steps++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		for id := range w.runs {
			if r := w.runs[id]; r.State.Open() {
				w.ends(id)
			}
		}
		left = 1 << 30
		for range 40 {
			w.now = w.now.Add(time.Hour)
			w.pass(w.reports(report.Options{}))
		}
		w.holds(w.reports(report.Options{}), begin, begin.Add(24*time.Hour), time.UTC, false)
		w.holds(w.reports(report.Options{}), begin, begin.Add(24*time.Hour), time.UTC, true)
		if n < 10 && steps == 0 {
			t.Errorf("no process died at write %d", n)
		}
		if t.Failed() {
			t.Fatalf("with a crash at each %dth write", n)
		}
	}
}

// faulty are the runs of a store with other reads.
type faulty struct {
	store.Runs
	get   func(ctx context.Context, ids []core.RunID) (map[core.RunID]store.Got[*core.Run], error)
	began func(ctx context.Context, from, to core.Instant, behind core.JobID, tell func([]core.Run)) (core.JobID, error)
}

func (f faulty) Get(ctx context.Context, ids []core.RunID) (map[core.RunID]store.Got[*core.Run], error) {
	if f.get == nil {
		return f.Runs.Get(ctx, ids)
	}
	return f.get(ctx, ids)
}

func (f faulty) Began(ctx context.Context, from, to core.Instant, behind core.JobID, tell func([]core.Run)) (core.JobID, error) {
	if f.began == nil {
		return f.Runs.Began(ctx, from, to, behind, tell)
	}
	return f.began(ctx, from, to, behind, tell)
}

// pieces reads runs like a store that sorts them by job, and stops after two jobs.
func (w *world) pieces(ctx context.Context, from, to core.Instant, behind core.JobID, tell func([]core.Run)) (core.JobID, error) {
	jobs := map[core.JobID]bool{}
	_, err := w.data.Runs.Began(ctx, from, to, 0, func(runs []core.Run) {
		runs = slices.DeleteFunc(runs, func(r core.Run) bool { return r.ID.Job() <= behind })
		for i := range runs {
			jobs[runs[i].ID.Job()] = true
		}
		tell(runs) // runs of further jobs are passed too
	})
	if list := slices.Sorted(maps.Keys(jobs)); err == nil && len(list) > 2 {
		return list[1], nil
	}
	return 0, err
}

// TestPieces checks that several passes can sum one hour.
func TestPieces(t *testing.T) {
	w := newWorld(t, time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC))
	begin := w.now
	w.s.Runs = faulty{w.data.Runs, nil, w.pieces}
	r := w.reports(report.Options{})
	w.pass(r)
	w.live(20*time.Hour, nil)
	for range 200 {
		w.now = w.now.Add(2 * time.Minute)
		w.pass(r)
	}
	for range 3 {
		w.now = w.now.Add(time.Hour)
		w.pass(r)
	}
	w.holds(r, begin, begin.Add(20*time.Hour), time.UTC, false)
}

// TestOneAtATime checks that only the process with the turn works, and that the turn of a dead process ends.
func TestOneAtATime(t *testing.T) {
	w := newWorld(t, time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC))
	w.pass(w.reports(report.Options{}))
	w.live(2*time.Hour, nil)
	left := 2 // it takes its turn and dies
	w.s.Records = dying{w.data.Records, &left, false}
	if err := w.reports(report.Options{}).Pass(t.Context()); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	w.s = w.data
	until := func() core.Instant {
		h, err := w.reports(report.Options{}).Health(t.Context())
		check.OK(t, err)
		return h.Until
	}
	before := until()
	w.pass(w.reports(report.Options{}))
	check.Equal(t, until(), before, "two had a turn at once")
	w.now = w.now.Add(3 * time.Minute)
	w.pass(w.reports(report.Options{}))
	if until() == before {
		t.Error("the lease of a dead process does not end")
	}
}

// TestHistogram checks that merged histograms give quantiles within 6.25 % and the exact longest duration.
func TestHistogram(t *testing.T) {
	dice := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var parts [3]report.Histogram
		var all []time.Duration
		scale := 1 << dice.IntN(31)
		for range 1 + dice.IntN(400) {
			d := time.Duration(dice.IntN(scale+1)) * time.Millisecond
			parts[dice.IntN(3)].Add(d)
			all = append(all, d)
		}
		slices.Sort(all)
		var h report.Histogram
		for _, p := range parts {
			h.Merge(p)
		}
		if h.N() != int64(len(all)) || h.Most != all[len(all)-1] {
			t.Fatalf("%d, longest %s; want %d and %s", h.N(), h.Most, len(all), all[len(all)-1])
		}
		for _, share := range []float64{0, 0.5, 0.9, 0.99, 1} {
			want := all[min(int(share*float64(len(all))), len(all)-1)]
			if got := h.Quantile(share); (got - want).Abs() > want/16 {
				t.Fatalf("%v of %d: %s, want %s", share, len(all), got, want)
			}
		}
	}
	var none report.Histogram
	none.Add(-time.Second)
	if none.Quantile(0.5) != 0 || none.N() != 1 {
		t.Error("a negative count counts as zero")
	}
}

// TestCutAnew checks that no row counts twice if an hour is summed again after a crash and its rows are
// split differently. Runs are read as open first, then as ended.
func TestCutAnew(t *testing.T) {
	w := newWorld(t, time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC))
	begin, calls, left := w.now, 0, 1<<30
	w.s.Records = dying{w.data.Records, &left, false}
	began := func(_ context.Context, from, _ core.Instant, _ core.JobID, tell func([]core.Run)) (core.JobID, error) {
		calls++
		for job := range core.JobID(3000) {
			r := core.Run{ID: core.PlannedRun(job+1, from), App: "shop", State: core.Running, Slot: from, SentAt: from.Time()}
			if calls > 1 {
				r.State, r.EndedAt = core.Succeeded, from.Time().Add(time.Second)
			}
			tell([]core.Run{r})
		}
		return 0, nil
	}
	w.s.Runs = faulty{w.data.Runs, nil, began}
	w.pass(w.reports(report.Options{}))
	w.now = w.now.Add(time.Hour + 10*time.Minute)
	left = 4 // its turn, and two sheets
	if err := w.reports(report.Options{}).Pass(t.Context()); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	left = 1 << 30
	w.now = w.now.Add(10 * time.Minute)
	w.pass(w.reports(report.Options{}))
	a, err := w.reports(report.Options{}).Answer(t.Context(), report.Question{From: core.InstantOf(begin), To: core.InstantOf(begin) + 3600})
	if err != nil || calls != 2 || len(a.Rows) != 1 || a.Rows[0].Runs() != 3000 || a.Rows[0].Open != 0 {
		t.Errorf("%d calls: %+v, %v", calls, a.Rows, err)
	}
}

// TestCounted checks that Counted does not pass the last successful check of open runs, even if a check
// failed and their day was combined since.
func TestCounted(t *testing.T) {
	w := newWorld(t, time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC))
	begin, on := w.now, false
	w.s.Runs = faulty{w.data.Runs, func(ctx context.Context, ids []core.RunID) (map[core.RunID]store.Got[*core.Run], error) {
		found, err := w.data.Runs.Get(ctx, ids)
		for id := range found {
			if on {
				found[id] = store.Got[*core.Run]{Err: core.ErrThrottled}
			}
		}
		return found, err
	}, nil}
	r := w.reports(report.Options{})
	counted := func(want time.Duration) {
		t.Helper()
		at, err := r.Counted(t.Context())
		if err != nil || at.Time() != begin.Add(want-5*time.Minute) {
			t.Errorf("%s in it is counted up to %s, %v; want %s", w.now.Sub(begin), at, err, begin.Add(want-5*time.Minute))
		}
	}
	pass := func(hour int) {
		t.Helper()
		w.now = begin.Add(time.Duration(hour)*time.Hour + 6*time.Minute)
		w.pass(r)
	}
	w.now = begin.Add(30 * time.Minute)
	counted(0) // the current hour
	w.pass(r)
	id := w.began(1, true)
	pass(5)
	counted(5 * time.Hour)
	on = true
	pass(6)
	counted(5*time.Hour + 6*time.Minute) // the run could not be read
	on = false
	for hour := 7; hour < 26; hour++ { // at growing intervals
		pass(hour)
	}
	counted(22*time.Hour + 6*time.Minute)
	w.ends(id)
	pass(26) // its day is combined, with the run still open
	counted(22*time.Hour + 6*time.Minute)
	pass(30)
	counted(30 * time.Hour)
	for _, day := range []bool{false, true} {
		a, err := r.Answer(t.Context(), report.Question{ByDay: day, From: core.InstantOf(begin), To: core.InstantOf(begin) + 3600})
		if err != nil || len(a.Rows) != 1 || a.Rows[0].Open != 0 || a.Rows[0].Runs() != 1 {
			t.Errorf("by day %t: %+v, %v", day, a, err)
		}
	}
}

// TestReportsRecoverFromAClockAhead: a pass with a fast clock sums hours that are not over and can set a
// late start. With the right clock, all of them are summed again.
func TestReportsRecoverFromAClockAhead(t *testing.T) {
	for _, ahead := range []time.Duration{40 * time.Minute, 3 * time.Hour, 50 * time.Hour, 500 * 24 * time.Hour} {
		for _, first := range []bool{false, true} {
			for _, drops := range []bool{false, true} { // whether the records of the hours are removed
				t.Run(fmt.Sprint(ahead, first, drops), func(t *testing.T) {
					w := newWorld(t, time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC))
					r := w.reports(report.Options{LiveFor: time.Nanosecond}) // the passes count
					begin, end := w.now, w.now.Add(72*time.Hour)
					if first {
						w.now = w.now.Add(9 * time.Hour)
					} else {
						w.pass(r)
						w.live(9*time.Hour, r)
						w.now = w.now.Add(20 * time.Minute)
					}
					at := w.now
					w.began(1, false)
					w.now = w.now.Add(ahead)
					w.pass(r)
					if drops {
						for range 3 {
							w.now = w.now.Add(11 * time.Minute)
							w.pass(r)
						}
					}
					w.now = at.Add(time.Minute)
					w.began(2, false)
					w.pass(r)
					w.live(16*time.Hour, r)
					w.now = w.now.Add(52 * time.Hour)
					w.pass(r)
					if ahead < 100*24*time.Hour { // otherwise the days are old and known by day only
						w.holds(r, begin, end, time.UTC, false)
					}
					w.holds(r, begin, end, time.UTC, true)
					if h, err := r.Health(t.Context()); err != nil || h.Since.Time().After(at) || h.Until.Time().After(w.now) {
						t.Errorf("%+v %v", h, err)
					}
				})
			}
		}
	}
}

// TestRunsBeyondTheBoundStayOpen checks an hour with more open runs of a job than are checked again: the
// rest stays open, and the checked ones are counted with their ends.
func TestRunsBeyondTheBoundStayOpen(t *testing.T) {
	w := newWorld(t, time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC))
	r := w.reports(report.Options{})
	from := core.InstantOf(w.now)
	w.pass(r)
	ids := make([]core.RunID, 10_002)
	for i := range ids {
		ids[i] = w.began(1, true)
	}
	other := w.began(2, true)
	w.now = w.now.Add(70 * time.Minute)
	w.pass(r)
	for _, id := range append(ids, other) {
		w.ends(id)
	}
	w.now = w.now.Add(20 * time.Minute)
	w.pass(r)
	a, err := r.Answer(t.Context(), report.Question{From: from, To: from + 3600, Each: report.EachJob})
	if err != nil || len(a.Rows) != 2 || a.Rows[0].Open+a.Rows[1].Open != 2 || a.Rows[0].Runs()+a.Rows[1].Runs() != 10_001 {
		t.Errorf("%+v, %v", a.Rows, err)
	}
}
