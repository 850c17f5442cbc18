package dispatch

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// Dead processes the dead-letter queue. Dead records every run in the messages of this queue and deletes no message.
type Dead struct {
	store  *store.Store
	finish *finish.Finish
	now    func() time.Time
	log    *slog.Logger

	last string // ID of the newest message that Pass has read
}

// NewDead returns a Dead. If the parameter now is nil, time.Now is used.
func NewDead(s *store.Store, f *finish.Finish, now func() time.Time, log *slog.Logger) *Dead {
	if now == nil {
		now = time.Now
	}
	return &Dead{store: s, finish: f, now: now, log: log}
}

// Record handles the runs of a dead-letter message that are not stored. Record records each of these runs as skipped, with the
// reason undeliverable, and returns their number. For a planned run, it records a skip of the scheduled time. If a copy of the
// run is sent later, that run overrides the skip. Record ignores runs that a newer revision of the job has planned again.
//
// If Record returns an error, some runs may not be recorded. Record can then be called again with the message.
func (d *Dead) Record(ctx context.Context, l *core.Letter) (int, error) {
	fires, _ := ring.Salvage([]byte(l.Body))
	if err := d.tell(ctx, l, fires); err != nil {
		return 0, err
	}
	if len(fires) == 0 {
		return 0, nil
	}
	runs, bad, jobs, err := d.read(ctx, fires)
	if err != nil {
		return 0, err
	}
	now := d.now()
	var skips []core.Skip
	var create, shards []core.Run
	named := listing{{Key: core.NewJournalKey(rand.Text(), now), V: 1}}
	for _, f := range fires {
		if why := cmp.Or(bad[f.Run], bad[f.Of]); why != nil {
			d.log.Error("undeliverable run not recorded: it cannot be read", "letter", l.ID, "run", f.Run, "job", f.Run.Job(), "err", why)
			continue
		}
		whole := runs[f.Of]
		if whole == nil {
			whole = &noRun
		}
		if r, ok := runs[f.Run]; ok {
			if r.ShardEnded() && whole.State.Open() {
				shards = append(shards, *r)
			}
			d.finish.Buried(ctx, r)
			if !r.State.Open() || !r.Journal.IsZero() { // its writer may have died
				named.add(r)
			}
			continue
		}
		job, ok := jobs[f.Run.Job()]
		if _, planned := f.Run.Planned(); !planned {
			var app string
			if ok {
				app = job.Def.App
			}
			r := core.Run{ID: f.Run, App: app, Cause: f.Cause, Rev: f.Rev, At: f.At, Slot: f.Slot, Seq: f.Seq, Attempt: 1, First: f.Run}
			_, shard := whole.ShardOf(f.Run)
			if shard = shard && whole.State.Open(); shard {
				r = whole.ShardRun(f.Run)
			}
			r.State, r.Reason, r.Message, r.EndedAt = core.Skipped, core.ReasonUndeliverable, l.Reason, now
			if d.store.ByJournal {
				r.Journal = named[0].Key
			}
			named.add(&r)
			if create = append(create, r); shard {
				shards = append(shards, r)
			}
			continue
		}
		if ok && f.Rev < job.Sched.Rev && f.At.Time().After(job.Sched.RevAt) {
			continue
		}
		skips = append(skips, core.Skip{Job: f.Run.Job(), First: f.At, Last: f.At, Count: 1, Reason: core.ReasonUndeliverable,
			Rev: f.Rev, Made: now.UTC()})
	}
	n, err := d.put(ctx, skips, create)
	if e := d.list(ctx, named); e != nil {
		err = e
	}
	for i := range shards { // the last shard to end closes its broadcast
		if e := d.finish.Mend(ctx, &shards[i]); e != nil {
			err = fmt.Errorf("end a skipped shard: %w", e)
		}
	}
	if n > 0 {
		d.log.Error("undeliverable runs recorded", "letter", l.ID, "fires", n, "why", l.Reason)
	}
	return n, err
}

