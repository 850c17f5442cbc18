package sim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// The four interfaces of a store as one process sees them. Each call gets its faults (faults.go), and each write goes
// through the truth (writes.go).
type (
	records struct {
		*incarnation
		store.Records
	}
	jobs struct {
		*incarnation
		store.Jobs
	}
	runs struct {
		*incarnation
		store.Runs
	}
	queue struct {
		*incarnation
		store.Queue
	}
)

// opens returns the store of the process.
func (in *incarnation) opens() *store.Store {
	real := in.truth().store
	s := *real
	s.Records, s.Jobs, s.Runs, s.Queue = records{in, s.Records}, jobs{in, s.Jobs}, runs{in, s.Runs}, queue{in, s.Queue}
	s.Keep = func(ctx context.Context, jobs ...core.JobID) []time.Duration {
		return real.Keep(in.asks(ctx, "keep", true), jobs...)
	}
	return &s
}

func (in *incarnation) truth() *truth { return in.p.w.truth }

// kindOf returns a kind of records, without the name that a spread kind has.
func kindOf(kind string) string {
	kind, _, _ = strings.Cut(kind, "#")
	return kind
}

func (x records) Get(ctx context.Context, keys ...store.Key) (map[store.Key]store.Record, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	began, clock := time.Now(), time.Time{}
	found, err := keyed(x.incarnation, ctx, "get "+kindOf(keys[0].Kind), keys, store.Record{Err: core.ErrThrottled},
		func(r store.Record) error { return r.Err }, func(ctx context.Context, keys []store.Key) (map[store.Key]store.Record, error) {
			clock = x.p.now()
			return x.Records.Get(ctx, keys...)
		})
	if inv := invocationOf(ctx); inv != nil && err == nil {
		inv.sawRecords(keys, found, began, clock)
	}
	return found, err
}

func (x records) List(ctx context.Context, kind, after, before string, n int) (l []store.Record, err error) {
	op := "list " + kindOf(kind)
	err = x.read(ctx, op, func(ctx context.Context) (err error) {
		l, err = x.Records.List(ctx, kind, after, before, n)
		return err
	})
	return l, err
}

// Write records the duration and the failures of writes of journals, also if the process dies while it waits for the answer.
func (x records) Write(ctx context.Context, groups ...store.Group) []error {
	kind := "change"
	if len(groups) > 0 && len(groups[0].Writes) > 0 {
		kind = kindOf(groups[0].Writes[0].Kind)
	}
	err := errUnknown // for a process that dies during the call
	if kind == "journal" {
		defer journalling(ctx, &err)()
	}
	errs := writes(x.incarnation, ctx, "write "+kind, groups, x.truth().putRecords)
	err = errors.Join(errs...)
	return errs
}

func (x jobs) Get(ctx context.Context, part store.Part, ids []core.JobID) (map[core.JobID]store.Got[*core.Job], error) {
	op, began := map[store.Part]string{store.Whole: "Jobs", store.Planning: "Scheds"}[part], time.Now()
	found, err := got(x.incarnation, ctx, op, ids, func(ctx context.Context, ids []core.JobID) (map[core.JobID]store.Got[*core.Job], error) {
		return x.Jobs.Get(ctx, part, ids)
	})
	if inv := invocationOf(ctx); inv != nil && err == nil && part == store.Whole {
		inv.sawJobs(ids, found, began)
	}
	for id, g := range found {
		found[id] = x.readable(id, g)
	}
	return found, err
}

func (x jobs) Named(ctx context.Context, app string, names []string) (ids map[string]core.JobID, err error) {
	err = x.read(ctx, "JobIDs", func(ctx context.Context) (err error) { ids, err = x.Jobs.Named(ctx, app, names); return err })
	return ids, err
}

func (x jobs) List(ctx context.Context, app string, after core.JobID, n int) (l []store.Got[*core.Job], next core.JobID, err error) {
	err = x.read(ctx, "ListJobs", func(ctx context.Context) (err error) { l, next, err = x.Jobs.List(ctx, app, after, n); return err })
	for i, g := range l {
		l[i] = x.readable(g.Is.Def.ID, g)
	}
	return l, next, err
}

