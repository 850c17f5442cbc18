package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/paging"
	"github.com/tickring/tickring/manifest"
)

type changeCmd struct {
	What      string `arg:"" optional:"" placeholder:"JOB|APP" help:"Job or app (default: everything)."`
	By        string `placeholder:"WHO" help:"Only changes made by this user; admin-token selects changes made with the admin token."`
	Verb      string `placeholder:"VERB" help:"Only changes with this verb, such as created, updated or paused."`
	Operation string `placeholder:"OPERATION" help:"Only changes made by this bulk operation."`
	Channel   string `placeholder:"CHANNEL" help:"Only changes to this channel."`
	User      string `placeholder:"USER" help:"Only changes to the account of this user."`
	From      string `placeholder:"TIME" help:"Start of the period, such as 2026-11-20, 02:30 or 2h (2 hours ago)."`
	To        string `placeholder:"TIME" help:"End of the period (default: now)."`
	Limit     int    `default:"20" help:"Maximum number of changes to show, newest first."`
	Restore   int64  `placeholder:"CHANGE" help:"Restore the job to its state before this change. A deleted job gets a new number."`
}

func (c *changeCmd) Run(e *conn) error {
	if c.Restore != 0 {
		return c.restore(e)
	}
	if c.Limit < 1 {
		return core.Invalid("limit", fmt.Sprint(c.Limit), "at least 1")
	}
	var list client.ChangeList
	next, err := c.pages(e, func(page *client.ChangeList) bool {
		list.Changes = append(list.Changes, page.Changes...)
		return len(list.Changes) >= c.Limit
	}, func() int { return c.Limit - len(list.Changes) })
	if err != nil {
		return err
	}
	shown := list
	shown.Changes = slices.Clone(list.Changes)
	for i := range shown.Changes {
		ch := &shown.Changes[i]
		of := reflect.TypeFor[core.AppRecord]()
		if ch.Job != "" || ch.JobID != 0 {
			of = reflect.TypeFor[core.JobRecord]()
		}
		ch.Old, ch.New = spans(ch.Old, of), spans(ch.New, of)
	}
	return e.show(shown, nil, func() {
		if len(list.Changes) == 0 {
			e.printf("no changes%s\n", of(c.What))
			return
		}
		undoable := false
		rows := [][]string{{"WHEN", "CHANGE", "WHO", "FROM", "WHAT", "", "WHY"}}
		for i := range slices.Backward(list.Changes) { // to be read downwards, as it happened
			ch := &list.Changes[i]
			subject := subjectOf(ch)
			number := ""
			if _, n := before(ch); n != 0 {
				number, undoable = fmt.Sprint(n), true
			}
			fields := e.changed(ch)
			if len(fields) > 0 {
				subject += ": " + fields[0]
			}
			rows = append(rows, []string{e.full(ch.At, ""), number, ch.By, originOf(ch), ch.Verb, subject, ch.Reason})
			for _, line := range fields[min(1, len(fields)):] {
				rows = append(rows, []string{"", "", "", "", "", "  " + line})
			}
		}
		table(e.Stdout, rows)
		if undoable {
			e.printf("to undo a numbered change: %s\n", undo("JOB", 0))
		}
		if next != "" {
			e.printf("more changes exist: --limit %d\n", c.Limit*5)
		}
	})
}

func originOf(c *client.Change) string {
	if token, is := core.TokenOf(c.Via); is {
		return strings.TrimSpace(fmt.Sprintf("%s (token %s)", c.From, token))
	}
	return c.From
}

