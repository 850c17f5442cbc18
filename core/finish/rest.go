package finish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tickring/tickring/core"
)

// restAtOnce is how many runs of a call get their follow-ups in parallel. familiesAtOnce is how
// many runs get their children together.
const restAtOnce, familiesAtOnce = 1000, 100

// plain reports whether the run has no follow-up except its permit and its post-run work.
func (e ended) plain() bool {
	r := e.run
	return !r.OwesBefore() && !r.OwesChildren() && !r.FixedDelay && !r.EndsRow() && !r.ShardEnded()
}

// An AfterClose creates the follow-ups of the runs that one call of [Finish.Close] closed. An AfterClose is separate because
// all closes must be stored before the first follow-up is created.
type AfterClose struct {
	f       *Finish
	results []Result
	errs    []error // answers of the call
	of      []ended
	same    [][2]int // index pairs: the first gets the answer of the second
}

type ended struct {
	run *core.Run
	i   int // index of its answer
}

// errRest is the answer until the follow-ups are created, so a crash leaves it to a retry.
var errRest = fmt.Errorf("the follow-ups of the run are not processed: %w", core.ErrThrottled)

func (r *AfterClose) add(run *core.Run, i int) {
	r.of, r.errs[i] = append(r.of, ended{run, i}), errRest
}

// found adds a run that was found closed, perhaps by this same call.
func (r *AfterClose) found(run *core.Run, i int) {
	k := slices.IndexFunc(r.of, func(e ended) bool { return e.run.ID == run.ID })
	if k < 0 {
		r.add(run, i)
		return
	}
	r.same, r.errs[i] = append(r.same, [2]int{i, r.of[k].i}), errRest
}

// Make creates the follow-ups, and updates the errors that Close returned. Make works on runs in parallel, except for shards
// of a broadcast. Concurrency slots that can be freed immediately are freed together.
func (r *AfterClose) Make(ctx context.Context) {
	var free []ended
	var families, shards, others []ended
	for _, e := range r.of {
		if !e.run.OwesBefore() {
			free = append(free, e)
		}
		switch {
		case e.plain():
			r.errs[e.i] = nil
		case e.run.ShardEnded():
			shards = append(shards, e)
		case !e.run.OwesBefore() && e.run.OwesChildren():
			families = append(families, e)
		default:
			others = append(others, e)
		}
	}
	kept := r.f.Release(ctx, runsOf(free)...)
	var all sync.WaitGroup
	var postRuns []error
	all.Go(func() { postRuns = r.f.postRun(ctx, runsOf(r.of)...) })
	for part := range slices.Chunk(families, familiesAtOnce) {
		all.Go(func() { r.makeFamilies(ctx, part) })
	}
	places := make(chan struct{}, restAtOnce)
	for _, e := range others {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			r.mend(ctx, e)
		})
	}
	for _, e := range shards { // in order, so that the last shard of a broadcast closes it
		r.mend(ctx, e)
	}
	all.Wait()
	r.join(r.of, postRuns)
	r.join(free, kept)
	for _, e := range r.of { // the close is stored, and the run's journal leads the watchdog to its follow-ups
		if err := r.errs[e.i]; r.results[e.i].Reported && lasting(err) {
			r.f.o.Log.Error("follow-up of a run postponed until a repair", "run", e.run.ID, "job", e.run.ID.Job(), "err", err)
			r.errs[e.i] = nil
		}
	}
	for _, s := range r.same {
		r.errs[s[0]] = r.errs[s[1]]
	}
}

// join adds errors to the answers of the runs in list.
func (r *AfterClose) join(list []ended, errs []error) {
	for k, err := range errs {
		if err != nil {
			i := list[k].i
			r.errs[i] = errors.Join(r.errs[i], err)
		}
	}
}

// lasting reports whether err stays until a user repairs a job or an app, so a retry cannot help.
func lasting(err error) bool {
	return (errors.Is(err, core.ErrUnreadable) || core.CodeOf(err) == core.CodeInvalid) && !errors.Is(err, core.ErrThrottled)
}

func (r *AfterClose) mend(ctx context.Context, e ended) {
	r.errs[e.i] = r.f.mend(ctx, e.run, e.run.OwesBefore())
}

func (r *AfterClose) makeFamilies(ctx context.Context, part []ended) {
	for i, err := range r.f.families(ctx, runsOf(part)...) {
		r.errs[part[i].i] = r.f.after(ctx, part[i].run, err)
	}
}

func runsOf(list []ended) []*core.Run {
	runs := make([]*core.Run, len(list))
	for i, e := range list {
		runs[i] = e.run
	}
	return runs
}
