package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/query"
)

// Beats asks addresses for a heartbeat and their clock; *send.Sender implements it.
type Beats interface {
	AskClock(ctx context.Context, app *core.App, address string) (core.Clock, error)
}

// testFor is the time within which an executor must answer a test.
const testFor = 5 * time.Second

// TestExecutor sends a heartbeat request to an executor and returns its answer. The request contains the token of the
// app, so the address must be an executor of the app.
func (s *server) TestExecutor(r *http.Request, app string, body client.ExecutorTestRequest) (any, error) {
	body.Address = core.NormalAddress(body.Address)
	beats, can := s.logs.(Beats)
	if !can {
		return nil, core.Errorf(core.CodeRefused, "this server does not send runs to executors")
	}
	a, err := s.m.App(r.Context(), app)
	if err != nil {
		return nil, err
	}
	list, err := s.m.Executors(r.Context(), app)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(list, func(e query.ExecutorView) bool { return e.Address == body.Address }) {
		return nil, &core.Error{Code: core.CodeNotFound, Field: "address", Value: core.Truncate(body.Address),
			Reason: core.Say("app %s has no executor at this address", app)}
	}
	ctx, cancel := context.WithTimeout(r.Context(), testFor)
	defer cancel()
	begin := time.Now()
	clock, err := beats.AskClock(ctx, &a, body.Address)
	out := client.ExecutorTest{Address: body.Address, Ok: err == nil, TookMs: time.Since(begin).Milliseconds(), ClockAheadMs: aheadOf(clock)}
	switch {
	case ctx.Err() != nil && r.Context().Err() == nil:
		out.Problem = core.Say("no answer within %s", testFor).String()
	case err != nil:
		out.Problem = err.Error()
	}
	return out, nil
}

// aheadOf returns how far a clock is ahead; nil means unknown.
func aheadOf(c core.Clock) *int64 {
	if !c.Known {
		return nil
	}
	return new(int64(c.Ahead) * 1000)
}
