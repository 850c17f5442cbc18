package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/manifest"
	"github.com/tickring/tickring/words"
)

// unknownName extracts the job or app from an error message that it does not exist.
func unknownName(l words.Language, message string) (app bool, name string) {
	for _, of := range []struct {
		app  bool
		text core.Text
	}{{true, core.Say("app %s does not exist", "\x00")}, {false, core.Say("job %s does not exist", "\x00")}} {
		before, after, _ := strings.Cut(words.Say(l, of.text), "\x00")
		if name, ok := strings.CutPrefix(message, before); ok {
			if name, ok = strings.CutSuffix(name, after); ok && !strings.ContainsAny(name, " ;") {
				return of.app, name
			}
		}
	}
	return false, ""
}

func (e *Env) nameHint(err error) string {
	r, ok := errors.AsType[*client.Error](err)
	if !ok || e.found == nil {
		return ""
	}
	app, unknown := unknownName(e.lang(), r.Message)
	if unknown == "" {
		return ""
	}
	c := &conn{e, e.found}
	near := ""
	if app {
		near = c.appLike(unknown)
	} else {
		if text := c.deletedHint(unknown); text != "" {
			return text
		}
		page, err := c.ListJobs(e.Ctx, client.ListJobsParams{Limit: 1000})
		if err != nil {
			return ""
		}
		var names []string
		for _, j := range page.Jobs {
			names = append(names, j.App+"/"+j.Name)
		}
		near = nearest(unknown, names)
	}
	if near != "" && near != unknown {
		return e.said(", did you mean %s?", near)
	}
	return ""
}

// appLike returns the app of that name, or else the one whose name is nearest; empty if none is near.
func (e *conn) appLike(name string) string {
	all, err := e.ListApps(e.Ctx)
	if err != nil {
		return name
	}
	names := make([]string, len(all.Apps))
	for i := range all.Apps {
		names[i] = all.Apps[i].Name
	}
	for _, f := range all.Failed {
		names = append(names, f.Name)
	}
	return nearest(name, names)
}

// deletedHint returns when a job of that name was deleted, if that is its last change, and the command that creates it again.
func (e *conn) deletedHint(job string) string {
	of := client.ListChangesParams{Job: job, Limit: 1}
	app, _, named := strings.Cut(job, "/")
	if named {
		of = client.ListChangesParams{App: app, Limit: maxChanges}
	}
	list, err := e.ListChanges(e.Ctx, of)
	if err != nil {
		return ""
	}
	for i := range list.Changes { // the newest first
		ch := &list.Changes[i]
		if named && ch.Job != job || ch.Verb != core.VerbDeleted {
			continue
		}
		text := e.said(": deleted at %s by %s", e.full(ch.At, ""), ch.By)
		if _, n := before(ch); n != 0 {
			text += e.said("   undo: %s", undo(ch.Job, n))
		}
		return text + e.said("   runs of the job: %s", fmt.Sprint("tickring runs ", ch.JobID))
	}
	return ""
}

// nearest is the name that text may be meant to be; empty if none is near.
func nearest(text string, names []string) string {
	best, least := "", max(2, len(text)/4)+1
	for _, name := range names {
		if d := manifest.Distance(text, name); d < least {
			best, least = name, d
		}
	}
	if 2*least >= len(text) {
		return "" // half of it would have to change
	}
	return best
}
