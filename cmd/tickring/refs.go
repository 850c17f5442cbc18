package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/paging"
)

// kind is the type of object that a name on the command line stands for.
type kind int

const (
	appKind kind = iota
	jobKind
	runKind
)

// kindOf decides by form: app/name and small numbers are jobs, large numbers and app/name@instant (or #key) are runs, everything
// else is an app.
func kindOf(text string) kind {
	if strings.ContainsAny(text, "@#") {
		return runKind
	}
	if strings.Contains(text, "/") {
		return jobKind
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return appKind
	case n > math.MaxInt32:
		return runKind
	}
	return jobKind
}

// appOrJob returns the name of an app as app, and each other name as job.
func appOrJob(name string) (app, job string) {
	if kindOf(name) == appKind {
		return name, ""
	}
	return "", name
}

// jobName is the app and name of a job; a number is looked up.
func (e *conn) jobName(text string) (app, name string, err error) {
	app, name, ok := strings.Cut(text, "/")
	if !ok {
		j, err := e.job(text)
		return j.App, j.Name, err
	}
	if err := core.CheckAppName("job", app); err != nil {
		return "", "", err
	}
	return app, name, core.CheckName("job", name)
}

// job reads a job by app/name or number.
func (e *conn) job(text string) (client.Job, error) {
	if strings.Contains(text, "/") {
		app, name, err := e.jobName(text)
		if err != nil {
			return client.Job{}, err
		}
		return e.GetJob(e.Ctx, app, name)
	}
	if _, err := strconv.ParseInt(text, 10, 32); err != nil {
		return client.Job{}, core.Invalid("job", text, "write a job as app/name or as its number")
	}
	return e.GetJobByNumber(e.Ctx, text)
}

// zoneOf is the zone of a job. One that is asked for by its number may be deleted: its
// runs stay.
func (e *conn) zoneOf(job string) (string, error) {
	j, err := e.job(job)
	if exitOf(err) == exitNotFound && !strings.Contains(job, "/") {
		err = nil
	}
	return j.Schedule.Timezone, err
}

// run reads a run by ID, as app/name@instant, or as app/name#key.
func (e *conn) run(text string) (client.Run, error) {
	job, at, byInstant := strings.Cut(text, "@")
	job, key, byKey := strings.Cut(job, "#")
	how := core.Invalid("run", text,
		"write a run as its ID (at least ten digits, such as 17179869185), as app/name@2026-11-20T02:30 or app/name@02:30, or as app/name#KEY")
	if byInstant && at == "" || byKey && key == "" {
		return client.Run{}, how
	}
	if !byInstant && !byKey {
		if _, err := core.ParseRunID(text); err != nil {
			return client.Run{}, how
		}
		run, err := e.GetRun(e.Ctx, text)
		return run, notRun(err, text)
	}
	app, name, err := e.jobName(job)
	if err != nil {
		return client.Run{}, err
	}
	if byInstant {
		return e.GetRunAt(e.Ctx, app, name, at)
	}
	return e.GetRunByKey(e.Ctx, app, name, key)
}

// notRun adds the format of run IDs to a not-found error about a number.
func notRun(err error, text string) error {
	r, ok := errors.AsType[*client.Error](err)
	if _, nerr := strconv.ParseInt(text, 10, 64); ok && nerr == nil && r.Code == string(core.CodeNotFound) {
		r.Message += "; a run is written as its ID (at least ten digits) or as app/name@2026-11-20T02:30; to list runs: tickring runs"
	}
	return err
}

// each calls do for each of the names, or for the jobs with the labels, of the named apps or of all. It continues after errors and
// returns the first one's exit code.
func (e *conn) each(names, labels []string, do func(name string) error) error {
	names, err := e.named(names, labels)
	if err != nil {
		return err
	}
	if len(names) == 1 {
		return do(names[0])
	}
	var first error
	for i, name := range names {
		err := do(name)
		if err == nil {
			continue
		}
		if e.Ctx.Err() != nil || errors.Is(err, client.ErrNoAnswer) {
			return e.interrupted(err, fmt.Sprintf("%d of %d done", i, len(names)), "repeat the command")
		}
		if text := e.errorText(err); text != "" {
			e.notef("tickring: %s: %s\n", name, text)
		}
		if first == nil {
			first = err
		}
	}
	return exitWith(exitOf(first))
}

// named returns the objects of a command: the names as given, or the jobs with the labels.
func (e *conn) named(names, labels []string) ([]string, error) {
	if len(labels) == 0 {
		if len(names) == 0 {
			return nil, usagef("name one or more jobs, or select jobs by label with -l KEY=VALUE")
		}
		return names, nil
	}
	apps := names
	if len(apps) == 0 {
		apps = []string{""}
	}
	var found []string
	for _, app := range apps {
		if app != "" && kindOf(app) != appKind {
			return nil, usagef("-l selects jobs: with -l, name only apps, not %s", app)
		}
		jobs, failed, err := e.jobs(client.ListJobsParams{App: app, Label: labels})
		if err != nil {
			return nil, err
		}
		for _, f := range failed {
			e.notef("job %d cannot be read: %s\n", f.Number, oneLine(f.Message))
		}
		for _, j := range jobs {
			found = append(found, j.App+"/"+j.Name)
		}
	}
	if len(found) == 0 {
		return nil, noLabel(labels)
	}
	return found, nil
}

func noLabel(labels []string) error {
	return &exitError{exitNotFound, fmt.Errorf("no job has the label %s: tickring describe JOB shows the labels of a job",
		strings.Join(labels, " and "))}
}

// jobs reads all jobs that params mean, and which cannot be read.
func (e *conn) jobs(params client.ListJobsParams) (jobs []client.Job, failed []client.UnreadableJob, err error) {
	jobs = []client.Job{}
	params.Limit = 1000
	_, err = pages(e, "", paging.Pages[client.JobPage]{
		Ask: func(string) (client.JobPage, error) { return e.ListJobs(e.Ctx, params) },
		Add: func(page *client.JobPage) string {
			if page.Partial && params.Cursor == "" { // the server is still computing the states of some jobs
				return "again"
			}
			jobs, failed, params.After, params.Cursor = append(jobs, page.Jobs...), append(failed, page.Failed...), page.Next, page.Cursor
			return cmp.Or(page.Cursor, behind(page.Next))
		},
		Progress: func() string { return plural(len(jobs), "job") + " read" },
	})
	return jobs, failed, err
}

// behind is the place of a number; 0 is none.
func behind(job int32) string {
	if job == 0 {
		return ""
	}
	return strconv.Itoa(int(job))
}

// apps reads all apps. It warns about apps that cannot be read; short reports whether there are any.
func (e *conn) apps() (list []client.App, short bool, err error) {
	all, err := e.ListApps(e.Ctx)
	for _, f := range all.Failed {
		e.notef("app %s cannot be read: %s\n", f.Name, oneLine(f.Message))
	}
	return all.Apps, len(all.Failed) > 0, err
}

func covers(p *client.Pause, now time.Time) bool {
	return p != nil && !now.Before(p.From) && (p.Until.IsZero() || now.Before(p.Until))
}

func (e *conn) app(name string) (client.App, error) {
	if err := core.CheckAppName("app", name); err != nil {
		return client.App{}, err
	}
	return e.GetApp(e.Ctx, name)
}
