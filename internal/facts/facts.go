// Package facts gathers what tickring doctor judges, as the deployment itself
// sees it: when it last planned, how far behind it is, what is on its queues, who
// its executors are. It judges nothing, changes nothing, and leaves out what it
// cannot read, naming it.
package facts

import (
	"context"
	"fmt"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/engine"
)

// maxExecutors bounds how many are told of.
const maxExecutors = 1000

// maxLetters is how many dead letters are counted.
const maxLetters = 100

// Gather adds to f what the engine says; e is not fenced, so that a deployment
// that stands by can be asked too.
func Gather(ctx context.Context, e *engine.Engine, now time.Time, f *api.Facts) {
	f.Now = now.UTC()
	missing := func(what string, err error) bool {
		if err != nil {
			f.Unread = append(f.Unread, what)
		}
		return err != nil
	}
	g, err := e.Tick.Global(ctx)
	if missing("global item", err) {
		g = core.Global{Partitions: 1, Readable: 1}
	} else {
		f.Generation, f.Holder, f.Partitions, f.Paused = g.Generation, g.Holder, max(g.Partitions, 1), g.Pause.Covers(now)
		if g.Loss.From != 0 {
			f.LossFound = g.Loss.At
		}
		if err := g.Admits(f.Deployment); err != nil {
			f.Fenced = err.Error()
		}
	}
	if f.LastTick.IsZero() {
		f.LastTick, err = e.Upkeep.LastAlive(ctx)
		missing("last tick", err)
	}
	for p := range max(g.Readable, g.Partitions, 1) {
		list, err := e.Tick.Due(ctx, p, core.InstantOf(now), core.DueItem{}, 1)
		if missing(fmt.Sprintf("due index, partition %d", p), err) {
			break
		}
		if len(list) > 0 && (f.DueSince.IsZero() || list[0].PlanAt.Time().Before(f.DueSince)) {
			f.DueSince = list[0].PlanAt.Time()
		}
	}
	oldest, err := e.Tick.OldestMessage(ctx)
	missing("oldest message", err)
	f.OldestMessage, f.UncomparedFrom = oldest.First(), oldest.Due
	f.Fires = depth(ctx, e, ring.KindFires, missing)
	f.Checks = depth(ctx, e, ring.KindCheck, missing)
	if letters, err := e.Dead.Letters(ctx, "", maxLetters); !missing("dead letters", err) {
		n := len(letters)
		f.DeadLetters = &n
	}
	executors(ctx, e, g, now, f, missing)
}

func depth(ctx context.Context, e *engine.Engine, kind ring.Kind, missing func(string, error) bool) *api.Depth {
	due, waiting, inFlight, err := e.Queue.Depth(ctx, kind)
	if missing("queue of "+string(kind), err) {
		return nil
	}
	return &api.Depth{Due: due, Waiting: waiting, InFlight: inFlight}
}

func executors(ctx context.Context, e *engine.Engine, g core.Global, now time.Time, f *api.Facts, missing func(string, error) bool) {
	apps, err := e.Manage.ListApps(ctx)
	if missing("apps", err) || len(apps) == 0 {
		return
	}
	names := make([]string, len(apps))
	for i := range apps {
		names[i] = apps[i].Name
	}
	stored, err := e.Manage.Executors(ctx, names)
	if missing("executors", err) {
		return
	}
	for i := range apps {
		live := map[string]bool{}
		for _, x := range apps[i].Candidates(stored[names[i]], g, now, core.BeatExpiry) {
			live[x.Address] = true
		}
		for _, x := range stored[names[i]] {
			if len(f.Executors) == maxExecutors {
				return
			}
			if len(apps[i].Executors) == 0 { // else only the fixed ones are used
				f.Executors = append(f.Executors, api.Executor{App: names[i], Address: x.Address, Live: live[x.Address], Used: true, BeatAt: x.Beat, Since: x.Since, Dialect: x.Dialect})
			}
		}
	}
}
