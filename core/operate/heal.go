package operate

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ask"
	"github.com/tickring/tickring/core/bound"
)

// healer is who sends again what the ring lost.
const healer = "tickring"

// Heal goes on with sending again what a tick found that the ring lost: it walks over
// all jobs, page by page, and stores where it is after each, so that whoever calls
// it next goes on there. It begins no page that could not end before the deadline
// of ctx. A job that cannot be read is passed over, and the error names it. Two at
// a time only make copies.
func (op *Operate) Heal(ctx context.Context) (sent int64, err error) {
	var failed []string // jobs that nobody can look at: the walk ends without them
	defer func() {
		if err == nil && len(failed) > 0 {
			err = core.Errorf(core.CodeInternal, "jobs that were not looked at: %s", strings.Join(failed, "; "))
		}
	}()
	for refused := 0; refused < bound.Tries; {
		if end, ok := ctx.Deadline(); ok && time.Until(end) < 2*op.ask.PageFor() {
			return sent, nil
		}
		g, err := op.store.Global(ctx)
		if err != nil {
			return sent, core.Passing(err)
		}
		if g.Loss.From == 0 {
			return sent, nil
		}
		page, err := op.ReplanPage(ctx, core.Actor{Name: healer}, ask.AuditAsk{From: g.Loss.From, After: g.Loss.Next})
		sent += page.Sent
		if err != nil {
			return sent, err
		}
		next := g
		next.Loss.Next = page.Next
		if page.Next == "" {
			next.Loss = core.Loss{At: op.ask.Stamp(), Again: g.Loss.Again}
		}
		next.Rev = max(g.Rev+1, core.Millis(op.ask.Stamp()))
		switch err := op.store.PutGlobal(ctx, g.Rev, next); {
		case errors.Is(err, core.ErrRefused): // somebody changed it meanwhile: the page is made again
			refused++
		case err != nil:
			return sent, core.Passing(err)
		default:
			failed = ask.AtMost(failed, page.Failed...)
		}
	}
	return sent, nil
}
