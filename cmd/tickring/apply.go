package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/paging"
	"github.com/tickring/tickring/manifest"
)

type applyCmd struct {
	File   []string `short:"f" required:"" placeholder:"FILE|DIR|-" help:"Manifest file, directory, or - for standard input."`
	DryRun bool     `help:"Show the changes without applying them."`
	Prune  bool     `help:"Delete objects of the file's set that are missing from the file. The command lists these objects and asks for confirmation."`
	Yes    bool     `help:"Skip the confirmation."`
}

// applied is the output of apply -o json; its fields are stable.
type applied struct {
	Applied  bool           `json:"applied"`
	Notify   *appliedNotify `json:"notify,omitempty"`
	Channels []appliedApp   `json:"channels,omitempty"`
	Apps     []appliedApp   `json:"apps"`
	Jobs     []appliedJob   `json:"jobs"`
}

type appliedNotify struct {
	Change string        `json:"change"`
	Error  *client.Error `json:"error,omitempty"`
}

type appliedApp struct {
	Name   string        `json:"name"`
	Change string        `json:"change"`
	Error  *client.Error `json:"error,omitempty"`
}

type appliedJob struct {
	App      string        `json:"app"`
	Name     string        `json:"name"`
	ID       int32         `json:"id"`
	Change   string        `json:"change"`
	Warnings []string      `json:"warnings,omitempty"`
	Error    *client.Error `json:"error,omitempty"`
	Withheld bool          `json:"withheld,omitempty"`
}

func (c *applyCmd) Run(env *Env) error {
	doc, err := manifest.Load(c.File, env.Stdin, manifest.Options{Getenv: env.Getenv, ReadFile: namedFile, Parameter: env.parameter})
	if err != nil {
		return &exitError{exitUsage, err}
	}
	for _, w := range doc.Warnings {
		env.notef("warning: %s\n", oneLine(w.In(env.lang())))
	}
	if c.Prune && doc.Set == "" {
		return usagef("--prune: the manifest has no set: add 'set: NAME', because only objects of a set are deleted")
	}
	e, err := env.connect()
	if err != nil {
		return err
	}
	tell := e.progress()
	res, err := paging.Apply(e.Ctx, e.Client, doc, paging.Options{Prune: c.Prune, DryRun: c.DryRun,
		Sure: func(would *client.ApplyResult) (bool, error) {
			tell.end()
			return c.ask(e.Env, would)
		},
		Say: func(done, of int, what string) { tell.say("%d of %s %s", done, plural(of, "job"), what) },
	})
	tell.end()
	if ended, ok := errors.AsType[*paging.Interrupted](err); ok {
		return c.interrupted(e.Env, ended)
	}
	if err != nil {
		return err
	}
	return e.showApplied(doc, &res, c.DryRun)
}

func (c *applyCmd) interrupted(e *Env, ended *paging.Interrupted) error {
	if ended.ToBeDeleted > 0 {
		return e.interrupted(ended.Err, fmt.Sprintf("all jobs of the file are stored; %d of %s were deleted",
			ended.Deleted, plural(ended.ToBeDeleted, "job")), "repeat the command")
	}
	return e.interrupted(ended.Err, fmt.Sprintf("%d of %s are stored, and possibly up to %d more",
		ended.Stored, plural(ended.Jobs, "job"), min(api.MaxApplyJobs, ended.Jobs-ended.Stored)),
		"repeat the command: unchanged objects are skipped")
}

// ask lists the objects to delete, and asks whether to continue.
func (c *applyCmd) ask(e *Env, res *client.ApplyResult) (bool, error) {
	var names []string
	for _, j := range res.Jobs {
		if j.Change == "deleted" {
			names = append(names, j.App+"/"+j.Name)
		}
	}
	for _, a := range res.Apps {
		if a.Change == "deleted" {
			names = append(names, a.Name+" (app)")
		}
	}
	for _, c := range res.Channels {
		if c.Change == "deleted" {
			names = append(names, c.Name+" (channel)")
		}
	}
	if len(names) == 0 {
		return true, nil
	}
	if slices.Contains(c.File, "-") { // an answer to a prompt would be read from the rest of the manifest
		e.Stdin = nil
	}
	return true, e.confirmed(c.Yes, "delete", names)
}

func appliedOf(res *client.ApplyResult) applied {
	out := applied{Applied: res.Applied, Apps: make([]appliedApp, len(res.Apps)), Jobs: make([]appliedJob, len(res.Jobs))}
	if n := res.Notify; n != nil {
		out.Notify = &appliedNotify{n.Change, n.Error}
	}
	for _, c := range res.Channels {
		out.Channels = append(out.Channels, appliedApp{c.Name, c.Change, c.Error})
	}
	for i, a := range res.Apps {
		out.Apps[i] = appliedApp{a.Name, a.Change, a.Error}
	}
	for i, j := range res.Jobs {
		out.Jobs[i] = appliedJob{j.App, j.Name, j.ID, j.Change, j.Warnings, j.Error, j.Withheld}
	}
	return out
}

// marks are printed before changed objects.
var marks = map[string]string{"created": "+", "updated": "~", "deleted": "-", "refused": "!"}

// shownChanges bounds how many lines apply prints.
const shownChanges = 200

// outcome is what apply shows of one object.
type outcome struct {
	name, change string
	err          *client.Error
	lines        []string
}

