package dispatch

import (
	"context"
	"log/slog"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/store"
)

// closesAll has one run, and accepts its close when the test allows it.
type closesAll struct {
	store.Runs
	run        core.Run
	began, may chan struct{}
}

func (s closesAll) Get(context.Context, []core.RunID) (map[core.RunID]store.Got[*core.Run], error) {
	return map[core.RunID]store.Got[*core.Run]{s.run.ID: {Is: new(s.run)}}, nil
}

func (s closesAll) Put(_ context.Context, puts []store.RunPut) []error {
	close(s.began)
	<-s.may
	return make([]error, len(puts))
}

// TestEndsSideBySide: of two concurrent calls of end, the second does not store the results that the first is storing.
func TestEndsSideBySide(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	r := core.Run{ID: core.NumberedRun(7, 1), App: "a", State: core.Running, Owner: "me", Attempt: 1}
	r.First = r.ID
	s := closesAll{run: r, began: make(chan struct{}), may: make(chan struct{})}
	d := New(nil, nil, finish.New(&store.Store{Runs: s}, finish.Options{Log: log}), Options{Log: log, Nonce: func() string { return "me" }})
	b := newBatch(d, nil, nil)
	b.items = append(b.items, &item{fire: r.Fire(), run: &r, phase: ended{Answer{State: core.Succeeded, Kind: AnswerEnded}}})
	over := make(chan struct{})
	go func() {
		b.end(t.Context(), b.toEnd())
		close(over)
	}()
	<-s.began
	if n := len(b.toEnd()); n != 0 {
		t.Errorf("%d results are stored again while they are stored", n)
	}
	close(s.may)
	<-over
	if n := len(b.toEnd()); n != 0 || b.items[0].phase != (done{}) {
		t.Errorf("%d results are stored again; the run is %T", n, b.items[0].phase)
	}
}
