package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
)

type triggerCmd struct {
	Job     string   `arg:"" placeholder:"JOB" help:"The job to run."`
	Params  *string  `placeholder:"TEXT" help:"In place of the job's."`
	At      string   `placeholder:"TIME" help:"Later: 18:00, 10m, 2026-12-24T18:00 in the job's zone."`
	Address []string `placeholder:"ADDRESS" help:"In place of the app's executors."`
	Key     string   `placeholder:"KEY" help:"The same key answers the same run, until a day after that has ended."`
	Retry   *int     `placeholder:"N" help:"In place of the job's."`
	Wait    bool     `help:"Follow it to its end; the exit code tells how it ended."`
}

func (c *triggerCmd) Run(e *Env) error {
	cl, err := e.api()
	if err != nil {
		return err
	}
	app, name, err := e.jobName(c.Job)
	if err != nil {
		return err
	}
	body := api.TriggerRequest{Params: c.Params, Addresses: c.Address, Key: c.Key, Retries: c.Retry, Cause: string(core.CauseManual)}
	if c.At != "" {
		j, err := cl.GetJob(e.Ctx, app, name)
		if err != nil {
			return err
		}
		if body.At, err = parseTime("at", c.At, e.zone(j.Schedule.Timezone), time.Now(), false); err != nil {
			return err
		}
	}
	res, err := cl.TriggerJob(e.Ctx, app, name, body)
	if err != nil {
		return err
	}
	if !c.Wait {
		if e.json() {
			return e.printJSON(res)
		}
		r := &res.Run
		switch {
		case res.Existing:
			e.printf("run %s   %s   the key was used before   %s\n", r.ID, runName(r), stateText(r))
		case res.Waiting:
			e.printf("run %s   %s   waits for %s   change: tickring edit-trigger %s   cancel: tickring kill %s\n", r.ID, runName(r), e.full(r.DueAt, r.Timezone), r.ID, r.ID)
		default:
			e.printf("run %s   %s   triggered   how it goes: tickring run %s\n", r.ID, runName(r), r.ID)
		}
		return nil
	}
	run, err := e.follow(res.Run)
	if err != nil {
		return err
	}
	if e.json() {
		if err := e.printJSON(run); err != nil {
			return err
		}
	} else {
		e.printEnd(&run)
	}
	return exitWith(exitOfRun(&run))
}

type editCmd struct {
	What    string   `arg:"" name:"run" placeholder:"RUN" help:"A trigger that waits: by ID, or app/name#KEY."`
	At      string   `placeholder:"TIME" help:"When instead: 18:00, 10m, 2026-12-24T18:00 in the job's zone."`
	Params  *string  `placeholder:"TEXT" help:"In place of the job's."`
	Address []string `placeholder:"ADDRESS" help:"In place of the app's executors; '' is these again."`
}

func (c *editCmd) Run(e *Env) error {
	if c.At == "" && c.Params == nil && c.Address == nil {
		return usagef("say what becomes of it: --at, --params or --address")
	}
	cl, err := e.api()
	if err != nil {
		return err
	}
	run, err := e.run(c.What)
	if err != nil {
		return err
	}
	body := api.TriggerChange{Params: c.Params}
	if c.Address != nil {
		list := slices.DeleteFunc(slices.Clone(c.Address), func(a string) bool { return a == "" })
		body.Addresses = &list
	}
	if c.At != "" {
		if body.At, err = parseTime("at", c.At, e.zone(run.Timezone), time.Now(), false); err != nil {
			return err
		}
	}
	res, err := cl.ChangeRun(e.Ctx, run.ID, body)
	if err != nil {
		return err
	}
	if e.json() {
		return e.printJSON(res)
	}
	r := &res.Run
	if !res.Waiting {
		e.printf("run %s   %s   goes at %s   how it goes: tickring run %s\n", r.ID, runName(r), e.full(r.DueAt, r.Timezone), r.ID)
		return nil
	}
	e.printf("run %s   %s   waits for %s   change: tickring edit-trigger %s   cancel: tickring kill %s\n", r.ID, runName(r), e.full(r.DueAt, r.Timezone), r.ID, r.ID)
	return nil
}

