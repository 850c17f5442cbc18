package operate

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/query"
)

// healer is the actor of the repair of a lost ring.
const healer = "tickring"

// Heal sends runs again that the delay queue lost, if the planner recorded such a loss. Heal checks all jobs in pages, and
// stores its progress after each page, so that the next call continues there. Heal starts no page that could exceed the
// deadline of ctx. Jobs that cannot be read are skipped and named in the error. Concurrent calls are harmless. Heal returns
// the number of runs sent.
func (op *Operate) Heal(ctx context.Context) (sent int64, err error) {
	var failed []string // unreadable jobs, which the scan skips
	defer func() {
		if err == nil && len(failed) > 0 {
			err = core.Errorf(core.CodeInternal, "jobs that were not checked: %s", strings.Join(failed, "; "))
		}
	}()
	for refused := 0; refused < budget.Tries; {
		if end, ok := ctx.Deadline(); ok && time.Until(end) < 2*op.ask.PageFor() {
			return sent, nil
		}
		g, err := op.store.Global(ctx)
		if err != nil {
			return sent, core.Retryable(err)
		}
		if g.Loss.From == 0 {
			return sent, nil
		}
		page, err := op.ReplanPage(ctx, core.Actor{Name: healer}, query.AuditAsk{From: g.Loss.From, After: g.Loss.Next})
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
		case errors.Is(err, core.ErrRefused): // a concurrent change: repeat the page
			refused++
		case err != nil:
			return sent, core.Retryable(err)
		default:
			failed = query.AtMost(failed, page.Failed...)
		}
	}
	return sent, nil
}
