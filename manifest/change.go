package manifest

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

// ChangeRecord is the content of the fields Old and New of a change.
type ChangeRecord struct {
	Before, After *client.Job   // the job; nil: not recorded, or the change concerns another kind of object
	Rev           int64         // revision of the job that the change created; 0: none
	Fields        []FieldChange // fields that an update changed, except for secrets
	Runs          []string      // runs that the change created
	Cleaned       int64         // number of runs that the change removed
}

// ReadChange returns the content of a change's records. It leaves out records that it cannot read.
func ReadChange(c *client.Change) (out ChangeRecord) {
	updated := c.Verb == core.VerbUpdated
	switch {
	case c.Job != "" || c.JobID != 0:
		out.Before, _ = recordedJob(c.Old)
		if out.After, out.Rev = recordedJob(c.New); out.Rev == 0 {
			out.readRuns(c.New)
		}
		if updated && out.Before != nil && out.After != nil {
			out.Fields = Diff(out.Before, out.After)
			if d := (FieldChange{"declared", out.Before.Declared, out.After.Declared}); d.Old != d.New {
				out.Fields = append(out.Fields, d)
			}
		}
	case c.User != "":
		var was, is client.User
		_ = json.Unmarshal(c.Old, &was) // a new user has no earlier record
		if json.Unmarshal(c.New, &is) == nil {
			out.Fields = DiffUser(&was, &is)
		}
	case updated && c.Channel != "":
		out.Fields = DiffChannel(recordedChannel(c.Old), recordedChannel(c.New))
	case updated:
		out.Fields = DiffApp(recordedApp(c.Old), recordedApp(c.New))
	}
	return out
}

// recordedJob returns the job in a record, and the revision of the job. It returns nil if the record has no job
// definition.
func recordedJob(record []byte) (*client.Job, int64) {
	r, ok := core.ParseJobRecord(string(record))
	if !ok || r.Def == nil {
		return nil, r.Rev
	}
	j := api.JobOf(&core.Job{Def: *r.Def, Sched: core.Sched{ID: r.Def.ID, App: r.Def.App, Rev: r.Rev, State: r.State,
		Schedule: r.Schedule, Misfire: r.Misfire, Grace: r.Grace, Deadline: r.Deadline}})
	return &j, r.Rev
}

// recordedApp returns the app in a record, or the settings of all apps; nil if there is none.
func recordedApp(record []byte) *client.App {
	r, ok := core.ParseAppRecord(string(record))
	if !ok {
		return nil
	}
	a := api.AppOf(&core.App{Name: r.Name, Title: r.Title, Set: r.Set, Rev: r.Rev, Executors: r.Executors, Allow: r.Allow,
		WaitForExecutor: r.WaitForExecutor, Overlap: r.Overlap, Limits: r.Limits, Call: r.Call, Notify: r.Notify})
	a.HasToken = r.HasToken
	return &a
}

// recordedChannel returns the channel in a record, without its secrets; nil if there is none.
func recordedChannel(record []byte) *client.Channel {
	var c core.Channel
	if json.Unmarshal(record, &c) != nil || c.Name == "" {
		return nil
	}
	out := api.ChannelOf(&c)
	return &out
}

// readRuns reads the runs that a change created or removed.
func (out *ChangeRecord) readRuns(record []byte) {
	var r struct {
		Run     string
		Runs    []string
		Cleaned int64
	}
	if json.Unmarshal(record, &r) != nil {
		return
	}
	if out.Runs, out.Cleaned = r.Runs, r.Cleaned; r.Run != "" {
		out.Runs = append(out.Runs, r.Run)
	}
}

// DiffUser returns the differences between two versions of a user. For the password, it shows only whether one is set.
func DiffUser(was, is *client.User) []FieldChange {
	set := func(is bool, word string) string { return map[bool]string{true: word}[is] }
	tokens := func(u *client.User) string {
		names := make([]string, len(u.Tokens))
		for i, t := range u.Tokens {
			names[i] = t.Name
		}
		return strings.Join(names, ", ")
	}
	all := []FieldChange{
		{"roles", api.FormatGrants(was.Grants), api.FormatGrants(is.Grants)},
		{"disabled", set(was.Disabled, "true"), set(is.Disabled, "true")},
		{"password", set(was.HasPassword, "(set)"), set(is.HasPassword, "(set)")},
		{"issuer", was.Issuer, is.Issuer}, {"subject", was.Subject, is.Subject}, {"tokens", tokens(was), tokens(is)},
	}
	return slices.DeleteFunc(all, func(d FieldChange) bool { return d.Old == d.New })
}
