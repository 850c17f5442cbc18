package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/store"
)

// A RedriveRequest selects dead-letter messages, and defines what happens to messages that cannot be sent again.
type RedriveRequest struct {
	DryRun bool   // only list the messages
	Drop   bool   // also remove messages whose runs can never be sent again
	Unread bool   // also remove messages that cannot be read completely, if they have nothing to send
	After  string // ID of the last message of the previous page; empty: start with the newest message
	Limit  int    // maximum number of messages, from 1 to 100; 0 means 100
}

type RedriveResult struct {
	Letters []RedrivenLetter
	Sent    int    // number of runs and post-run messages that were enqueued again, or would be in a dry run
	Left    int    // number of runs that were not sent
	Dropped int    // number of messages removed
	Next    string // value of After for the next page; empty: this was the last page
}

type RedrivenLetter struct {
	core.Letter
	Fires   []RedrivenFire // runs in the message; empty if the message has another kind or cannot be read
	Asks    core.Text      // description of a check or post-run message
	Dropped bool
}

type RedrivenFire struct {
	core.Fire
	App, Name string    // app and name of the job; empty if unknown
	Why       core.Text // why the run is not sent; empty: the run is sent
	final     bool      // it can never be sent
}

// Redrive sends the runs of dead-letter messages again. Sending twice is harmless, because an ID is executed only once. These
// rules apply:
//
//   - A planned run that is not stored is sent if its job exists, is not paused, and has not changed since the run was
//     planned. The job's misfire policy and deadline must still allow the run.
//   - An open run without a valid owner is always sent again, and so is a run with pending follow-ups. The message may be
//     the last one that names the run. The dispatcher completes the run, or closes it with a reason.
//   - A check or post-run message is enqueued as a new message. If no work is pending, it has no effect.
//
// A message is removed after all its runs are sent. Otherwise it stays in the dead-letter queue with the reason, until a user
// removes it with Drop or Unread. "tickring audit" still finds the runs of removed messages.
func (op *Operate) Redrive(ctx context.Context, actor core.Actor, q RedriveRequest) (RedriveResult, error) {
	if err := actor.Validate(); err != nil {
		return RedriveResult{}, err
	}
	if q.Limit < 0 || q.Limit > budget.Redriven {
		return RedriveResult{}, core.Invalid("limit", fmt.Sprint(q.Limit), "1 to %d are allowed", budget.Redriven)
	}
	if q.Limit == 0 {
		q.Limit = budget.Redriven
	}
	list, err := op.store.Letters(ctx, q.After, q.Limit)
	if err != nil {
		return RedriveResult{}, core.Retryable(err)
	}
	var res RedriveResult
	if len(list) == q.Limit {
		res.Next = list[len(list)-1].ID
	}
	for i := range list {
		l, sent, drop := RedrivenLetter{Letter: list[i]}, 1, true
		if m, err := ring.Decode([]byte(l.Body)); err == nil && (m.PostRun != nil || m.Check != nil) {
			if l.Asks = asksFor(&m); !q.DryRun {
				now := op.ask.Now()
				m.Slot, m.Try = core.InstantOf(now), 0
				if err := op.store.Queue.Enqueue(ctx, []ring.Out{{NotBefore: now, Message: m}})[0]; err != nil {
					return res, core.Retryable(err)
				}
			}
		} else {
			fires, unread := ring.Salvage([]byte(l.Body))
			if l.Fires, err = op.redrivable(ctx, fires); err != nil {
				return res, err
			}
			var send []core.Fire
			final := true // no readable fire of the message can be sent later
			for k := range l.Fires {
				if f := &l.Fires[k]; f.Why.String() == "" {
					send = append(send, f.Fire)
				} else {
					final = final && f.final
				}
			}
			sent = len(send)
			left, whole := len(l.Fires)-sent+unread, len(l.Fires) > 0 && unread == 0
			if drop = whole && (left == 0 || q.Drop && final) || !whole && q.Unread && final; !q.DryRun {
				if err := op.sendAgain(ctx, send); err != nil {
					return res, err
				}
			}
			res.Left += left
		}
		if drop && !q.DryRun {
			if err := op.store.DropLetter(ctx, l.ID); err != nil {
				return res, core.Retryable(err) // it was enqueued again: a copy is harmless
			}
			l.Dropped = true
			res.Dropped++
		}
		res.Sent += sent
		res.Letters = append(res.Letters, l)
	}
	return res, nil
}

// asksFor describes the request of a check or a post-run message.
func asksFor(m *ring.Message) core.Text {
	a := m.PostRun
	switch {
	case m.Check != nil && m.Check.Journal != nil:
		return core.Say("a check of %d runs", len(m.Check.Journal.Entries))
	case m.Check != nil:
		return core.Say("a check of %d runs", len(m.Check.Runs))
	case a.Run != 0:
		return core.Say("the log and notification of run %s", a.Run)
	}
	return core.Say("notification records: %d, job checks: %d", len(a.Notes), len(a.Looks))
}

