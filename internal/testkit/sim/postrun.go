package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/postrun"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/poller"
)

// post-run runs the post-run queue.
func (w *World) postRuns(in *incarnation) {
	a := in.assembly()
	lane := a.Lane(sender{in}, postrun.Options{Timeout: 6 * time.Second, SilentFor: 10 * time.Second,
		Waits: []time.Duration{5 * time.Second, 20 * time.Second, time.Minute}, Notices: a.Notices(ear{in}, notification.Options{})})
	if !w.deployed.functions {
		look := in.looks(a)
		in.spawn(func() {
			for !w.closing() && !in.dead.Load() {
				w.sleep(in.ctx, time.Minute)
				_ = look(in.ctx) // the next minute
			}
		})
	}
	for !w.closing() && !in.dead.Load() {
		got, err := in.store.Queue.Receive(in.ctx, ring.KindPostRun, 5)
		if err != nil {
			w.sleep(in.ctx, 100*time.Millisecond)
			continue
		}
		in.spawn(func() {
			for i, err := range lane.Handle(in.ctx, poller.Messages(got)) {
				if err != nil {
					in.store.Queue.Release(in.ctx, got[i:i+1], in.p.now().Add(2*time.Second))
				} else {
					in.store.Queue.Ack(in.ctx, got[i:i+1])
				}
			}
		})
	}
}

// keepLog draws the log setting of a job.
func keepLog(d *dice, def *core.Def) {
	def.Keep.Log = []core.KeepLog{"", "", core.KeepLogAlways, core.KeepLogNever}[d.n(4)]
}

// Log returns one log line of the run, or an error if the executor is not reachable.
func (s sender) Log(ctx context.Context, _ *core.App, run *core.Run, from int) (text string, next int, end bool, err error) {
	err = s.in.read(ctx, "Log", func(ctx context.Context) error {
		err := s.in.p.w.execs.hears(ctx, run.Address)
		if err == nil && from <= 1 {
			text = fmt.Sprintf("the log of run %d\n", run.ID)
		}
		return err
	})
	if err != nil || text == "" {
		return "", from, false, err
	}
	return text, 2, strings.HasPrefix(run.Address, "lambda:"), nil
}

// postRunAsked reports whether the run owes only post-run work, and a message for it was sent.
func (t *truth) postRunAsked(r *core.Run) bool {
	return r.OwesPostRun() != (core.PostRun{}) && len(r.Owes) == 0 && !r.OwesChildren() && t.postRuns[r.ID] > 0
}

// owesPostRun records that a run without pending runs still owes post-run work.
func (t *truth) owesPostRun(id core.RunID) {
	if r, _ := t.run(id); r.OwesPostRun() != (core.PostRun{}) {
		t.owes[id] = struct{}{}
	}
}

// postRunMade asserts 7.5 for the post-run queue: a cleared follow-up exists, as a log or as the reason why there is none.
func (t *truth) postRunMade(id core.RunID, was *core.Run) {
	r, _ := t.run(id)
	if !r.Owing() {
		delete(t.owes, id)
	}
	if was.OwesPostRun() == (core.PostRun{}) {
		t.fail(id, "run %d has no pending follow-ups, but they are cleared", id)
		return
	}
	if was.OwesPostRun().Notice && !r.OwesPostRun().Notice {
		t.noticed(id, was)
	}
	if !was.OwesPostRun().Log || r.OwesPostRun().Log {
		return
	}
	k, is, err := t.store.KeptLog(bg, id)
	text, terr := postrun.Text(&k)
	switch {
	case err != nil || terr != nil || !is:
		t.fail(id, "run %d does not owe its log any more, and that is not kept: %v, %v", id, err, terr)
	case text == fmt.Sprintf("the log of run %d\n", id):
		t.w.count("log kept", 1)
	case k.Why != "":
		t.w.count("log missing", 1)
	default:
		t.fail(id, "of run %d another log is kept: %q", id, text)
	}
	if !was.LogOwed() && was.State != core.Succeeded {
		t.fail(id, "run %d is %s, keeps %q of its logs, and its log was kept", id, was.State, was.KeepLog)
	}
}
