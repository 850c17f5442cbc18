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

// Beat checks whether the executor at address is available.
func (a asks) Beat(ctx context.Context, app *core.App, address string) error {
	_, err := a.AskClock(ctx, app, address)
	return err
}

// AskClock checks whether an executor is available, and also returns the difference between its clock and the server's
// clock. If the caller's own ctx has ended, the answer proves nothing and is not recorded.
func (a asks) AskClock(ctx context.Context, app *core.App, address string) (core.Clock, error) {
	begun := time.Now()
	clock, err := a.Sender.AskClock(ctx, app, address)
	if ctx.Err() == nil {
		a.known.Asked(app.Name, address, begun, clock, err)
	}
	return clock, err
}

// sendOf converts the answer to a send into evidence about its address; counts is false if the answer is not evidence.
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