// read returns the runs and broadcasts of a message, the errors of runs that cannot be decoded, and their jobs. Jobs that
// cannot be decoded count as deleted, unless only their secrets are locked.
func (d *Dead) read(ctx context.Context, fires []core.Fire) (
	runs map[core.RunID]*core.Run, bad map[core.RunID]error, found map[core.JobID]*core.Job, err error,
) {
	var ids []core.RunID
	var jobs []core.JobID
	for _, f := range fires {
		if ids, jobs = append(ids, f.Run), append(jobs, f.Run.Job()); f.Of != 0 {
			ids = append(ids, f.Of)
		}
	}
	if runs, bad, err = store.Split(readAll(ctx, distinct(ids), d.store.Runs.Get)); err != nil {
		return nil, nil, nil, fmt.Errorf("read runs of a dead-letter message: %w", err)
	}
	if found, _, err = store.Split(store.Unlocked(readJobs(ctx, d.store, distinct(jobs)))); err != nil {
		return nil, nil, nil, fmt.Errorf("read jobs of a dead-letter message: %w", err)
	}
	return runs, bad, found, nil
}

// list stores the journals that name the runs of a message.
func (d *Dead) list(ctx context.Context, named listing) error {
	for _, j := range named {
		if d.store.ByJournal && len(j.Entries) > 0 {
			if err := d.store.PutJournal(ctx, j); !journalled(err) {
				return fmt.Errorf("list the runs of a dead-letter message: %w", err)
			}
		}
	}
	return nil
}

// put stores skips and skipped runs, and returns how many.
func (d *Dead) put(ctx context.Context, skips []core.Skip, create []core.Run) (n int, err error) {
	if len(skips) > 0 {
		for _, e := range d.store.PutSkips(ctx, skips) {
			if e != nil {
				err = fmt.Errorf("record a skipped scheduled run: %w", e)
				continue
			}
			n++
		}
	}
	if len(create) > 0 {
		for _, e := range d.store.CreateRuns(ctx, create) {
			switch {
			case e == nil:
				n++
			case answerOf(e) != refused:
				err = fmt.Errorf("record a skipped run: %w", e)
			}
		}
	}
	return n, err
}

// tellFor is the maximum age of a message that causes notifications: after a restart, Pass reads all messages again.
const tellFor = time.Hour

// tell enqueues the notifications for a message before anything is recorded: for each job in it, or a general one if no
// job can be read. A message of the post-run queue is only logged: its notification would use that queue and could fail
// again without end.
func (d *Dead) tell(ctx context.Context, l *core.Letter, fires []core.Fire) error {
	now := d.now()
	if now.Sub(l.At) > tellFor {
		return nil
	}
	if m, err := ring.Decode([]byte(l.Body)); err == nil && m.Kind == ring.KindPostRun {
		d.log.Error("message of the post-run queue moved to the dead-letter queue: its log is not stored or its notification is not sent",
			"letter", l.ID, "why", l.Reason)
		return nil
	}
	var notes []ring.Note
	at := map[core.JobID]int{}
	for _, f := range fires {
		job := f.Run.Job()
		if i, is := at[job]; is {
			notes[i].Times++
			continue
		}
		at[job] = len(notes)
		notes = append(notes, ring.Note{Job: job, Event: core.EventDeadLetter, Run: f.Run, At: f.At, Times: 1, Why: l.Reason, When: l.At})
	}
	if len(fires) == 0 {
		notes = []ring.Note{{Event: core.EventDeadLetter, Run: letterRun(l), Why: l.Reason, When: l.At}}
	}
	if err := cmp.Or(d.store.Queue.Enqueue(ctx, ring.Noted(notes, now))...); err != nil {
		return fmt.Errorf("notify about a dead-letter message: %w", err)
	}
	return nil
}

// letterRun returns a run ID that stands for a message without runs, so that it is counted once.
func letterRun(l *core.Letter) core.RunID {
	h := fnv.New32a()
	h.Write([]byte(l.ID))
	return core.NumberedRun(math.MaxInt32, h.Sum32()&core.MaxNumber|1)
}

// passPage is how many messages a pass reads at a time.
const passPage = 100

// Pass records the runs of all messages that arrived since the last pass, and returns the number of recorded runs. Pass is for
// engines with their own dead-letter queue. Pass is not safe for concurrent use.
func (d *Dead) Pass(ctx context.Context) (recorded int, err error) {
	newest, after := "", ""
	for {
		list, err := d.store.Letters(ctx, after, passPage)
		if err != nil {
			return recorded, fmt.Errorf("read dead-letter messages: %w", err)
		}
		for i := range list {
			if newest == "" {
				newest = list[i].ID
			}
			if list[i].ID == d.last {
				d.last = newest
				return recorded, nil
			}
			n, err := d.Record(ctx, &list[i])
			recorded += n
			if err != nil {
				return recorded, err // the next pass starts over
			}
			after = list[i].ID
		}
		if len(list) < passPage {
			if newest != "" {
				d.last = newest
			}
			return recorded, nil
		}
	}
}