// follow waits for the end of a run and of the retries that follow it.
func (e *Env) follow(run api.Run) (api.Run, error) {
	cl, err := e.api()
	if err != nil {
		return run, err
	}
	wait := 20 * time.Millisecond
	for fails := 0; ; {
		if !core.State(run.State).Open() {
			if run.Then == "" {
				return run, nil
			}
			if !e.json() {
				e.printEnd(&run)
			}
			run.ID, run.Then, run.State = run.Then, "", string(core.Planned)
		}
		if !e.wait(wait) {
			return run, fmt.Errorf("no longer waited for: it goes on; how it goes: tickring run %s", run.ID)
		}
		wait = min(wait*3/2, time.Second)
		next, err := cl.GetRun(e.Ctx, run.ID)
		switch {
		case err == nil:
			run, fails = next, 0
		case (exitOf(err) == exitNotFound || exitOf(err) == exitFailed) && fails < 30 && e.Ctx.Err() == nil:
			fails++ // a retry that is owed is not there at once; a server may restart
		case e.Ctx.Err() != nil:
		default:
			return run, err
		}
	}
}

func exitOfRun(r *api.Run) int {
	switch core.State(r.State) {
	case core.Succeeded:
		return exitDone
	case core.Skipped:
		return exitSkipped
	}
	return exitFailed
}

// printEnd is one line on how a run ended.
func (e *Env) printEnd(r *api.Run) {
	parts := []string{"run " + r.ID, runName(r)}
	if r.Address != "" {
		parts = append(parts, r.Address)
	}
	state := stateText(r)
	if !r.SentAt.IsZero() && !r.EndedAt.IsZero() {
		state += " in " + took(r)
	}
	parts = append(parts, state)
	if r.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", r.Attempt))
	}
	if m := e.firstLine(r.Message); m != "" {
		parts = append(parts, m)
	}
	if r.Then != "" {
		parts = append(parts, "tried again as "+r.Then)
	}
	e.printf("%s\n", oneLine(strings.Join(parts, "   ")))
}

type killCmd struct {
	What string `arg:"" placeholder:"RUN|JOB" help:"A run (by ID, app/name@instant, app/name#key), or a job: all its runs."`
}

func (c *killCmd) Run(e *Env) error {
	cl, err := e.api()
	if err != nil {
		return err
	}
	var ask func(after string) (api.StopResult, error)
	what := c.What
	switch kindOf(c.What) {
	case appKind:
		return usagef("name a run or a job (app/name); to stop the schedules of an app: tickring pause %s", c.What)
	case jobKind:
		app, name, err := e.jobName(c.What)
		if err != nil {
			return notRun(err, c.What)
		}
		ask = func(after string) (api.StopResult, error) {
			return cl.KillJob(e.Ctx, app, name, api.KillJobParams{After: after})
		}
	case runKind:
		run, err := e.run(c.What)
		if err != nil {
			return err
		}
		what = "run " + run.ID
		ask = func(after string) (api.StopResult, error) {
			return cl.KillRun(e.Ctx, run.ID, api.KillRunParams{After: after})
		}
	}
	res := api.StopResult{Cancelled: []string{}, Killed: []string{}}
	_, err = pages(e, "", pageOf[api.StopResult]{
		ask: ask,
		add: func(page *api.StopResult) string { return addStop(&res, page) },
		told: func() string {
			return fmt.Sprintf("%s marked, %d addresses told", plural(len(res.Killed), "run"), len(res.Sent))
		},
	})
	if err != nil {
		if res.Changed {
			err = e.cutOff(err, fmt.Sprintf("%s marked, %d addresses told, and there are more", plural(len(res.Killed), "run"), len(res.Sent)), "tickring", "kill", c.What)
		}
		return err
	}
	if e.json() {
		return e.printJSON(res)
	}
	for _, id := range res.Cancelled {
		e.printf("cancelled run %s: it was not sent yet\n", id)
	}
	for _, id := range res.Killed {
		e.printf("run %s is to end   see: tickring run %s\n", id, id)
	}
	for _, a := range res.Sent {
		if a.Problem != "" {
			e.printf("%s: %s\n", a.Address, oneLine(a.Problem))
		}
	}
	if res.Partial {
		e.printf("more of it is running than a kill looks at: once these have ended: tickring kill %s\n", c.What)
	}
	if len(res.Cancelled)+len(res.Killed) == 0 {
		e.printf("%s: nothing of it is running\n", what)
	}
	return nil
}

