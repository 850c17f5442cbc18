package finish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tickring/tickring/core"
)

// restAtOnce is of how many runs of a call what follows is made side by side, familiesAtOnce
// of how many the children are made together.
const restAtOnce, familiesAtOnce = 1000, 100

// freesFirst reports that nothing is to be made of an end before its permit is freed.
func (e ended) freesFirst() bool {
	return !e.run.State.Open() && e.run.Then == 0 && (len(e.run.Owes) == 0 || e.run.Owes[0].Kind == core.CauseParent)
}

// Rest is what follows of the runs of one call that are closed. It takes some writes for
// each, one after the other, and no close of the call waits for them.
type Rest struct {
	f       *Finish
	results []Result
	errs    []error // the answers of the call
	of      []ended
	same    [][2]int // answers that are those of another
}

type ended struct {
	run *core.Run
	i   int // of its answer
}

// errRest is the answer until what follows is made: to whoever dies on the way as well.
var errRest = fmt.Errorf("what follows of the run is not made: %w", core.ErrThrottled)

func (r *Rest) add(run *core.Run, i int) { r.of, r.errs[i] = append(r.of, ended{run, i}), errRest }

// found adds a run that was found closed, perhaps by this very call.
func (r *Rest) found(run *core.Run, i int) {
	k := slices.IndexFunc(r.of, func(e ended) bool { return e.run.ID == run.ID })
	if k < 0 {
		r.add(run, i)
		return
	}
	r.same, r.errs[i] = append(r.same, [2]int{i, r.of[k].i}), errRest
}

// Make makes it, side by side but for shards, and completes the answers of Close. Permits of
// those that owe nothing before are freed together, and their children are made together.
func (r *Rest) Make(ctx context.Context) {
	var free []*core.Run
	var families, shards, others []ended
	for _, e := range r.of {
		first := e.freesFirst()
		if first {
			free = append(free, e.run)
		}
		switch {
		case e.run.ShardEnded():
			shards = append(shards, e)
		case first && e.run.OwesChildren():
			families = append(families, e)
		default:
			others = append(others, e)
		}
	}
	r.f.Release(ctx, free...)
	var all sync.WaitGroup
	var asides []error
	all.Go(func() { asides = r.f.asides(ctx, runsOf(r.of)) })
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
	for _, e := range shards { // so that one of a broadcast is the last, and closes it
		r.mend(ctx, e)
	}
	all.Wait()
	for k, err := range asides {
		if err != nil {
			i := r.of[k].i
			r.errs[i] = errors.Join(r.errs[i], err)
		}
	}
	for _, e := range r.of { // the close is stored, and the journal of the run brings the watchdog to what it owes
		if err := r.errs[e.i]; r.results[e.i].Reported && lasting(err) {
			r.f.o.Log.Error("follow-up of a run waits for a repair", "run", e.run.ID, "job", e.run.ID.Job(), "err", err)
			r.errs[e.i] = nil
		}
	}
	for _, s := range r.same {
		r.errs[s[0]] = r.errs[s[1]]
	}
}

// lasting reports whether err stays until a user repairs a job or an app: a second report does not help.
func lasting(err error) bool {
	_, job := errors.AsType[core.Unreadable](err)
	_, app := errors.AsType[core.UnreadableApps](err)
	return (job || app || core.CodeOf(err) == core.CodeInvalid) && !errors.Is(err, core.ErrThrottled)
}

func (r *Rest) mend(ctx context.Context, e ended) {
	r.errs[e.i] = r.f.mend(ctx, e.run, !e.freesFirst())
}

func (r *Rest) makeFamilies(ctx context.Context, part []ended) {
	for i, err := range r.f.families(ctx, runsOf(part)) {
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
