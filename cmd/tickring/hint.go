package main

import (
	"errors"
	"regexp"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/manifest"
)

var unknownName = regexp.MustCompile(`^there is no (job|app) ([^ ;]+)$`)

// nameHint names the job or app that may be meant by one that is not there.
func (e *Env) nameHint(err error) string {
	r, ok := errors.AsType[*client.Error](err)
	if !ok || e.found == nil {
		return ""
	}
	m := unknownName.FindStringSubmatch(r.Message)
	if m == nil {
		return ""
	}
	var names []string
	if m[1] == "app" {
		apps, err := e.found.ListApps(e.Ctx)
		if err != nil {
			return ""
		}
		for _, a := range apps.Apps {
			names = append(names, a.Name)
		}
	} else {
		page, err := e.found.ListJobs(e.Ctx, api.ListJobsParams{Limit: 1000})
		if err != nil {
			return ""
		}
		for _, j := range page.Jobs {
			names = append(names, j.App+"/"+j.Name)
		}
	}
	if name := nearest(m[2], names); name != "" {
		return ", did you mean " + name + "?"
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
