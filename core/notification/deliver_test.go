package notification_test

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestLease checks that no other process sends a leased notification.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		var asked atomic.Int64
		r.fail = func(string) error {
			asked.Add(1)
			time.Sleep(10 * time.Second)
			return nil
		}
		other := notification.New(r.s, r, notification.Options{Pace: time.Nanosecond, Log: slog.New(slog.DiscardHandler)})
		failed := r.ends(core.Failed, core.ReasonHandler)
		var first sync.WaitGroup
		first.Go(func() { r.handle(failed) })
		time.Sleep(time.Second)
		r.must(other.Messages(t.Context(), []ring.Message{r.look(core.InstantOf(time.Now())), failed})...)
		check.Equal(t, asked.Load(), 1, "sent N times while the first is under way")
		first.Wait()
		r.minutes(5)
		r.heard("a", "failed 1")
	})
}

// TestRest checks that nothing is sent to a channel for half a minute after it did not answer, and that
// everything is delivered later.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		asked, down := 0, true
		r.fail = oneByOne(func(string) error {
			if asked++; down {
				return &core.Undelivered{Reason: "answered 500"}
			}
			return nil
		})
		r.handle(r.ends(core.Failed, core.ReasonHandler))
		time.Sleep(29 * time.Second)
		r.handle(r.ends(core.Lost, core.ReasonGone))
		check.Equal(t, asked, 1, "asked N times within half a minute")
		down = false
		time.Sleep(2 * time.Second)
		r.handle(r.ends(core.Failed, core.ReasonNoExecutor))
		r.heard("a", "no-executor 1")
		r.minutes(5)
		if len(r.got["a"]) != 3 {
			t.Errorf("heard %+v, want of all three", r.got["a"])
		}
	})
}

// TestChannelTakenOut checks that a pending notification still reaches its channel after the job names another.
func TestChannelTakenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		down := true
		r.fail = oneByOne(func(string) error {
			if down {
				return &core.Undelivered{Reason: "answered 500"}
			}
			return nil
		})
		r.handle(r.ends(core.Failed, core.ReasonHandler))
		r.update(func(j *core.Job) { j.Def.Notify.To = []string{"b"} })
		down = false
		r.minutes(5)
		r.heard("a", "failed 1")
		r.heard("b")
	})
}

// TestAllMute checks that no notification of a failed delivery is repeated if all channels fail.
func TestAllMute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(j *core.Job) { j.Def.Notify.To = []string{"a", "b"} })
		var asked atomic.Int64 // the channels are used concurrently
		r.fail = func(string) error {
			asked.Add(1)
			return &core.Undelivered{Permanent: true, Reason: "no such address"}
		}
		r.handle(r.ends(core.Failed, core.ReasonHandler))
		r.minutes(3 * 60)
		before := asked.Load()
		r.minutes(10 * 60)
		if more := asked.Load() - before; before < 2 || more > 0 || len(r.state().Pending) > 0 {
			t.Errorf("asked %d times in three hours, %d in ten more; pending are %+v", before, more, r.state().Pending)
		}
	})
}

// TestWhyOfTheNote checks that the text of a note takes precedence over the message of its run.
func TestWhyOfTheNote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		run := r.ends(core.Succeeded).PostRun.Run // its message differs
		r.handle(ring.Noted([]ring.Note{{Job: 7, Event: core.EventDeadLetter, Run: run, Why: "it cannot be read", When: time.Now()}},
			time.Now())[0].Message)
		r.heard("a", "dead-letter 1")
		if m := r.got["a"][0]; m.Text != "it cannot be read" || m.State != core.Succeeded {
			t.Errorf("the notice is %+v", m)
		}
	})
}
