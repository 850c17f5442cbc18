package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
)

type changeCmd struct {
	What  string `arg:"" optional:"" placeholder:"JOB|APP" help:"Of one job or app; of all if left out."`
	Limit int    `default:"20" help:"At most so many."`
}

func (c *changeCmd) Run(e *conn) error {
	params := api.ListChangesParams{Limit: c.Limit}
	switch {
	case c.What == "":
	case kindOf(c.What) == appKind:
		params.App = c.What
	case kindOf(c.What) == jobKind:
		params.Job = c.What
	default:
		return core.Invalid("what", c.What, "a job (app/name) or an app is expected")
	}
	list, err := e.ListChanges(e.Ctx, params)
	if err != nil {
		return err
	}
	return e.show(list, func() {
		if len(list.Changes) == 0 {
			e.printf("no changes%s\n", of(c.What))
			return
		}
		rows := [][]string{{"WHEN", "WHO", "WHAT", "", "WHY"}}
		for i := range list.Changes {
			ch := &list.Changes[i]
			subject := cmp.Or(ch.Job, ch.App, "everything")
			if ch.Job == "" && ch.JobID != 0 {
				subject = fmt.Sprintf("%s, job %d", ch.App, ch.JobID) // its name is forgotten
			}
			rows = append(rows, []string{e.full(ch.At, ""), ch.By, ch.Verb, subject + changedFields(ch), ch.Reason})
		}
		table(e.Stdout, rows)
	})
}

// changedFields names the fields in which the records of a change differ.
func changedFields(c *api.Change) string {
	old, want := map[string]any{}, map[string]any{}
	if json.Unmarshal(c.Old, &old) != nil || json.Unmarshal(c.New, &want) != nil || c.Verb != core.VerbUpdated {
		return ""
	}
	var names []string
	compare := func(a, b map[string]any) {
		for key := range b {
			if key != "rev" && key != "revAt" && key != "def" && !equalJSON(a[key], b[key]) && !slices.Contains(names, key) {
				names = append(names, key)
			}
		}
	}
	both := func(a, b map[string]any) {
		compare(a, b)
		compare(b, a)
	}
	both(old, want)
	a, _ := old["def"].(map[string]any)
	b, _ := want["def"].(map[string]any)
	if a != nil && b != nil {
		both(a, b)
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return ": " + strings.Join(names, ", ")
}

func equalJSON(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}
