package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
)

type logsCmd struct {
	What   string `arg:"" placeholder:"JOB|RUN" help:"A run, or a job: its last run."`
	Follow bool   `short:"f" help:"Go on until the run has ended."`
}

func (c *logsCmd) Run(e *conn) error {
	var run api.Run
	var err error
	switch kindOf(c.What) {
	case appKind:
		return usagef("name a job (app/name) or a run")
	case jobKind:
		page, err := e.runPage(api.ListRunsParams{Job: c.What, To: time.Now()}, 1)
		if err != nil {
			return err
		}
		if len(page.Runs) == 0 {
			return &exitError{exitNotFound, fmt.Errorf("%s has no run yet: tickring trigger %s", c.What, c.What)}
		}
		run = page.Runs[0]
		e.notef("run %s   %s   %s\n", run.ID, e.full(run.ScheduledAt, run.Timezone), stateText(&run))
	case runKind:
		if run, err = e.run(c.What); err != nil {
			return err
		}
		if run.Skip != nil {
			return &exitError{exitNotFound, errors.New("there is no run of this instant: it was " + e.skipLine(run.Skip, run.Timezone))}
		}
	}
	if !core.State(run.State).Open() && run.SentAt.IsZero() {
		return &exitError{exitNotFound, fmt.Errorf("run %s has no log: it was never sent (%s)   more: tickring run %s",
			run.ID, stateText(&run), run.ID)}
	}
	wait := 200 * time.Millisecond
	for from := 1; ; {
		log, err := e.GetLog(e.Ctx, run.ID, api.GetLogParams{From: from})
		switch {
		case err != nil && (!c.Follow || exitOf(err) != exitNotFound || !core.State(run.State).Open()):
			return err
		case err == nil:
			if e.json() {
				if err := e.printJSON(log); err != nil {
					return err
				}
			} else {
				text := plain(log.Text)
				if text != "" && !strings.HasSuffix(text, "\n") {
					text += "\n"
				}
				e.printf("%s", text)
			}
			if log.End || !c.Follow && (log.Next <= from || log.Text == "") {
				return nil
			}
			if log.Next > from && log.Text != "" {
				from = log.Next
				continue
			}
			from = max(from, log.Next)
		}
		if !core.State(run.State).Open() {
			return nil // it had ended before this last look
		}
		if !e.wait(wait) {
			return nil
		}
		wait = min(wait*3/2, 2*time.Second)
		if run, err = e.GetRun(e.Ctx, run.ID); err != nil {
			return err
		}
	}
}