// Due returns jobs that are due, from an index that lags behind the writes. The list can be incomplete.
func (x jobs) Due(ctx context.Context, part int, upTo core.Instant, after core.DueItem, n int) (items []core.DueItem, err error) {
	w := x.p.w
	err = x.read(ctx, "Due", func(ctx context.Context) (err error) { items, err = x.Jobs.Due(ctx, part, upTo, after, n); return err })
	// A partition is read to its end before it is given up: StableFor after the last item came.
	if err != nil || x.calm || !w.faulty.Load() || upTo == core.Horizon {
		return items, err
	}
	d, _ := x.p.dice("Due stale")
	old := x.truth().dueBefore(part, slices.Clone(items), after == core.DueItem{})
	if d.chance(0.1 * w.cfg.Rate) {
		w.count("stale index", 1)
		items = slices.DeleteFunc(items, func(it core.DueItem) bool {
			hidden := d.chance(0.3)
			if hidden { // if no other item is due, the invocation ends
				w.troublePlanning(time.Now().Add(w.deployed.aftermath().planning+2*w.deployed.wake), it.Job)
			}
			return hidden
		})
		for _, it := range old {
			if after.Less(it) && it.PlanAt <= upTo && !slices.Contains(items, it) && len(items) < n {
				items = append(items, it)
			}
		}
		slices.SortFunc(items, func(a, b core.DueItem) int {
			if a.Less(b) {
				return -1
			}
			return 1
		})
	}
	if len(items) > 1 && d.chance(0.1*w.cfg.Rate) {
		w.count("short read", 1)
		items = items[:1+d.n(len(items)-1)]
	}
	return items, nil
}

func (x jobs) Entries(ctx context.Context, job core.JobID) (l []core.DueItem, err error) {
	err = x.read(ctx, "Entries", func(ctx context.Context) (err error) { l, err = x.Jobs.Entries(ctx, job); return err })
	return l, err
}

func (x jobs) Put(ctx context.Context, puts []store.JobPut) []error {
	puts = slices.Clone(puts) // its caller may use its own again before a late write
	for i := range puts {
		p := &puts[i]
		p.Create, p.Update, p.Delete, p.Advance = copyOf(p.Create), copyOf(p.Update), copyOf(p.Delete), copyOf(p.Advance)
		p.Enter, p.Leave = copyOf(p.Enter), copyOf(p.Leave)
	}
	return writes(x.incarnation, ctx, jobVerb(puts), puts, x.truth().putJobs)
}

// copyOf returns a copy of a value, nil for none.
func copyOf[T any](of *T) *T {
	if of != nil {
		is := *of
		return &is
	}
	return nil
}

func (x jobs) Numbers(ctx context.Context, job core.JobID, n int) (first int64, err error) {
	op := map[bool]string{false: "Numbers", true: "NewJobIDs"}[job == 0]
	err = x.write(ctx, op, func(ctx context.Context) (err error) { first, err = x.Jobs.Numbers(ctx, job, n); return err })
	return first, err
}

func (x runs) Get(ctx context.Context, ids []core.RunID) (map[core.RunID]store.Got[*core.Run], error) {
	return got(x.incarnation, ctx, "Runs", ids, x.Runs.Get)
}

func (x runs) Put(ctx context.Context, puts []store.RunPut) []error {
	sent := slices.Clone(puts) // as for jobs
	for i := range sent {
		sent[i].Create, sent[i].Change, sent[i].Enter = copyOf(puts[i].Create), copyOf(puts[i].Change), copyOf(puts[i].Enter)
	}
	errs := writes(x.incarnation, ctx, runVerb(sent), sent, x.truth().putRuns)
	for i, err := range errs {
		if c := puts[i].Change; c != nil && err == nil {
			c.Seen = sent[i].Change.Seen
		}
	}
	return errs
}

func (x runs) Span(ctx context.Context, first, last core.RunID, n int) (l []core.Run, err error) {
	err = x.read(ctx, "Span", func(ctx context.Context) (err error) { l, err = x.Runs.Span(ctx, first, last, n); return err })
	return l, err
}

func (x runs) Open(ctx context.Context, first, last core.RunID, w bool, n int) (l []core.Run, next core.RunID, err error) {
	op := map[bool]string{false: "OpenRuns", true: "Waiting"}[w]
	err = x.read(ctx, op, func(ctx context.Context) (err error) { l, next, err = x.Runs.Open(ctx, first, last, w, n); return err })
	return l, next, err
}

func (x runs) Recent(ctx context.Context, of store.Recent, from store.RunPlace, n int) (l []core.Run, next store.RunPlace, err error) {
	err = x.read(ctx, "Recent", func(ctx context.Context) (err error) { l, next, err = x.Runs.Recent(ctx, of, from, n); return err })
	return l, next, err
}