// spans returns a record of type of with its durations, stored in nanoseconds, formatted as elsewhere. It leaves unknown fields
// unchanged.
func spans(record json.RawMessage, of reflect.Type) json.RawMessage {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	var ns time.Duration
	var fields map[string]json.RawMessage
	var list []json.RawMessage
	var said any
	switch {
	case of == reflect.TypeFor[time.Duration]() && json.Unmarshal(record, &ns) == nil:
		said = core.FormatDuration(ns)
	case of.Kind() == reflect.Slice && json.Unmarshal(record, &list) == nil && list != nil:
		for i := range list {
			list[i] = spans(list[i], of.Elem())
		}
		said = list
	case of.Kind() == reflect.Struct && json.Unmarshal(record, &fields) == nil && fields != nil:
		for i := range of.NumField() {
			f := of.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if raw, ok := fields[cmp.Or(name, f.Name)]; ok {
				fields[cmp.Or(name, f.Name)] = spans(raw, f.Type)
			}
		}
		said = fields
	default:
		return record
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if enc.Encode(said) != nil {
		return record
	}
	return text.Bytes()
}

// pages reads changes, the newest first, until enough is had, and answers where it would go on.
func (c *changeCmd) pages(e *conn, enough func(page *client.ChangeList) bool, want func() int) (next string, err error) {
	params := client.ListChangesParams{By: c.By, Verb: c.Verb, Operation: c.Operation, Channel: c.Channel, User: c.User}
	if params.App, params.Job = appOrJob(c.What); kindOf(c.What) == runKind {
		return "", core.Invalid("what", c.What, "expected a job (app/name) or an app")
	}
	if params.From, params.To, err = e.spanOf(c.From, c.To, ""); err != nil {
		return "", err
	}
	found := 0
	_, err = pages(e, "", paging.Pages[client.ChangeList]{
		Ask: func(after string) (client.ChangeList, error) {
			params.After, params.Limit = after, min(want(), maxChanges)
			return e.ListChanges(e.Ctx, params)
		},
		Add: func(page *client.ChangeList) string {
			found += len(page.Changes)
			if next = page.Next; enough(page) {
				return ""
			}
			return next
		},
		Progress: func() string { return plural(found, "change") + " found" },
	})
	return next, err
}

// maxChanges is as many as one answer has.
const maxChanges = 1000

func undo(job string, change int64) string {
	number := "CHANGE"
	if change != 0 {
		number = fmt.Sprint(change)
	}
	return fmt.Sprintf("tickring changes %s --restore %s", job, number)
}

// before is the job as it was before a change, and the number of that; 0 where the
// change was of something else.
func before(c *client.Change) (*client.Job, int64) {
	if r := manifest.ReadChange(c); r.Before != nil && r.Rev != 0 {
		return r.Before, r.Rev
	}
	return nil, 0
}

func (c *changeCmd) restore(e *conn) error {
	if kindOf(c.What) != jobKind {
		return usagef("name the job that the change belongs to: %s", undo("JOB", c.Restore))
	}
	var job *client.Job
	_, err := c.pages(e, func(page *client.ChangeList) bool {
		for i := range page.Changes {
			if j, n := before(&page.Changes[i]); n == c.Restore {
				job = j
			}
		}
		return job != nil
	}, func() int { return maxChanges })
	if err != nil {
		return err
	}
	if job == nil {
		return &exitError{exitNotFound, fmt.Errorf("%s has no change %d that can be undone: to list its changes: tickring changes "+
			"%s", c.What, c.Restore, c.What)}
	}
	data, err := e.asFile(*job)
	if err != nil {
		return err
	}
	return e.applyText(fmt.Sprintf("%s/%s before change %d", job.App, job.Name, c.Restore), data, nil)
}

// changed describes the content of a change: the old and new values of fields, or the number of removed runs.
func (e *Env) changed(c *client.Change) []string {
	switch r := manifest.ReadChange(c); {
	case r.Cleaned != 0:
		return []string{fmt.Sprintf("%d runs", r.Cleaned)}
	case c.Verb == core.VerbUpdated && c.Reason == "" && (r.Before != nil || c.JobID == 0):
		return e.updated(r.Fields)
	default:
		return e.diffLines(r.Fields)
	}
}
