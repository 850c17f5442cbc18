package finish

import (
	"context"
	"slices"
	"sync"

	"github.com/tickring/tickring/core"
)

// familiesAtOnce is of how many runs of a call the children are made side by side.
const familiesAtOnce = 1000

// freesFirst reports that nothing is to be made of an end before its permit is freed.
func (e ended) freesFirst() bool {
	return !e.run.State.Open() && e.run.Then == 0 && (len(e.run.Owes) == 0 || e.run.Owes[0].Kind == core.CauseParent)
}

// Rest is what follows of the runs of one call that are closed. It takes some writes for
// each, one after the other, and no close of the call waits for them.
type Rest struct {
	f    *Finish
	errs []error // the answers of the call
	of   []ended
	same [][2]int // answers that are those of another
}

type ended struct {
	run *core.Run
	i   int // of its answer
}

func (r *Rest) add(run *core.Run, i int) { r.of, r.errs[i] = append(r.of, ended{run, i}), nil }

// found adds a run that was found closed, perhaps by this very call.
func (r *Rest) found(run *core.Run, i int) {
	k := slices.IndexFunc(r.of, func(e ended) bool { return e.run.ID == run.ID })
	if k < 0 {
		r.add(run, i)
		return
	}
	r.same = append(r.same, [2]int{i, r.of[k].i})
}

// Make makes it, children side by side, and completes the answers of Close. Permits of
// those that owe nothing before are freed together.
func (r *Rest) Make(ctx context.Context) {
	var free []*core.Run
	for _, e := range r.of {
		if e.freesFirst() {
			free = append(free, e.run)
		}
	}
	r.f.Release(ctx, free...)
	var all sync.WaitGroup
	places := make(chan struct{}, familiesAtOnce)
	for _, e := range r.of {
		if e.run.OwesChildren() {
			places <- struct{}{}
			all.Go(func() {
				defer func() { <-places }()
				r.errs[e.i] = r.f.mend(ctx, e.run, !e.freesFirst())
			})
		}
	}
	for _, e := range r.of {
		if !e.run.OwesChildren() {
			r.errs[e.i] = r.f.mend(ctx, e.run, !e.freesFirst())
		}
	}
	all.Wait()
	for _, s := range r.same {
		r.errs[s[0]] = r.errs[s[1]]
	}
}
