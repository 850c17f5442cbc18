package tick

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

const (
	tellFor   = time.Second // how long one pass waits until the post-run queue accepts its notifications
	maxUntold = 5000        // notifications that are kept for the next pass
)

// noteKey identifies a notification: equal keys count once.
type noteKey struct {
	job   core.JobID
	event core.Event
	run   core.RunID
}

// owe records the notifications of plans: skipped runs, and jobs with a new planning error. Repeating a plan produces
// these notifications again, not others.
func (t *Ticker) owe(plans []planned, skips []core.Skip) {
	for _, s := range skips {
		if core.SkipTold(s.Reason) {
			t.oweNote(ring.Note{Job: s.Job, Event: core.EventSkipped, Run: core.PlannedRun(s.Job, s.First), At: s.First,
				Reason: s.Reason, Times: s.Count})
		}
	}
	for i := range plans {
		if s, why := &plans[i].of, plans[i].Advance.PlanError; why != "" && why != s.PlanError {
			t.oweNote(unplanned(s.ID, why))
		}
	}
}

// unplanned returns the notification of a job that cannot be planned. Its run ID does not exist; it stands for the
// reason.
func unplanned(job core.JobID, why string) ring.Note {
	h := fnv.New32a()
	h.Write([]byte(why))
	return ring.Note{Job: job, Event: core.EventUnplanned, Run: core.NumberedRun(job, h.Sum32()&core.MaxNumber|1), Why: why}
}

func (t *Ticker) oweNote(n ring.Note) {
	key := noteKey{n.Job, n.Event, n.Run}
	if _, is := t.untold[key]; !is && len(t.untold) >= maxUntold {
		t.o.Log.Error("notification dropped", "reason", "post-run queue full", "job", n.Job, "run", n.Run, "event", n.Event)
		return
	}
	n.When = t.o.Now()
	t.untold[key] = n
}

// tell enqueues pending notifications on the post-run queue. A pass waits for that up to tellFor in total. After a
// failure, the next pass of this ticker retries.
func (t *Ticker) tell(ctx context.Context) error {
	if len(t.untold) == 0 || t.mute != nil {
		return t.mute
	}
	began := t.o.Now()
	ctx, cancel := context.WithTimeout(ctx, tellFor-t.telling)
	defer cancel()
	notes := slices.SortedFunc(maps.Values(t.untold), func(a, b ring.Note) int { return a.When.Compare(b.When) })
	out := ring.Noted(notes, t.o.Now())
	errs := t.s.Queue.Enqueue(ctx, out)
	t.telling += t.o.Now().Sub(began)
	for k, err := range errs {
		if err != nil {
			t.mute = errors.Join(t.mute, err)
			continue
		}
		for _, n := range out[k].Message.PostRun.Notes {
			delete(t.untold, noteKey{n.Job, n.Event, n.Run})
		}
	}
	if t.mute != nil {
		t.mute = fmt.Errorf("enqueue %d notifications of skipped ranges or jobs that cannot be planned: %w", len(t.untold), t.mute)
		t.o.Log.Error("notifications not enqueued", "notes", len(t.untold), "err", t.mute)
	}
	return t.mute
}
