package server

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/probe"
	"github.com/tickring/tickring/send"
)

// asks is the sender that has the probe note the answers to its questions.
type asks struct {
	*send.Sender
	known *probe.Probe
}

// note passes err on. The end of the caller's own time says nothing of the address.
func (a asks) note(ctx context.Context, app *core.App, address string, begun time.Time, clock core.Clock, err error) error {
	if ctx.Err() == nil {
		a.known.Asked(app.Name, address, begun, clock, err)
	}
	return err
}

// Beat asks an address whether it is there.
func (a asks) Beat(ctx context.Context, app *core.App, address string) error {
	_, err := a.AskClock(ctx, app, address)
	return err
}

// AskClock is Beat that returns how the clock of an executor stands.
func (a asks) AskClock(ctx context.Context, app *core.App, address string) (core.Clock, error) {
	begun := time.Now()
	clock, err := a.Sender.AskClock(ctx, app, address)
	return clock, a.note(ctx, app, address, begun, clock, err)
}

// sendOf is what a send tells of its address; false if it tells nothing.
func sendOf(a *dispatch.Answer) (s probe.Send, counts bool) {
	switch {
	case a.Ours:
		return s, false
	case a.Kind == dispatch.AnswerUnconfirmed:
		s = probe.Send{Problem: core.CutAnswer(a.Message), Reached: !a.TimedOut}
	case a.Kind == dispatch.AnswerRefused:
		s = probe.Send{Problem: core.CutAnswer(a.Message), Reached: a.Code != 0, Refused: a.Code != 0}
	case a.TimedOut:
		s.Problem = core.CutAnswer(a.Message)
	}
	if s.Problem == "" && a.Kind == dispatch.AnswerRefused {
		s.Problem = "refused"
	}
	return s, true
}