func (e *Env) outcomes(doc *manifest.Document, res *client.ApplyResult) (list []outcome) {
	add := func(name, change string, err *client.Error, at manifest.Pos, lines []string, notes ...string) {
		if err != nil {
			lines = []string{place(err, at)}
		}
		list = append(list, outcome{name, change, err, append(lines, notes...)})
	}
	if n := res.Notify; n != nil {
		var lines []string
		if n.Old != nil && n.New != nil {
			lines = e.diffLines(manifest.DiffNotify(n.Old, n.New))
		}
		add("defaults (events without a job)", n.Change, n.Error, doc.NotifyAt, lines)
	}
	// The objects of the file come first, in their order, then the deleted ones.
	at := func(list []manifest.Pos, i int) (p manifest.Pos) {
		if i < len(list) {
			p = list[i]
		}
		return p
	}
	for i, c := range res.Channels {
		var lines []string
		if c.Old != nil && c.New != nil {
			lines = e.updated(manifest.DiffChannel(c.Old, c.New))
		}
		add(c.Name+" (channel)", c.Change, c.Error, at(doc.ChannelsAt, i), lines)
	}
	for i, a := range res.Apps {
		var lines []string
		if a.Old != nil && a.New != nil {
			lines = e.updated(manifest.DiffApp(a.Old, a.New))
		}
		add(a.Name+" (app)", a.Change, a.Error, at(doc.AppsAt, i), lines)
	}
	now := time.Now()
	for i, j := range res.Jobs {
		var lines, notes []string
		if j.Old != nil && j.New != nil {
			lines = e.updated(manifest.Diff(j.Old, j.New))
			if len(j.New.Next) > 0 && j.Old.Description != j.New.Description {
				lines[0] += "   next: " + e.short(j.New.Next[0], now, j.New.Schedule.Timezone)
			}
		}
		for _, trap := range j.Warnings {
			notes = append(notes, "note: "+trap)
		}
		name := cmp.Or(strings.Trim(j.App+"/"+j.Name, "/"), "(job)") // a job that cannot be read has no name
		add(name, j.Change, j.Error, at(doc.JobsAt, i), lines, notes...)
	}
	return list
}

// showApplied prints the result of apply. The first rejected object determines the exit code.
func (e *Env) showApplied(doc *manifest.Document, res *client.ApplyResult, dryRun bool) error {
	list := e.outcomes(doc, res)
	if err := e.show(appliedOf(res), nil, func() { e.printApplied(list, res, dryRun) }); err != nil {
		return err
	}
	for _, o := range list {
		if o.err != nil {
			return exitWith(exitOfCode(o.err.Code))
		}
	}
	return nil
}

func (e *Env) printApplied(list []outcome, res *client.ApplyResult, dryRun bool) {
	counts := map[string]int{}
	rows := [][]string{}
	for _, o := range list {
		counts[o.change]++
		mark := marks[o.change]
		if mark == "" {
			continue
		}
		row := []string{mark + " " + o.name, ""}
		for i, line := range o.lines {
			if i > 0 {
				rows, row = append(rows, row), []string{"", ""}
			}
			row[1] = line
		}
		rows = append(rows, row)
	}
	if len(rows) > shownChanges {
		rows = append(rows[:shownChanges], []string{fmt.Sprintf("… and %d more lines: -o json shows all", len(rows)-shownChanges)})
	}
	table(e.Stdout, rows)
	verb := map[string]string{"created": "created", "updated": "changed", "deleted": "deleted", "refused": "rejected",
		"unchanged": "unchanged"}
	if !res.Applied {
		verb["created"], verb["updated"], verb["deleted"] = "to create", "to change", "to delete"
	}
	var sums []string
	for _, change := range []string{"refused", "updated", "created", "deleted", "unchanged"} {
		if n := counts[change]; n > 0 {
			sums = append(sums, fmt.Sprintf("%d %s", n, verb[change]))
		}
	}
	text := cmp.Or(strings.Join(sums, ", "), "no changes")
	switch {
	case counts["refused"] > 0 && !res.Applied:
		text += ": no changes were made"
	case dryRun && counts["updated"]+counts["created"]+counts["deleted"] > 0:
		text += "   to apply: leave out --dry-run"
	}
	e.printf("%s\n", text)
	for _, j := range res.Jobs {
		if j.Error != nil && j.Error.Field == "app" && j.Error.Code == string(core.CodeNotFound) {
			e.printf("to create the app, add this line to the file: apps: [{name: %s}]\n", oneLine(j.App))
			break
		}
	}
}

// place is an error with its place in the file.
func place(err *client.Error, at manifest.Pos) string {
	text := (&core.Error{Field: err.Field, Value: err.Value, Reason: core.Say("%s", err.Message)}).Error()
	if at.File != "" {
		text += fmt.Sprintf("   (%s:%d)", at.File, at.Line)
	}
	return text
}

func (e *Env) updated(changes []manifest.FieldChange) []string {
	if len(changes) == 0 {
		return []string{"a secret changed"} // the only thing that is not shown
	}
	return e.diffLines(changes)
}

func (e *Env) diffLines(changes []manifest.FieldChange) []string {
	var lines []string
	for _, c := range changes {
		switch {
		case c.Old == "":
			lines = append(lines, c.Path+"  set to "+e.truncate(c.New, 100))
		case c.New == "":
			lines = append(lines, c.Path+"  "+e.truncate(c.Old, 100)+" -> not set")
		default:
			lines = append(lines, c.Path+"  "+e.truncate(c.Old, 100)+" -> "+e.truncate(c.New, 100))
		}
	}
	return lines
}
