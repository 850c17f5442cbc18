package postrun

import (
	"context"
	"fmt"
	"strings"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// Notices handles messages that request notifications. Messages returns an error for each message.
type Notices interface {
	Messages(ctx context.Context, list []ring.Message) []error
}

// passOn requests the pending notification of a run with its own message. It comes after the log was tried or
// found no place, so that the notification can quote it.
func (l *Worker) passOn(ctx context.Context, run *core.Run) error {
	if !run.OwesPostRun().Notice {
		return nil
	}
	return l.ask(ctx, run.ID)
}

// withoutNotice returns a message without its request for a notification.
func withoutNotice(m *ring.Message) ring.Message {
	next, a := *m, *m.PostRun
	a.Notice = false
	next.PostRun = &a
	return next
}

// ask requests the notification of a run; a repeated request is harmless.
func (l *Worker) ask(ctx context.Context, run core.RunID) error {
	now := l.o.Now()
	err := l.s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: now, Message: ring.Message{Kind: ring.KindPostRun, Slot: core.InstantOf(now),
		PostRun: &ring.PostRun{Run: run, PostRun: core.PostRun{Notice: true}}}}})[0]
	if err != nil {
		return fmt.Errorf("ask for the notice of run %d: %w", run, err)
	}
	return nil
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
