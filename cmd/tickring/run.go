package main

import (
	"fmt"
	"strings"

	"github.com/tickring/tickring/core"
)

type runCmd struct {
	Name string `arg:"" name:"run" placeholder:"RUN" help:"ID, app/name@2026-11-20T02:30 in the job's zone, or app/name#KEY."`
}

func (c *runCmd) Run(e *conn) error {
	r, err := e.run(c.Name)
	if err != nil {
		return err
	}
	return e.show(r, func() {
		if r.Skip != nil {
			e.printf("%s   %s\n", runName(&r), e.skipLine(r.Skip, r.Timezone))
			switch core.Reason(r.Skip.Reason) {
			case core.ReasonMisfire, core.ReasonDeadline:
				e.printf("there is no run of it: it came too late for the job's misfire, grace and deadline: tickring describe %s\n", runName(&r))
			default:
				e.printf("there is no run of it   who changed what: tickring changes %s\n", runName(&r))
			}
			return
		}
		about := &card{{"run " + r.ID, runName(&r) + "   " + e.stateText(&r)}}
		add := about.add
		colours := paints{{0, 1, howText(&r), stateColour(r.State)}}
		cause := r.Cause
		if r.By != "" {
			cause += ", by " + r.By
		}
		add("cause", cause)
		add("scheduled", e.full(r.ScheduledAt, r.Timezone))
		if !r.DueAt.Equal(r.ScheduledAt) {
			add("due", e.full(r.DueAt, r.Timezone))
		}
		if !r.SentAt.IsZero() {
			sent := e.full(r.SentAt, r.Timezone)
			if r.LatenessMs != nil {
				sent += "   " + lateness(&r)
				colours = append(colours, paint{len(*about), 1, lateness(&r), lateColour(&r)})
			}
			add("sent", sent)
		}
		add("waits", e.waitText(&r))
		if !r.EndedAt.IsZero() {
			ended := e.full(r.EndedAt, r.Timezone)
			if !r.SentAt.IsZero() {
				ended += "   took " + took(&r)
			}
			add("ended", ended)
		}
		for _, t := range r.Tries {
			if t.Request != "" {
				add("invoked", t.Address+"   request "+t.Request+"   log group "+t.Log)
				continue
			}
			add("asked", strings.TrimSpace(t.Address+"   "+e.firstLine(t.Message)))
		}
		add("address", r.Address)
		if r.Attempt > 1 || r.Retries > 0 || r.Then != "" {
			add("attempt", fmt.Sprintf("%d, %d may follow", r.Attempt, r.Retries))
		}
		add("first", r.First)
		add("then", r.Then)
		add("key", r.Key)
		if r.Params != nil {
			add("params", e.firstLine(*r.Params))
		}
		if r.KillBy != "" {
			add("killed", e.full(r.KillAt, r.Timezone)+" by "+r.KillBy)
		}
		if r.Code != 0 {
			add("code", fmt.Sprint(r.Code))
		}
		add("data", e.firstLine(r.Data))
		table(e.Stdout, *about, e.paints(colours)...)
		if r.Message != "" {
			e.printf("%s\n", strings.TrimRight(r.Message, "\n"))
		}
		if r.Late != nil {
			e.printf("after that it was reported, at %s: code %d %s\n", e.full(r.Late.At, r.Timezone), r.Late.Code,
				e.firstLine(r.Late.Message))
		}
		switch {
		case r.State == string(core.Planned):
			if r.Cause == string(core.CauseManual) || r.Cause == string(core.CauseAPI) {
				e.printf("change: tickring edit-trigger %s   ", r.ID)
			}
			e.printf("cancel: tickring kill %s\n", r.ID)
		case r.State == string(core.Queued):
			e.printf("who is there: tickring executors %s   cancel: tickring kill %s\n", r.App, r.ID)
		case core.State(r.State).Open():
			e.printf("its log: tickring logs %s -f   end it: tickring kill %s\n", r.ID, r.ID)
		case !r.SentAt.IsZero():
			e.printf("its log: tickring logs %s\n", r.ID)
		case r.Reason == string(core.ReasonNoExecutor):
			e.printf("who is there: tickring executors %s\n", r.App)
		}
	})
}
