package dispatch_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// damaged is a store in which one job cannot be decoded, and a ring that records messages.
type damaged struct {
	dispatch.Store
	dispatch.Ring
	job    core.JobID
	again  []ring.Message
	buried []string
}

func (d *damaged) Jobs(ctx context.Context, jobs []core.JobID) (map[core.JobID]*core.Job, []core.JobID, error) {
	found, unread, err := d.Store.Jobs(ctx, jobs)
	var bad core.Unreadable
	if _, is := found[d.job]; is && err == nil {
		delete(found, d.job)
		bad.Add(d.job, errors.New("no JSON"))
		err = bad.Err()
	}
	return found, unread, err
}

func (d *damaged) Enqueue(ctx context.Context, out []ring.Out) []error {
	for i := range out {
		if out[i].Message.Kind == ring.KindFires {
			d.again = append(d.again, out[i].Message)
		}
	}
	return make([]error, len(out))
}

func (d *damaged) Bury(_ context.Context, m ring.Message, why string) error {
	d.buried = append(d.buried, why)
	return nil
}

// TestUnreadableJobHoldsUpNoOther: one run of a message has a job that cannot be decoded. The others are sent at once.
// It is retried twenty times and then moves to the dead-letter queue with the reason. It never counts as deleted.
func TestUnreadableJobHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait(time.Until(time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)))
		g := newGated(t, dispatch.Options{})
		s, log := &damaged{Store: g.s, job: 2}, slog.New(slog.DiscardHandler)
		g.d = dispatch.New(s, s, g.sender, finish.New(g.s, g.s, finish.Options{Plan: plan.Local(), Log: log}), dispatch.Options{Log: log})
		msgs := g.messages(1, 3, "one")
		fires := msgs[0].Fires
		g.handle(msgs)
		runs, _, err := g.s.Runs(t.Context(), []core.RunID{fires[0].Run, fires[1].Run, fires[2].Run})
		if err != nil || len(runs) != 2 || len(s.again) != 1 || len(s.again[0].Fires) != 1 || s.again[0].Fires[0] != fires[1] {
			t.Fatalf("%d runs, again %+v, %v", len(runs), s.again, err)
		}
		tries := 1
		for ; len(s.again) > 0 && tries < 100; tries++ {
			again := s.again
			s.again = nil
			g.handle(again)
		}
		if tries != 21 || len(s.buried) != 1 || !strings.HasPrefix(s.buried[0], "job 2 ") {
			t.Errorf("%d tries, buried %q", tries, s.buried)
		}
	})
}

// TestUnreadableAppHoldsUpNoOther: the behavior for an app that cannot be decoded.
func TestUnreadableAppHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait(time.Until(time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)))
		g := newGated(t, dispatch.Options{})
		s, log := &damaged{Store: g.s}, slog.New(slog.DiscardHandler)
		g.d = dispatch.New(s, s, g.sender, finish.New(g.s, g.s, finish.Options{Plan: plan.Local(), Log: log}), dispatch.Options{Log: log})
		memory.DamageApp(t, g.s, "two")
		msgs := append(g.messages(1, 1, "one"), g.messages(2, 1, "two")...)
		sent, held := msgs[0].Fires[0], msgs[1].Fires[0]
		g.handle(msgs)
		runs, _, err := g.s.Runs(t.Context(), []core.RunID{sent.Run, held.Run})
		if err != nil || len(runs) != 1 || runs[sent.Run].Address == "" || len(s.again) != 1 || s.again[0].Fires[0] != held {
			t.Fatalf("runs %+v, again %+v, %v", runs, s.again, err)
		}
		tries := 1
		for ; len(s.again) > 0 && tries < 100; tries++ {
			again := s.again
			s.again = nil
			g.handle(again)
		}
		if tries != 21 || len(s.buried) != 1 || !strings.HasPrefix(s.buried[0], "app two ") {
			t.Errorf("%d tries, buried %q", tries, s.buried)
		}
	})
}
