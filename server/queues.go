package server

import (
	"context"
	"errors"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/pullqueue"
	"github.com/tickring/tickring/send"
	"github.com/tickring/tickring/store"
)

// sentTo are the queues of a server as its sender sees them.
type sentTo struct{ p *pullqueue.Puller }

var _ send.Queues = sentTo{}

func (q sentTo) Put(ctx context.Context, app *core.App, queue string, run core.RunID, payload []byte) dispatch.Answer {
	err := q.p.Put(ctx, store.PullItem{Queue: store.PullQueue{App: app.Name, Name: queue}, Run: run, Body: payload})
	switch {
	case err == nil:
		return dispatch.Answer{Kind: dispatch.AnswerAccepted}
	case errors.Is(err, store.ErrFull):
		return dispatch.Answer{Kind: dispatch.AnswerBusy, Message: "queue " + queue + " is full: executors do not poll it fast enough"}
	case errors.Is(err, core.ErrThrottled):
		return dispatch.Answer{Kind: dispatch.AnswerBusy, Message: "the store is overloaded"}
	}
	// The run may be in the queue; a repeated put stores it once.
	return dispatch.Answer{Kind: dispatch.AnswerUnconfirmed, Message: "unknown whether the queue has the run"}
}

func (q sentTo) Polled(_ context.Context, app *core.App, queue string) error {
	return q.p.Polled(store.PullQueue{App: app.Name, Name: queue})
}

func (q sentTo) Idle(ctx context.Context, app *core.App, queue string, job core.JobID) (bool, error) {
	return q.p.Idle(ctx, store.PullQueue{App: app.Name, Name: queue}, job)
}
