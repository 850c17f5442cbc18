package sim

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/store"
)

// This file has the losses of waiting runs: rolling deployments, purges of the delay queue,
// dead letters that a user redrives, and a long line behind hung runs.

// errNewer is the reason why a process of an older version cannot read a definition.
var errNewer = errors.New("written by a newer version")

// rollout is one rolling deployment. Zero means that none is in progress.
type rollout struct {
	jobs  map[core.JobID]bool  // whose definitions only the newer version can read
	until map[string]time.Time // when each process of the older version is replaced
}

// rollouts deploys a newer version again and again. Until a process is replaced, it cannot
// read the definitions that the newer version has written.
func (w *World) rollouts(d *dice) {
	for w.busy.Load() {
		w.sleep(bg, d.between(15*time.Second, 60*time.Second))
		if !w.faulty.Load() {
			return
		}
		lasts := d.between(10*time.Second, 100*time.Second)
		end := time.Now().Add(lasts)
		r := rollout{map[core.JobID]bool{}, map[string]time.Time{}}
		w.truth.mu.Lock()
		for _, id := range slices.Sorted(maps.Keys(w.truth.jobs)) {
			if d.n(3) == 0 {
				r.jobs[id] = true
			}
		}
		w.truth.trace(bg, 0, "a rolling deployment begins: %v", slices.Sorted(maps.Keys(r.jobs)))
		w.truth.mu.Unlock()
		for _, p := range w.processes() {
			if d.n(3) > 0 {
				r.until[p.name] = time.Now().Add(d.between(lasts/2, lasts))
			}
		}
		w.unread(&r, end)
		w.count("rolling deployment", 1)
		w.sleep(bg, lasts)
		w.mu.Lock()
		w.rollout = rollout{}
		w.mu.Unlock()
	}
}

// unread begins a rolling deployment and records the delays that it causes.
func (w *World) unread(r *rollout, end time.Time) {
	a, now := w.deployed.aftermath(), time.Now()
	late := end.Add(max(a.lease+w.deployed.planBackoff, a.again))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rollout = *r
	for id := range r.jobs {
		w.faults.jobs[id] = with(w.faults.jobs[id], trouble{now, late})
		w.faults.limited[id] = with(w.faults.limited[id], trouble{now, late})
	}
	w.faults.finishing = with(w.faults.finishing, trouble{now, end.Add(a.finishing)})
}

// readable returns a read job, or the error of a process that cannot read its definition now.
func (in *incarnation) readable(id core.JobID, g store.Got[*core.Job]) store.Got[*core.Job] {
	w := in.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if in.calm || g.Err != nil || !w.rollout.jobs[id] || !time.Now().Before(w.rollout.until[in.p.name]) {
		return g
	}
	w.counts["definition not read"]++
	return store.Got[*core.Job]{Is: &core.Job{Def: core.Def{ID: id}}, Err: errNewer}
}

// losses purges the delay queue, or moves waiting runs to the dead-letter queue, again and
// again. A user replans or redrives soon after, or the tick finds the lost runs.
func (w *World) losses(d *dice) {
	apart := 60 * time.Second
	switch { // a replan copies messages that are in hand, and each copy comes again and again
	case w.cfg.Deployed:
		apart = w.cfg.For
	case w.cfg.Long:
		apart = 4 * time.Minute
	}
	for w.busy.Load() {
		w.sleep(bg, d.between(apart/3, apart))
		if !w.faulty.Load() {
			return
		}
		switch n := d.n(3); {
		case n == 0 || !w.deployed.functions: // else its queue is in its store
			w.buries(d)
		case w.cfg.Users == 0: // else all may be paused, and nothing shows that anything is lost
			w.truth.purge(w.heals())
		default:
			w.truth.purge(30 * time.Second)
			w.sleep(bg, d.between(time.Second, 20*time.Second))
			if _, err := w.people.Replan(bg, god, "", core.InstantOf(w.began), 0); err != nil {
				w.fail(0, "replan: %v", err)
			}
		}
	}
}

// heals is the longest time after a purge until all messages are on the queue again: the tick
// finds the loss, and a scan for an earlier loss may be in its way.
func (w *World) heals() time.Duration { return w.truth.healed() + w.deployed.healEvery }

// healing reports whether a message was lost that may yet be on the queue again.
func (t *truth) healing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(slices.Collect(maps.Keys(t.lost)), func(id core.RunID) bool {
		_, open := t.open[id]
		return (open || !t.known[id]) && t.heals(id)
	})
}

// buries moves the messages of waiting runs to the dead-letter queue, and redrives them.
func (w *World) buries(d *dice) {
	lost := w.truth.lose(time.Minute, core.Queued)
	for i := range lost {
		if err := w.truth.store.Queue.Bury(bg, lost[i].Message, "received too often"); err != nil {
			w.fail(0, "bury: %v", err)
		}
	}
	w.count("moved to the dead letters", len(lost))
	w.sleep(bg, d.between(time.Second, 20*time.Second))
	w.redrive(false)
}

