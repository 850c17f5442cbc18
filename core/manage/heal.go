package manage

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
)

// healer is who sends again what the ring lost.
const healer = "tickring"

// Heal goes on with sending again what a tick found that the ring lost: it walks over
// all jobs, page by page, and stores where it is after each, so that whoever calls
// it next goes on there. It begins no page that could not end before the deadline
// of ctx. A job that cannot be read is passed over, and the error names it. Two at
// a time only make copies.
func (m *Manage) Heal(ctx context.Context) (sent int64, err error) {
	var failed []string // jobs that nobody can look at: the walk ends without them
	defer func() {
		if err == nil && len(failed) > 0 {
			err = core.Errorf(core.CodeInternal, "jobs that were not looked at: %s", strings.Join(failed, "; "))
		}
	}()
	for refused := 0; refused < tries; {
		if end, ok := ctx.Deadline(); ok && time.Until(end) < 2*m.o.PageFor {
			return sent, nil
		}
		g, err := m.store.Global(ctx)
		if err != nil {
			return sent, passing(err)
		}
		if g.Loss.From == 0 {
			return sent, nil
		}
		page, err := m.ReplanPage(ctx, Actor{Name: healer}, AuditAsk{From: g.Loss.From, After: g.Loss.Next})
		sent += page.Sent
		if err != nil {
			return sent, err
		}
		next := g
		next.Loss.Next = page.Next
		if page.Next == "" {
			next.Loss = core.Loss{At: m.now(), Again: g.Loss.Again}
		}
		next.Rev = max(g.Rev+1, core.Millis(m.now()))
		switch err := m.store.PutGlobal(ctx, g.Rev, next); {
		case errors.Is(err, core.ErrRefused): // somebody changed it meanwhile: the page is made again
			refused++
		case err != nil:
			return sent, passing(err)
		default:
			failed = atMost(failed, page.Failed...)
		}
	}
	return sent, nil
}