type runsCmd struct {
	What  string   `arg:"" optional:"" placeholder:"JOB|APP" help:"Of one job or app; of all if left out."`
	State []string `placeholder:"STATE" help:"Only these: planned, queued, running, succeeded, failed, timed-out, killed, lost, skipped."`
	From  string   `placeholder:"TIME" help:"From: 2026-11-20, 02:30, 2h (ago)."`
	To    string   `placeholder:"TIME" help:"Up to."`
	Limit int      `default:"20" help:"At most so many."`
}

func (c *runsCmd) Run(e *Env) error {
	cl, err := e.api()
	if err != nil {
		return err
	}
	if c.Limit < 1 {
		return core.Invalid("limit", fmt.Sprint(c.Limit), "at least 1")
	}
	params := api.ListRunsParams{State: c.State}
	zone := ""
	switch {
	case c.What == "":
	case kindOf(c.What) == appKind:
		a, err := e.app(c.What)
		if err != nil {
			return err
		}
		params.App = a.Name
	case kindOf(c.What) == jobKind:
		params.Job = c.What
		j, err := e.job(c.What)
		switch {
		case err == nil:
			zone = j.Schedule.Timezone
		case exitOf(err) == exitNotFound && !strings.Contains(c.What, "/"): // deleted: its runs stay
		default:
			return err
		}
	default:
		return (&runCmd{Name: c.What}).Run(e)
	}
	if params.From, params.To, err = e.spanOf(c.From, c.To, zone); err != nil {
		return err
	}
	page, err := e.runPage(cl, params, c.Limit)
	if err != nil {
		return err
	}
	if e.json() {
		return e.printJSON(page)
	}
	if len(page.Runs) == 0 && len(page.Skips) == 0 {
		e.printf("no runs%s   what comes: tickring upcoming\n", of(c.What))
		return nil
	}
	e.printRuns(&page, zone)
	if page.Next != "" {
		e.printf("there are more: --limit %d\n", c.Limit*5)
	}
	return nil
}

func of(what string) string {
	if what == "" {
		return ""
	}
	return " of " + what
}

// spanOf reads the two ends of a span in the past; empty ends stay open.
func (e *Env) spanOf(from, to, zone string) (f, t time.Time, err error) {
	now, loc := time.Now(), e.zone(zone)
	if from != "" {
		if f, err = parseTime("from", from, loc, now, true); err != nil {
			return
		}
	}
	if to != "" {
		t, err = parseTime("to", to, loc, now, true)
	}
	return
}

func (e *Env) printRuns(page *api.RunPage, zone string) {
	rows := [][]string{{"RUN", "APP/JOB", "SCHEDULED", "LATE", "TOOK", "CAUSE", "STATE", ""}}
	for i := range page.Runs {
		r := &page.Runs[i]
		rows = append(rows, []string{r.ID, runName(r), e.full(r.ScheduledAt, r.Timezone), lateness(r), took(r), r.Cause, stateText(r), e.firstLine(r.Message)})
	}
	table(e.Stdout, rows)
	// A record that reaches over two pages comes with both.
	slices.SortStableFunc(page.Skips, func(a, b api.Skip) int { return b.FirstAt.Compare(a.FirstAt) })
	page.Skips = slices.Compact(page.Skips)
	for _, s := range page.Skips {
		e.printf("%s\n", e.skipLine(&s, zone))
	}
}