// redrive sends the runs of all dead letters again, and with drop removes the letters of runs that have ended.
func (w *World) redrive(drop bool) {
	for n := 1; w.truth.cloud != nil && n > 0; {
		var err error
		record := func(context.Context, *core.Letter) error { return nil }
		if n, err = w.truth.cloud.store.TakeLetters(bg, record); err != nil {
			w.fail(0, "take dead letters: %v", err)
			return
		}
	}
	for q := (operate.RedriveRequest{Drop: drop}); ; {
		res, err := w.people.Redrive(bg, god, q)
		if err != nil {
			w.fail(0, "redrive: %v", err)
			return
		}
		w.count("redriven", res.Sent)
		if q.After = res.Next; q.After == "" {
			return
		}
	}
}

// lose removes messages from the delay queue if no dispatcher holds them, and all their runs
// are unowned and in one of states; Planned includes runs without a record.
func (t *truth) lose(heals time.Duration, states ...core.State) (list []store.Delivery) {
	t.mu.Lock()
	defer t.mu.Unlock()
	waits := map[core.RunID]bool{}
	for id := range t.open {
		r, _ := t.run(id)
		waits[id] = slices.Contains(states, r.State) && !r.MayHaveBeenSent()
	}
	all := func(m *ring.Message) bool {
		return len(m.Fires) > 0 && !slices.ContainsFunc(m.Fires, func(f core.Fire) bool {
			return t.live[f.Run] > 0 || !waits[f.Run] && (t.known[f.Run] || !slices.Contains(states, core.Planned))
		})
	}
	if t.cloud == nil {
		for id, m := range t.onRing {
			if all(&m) {
				list = append(list, store.Delivery{ID: id, Message: m})
			}
		}
		t.store.Queue.Ack(bg, list)
	} else {
		t.observed(bg)
		for _, queue := range []string{fakeaws.Names.Fires, fakeaws.Names.Slow} {
			t.cloud.sqs.Lose(queue, func(m fakeaws.Message) bool {
				msg, err := ring.Decode([]byte(m.Body))
				is := err == nil && all(&msg)
				if is {
					list = append(list, store.Delivery{ID: m.ID, Message: msg})
				}
				return is
			})
		}
	}
	now := time.Now()
	for i := range list {
		t.acked[list[i].ID] = true
		t.off(bg, list[i].ID, &list[i].Message, "loss")
		for _, f := range list[i].Message.Fires {
			until := now
			if at, ok := f.Run.Planned(); ok && at.Time().After(now) {
				until = at.Time()
			}
			t.w.troubleOf(now, until.Add(heals), f.Run)
			within := until.Add(heals).Sub(now)
			t.lost[f.Run] = mends{now, within, now.Add(within)}
			if within += t.w.deployed.watched(); f.Of != 0 {
				t.lost[f.Of] = mends{now, within, now.Add(within)}
			}
		}
	}
	return list
}

// purge empties the delay queue. All that was on it is there again within heals.
func (t *truth) purge(heals time.Duration) {
	n := 0
	for _, d := range t.lose(heals, core.Planned, core.Queued) {
		n += len(d.Message.Fires)
	}
	t.w.count("purged", n)
}

// mends is the time within which another message has to name a run whose message was lost. A message that comes sooner may be the
// copy of a later check, lost too. until is the end of that time, as far as the troubles in its way are known.
type mends struct {
	from   time.Time
	within time.Duration
	until  time.Time
}

// heals reports whether it is still allowed that nothing names a run whose message was lost. Callers hold mu.
func (t *truth) heals(id core.RunID) bool {
	l, is := t.lost[id]
	if !is || !time.Now().After(l.until) {
		return is
	}
	f := t.w.faults
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	l.until = bound(l.from, always(l.within), slices.Concat(f.all, f.planning, f.runs[id], f.jobs[id.Job()]))
	if t.lost[id] = l; time.Now().After(l.until) {
		delete(t.lost, id)
		return false
	}
	return true
}

// lineJob is the job of the line, lineHung is how many of its runs hang.
const (
	lineJob     = "line"
	lineHung    = 2
	lineTimeout = 3 * time.Minute // until then all are in the line
)

// line has some runs of a job hang, which hold all its permits, and puts as many behind
// them as may wait. The hung ones end by their timeout, however long the line is.
func (w *World) line(d *dice) {
	w.sleep(bg, d.between(5*time.Second, time.Minute))
	for range lineHung + core.MaxQueue {
		w.triggers("alpha/"+lineJob, nil)
	}
	w.sleep(bg, lineTimeout+w.deployed.watched()+2*time.Minute)
	w.truth.mu.Lock()
	defer w.truth.mu.Unlock()
	w.count("hung before a line", len(w.truth.hung))
	for _, id := range w.truth.hung {
		if r, _ := w.truth.run(id); r.State.Open() {
			w.truth.fail(id, "run %d hangs, and is not ended past its timeout: %s", id, w.truth.describe(id))
		}
	}
}

// hangs reports whether a run of the line hangs: the first ones do.
func (t *truth) hangs(id core.RunID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.hung) < lineHung && !slices.Contains(t.hung, id) {
		t.hung = append(t.hung, id)
	}
	return slices.Contains(t.hung, id)
}
