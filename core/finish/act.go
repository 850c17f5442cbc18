package finish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/ring"
)

// A step is a part of the findings that no other step waits for. Its do returns the journals of
// the runs that it did not handle.
type step struct {
	turn uint32
	keys []core.JournalKey // of all its runs
	do   func(ctx context.Context) (undone []core.JournalKey, err error)
}

const (
	endsAtOnce    = 100             // how many runs one step closes
	addressFor    = 6 * time.Second // how long one address is asked
	functionGrace = time.Minute     // delay after a function's own timeout before its run is checked
)

// act handles the findings with concurrent steps and returns the journals of unfinished steps,
// which must be read again soon. Executors are asked last, because they may not answer. Each
// minute starts with another executor, so silent executors cannot starve the rest. walked is
// false in a check. An error means that a check message could not be sent.
func (w *Watchdog) act(ctx context.Context, found *findings, walked bool) (undone []core.JournalKey, err error) {
	steps := w.steps(found, walked)
	if len(steps) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.o.ActFor)
	defer cancel()
	left, errs := make([][]core.JournalKey, len(steps)), make([]error, len(steps))
	var next atomic.Int32
	var lanes sync.WaitGroup
	for range min(w.o.Asked, len(steps)) {
		lanes.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(steps); i = int(next.Add(1)) - 1 {
				if left[i] = steps[i].keys; ctx.Err() == nil {
					left[i], errs[i] = steps[i].do(ctx)
				}
			}
		})
	}
	lanes.Wait()
	return slices.DeleteFunc(distinct(slices.Concat(left...)), core.JournalKey.IsZero), cmp.Or(errs...)
}

func (w *Watchdog) steps(found *findings, walked bool) (steps []step) {
	for some := range slices.Chunk(found.ends, endsAtOnce) {
		s := step{do: func(ctx context.Context) ([]core.JournalKey, error) { return w.end(ctx, some), nil }}
		for i := range some {
			s.keys = append(s.keys, some[i].key)
		}
		steps = append(steps, s)
	}
	for i := range found.owing {
		o := &found.owing[i]
		keys := []core.JournalKey{o.key}
		steps = append(steps, step{keys: keys, do: func(ctx context.Context) ([]core.JournalKey, error) {
			if w.f.Mend(ctx, &o.run) != nil {
				return keys, nil
			}
			return nil, nil
		}})
	}
	for some := range slices.Chunk(found.frees, endsAtOnce) {
		s := step{do: func(ctx context.Context) ([]core.JournalKey, error) { return w.free(ctx, some), nil }}
		for i := range some {
			s.keys = append(s.keys, some[i].key)
		}
		steps = append(steps, s)
	}
	first := len(steps)
	for at, t := range found.talks {
		s := step{turn: turn(found.minute, at.app+" "+at.address),
			do: func(ctx context.Context) ([]core.JournalKey, error) { return w.talk(ctx, t, found.minute, walked) }}
		for i := range t.asks {
			s.keys = append(s.keys, t.asks[i].key)
		}
		steps = append(steps, s)
	}
	slices.SortFunc(steps[first:], func(a, b step) int { return cmp.Compare(a.turn, b.turn) })
	return steps
}

// turn returns the position of a name in the order of a minute. The start moves by the golden
// ratio of the circle. So in any n consecutive minutes, each name is once among the first names,
// about 2/n of them.
func turn(minute int64, name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32()*0x9E3779B1 - uint32(minute)*0x9E3779B9
}

// end closes runs.
func (w *Watchdog) end(ctx context.Context, ends []ending) (undone []core.JournalKey) {
	results := make([]Result, len(ends))
	for i := range ends {
		results[i] = ends[i].result
	}
	for i, err := range w.f.End(ctx, results) {
		if err != nil && !errors.Is(err, core.ErrRefused) { // claimed since: it is checked again with its new journal
			w.f.o.Log.Warn("run not closed", "run", results[i].Run, "job", results[i].Run.Job(), "err", err)
			undone = append(undone, ends[i].key)
		}
	}
	return undone
}

// free frees the concurrency slots of closed runs.
func (w *Watchdog) free(ctx context.Context, list []owing) (undone []core.JournalKey) {
	runs := make([]*core.Run, len(list))
	for i := range list {
		runs[i] = &list[i].run
	}
	for i, err := range w.f.Release(ctx, runs...) {
		if err != nil {
			undone = append(undone, list[i].key)
		}
	}
	return undone
}

