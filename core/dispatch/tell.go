package dispatch

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// tellOf returns the notification settings of a job; nil: no channel is set for the job or its app.
func tellOf(job *core.Job, app *core.App, g *core.Global) *core.Notify {
	if len(job.Def.Notify.To) == 0 && (app == nil || len(app.Notify.To) == 0) {
		return nil
	}
	n := core.EventRule(job, app, g)
	return &n
}

// tellsSkip reports whether skipping the run sends a notification. A shard sends none: only its broadcast does.
func (it *item) tellsSkip() bool {
	attempt := 1
	if it.run != nil {
		attempt = it.run.Attempt
	}
	return it.of == nil && it.tell.Includes(core.SkipEvent(attempt))
}

// tellsEnd reports whether the end of the run may send a notification.
func (it *item) tellsEnd() bool { return it.of == nil && it.tell.TellsEnd() }

// told enqueues notifications that no later write would cause: late runs, and checks for slow runs. It does so before
// the claims are written. If the process dies in between, the next claim sends the notification with this ID again. If
// enqueueing takes longer than TellFor, the affected runs are not claimed now; the others are.
func (b *batch) told(ctx context.Context, w *writes) {
	now := b.now()
	var notes []ring.Note
	var looks []ring.CheckRequest
	of := map[*item]bool{}
	see := func(it *item, r *core.Run, first bool) {
		if it.tell == nil || it.of != nil || r.State != core.Running || !first {
			return
		}
		late := r.SentAt.Sub(it.fire.Slot.Time()) > cmp.Or(it.tell.Late, it.job.Sched.Grace)
		if it.tell.Includes(core.EventLate) && it.fire.Cause.Planned() && late {
			notes = append(notes, ring.Note{Job: it.job.Def.ID, Event: core.EventLate, Run: it.fire.Run, At: it.fire.At, When: now})
			of[it] = true
		}
		if it.tell.Includes(core.EventSlow) { // for a broadcast, this check reads its shards
			l := ring.CheckRequest{At: core.Ceil(now.Add(it.tell.Slow).Add(time.Minute - 1).Truncate(time.Minute)), Job: it.job.Def.ID}
			if b.d.looked.fresh(l) {
				looks = append(looks, l)
				of[it] = true
			}
		}
	}
	for k := range w.creates {
		see(w.createOf[k], &w.creates[k], true)
	}
	for k := range w.puts {
		see(w.putOf[k], &w.puts[k].To, w.puts[k].Was.SentAt.IsZero())
	}
	if len(of) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, b.d.o.TellFor)
	defer cancel()
	var err error
	if len(looks) > 0 {
		err = b.d.store.PutLooks(ctx, looks)
	}
	if out := ring.Noted(notes, now); err == nil && len(out) > 0 {
		for _, e := range b.d.store.Queue.Enqueue(ctx, out) {
			err = cmp.Or(err, e)
		}
	}
	if err == nil {
		b.d.looked.note(looks)
		return
	}
	for it := range of {
		it.phase = passing{why: err}
	}
	w.drop(of)
}

// looked remembers the checks that this process stored: one per job and minute is enough.
type looked struct {
	mu   sync.Mutex
	list map[ring.CheckRequest]bool
}

const mostLooked = 20_000

func (l *looked) fresh(x ring.CheckRequest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.list[x]
}

func (l *looked) note(list []ring.CheckRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.list == nil || len(l.list) > mostLooked {
		l.list = map[ring.CheckRequest]bool{}
	}
	for _, x := range list {
		l.list[x] = true
	}
}