func (op *Operate) sendAgain(ctx context.Context, fires []core.Fire) error {
	if len(fires) == 0 {
		return nil
	}
	out := plan.Pack(fires, ring.MaxFires, nil)
	now := op.ask.Now()
	for i := range out {
		if out[i].NotBefore.Before(now) {
			out[i].NotBefore = now
		}
	}
	for _, err := range op.store.Queue.Enqueue(ctx, out) {
		if err != nil {
			return core.Retryable(err)
		}
	}
	return nil
}

func (op *Operate) redrivable(ctx context.Context, fires []core.Fire) ([]RedrivenFire, error) {
	if len(fires) == 0 {
		return nil, nil
	}
	var ids []core.RunID
	var jobIDs []core.JobID
	seen := map[core.JobID]bool{}
	for _, f := range fires {
		if ids = append(ids, f.Run); f.Of != 0 {
			ids = append(ids, f.Of)
		}
		if id := f.Run.Job(); !seen[id] {
			seen[id] = true
			jobIDs = append(jobIDs, id)
		}
	}
	runs, err := store.Complete(op.store.Runs.Get(ctx, ids))
	if err != nil {
		return nil, core.Retryable(err)
	}
	jobs, bad, err := store.Split(op.store.Jobs.Get(ctx, store.Whole, jobIDs))
	if err != nil {
		return nil, core.Retryable(err)
	}
	stones, err := op.store.Tombstones(ctx, jobIDs)
	if err != nil {
		return nil, core.Retryable(err)
	}
	list := make([]RedrivenFire, len(fires))
	for i, f := range fires {
		r, id := RedrivenFire{Fire: f}, f.Run.Job()
		job := jobs[id]
		t, gone := stones[id]
		if job != nil {
			t.App, t.Name = job.Def.App, job.Def.Name
		}
		r.App, r.Name = t.App, t.Name
		switch run, whole := runs[f.Run], runs[f.Of]; {
		case bad[id] != nil:
			r.Why = core.Say("the job of the run cannot be read: %v", bad[id])
		case run == nil && whole != nil && whole.State.Open(): // dispatch decides about a shard of an open broadcast
		default:
			r.Why, r.final, err = op.undriven(ctx, &f, run, job, gone)
		}
		if list[i] = r; err != nil {
			return nil, core.Retryable(err)
		}
	}
	return list, nil
}

// undriven returns why a fire is not sent again, and whether that is final.
func (op *Operate) undriven(ctx context.Context, f *core.Fire, run *core.Run, job *core.Job, gone bool) (
	why core.Text, final bool, err error,
) {
	at, planned := f.Run.Planned()
	if run == nil && planned {
		if cleaned, err := op.store.Cleaned(ctx, f.Run.Job()); err != nil || at <= cleaned {
			return core.Say("records of the job's runs were deleted: whether this run started is unknown"), true, err
		}
	}
	why, final = op.undrivenBy(f, run, job, gone)
	return why, final, nil
}

// undrivenBy is undriven by the run and the job.
func (op *Operate) undrivenBy(f *core.Fire, run *core.Run, job *core.Job, gone bool) (why core.Text, final bool) {
	known := job != nil
	_, planned := f.Run.Planned()
	switch {
	case run != nil && run.Owing(): // dispatch creates its follow-ups
		return core.Text{}, false
	case run != nil && run.State == core.Skipped:
		return core.Say("the run was recorded as skipped: %s; trigger the job again", run.Reason), true
	case run != nil && !run.State.Open():
		return core.Say("the run ended: %s", run.State), true
	case run != nil && !run.Expired(op.ask.Now()):
		return core.Say("the run is in progress"), false // if its owner dies, only this message names it
	case run == nil && !planned:
		return core.Say("the run has no record"), true
	case run != nil && (known || gone):
		return core.Text{}, false
	case !known && gone:
		return core.Say("the job was deleted"), true
	case !known:
		return core.Say("job %s is unknown: neither the job nor a record of its deletion exists", f.Run.Job()), false
	case !f.Cause.Planned():
		return core.Text{}, false
	case job.Def.Keep.Days > 0 && op.ask.Now().Sub(f.At.Time()) >= time.Duration(job.Def.Keep.Days)*24*time.Hour:
		return core.Say("the run is older than the job's retention (retention.days: %d): whether the run started is unknown",
			job.Def.Keep.Days), true
	case f.Rev < job.Sched.Rev:
		return core.Say("the job was changed after the run was planned"), true
	case job.Sched.State == core.Paused:
		return core.Say("the job is paused"), false
	}
	s, next := &job.Sched, core.Instant(0)
	if sch, err := schedule.Compile(s.Schedule, s.ID); err == nil {
		next, _ = sch.Next(f.At)
	}
	if sends, _, reason := plan.Judge(plan.PolicyOf(*s), f.At, f.Slot, next, op.ask.Now()); !sends {
		return core.Say("too late: %s", reason), true
	}
	return core.Text{}, false
}