// talk asks one address about all its runs, and handles the answers. One question without an
// answer ends the talk for this pass.
func (w *Watchdog) talk(ctx context.Context, t *talk, minute int64, walked bool) (undone []core.JournalKey, err error) {
	c := &conversation{w: w, t: t, walked: walked}
	asking, cancel := context.WithTimeout(ctx, addressFor)
	switch {
	case strings.HasPrefix(t.at.address, "lambda:"):
		c.function(asking)
	default:
		c.executor(asking, minute)
	}
	cancel()
	if !walked {
		c.soon()
	}
	undone = append(c.undone, w.end(ctx, c.ends)...)
	out := checks(c.idle, w.f.o.Now().Add(w.o.IdleGap), true)
	out = append(out, checks(c.waits, w.f.o.Now().Add(min(max(c.oldest/4, w.o.IdleGap), ring.Farthest)), false)...)
	if len(out) == 0 {
		return undone, nil
	}
	if err := cmp.Or(w.f.s.Queue.Enqueue(ctx, out)...); err != nil {
		w.f.o.Log.Warn("recheck of an executor not requested", "address", t.at.address, "err", err)
		return append(undone, c.againKeys...), fmt.Errorf("request a recheck of %s: %w", t.at.address, err)
	}
	return undone, nil
}

// checks returns the messages that ask for another check of runs.
func checks(runs []core.RunID, at time.Time, idle bool) (out []ring.Out) {
	for some := range slices.Chunk(distinct(runs), endsAtOnce) {
		out = append(out, ring.Out{NotBefore: at, Message: ring.Message{Kind: ring.KindCheck, Slot: core.Ceil(at),
			Check: &ring.Check{Runs: some, Idle: idle}}})
	}
	return out
}

// A conversation collects the results of asking one address.
type conversation struct {
	w         *Watchdog
	t         *talk
	walked    bool
	ends      []ending
	idle      []core.RunID      // look forgotten by the executor: a second check is due
	waits     []core.RunID      // past their timeout beside other runs, or due as lost before the scan reaches them
	againKeys []core.JournalKey // of idle and waits
	oldest    time.Duration
	undone    []core.JournalKey
}

func (c *conversation) end(a *ask, res *Result) {
	if res != nil {
		c.ends = append(c.ends, ending{*res, a.key})
	}
}

// soon schedules a check for each open run that its job counts as lost before the scan reaches
// it.
func (c *conversation) soon() {
	seen := slices.Concat(c.idle, c.waits)
	for i := range c.ends {
		seen = append(seen, c.ends[i].result.Run)
	}
	for i := range c.t.asks {
		a := &c.t.asks[i]
		if a.after < c.w.o.Behind && a.age < c.w.o.Behind && !slices.Contains(seen, a.run) {
			c.waits, c.againKeys, c.oldest = append(c.waits, a.run), append(c.againKeys, a.key), max(c.oldest, a.age)
		}
	}
}

// left adds the journals of runs that were not asked about to undone.
func (c *conversation) left(asks []ask) {
	for i := range asks {
		c.undone = append(c.undone, asks[i].key)
	}
}

// silent logs an error that came instead of an answer. If our own time was over or the question
// could not be sent, the error proves nothing about the executor. Then silent returns true and
// leaves the runs for another pass.
func (c *conversation) silent(ctx context.Context, asks []ask, err error) (ours bool) {
	if ctx.Err() != nil || core.CodeOf(err) == core.CodeUnavailable {
		c.left(asks)
		return true
	}
	c.w.f.o.Log.Info("executor not reached to check open runs", "address", c.t.at.address, "app", c.t.at.app, "runs", len(asks), "err", err)
	return false
}

// function closes runs of a function. A function answers no questions, so only its own timeout
// ends a run.
func (c *conversation) function(ctx context.Context) {
	limit, err := c.w.probe.Limit(ctx, c.t.at.address)
	if err != nil {
		c.silent(ctx, c.t.asks, err)
		return
	}
	for i := range c.t.asks {
		a := &c.t.asks[i]
		if a.age < limit+functionGrace {
			continue
		}
		message := "no result was reported within the function's timeout of " + core.FormatDuration(limit)
		res := &Result{Run: a.run, State: core.Lost, Reason: core.ReasonNoReport, Message: a.says(message)}
		if a.timedOut {
			res.State, res.Reason = core.TimedOut, core.ReasonTimeout
		}
		c.end(a, res)
	}
}

