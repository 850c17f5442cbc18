package dispatch_test

import (
	"context"
	"log/slog"
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

// answers sends nothing: the runs of each job end after the delay of that job.
type answers struct {
	*slow
	of map[core.JobID]dispatch.Answer
}

func (a answers) Send(ctx context.Context, x dispatch.SendRequest) dispatch.Answer {
	answer := a.of[x.Run.ID.Job()]
	select {
	case <-time.After(answer.Took):
	case <-ctx.Done():
	}
	return answer
}

// slowRing takes a minute for each message.
type slowRing struct{ *memory.Store }

func (r slowRing) Enqueue(ctx context.Context, out []ring.Out) []error {
	time.Sleep(time.Minute)
	return r.Store.Enqueue(ctx, out)
}

// TestEndWaitsForNothingThatFollows: a result that arrives while the retry of an earlier one is being enqueued is
// stored at once. Both messages are acknowledged only when all is done.
func TestEndWaitsForNothingThatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, dispatch.Options{Invocation: 5 * time.Minute})
		failed := dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Failed, Reason: core.ReasonHandler, RetryAfter: time.Second}
		later := dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded, Took: 2 * time.Second}
		last := later
		last.Took = 30 * time.Second
		log := slog.New(slog.DiscardHandler)
		g.d = dispatch.New(g.s, g.s, answers{g.sender, map[core.JobID]dispatch.Answer{1: failed, 2: later, 3: last}},
			finish.New(g.s, slowRing{g.s}, finish.Options{Plan: plan.Local(), Log: log}), dispatch.Options{Invocation: 5 * time.Minute, Log: log})
		msgs := g.messages(1, 3, "one")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for _, v := range g.d.Handle(t.Context(), msgs) {
				if !v.Ack {
					t.Error("not acked")
				}
			}
		}()
		wait(5 * time.Second)
		found, _, err := g.s.Runs(t.Context(), []core.RunID{msgs[0].Fires[0].Run, msgs[0].Fires[1].Run})
		must(t, err)
		for id, r := range found {
			if want := map[core.JobID]core.State{1: core.Failed, 2: core.Succeeded}[id.Job()]; r.State != want {
				t.Errorf("after 5 s the run of job %d is %s", id.Job(), r.State)
			}
		}
		<-ended
		found, _, err = g.s.Runs(t.Context(), []core.RunID{msgs[0].Fires[0].Run})
		must(t, err)
		if r := found[msgs[0].Fires[0].Run]; len(r.Owes) > 0 {
			t.Errorf("acked while it owes %v", r.Owes)
		}
	})
}
