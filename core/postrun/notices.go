package postrun

import (
	"context"
	"fmt"
	"strings"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// Notices makes notifications. Handle does what messages request, and returns an error for each message.
type Notices interface {
	Handle(ctx context.Context, list []ring.PostRun) []error
}

// A request is a message that needs only Notices.
type request struct {
	i    int       // position of the message
	run  *core.Run // its ended run; nil: the message has notes or looks
	asks ring.PostRun
}

// notify does what messages request, and then clears the pending notifications of their runs. A run can be in several messages.
func (l *Worker) notify(ctx context.Context, msgs []ring.Message, list []request, errs []error) {
	asks := make([]ring.PostRun, len(list))
	for k, r := range list {
		asks[k] = r.asks
	}
	var puts []core.RunPut
	at := map[core.RunID]int{}
	for k, err := range l.o.Notices.Handle(ctx, asks) {
		r := &list[k]
		if errs[r.i] = l.requeue(ctx, &msgs[r.i], nil, err); err != nil || r.run == nil {
			r.run = nil // there is nothing to clear
			continue
		}
		if _, is := at[r.run.ID]; !is {
			at[r.run.ID], puts = len(puts), append(puts, r.run.ClearPostRun(core.PostRun{}))
		}
	}
	if len(puts) == 0 {
		return
	}
	cleared := l.s.ChangeRuns(ctx, puts)
	for _, r := range list {
		if r.run != nil && cleared[at[r.run.ID]] != nil {
			errs[r.i] = fmt.Errorf("note that the notice of run %d is made: %w", r.run.ID, cleared[at[r.run.ID]])
		}
	}
}

// KeptLines returns the last lines of a run's kept log; nil if no log is kept.
func KeptLines(ctx context.Context, s *store.Store, run core.RunID, lines int) ([]string, error) {
	k, is, err := s.KeptLog(ctx, run)
	if err != nil || !is {
		return nil, err
	}
	text, err := Text(&k)
	if err != nil || text == "" {
		return nil, err
	}
	return strings.Split(lastLines(text, lines), "\n"), nil
}