func (e *Env) skipLine(s *api.Skip, zone string) string {
	if s.Count == 1 {
		return fmt.Sprintf("skipped: %s   %s", s.Reason, e.full(s.FirstAt, zone))
	}
	return fmt.Sprintf("skipped: %s   %d instants from %s to %s", s.Reason, s.Count, e.full(s.FirstAt, zone), e.full(s.LastAt, zone))
}

type runCmd struct {
	Name string `arg:"" name:"run" placeholder:"RUN" help:"ID, app/name@2026-11-20T02:30 in the job's zone, or app/name#KEY."`
}

func (c *runCmd) Run(e *Env) error {
	r, err := e.run(c.Name)
	if err != nil {
		return err
	}
	if e.json() {
		return e.printJSON(r)
	}
	if r.Skip != nil {
		e.printf("%s   %s\n", runName(&r), e.skipLine(r.Skip, r.Timezone))
		switch core.Reason(r.Skip.Reason) {
		case core.ReasonMisfire, core.ReasonDeadline:
			e.printf("there is no run of it: it came too late for the job's misfire, grace and deadline: tickring describe %s\n", runName(&r))
		default:
			e.printf("there is no run of it   who changed what: tickring changes %s\n", runName(&r))
		}
		return nil
	}
	rows := [][]string{{"run " + r.ID, runName(&r) + "   " + stateText(&r)}}
	add := func(name, value string) {
		if value != "" && value != "-" {
			rows = append(rows, []string{"  " + name, value})
		}
	}
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
		}
		add("sent", sent)
	}
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
	table(e.Stdout, rows)
	if r.Message != "" {
		e.printf("%s\n", strings.TrimRight(plain(r.Message), "\n"))
	}
	if r.Late != nil {
		e.printf("after that it was reported, at %s: code %d %s\n", e.full(r.Late.At, r.Timezone), r.Late.Code, e.firstLine(plain(r.Late.Message)))
	}
	switch {
	case r.State == string(core.Planned):
		if r.Cause == string(core.CauseManual) || r.Cause == string(core.CauseAPI) {
			e.printf("change: tickring edit-trigger %s   ", r.ID)
		}
		e.printf("cancel: tickring kill %s\n", r.ID)
	case core.State(r.State).Open():
		e.printf("its log: tickring logs %s -f   end it: tickring kill %s\n", r.ID, r.ID)
	case !r.SentAt.IsZero():
		e.printf("its log: tickring logs %s\n", r.ID)
	case r.Reason == string(core.ReasonNoExecutor):
		e.printf("who is there: tickring executors %s\n", r.App)
	}
	return nil
}

type logsCmd struct {
	What   string `arg:"" placeholder:"JOB|RUN" help:"A run, or a job: its last run."`
	Follow bool   `short:"f" help:"Go on until the run has ended."`
}

func (c *logsCmd) Run(e *Env) error {
	cl, err := e.api()
	if err != nil {
		return err
	}
	var run api.Run
	switch kindOf(c.What) {
	case appKind:
		return usagef("name a job (app/name) or a run")
	case jobKind:
		page, err := e.runPage(cl, api.ListRunsParams{Job: c.What, To: time.Now()}, 1)
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
		return &exitError{exitNotFound, fmt.Errorf("run %s has no log: it was never sent (%s)   more: tickring run %s", run.ID, stateText(&run), run.ID)}
	}
	wait := 200 * time.Millisecond
	for from := 1; ; {
		log, err := cl.GetLog(e.Ctx, run.ID, api.GetLogParams{From: from})
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
		if run, err = cl.GetRun(e.Ctx, run.ID); err != nil {
			return err
		}
	}
}
