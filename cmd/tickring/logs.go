package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

type logsCmd struct {
	What   string `arg:"" placeholder:"JOB|RUN" help:"Run, or a job. For a job, the log of its running run is shown, or of its last run if none is running."`
	Follow bool   `short:"f" help:"Show new lines until the run has ended."`
	From   int    `placeholder:"LINE" help:"Number of the first line to show (default: 1)."`
	Tail   int    `placeholder:"LINES" help:"Number of lines to show from the end of the log, at most 10000 (default: all lines)."`
}

func (c *logsCmd) Run(e *conn) error {
	if c.From < 0 || c.Tail < 0 || c.From > 0 && c.Tail > 0 {
		return usagef("--from and --tail: set only one of them, to 1 or more")
	}
	var run client.Run
	var err error
	switch kindOf(c.What) {
	case appKind:
		return usagef("name a job (app/name) or a run")
	case jobKind:
		if run, err = e.lastLogged(c.What); err != nil {
			return err
		}
		e.notef("run %s   %s   %s\n", run.ID, e.full(run.ScheduledAt, run.Timezone), e.stateText(&run))
	case runKind:
		if run, err = e.run(c.What); err != nil {
			return err
		}
		if run.Skip != nil {
			return &exitError{exitNotFound, errors.New("no run exists for this scheduled time: " + e.skipLine(run.Skip, run.Timezone))}
		}
	}
	if !core.State(run.State).Open() && run.SentAt.IsZero() {
		return &exitError{exitNotFound, fmt.Errorf("run %s has no log: the run was never sent (%s)   more: tickring run %s",
			run.ID, e.stateText(&run), run.ID)}
	}
	return c.show(e, run)
}

func (c *logsCmd) show(e *conn, run client.Run) error {
	wait, told, shown := 200*time.Millisecond, false, false
	for from, tail := max(c.From, 1), c.Tail; ; {
		open := core.State(run.State).Open()
		log, err := e.GetLog(e.Ctx, run.ID, client.GetLogParams{From: from, Tail: tail})
		switch {
		case err != nil && (!c.Follow || exitOf(err) != exitNotFound || !open):
			return err
		case open && from == 1 && (err != nil || log.Next <= 1):
			// The log is empty. For a run in its queue, an xxl-job executor reports that the run has no log, and that this is the end.
			if !c.Follow {
				e.notef("no log lines yet: the executor has not started the run, or the run wrote nothing   to wait: tickring logs %s -f\n", run.ID)
				return nil
			}
			if !told {
				e.notef("no log lines yet: the executor has not started the run, or the run wrote nothing; waiting\n")
				told = true
			}
		case err == nil:
			tail, shown = 0, shown || log.Text != ""
			if e.json() {
				if err := e.printJSON(log); err != nil {
					return err
				}
			} else {
				if log.Kept != nil && !told {
					told = true
					e.notef("%s\n", e.keptText(log.Kept, run.Timezone))
				}
				text := log.Text
				if text != "" && !strings.HasSuffix(text, "\n") {
					text += "\n"
				}
				e.printf("%s", text)
			}
			if log.End || !c.Follow && (c.Tail > 0 && open || log.Next <= from || log.Text == "") {
				if !shown && c.From > 1 {
					return &exitError{exitNotFound, fmt.Errorf("run %s: the log has no line %d (--from)", run.ID, c.From)}
				}
				return nil
			}
			if log.Next > from && log.Text != "" {
				from = log.Next
				continue
			}
			from = max(from, log.Next)
		}
		if !open {
			return nil // it had ended before this last request
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

// lastLogged returns the running run of a job, or its newest run. If several were sent, it returns the first: executors queue the
// others after it.
func (e *conn) lastLogged(job string) (client.Run, error) {
	now := time.Now()
	page, _, err := e.runPage(client.ListRunsParams{Job: job, State: []string{string(core.Running)}, To: now}, 100)
	if err == nil && len(page.Runs) == 0 {
		page, _, err = e.runPage(client.ListRunsParams{Job: job, To: now}, 1)
	}
	if err == nil && len(page.Runs) == 0 {
		err = &exitError{exitNotFound, fmt.Errorf("%s has no runs yet: tickring trigger %s", job, job)}
	}
	if err != nil {
		return client.Run{}, err
	}
	return slices.MinFunc(page.Runs, func(a, b client.Run) int {
		if a.SentAt.IsZero() || b.SentAt.IsZero() {
			return b.SentAt.Compare(a.SentAt) // a run that is still being sent comes last
		}
		return a.SentAt.Compare(b.SentAt)
	}), nil
}

// keptText describes the part of a log that was kept, and the missing part.
func (e *conn) keptText(k *client.KeptLog, zone string) string {
	if k.Message {
		missing := ""
		if k.More {
			missing = fmt.Sprintf("   missing: everything after the first %d characters", core.MessageMax)
		}
		return "this text is the message of the run, not its log: " + k.Live + missing
	}
	if k.Why != "" {
		return fmt.Sprintf("the log could not be stored (%s), and the executor does not return it: %s", k.Why, k.Live)
	}
	missing := "complete"
	switch {
	case k.From > 1 && k.Cut > 0:
		missing = fmt.Sprintf("missing: lines 1 to %d, and the first %d bytes of line %d", k.From-1, k.Cut, k.From)
	case k.From > 1:
		missing = fmt.Sprintf("missing: lines 1 to %d", k.From-1)
	case k.Cut > 0:
		missing = fmt.Sprintf("missing: the first %d bytes of line 1", k.Cut)
	case k.More:
		missing = "missing: the end of the log"
	}
	if k.More && k.From+int(k.Cut) > 1 {
		missing += ", and the end of the log"
	}
	return fmt.Sprintf("stored part of the log, from %s   %s\nthe executor does not return the log: %s",
		e.full(k.At, zone), missing, e.firstLine(k.Live))
}
