package sim

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
)

// lateClose makes the first of some closes arrive 35 s later, and throttles the others for as long.
func lateClose(is func(Call) bool) func(Call) Fate {
	var late atomic.Int64
	return func(c Call) Fate {
		switch {
		case c.Op != "CloseRuns" || !is(c):
			return Fine
		case late.CompareAndSwap(0, int64(c.At)):
			return Later
		case c.At < time.Duration(late.Load())+40*time.Second:
			return Throttled
		}
		return Fine
	}
}

// kill has a user kill the first triggered run of the first job.
func kill(w *World) {
	for _, p := range w.processes() {
		if p.kind() == "user" {
			w.ask(p, func(ctx context.Context, m *people.People) {
				_, _ = m.KillRun(ctx, god, core.NumberedRun(1, 1).String(), "")
			})
		}
	}
}

func broadcastByHand() []manage.JobSpec {
	j := byHand("alpha", "one")
	j.Def.Route = core.RouteBroadcast
	return []manage.JobSpec{j}
}

// A user cancels a broadcast that waits, and the write arrives when its shards run: it does nothing.
func TestCancelOfABroadcastComesLate(t *testing.T) {
	r := directed(t, Config{For: 2 * time.Minute, Jobs: broadcastByHand(), Script: lateClose(func(c Call) bool { return c.Process == "user" }),
		Behave: succeeds(50 * time.Second),
		Act: func(w *World) {
			trigger("alpha/one")(w)
			kill(w)
		}})
	r.want(t, "broadcast succeeded", 1)
}

// All shards of a broadcast are skipped, and a user kills the broadcast before its end is stored: it ends as killed.
func TestKillBeforeTheEndOfABroadcast(t *testing.T) {
	var shards atomic.Int64
	r := directed(t, Config{For: 2 * time.Minute, Jobs: broadcastByHand(),
		Script: lateClose(func(Call) bool { return shards.Add(1) > int64(len(apps[0].addresses)) }),
		Behave: func(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
			w.sleep(bg, time.Duration(sh.Run.Shard.Index)*time.Second) // each is closed by a call of its own
			return dispatch.Answer{Kind: dispatch.AnswerBlocked, Code: 500}, true
		},
		Act: func(w *World) {
			trigger("alpha/one")(w)
			w.sleep(bg, 15*time.Second)
			kill(w)
		}})
	r.want(t, "broadcast killed", 1)
}
