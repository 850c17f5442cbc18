package aside

import (
	"context"
	"fmt"
	"strings"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// Notices takes the messages of the lane that ask for notices, and for nothing else: it tells
// people, with an answer for each.
type Notices interface {
	Messages(ctx context.Context, list []ring.Message) []error
}

// tell has people told.
func (l *Lane) tell(ctx context.Context, list []ring.Message) []error {
	if l.o.Notices != nil {
		return l.o.Notices.Messages(ctx, list)
	}
	errs := make([]error, len(list))
	for i := range errs {
		errs[i] = fmt.Errorf("nobody here tells people")
	}
	return errs
}

// passOn asks for the notice of a run, by a message of its own, once its log was tried to be
// kept, so that its last lines may be in it, or found no place for long.
func (l *Lane) passOn(ctx context.Context, run *core.Run) error {
	if !run.OwesAside().Notice {
		return nil
	}
	return l.ask(ctx, run.ID)
}

// withoutNotice is a message whose notice is asked for by one of its own.
func withoutNotice(m *ring.Message) ring.Message {
	next, a := *m, *m.Aside
	a.Notice = false
	next.Aside = &a
	return next
}

// ask asks for the notice of a run, which may be made by then.
func (l *Lane) ask(ctx context.Context, run core.RunID) error {
	now := l.o.Now()
	err := l.ring.Enqueue(ctx, []ring.Out{{NotBefore: now, Message: ring.Message{Kind: ring.KindAside, Slot: core.InstantOf(now),
		Aside: &ring.Aside{Run: run, Aside: core.Aside{Notice: true}}}}})[0]
	if err != nil {
		return fmt.Errorf("ask for the notice of run %d: %w", run, err)
	}
	return nil
}

// KeptLines are the last lines of the log that is kept of a run; none where nothing is.
func KeptLines(ctx context.Context, of Keeper, run core.RunID, lines int) ([]string, error) {
	k, is, err := of.KeptLog(ctx, run)
	if err != nil || !is {
		return nil, err
	}
	text, err := Text(&k)
	if err != nil || text == "" {
		return nil, err
	}
	return strings.Split(lastLines(text, lines), "\n"), nil
}