// executor asks whether the address answers, then for each job whether it holds runs of the job.
// Each minute starts with another job.
func (c *conversation) executor(ctx context.Context, minute int64) {
	asks := c.t.asks
	if c.t.beat {
		if err := c.w.probe.Beat(ctx, &c.t.app, c.t.at.address); err != nil {
			if !c.silent(ctx, asks, err) {
				for i := range asks {
					if a := &asks[i]; a.beat { // only these need an answer: the executors of the others send heartbeats
						c.end(a, a.gone(c.nobody(err)))
					}
				}
			}
			return
		}
	}
	slices.SortStableFunc(asks, func(a, b ask) int {
		x, y := a.run.Job(), b.run.Job()
		return cmp.Or(cmp.Compare(turn(minute, x.String()), turn(minute, y.String())), cmp.Compare(x, y))
	})
	for len(asks) > 0 {
		job := asks[0].run.Job()
		n := 1
		for n < len(asks) && asks[n].run.Job() == job {
			n++
		}
		idle, err := c.w.probe.Idle(ctx, &c.t.app, c.t.at.address, job)
		switch {
		case err != nil:
			c.silent(ctx, asks, err)
			return
		case idle:
			c.found(asks[:n])
		default:
			rest := asks[:n]
			if c.walked {
				rest = c.busy(ctx, rest)
			}
			c.over(ctx, job, rest)
		}
		asks = asks[n:]
	}
}

func (c *conversation) nobody(err error) string {
	if core.IsQueue(c.t.at.address) {
		return err.Error()
	}
	return "the executor does not answer"
}

// found handles the answer that the executor has no run of the job.
func (c *conversation) found(asks []ask) {
	message := "the executor does not run this job and reported no result"
	if core.IsQueue(c.t.at.address) {
		message = "the queue has no message of this run and no result was reported: the message was deleted or moved to the dead-letter queue"
	}
	for i := range asks {
		if a := &asks[i]; a.idle {
			c.end(a, a.forgotten(message))
		} else {
			c.idle, c.againKeys = append(c.idle, a.run), append(c.againKeys, a.key)
		}
	}
}

// busy handles the answer that the executor has runs of the job, perhaps others than these. Runs
// that were sent there later show which ones it lost (DESIGN 11, "Lost"). It returns the runs
// that it does not end.
func (c *conversation) busy(ctx context.Context, all []ask) (rest []ask) {
	// A fixed address may have several executors, and a queue several consumers, each at its own
	// speed.
	asks := slices.DeleteFunc(slices.Clone(all), func(a ask) bool { return a.beat })
	if len(asks) == 0 || core.IsQueue(c.t.at.address) {
		return all
	}
	before, err := c.overtaken(ctx, asks)
	if err != nil {
		c.silent(ctx, asks, fmt.Errorf("read later runs: %w", err))
		return all
	}
	for i := range all {
		if a := &all[i]; a.beat || !a.arrived.Before(before) {
			rest = append(rest, *a)
		} else {
			c.end(a, a.forgotten("a later run of this job at the executor has ended, and no result of this run was reported"))
		}
	}
	return rest
}

// overtaken returns a time: the executor has lost each run that it received before this time. The
// proof is a later run of the job that was sent there at least IdleGap later. The executor
// reported its end at least LostAfter ago. An executor runs a job's runs in order, or ends the
// previous run, and had the time to report.
func (c *conversation) overtaken(ctx context.Context, asks []ask) (before time.Time, err error) {
	job, o, now := asks[0].run.Job(), &c.w.o, c.w.f.o.Now()
	first, after := asks[0].sent, asks[0].after
	for i := range asks {
		if asks[i].sent.Before(first) {
			first = asks[i].sent
		}
		after = max(after, asks[i].after)
	}
	planned, numbered := [2]core.RunID{}, [2]core.RunID{}
	planned[0], planned[1] = core.RunRange(job, core.InstantOf(first), core.InstantOf(now.Add(-after)))
	numbered[0], numbered[1] = core.NumberedRange(job)
	for _, span := range [][2]core.RunID{planned, numbered} {
		if span[1] < span[0] || !before.IsZero() {
			continue
		}
		runs, err := c.w.f.s.Runs.Span(ctx, span[1], span[0], budget.LaterRuns)
		if err != nil {
			return before, err
		}
		for i := range runs {
			r := &runs[i]
			if sent := r.SentAt.Add(-o.IdleGap); r.Address == c.t.at.address && reported(r) && now.Sub(r.EndedAt) >= after && sent.After(before) {
				before = sent
			}
		}
	}
	return before, nil
}

// reported reports whether the executor itself reported the end of the run.
func reported(r *core.Run) bool {
	switch r.State {
	case core.Succeeded:
		return true
	case core.Failed:
		return slices.Contains([]core.Reason{core.ReasonHandler, core.ReasonCrashed, core.ReasonSnoozed, core.ReasonCancelled}, r.Reason)
	case core.TimedOut, core.Killed:
		return r.Code != 0 // the watchdog sets no code
	}
	return false
}
