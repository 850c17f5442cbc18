package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
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
	old, want := fields(c.Old), fields(c.New)
	if old == nil || want == nil || c.Verb != core.VerbUpdated {
		return ""
	}
	all := maps.Clone(old)
	maps.Copy(all, want)
	maps.DeleteFunc(all, func(key string, _ any) bool {
		return key == "rev" || key == "revAt" || reflect.DeepEqual(old[key], want[key])
	})
	if len(all) == 0 {
		return ""
	}
	return ": " + strings.Join(slices.Sorted(maps.Keys(all)), ", ")
}

// fields are those of a record, and of the definition in it; nil where it is none.
func fields(record json.RawMessage) map[string]any {
	var all map[string]any
	if json.Unmarshal(record, &all) != nil {
		return nil
	}
	def, _ := all["def"].(map[string]any)
	maps.Copy(all, def)
	delete(all, "def")
	return all
}