// Enqueue makes some messages of scheduled runs visible slightly too early, because an SQS queue counts delays in
// whole seconds. A wrong clock of the caller changes the delay. The queue measures the delay with its own clock.
func (x queue) Enqueue(ctx context.Context, out []ring.Out) []error {
	if w := x.p.w; !x.calm {
		out = slices.Clone(out)
		d, faulty := dice{}, w.faulty.Load()
		if faulty {
			d, _ = x.p.dice("early")
		}
		for i := range out {
			out[i].NotBefore = out[i].NotBefore.Add(-x.p.drift())
			if faulty && out[i].Message.Kind == ring.KindFires && d.chance(0.2) {
				out[i].NotBefore = out[i].NotBefore.Add(-d.between(0, 2*time.Second))
			}
		}
	}
	err := errUnknown
	if len(out) == 1 && out[0].Message.Check != nil && out[0].Message.Check.Journal != nil {
		defer journalling(ctx, &err)()
	}
	errs := writes(x.incarnation, ctx, "Enqueue", out, x.truth().enqueue)
	err = errors.Join(errs...)
	return errs
}

// Receive delivers messages with the weak guarantees of a queue. Some messages are delayed, some by 15 minutes, and
// some are also delivered to another process.
func (x queue) Receive(ctx context.Context, kind ring.Kind, limit int) ([]store.Delivery, error) {
	w := x.p.w
	fate, d, _, _ := x.begin(ctx, "Receive", false)
	if fate == Before || fate == Throttled {
		w.sleep(ctx, time.Second)
		return nil, errUnknown
	}
	got, err := x.Queue.Receive(x.asks(ctx, "Receive", true), kind, limit)
	came := time.Now()
	if err != nil && w.truth.cloud != nil {
		w.truth.cloud.unheard(kind)
	}
	w.truth.received(x.incarnation, got)
	x.p.thaw()
	if x.dead.Load() || fate == KillAfter || time.Since(came) > 0 {
		for i := range got {
			w.troubleOf(came, time.Now().Add(w.deployed.visibility), runsOn(&got[i])...)
		}
	}
	if x.alive(); fate == KillAfter { // they come again when their visibility is over
		x.die()
	}
	if err != nil || !w.faulty.Load() {
		return got, err
	}
	return x.mislaid(got, &d), nil
}

// mislaid delays, loses and doubles some deliveries.
func (x queue) mislaid(got []store.Delivery, d *dice) (kept []store.Delivery) {
	w, now := x.p.w, time.Now()
	back := func(m store.Delivery, what string, after, forgotten time.Duration) {
		w.count(what, 1)
		w.troubleOf(now, now.Add(forgotten), runsOn(&m)...)
		if after > 0 {
			x.Queue.Release(bg, []store.Delivery{m}, now.Add(after))
		}
	}
	for _, m := range got {
		fires := m.Message.Kind == ring.KindFires || m.Message.Kind == ring.KindSlow
		switch late := 15 * time.Minute; {
		case d.chance(0.02 * w.cfg.Rate):
			back(m, "reordered", d.between(100*time.Millisecond, 4*time.Second), 5*time.Second)
		case fires && d.chance(0.001*w.cfg.Rate):
			back(m, "15 minutes late", late, late+w.deployed.visibility)
			w.troubleLeft(now.Add(late + w.deployed.visibility))
		case d.chance(0.002 * w.cfg.Rate):
			back(m, "lost delivery", 0, w.deployed.visibility) // comes again after its visibility
		default:
			kept = append(kept, m)
			if fires && !w.cfg.Machine && d.chance(0.03*w.cfg.Rate) {
				w.count("duplicate delivery", 1)
				w.duplicate(m, d.between(0, 5*time.Second), d.n(100))
			}
		}
	}
	return kept
}

// runsOn are the runs of a message.
func runsOn(d *store.Delivery) []core.RunID {
	ids := make([]core.RunID, len(d.Message.Fires))
	for i, f := range d.Message.Fires {
		ids[i] = f.Run
	}
	if c := d.Message.Check; c != nil {
		ids = append(ids, c.Runs...)
	}
	if a := d.Message.PostRun; a != nil {
		ids = append(ids, a.Run)
	}
	return ids
}

func (x queue) Ack(ctx context.Context, done []store.Delivery) []error {
	return writes(x.incarnation, ctx, "Ack", done, x.truth().ack)
}

// Release takes the time by the clock of the process.
func (x queue) Release(ctx context.Context, back []store.Delivery, at time.Time) []error {
	at = at.Add(-x.p.drift())
	for i := range back {
		x.p.w.putBack(&back[i], at)
	}
	return writes(x.incarnation, ctx, "Release", back, func(ctx context.Context, back []store.Delivery) []error {
		return x.Queue.Release(ctx, back, at)
	})
}

func (x queue) Oldest(ctx context.Context) (oldest ring.Oldest, err error) {
	err = x.read(ctx, "Oldest", func(ctx context.Context) (err error) { oldest, err = x.Queue.Oldest(ctx); return err })
	return oldest, err
}

func (x queue) Bury(ctx context.Context, m ring.Message, reason string) error {
	return x.write(ctx, "Bury", func(ctx context.Context) error { return x.Queue.Bury(ctx, m, reason) })
}
