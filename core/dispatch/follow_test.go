package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/ring"
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

// TestEndWaitsForNothingThatFollows: a result that arrives while the retry of an earlier one is being enqueued is
// stored at once. Both messages are acknowledged only when all is done.
func TestEndWaitsForNothingThatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, dispatch.Options{Invocation: 5 * time.Minute})
		failed := dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Failed, Reason: core.ReasonHandler, RetryAfter: time.Second}
		later := dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded, Took: 2 * time.Second}
		last := later
		last.Took = 30 * time.Second
		g.s.enqueue = func(_ context.Context, _ *ring.Out, do func() error) error {
			time.Sleep(time.Minute)
			return do()
		}
		g.d = g.s.dispatcher(answers{g.sender, map[core.JobID]dispatch.Answer{1: failed, 2: later, 3: last}},
			dispatch.Options{Invocation: 5 * time.Minute})
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
		found := g.s.stored(msgs[0].Fires[0].Run, msgs[0].Fires[1].Run)
		for id, r := range found {
			if want := map[core.JobID]core.State{1: core.Failed, 2: core.Succeeded}[id.Job()]; r.State != want {
				t.Errorf("after 5 s the run of job %d is %s", id.Job(), r.State)
			}
		}
		<-ended
		if r := g.s.run(msgs[0].Fires[0].Run); len(r.Owes) > 0 {
			t.Errorf("acked while it owes %v", r.Owes)
		}
	})
}
