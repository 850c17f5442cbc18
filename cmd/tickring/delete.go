package main

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

type deleteCmd struct {
	What  []string `arg:"" optional:"" placeholder:"JOB|APP" help:"Jobs to delete; their runs are kept. To delete a channel: 'tickring delete channel NAME'. To delete an app: 'tickring delete app NAME'."`
	Label []string `short:"l" placeholder:"KEY=VALUE" help:"${label}"`
	Yes   bool     `short:"y" help:"Skip the confirmation."`
}

func (c *deleteCmd) Run(e *conn) error {
	if len(c.What) > 1 && c.What[0] == channelWord {
		if len(c.Label) > 0 {
			return usagef("channels have no labels")
		}
		return c.deleteChannels(e, c.What[1:])
	}
	if len(c.What) > 1 && c.What[0] == "app" { // as for channels
		c.What = c.What[1:]
		for _, name := range c.What {
			if kindOf(name) != appKind {
				return usagef("delete app %s: not the name of an app; to delete a job: tickring delete %s", name, name)
			}
		}
	}
	names, err := e.named(c.What, c.Label)
	if err != nil {
		return err
	}
	if !c.Yes {
		for i, name := range names {
			if names[i], err = e.deletable(name, names); err != nil {
				return err
			}
		}
	}
	if err := e.confirmed(c.Yes, "delete", names); err != nil {
		return err
	}
	return e.each(names, nil, func(name string) error { return c.one(e, name) })
}

// deletable returns the full name of the object to delete. It fails if the object does not exist, or if an app keeps jobs that are
// not among names.
func (e *conn) deletable(name string, names []string) (string, error) {
	switch kindOf(name) {
	case appKind:
		if _, err := e.app(name); err != nil {
			return name, err
		}
		page, err := e.ListJobs(e.Ctx, client.ListJobsParams{App: name, Limit: len(names) + 1})
		if err != nil {
			return name, err
		}
		for _, j := range page.Jobs {
			if job := j.App + "/" + j.Name; !slices.Contains(names, job) {
				return name, &exitError{exitRefused, fmt.Errorf("app %s has jobs, such as %s: delete the jobs first", name, job)}
			}
		}
		return name, err
	case runKind:
		return "", notDeleted(name)
	}
	j, err := e.job(name)
	return j.App + "/" + j.Name, err
}

func notDeleted(run string) error {
	return usagef("runs cannot be deleted; to end one: tickring kill %s", run)
}

// confirmed asks for confirmation as sure does. With --yes, it only prints the server.
func (e *Env) confirmed(yes bool, verb string, names []string) error {
	if yes {
		e.sayWhere()
		return nil
	}
	return e.sure(verb, names)
}

// sure asks the user for confirmation. Without a terminal it fails.
func (e *Env) sure(verb string, names []string) error {
	what := strings.Join(names, ", ")
	if len(names) > 3 {
		what = plural(len(names), "thing")
		e.notef("to %s:\n", verb)
		for _, name := range names {
			e.notef("  - %s\n", name)
		}
	}
	if !terminal(e.Stdin) {
		return usagef("%s %s%s: confirmation needed, but there is no terminal: use --yes", verb, what, e.at())
	}
	e.notef("%s %s%s? [y/N] ", verb, what, e.at())
	line, _ := bufio.NewReader(e.Stdin).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		e.notef("no changes were made\n")
		return exitWith(exitRefused)
	}
	return nil
}

func (c *deleteCmd) one(e *conn, what string) error {
	switch kindOf(what) {
	case appKind:
		if err := core.CheckAppName("app", what); err != nil {
			return err
		}
		res, err := e.DeleteApp(e.Ctx, what)
		return e.show(appliedOf(&client.ApplyResult{Applied: true, Apps: []client.AppResult{res}}), err, func() {
			e.printf("deleted app %s\n", res.Name)
		})
	case runKind:
		return notDeleted(what)
	}
	app, name, err := e.jobName(what)
	if err != nil {
		return err
	}
	res, err := e.DeleteJob(e.Ctx, app, name, client.DeleteJobParams{})
	return e.show(appliedOf(&client.ApplyResult{Applied: true, Jobs: []client.JobResult{res}}), err, func() {
		e.printf("deleted %s/%s (%d)   its runs are kept: tickring runs %d   undo: %s\n", res.App, res.Name, res.ID, res.ID,
			undo(fmt.Sprint(res.ID), res.Rev))
		if res.Withheld {
			e.printf("code that declares the job does not create it again until tickring return-to-code %s/%s\n", res.App, res.Name)
		}
	})
}
