package dispatch

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
)

// DeadLetters are the messages that could not be dispatched, kept for people.
type DeadLetters interface {
	// Letters reads the letters that are kept, newest first, after the one of an ID
	// (empty: from the newest on), at most limit.
	Letters(ctx context.Context, after string, limit int) ([]core.Letter, error)
}

// Skips takes records of skipped instants.
type Skips interface {
	// PutSkips stores them; a stored one of the same (Job, First, Reason) is only
	// lengthened.
	PutSkips(ctx context.Context, skips []core.Skip) []error
}

// Dead is the consumer of dead letters: it sees to it that no fire of theirs is
// unaccounted for. It drops no letter.
type Dead struct {
	store   Store
	skips   Skips
	letters DeadLetters
	ring    Ring
	finish  *finish.Finish
	now     func() time.Time
	log     *slog.Logger

	last string // the newest letter that Pass has gone by
}

// NewDead makes a Dead; now may be nil.
func NewDead(store Store, skips Skips, letters DeadLetters, r Ring, f *finish.Finish, now func() time.Time, log *slog.Logger) *Dead {
	if now == nil {
		now = time.Now
	}
	return &Dead{store: store, skips: skips, letters: letters, ring: r, finish: f, now: now, log: log}
}

// Record records each fire of a letter that can be read and has no run as skipped:
// undeliverable, and answers how many. A planned one gets a record of its instant,
// which a run beats: a copy that is still on the ring, or is sent again, loses
// nothing by it. A fire that has a run is left alone, and one that a newer revision
// has planned anew. It may be called again for the same letter. An error says that
// not all is recorded.
func (d *Dead) Record(ctx context.Context, l *core.Letter) (int, error) {
	fires, _ := ring.Salvage([]byte(l.Body))
	if err := d.tell(ctx, l, fires); err != nil {
		return 0, err
	}
	if len(fires) == 0 {
		return 0, nil
	}
	var ids []core.RunID
	var jobs []core.JobID
	for _, f := range fires {
		if ids, jobs = append(ids, f.Run), append(jobs, f.Run.Job()); f.Of != 0 {
			ids = append(ids, f.Of)
		}
	}
	runs, err := readEvery(ctx, distinct(ids), d.store.Runs)
	if err != nil {
		return 0, fmt.Errorf("read runs of a dead letter: %w", err)
	}
	found, left, err := readAll(ctx, distinct(jobs), d.store.Jobs)
	bad, err := core.Besides(err)
	if err == nil && len(left) > 0 {
		err = core.ErrThrottled
	}
	if err != nil {
		return 0, fmt.Errorf("read jobs of a dead letter: %w", err)
	}
	for id := range bad { // one that cannot be decoded is as one that is gone
		if j := core.LockedJob(bad, id); j != nil {
			found[id] = j
		}
	}
	now := d.now()
	var skips []core.Skip
	var create, shards []core.Run
	for _, f := range fires {
		whole := runs[f.Of]
		if r, ok := runs[f.Run]; ok {
			if r.ShardEnded() && whole.State.Open() {
				shards = append(shards, r)
			}
			d.finish.Buried(ctx, &r)
			continue
		}
		job, ok := found[f.Run.Job()]
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
	for i := range shards { // the last one that ends closes its broadcast
		if e := d.finish.Mend(ctx, &shards[i]); e != nil {
			err = fmt.Errorf("end a skipped shard: %w", e)
		}
	}
	if n > 0 {
		d.log.Error("undeliverable fires are recorded", "letter", l.ID, "fires", n, "why", l.Reason)
	}
	return n, err
}

// put stores records of skipped fires and runs, and answers how many.
func (d *Dead) put(ctx context.Context, skips []core.Skip, create []core.Run) (n int, err error) {
	if len(skips) > 0 {
		for _, e := range d.skips.PutSkips(ctx, skips) {
			if e != nil {
				err = fmt.Errorf("record a skipped fire: %w", e)
				continue
			}
			n++
		}
	}
	if len(create) > 0 {
		for _, e := range d.store.Create(ctx, create) {
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

// tellFor is how old a letter is at most of which people are told: after a restart they all
// are met again.
const tellFor = time.Hour

// tell has people told of a letter, before anything is recorded of it: those of its jobs, or
// where no job can be read in it those of all. Of a letter of the aside lane it is only
// logged: the note would go the same way, and die of the same, without end.
func (d *Dead) tell(ctx context.Context, l *core.Letter, fires []core.Fire) error {
	now := d.now()
	if now.Sub(l.At) > tellFor {
		return nil
	}
	if m, err := ring.Decode([]byte(l.Body)); err == nil && m.Kind == ring.KindAside {
		d.log.Error("a message of the aside lane is dead: what it was to keep or to tell is not", "letter", l.ID, "why", l.Reason)
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
	for _, err := range d.ring.Enqueue(ctx, ring.Noted(notes, now)) {
		if err != nil {
			return fmt.Errorf("have people told of a dead letter: %w", err)
		}
	}
	return nil
}

// letterRun stands for a letter of no run, so that it is counted once.
func letterRun(l *core.Letter) core.RunID {
	h := fnv.New32a()
	h.Write([]byte(l.ID))
	return core.NumberedRun(math.MaxInt32, h.Sum32()&core.MaxNumber|1)
}

// passPage is how many letters a pass reads at a time.
const passPage = 100

// Pass records the fires of all letters that came since the last, for an engine
// that keeps them by itself. It is called by one goroutine.
func (d *Dead) Pass(ctx context.Context) (recorded int, err error) {
	newest, after := "", ""
	for {
		list, err := d.letters.Letters(ctx, after, passPage)
		if err != nil {
			return recorded, fmt.Errorf("read dead letters: %w", err)
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
				return recorded, err // all of them again, the next time
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
