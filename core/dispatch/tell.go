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

// notesFor is the time limit for enqueueing the notifications of a batch.
const notesFor = time.Second

// told enqueues notifications that no later write would cause: late runs, and checks for slow runs. It does so before
// the claims are written. If the process dies in between, the next claim sends the notification with this ID again. If
// enqueueing takes longer than notesFor, the affected runs are not claimed now; the others are. It returns the writes to make now.
func (b *batch) told(ctx context.Context, list []*write) []*write {
	now := b.now()
	var notes []ring.Note
	var looks []ring.CheckRequest
	of := map[*write]bool{}
	for _, w := range list {
		it := w.it
		r, was := w.claim()
		if r == nil || it.tell == nil || it.of != nil || !was.SentAt.IsZero() {
			continue
		}
		late := r.SentAt.Sub(it.fire.Slot.Time()) > cmp.Or(it.tell.Late, it.job.Sched.Grace)
		if it.tell.Includes(core.EventLate) && it.fire.Cause.Planned() && late {
			notes = append(notes, ring.Note{Job: it.job.Def.ID, Event: core.EventLate, Run: it.fire.Run, At: it.fire.At, When: now})
			of[w] = true
		}
		if it.tell.Includes(core.EventSlow) { // for a broadcast, this check reads its shards
			l := ring.CheckRequest{At: core.Ceil(now.Add(it.tell.Slow).Add(time.Minute - 1).Truncate(time.Minute)), Job: it.job.Def.ID}
			if b.d.looked.fresh(l) {
				looks = append(looks, l)
				of[w] = true
			}
		}
	}
	if len(of) == 0 {
		return list
	}
	ctx, cancel := context.WithTimeout(ctx, notesFor)
	defer cancel()
	var err error
	if len(looks) > 0 {
		err = b.d.store.PutLooks(ctx, looks)
	}
	if out := ring.Noted(notes, now); err == nil && len(out) > 0 {
		err = cmp.Or(b.d.store.Queue.Enqueue(ctx, out)...)
	}
	if err == nil {
		b.d.looked.note(looks)
	} else {
		for w := range of {
			w.dropped, w.it.phase = true, passing{why: err}
		}
	}
	return kept(list)
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
