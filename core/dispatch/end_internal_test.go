package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
)

// closesAll has one run, and accepts each close.
type closesAll struct {
	finish.Store
	run core.Run
}

func (s closesAll) Runs(context.Context, []core.RunID) (map[core.RunID]core.Run, []core.RunID, error) {
	return map[core.RunID]core.Run{s.run.ID: s.run}, nil, nil
}

func (s closesAll) PutRuns(_ context.Context, list []core.RunPut) []error {
	return make([]error, len(list))
}

// TestEndsSideBySide: of two concurrent calls of end, the second does not store the results that the first is storing.
func TestEndsSideBySide(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	ctx := context.Background()
	for n := range 3000 {
		r := core.Run{ID: core.NumberedRun(7, 1), App: "a", State: core.Running, Owner: "me", Attempt: 1}
		r.First = r.ID
		d := New(nil, nil, nil, finish.New(closesAll{run: r}, nil, finish.Options{Log: log}),
			Options{Log: log, Nonce: func() string { return "me" }})
		b := newBatch(d, nil, nil)
		b.items = append(b.items, &item{fire: r.Fire(), run: &r, phase: ended{Answer{State: core.Succeeded, Kind: AnswerEnded}}})
		var ends sync.WaitGroup
		stop := time.Now().Add(200 * time.Microsecond)
		for time.Now().Before(stop) { // as endWhileOpen, without its pauses
			if items := b.toEnd(); len(items) > 0 {
				for _, x := range items {
					b.mu.Lock()
					if _, is := x.phase.(ended); !is {
						t.Fatalf("round %d: toEnd took a %T: b.end panics", n, x.phase)
					}
					b.mu.Unlock()
				}
				ends.Go(func() { b.end(ctx, items) })
			}
		}
		ends.Wait()
	}
}
