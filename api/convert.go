package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/words"
)

// JobOf converts a job from package core to the form in the API. The schedule is described in English, and secrets are
// left out.
func JobOf(j *core.Job) client.Job { return jobIn(words.English, j) }

func jobIn(l words.Language, j *core.Job) client.Job {
	d, s := &j.Def, &j.Sched
	job := client.Job{
		ID: int32(d.ID), State: string(s.State), Rev: s.Rev, RevAt: s.RevAt, CreatedAt: d.Created, Declared: string(d.Declared),
		Problem: s.PlanError,
	}
	fill(&job, baseOf(d, s.Schedule, s.Misfire, s.Grace, s.Deadline))
	job.Call, job.Command, job.Script = callOf(d.Call.Shown()), commandOf(d.Command.Shown()), scriptOf(d.Script, "")
	if s.State == core.Paused {
		job.Pause = &client.Pause{Of: ofJob, From: s.RevAt, Until: s.PauseUntil.Time(), By: s.PauseBy, Reason: s.PauseWhy}
	}
	if c, err := schedule.Compile(s.Schedule, d.ID); err == nil {
		job.Description = words.Say(l, c.DescribeJob(d))
	}
	return job
}

// fill copies the fields of base to the fields of the same name in to.
func fill(to, base any) {
	from, in := reflect.ValueOf(base), reflect.ValueOf(to).Elem()
	for i := range from.NumField() {
		in.FieldByName(from.Type().Field(i).Name).Set(from.Field(i))
	}
}

// baseOf returns the fields that a job and its spec share.
func baseOf(d *core.Def, s core.Schedule, misfire core.Misfire, grace, deadline time.Duration) client.JobBase {
	return client.JobBase{
		App: d.App, Name: d.Name, Title: d.Title, Author: d.Author, Labels: maps.Clone(d.Labels), Set: d.Set,
		Handler: d.Handler, Params: d.Params,
		Template: d.Template, Call: callOf(d.Call), Command: commandOf(d.Command), Schedule: scheduleOf(s),
		Misfire: string(misfire), Grace: orNone(grace),
		Deadline: orNone(deadline),
		Block:    string(d.Block), Route: string(d.Route), Broadcast: client.Broadcast{Fail: string(d.BroadcastFail)},
		Timeout: orNone(d.Timeout), LostAfter: orNone(d.LostAfter),
		WaitForExecutor: orNone(d.WaitForExecutor),
		Overlap:         overlapOf(d.Overlap),
		Retry: client.Retry{Max: d.Retry.Max, Delay: orNone(d.Retry.Delay), Backoff: string(d.Retry.Backoff), MaxDelay: orNone(d.Retry.MaxDelay),
			On: append([]string{}, as[string](d.Retry.On)...)},
		PauseAfter: d.PauseAfter, Retention: keepOf(d.Keep), After: parentsOf(d.After), Within: orNone(d.Within),
		Notify: NotifyOf(d.Notify),
	}
}

// NotifyOf converts notification settings from package core to the form in the API.
func NotifyOf(n core.Notify) client.Notify {
	return client.Notify{To: n.To, On: as[string](n.On), Late: orNone(n.Late), Slow: orNone(n.Slow), Quiet: orNone(n.Quiet),
		Overdue: client.Overdue{By: n.Overdue.By, Within: orNone(n.Overdue.Within)}}
}

// each converts the items of a list; the result is not nil, because an answer has an empty list as [].
func each[From, To any](list []From, convert func(*From) To) []To {
	out := make([]To, len(list))
	for i := range list {
		out[i] = convert(&list[i])
	}
	return out
}

// as converts the texts of a list to another type; the result is nil if there are none.
func as[To, From ~string](list []From) (out []To) {
	for _, text := range list {
		out = append(out, To(text))
	}
	return out
}

// coreNotify converts notification settings from the API. Its errors name the field.
func coreNotify(n client.Notify) (core.Notify, error) {
	out := core.Notify{To: n.To, On: as[core.Event](n.On), Overdue: core.Overdue{By: n.Overdue.By}}
	for _, list := range []struct {
		field string
		of    []string
	}{{"to", n.To}, {"on", n.On}} {
		if list.of != nil && len(list.of) == 0 { // it would be stored as absent, and the app's setting would apply
			return out, core.Invalid("notify."+list.field, "[]", "the list is empty: name at least one value, or leave the field out")
		}
	}
	return out, parseDurations([]durationField{
		{"notify.late", n.Late, &out.Late}, {"notify.slow", n.Slow, &out.Slow}, {"notify.quiet", n.Quiet, &out.Quiet},
		{"notify.overdue.within", n.Overdue.Within, &out.Overdue.Within},
	})
}

// JobSpecOf converts the settings of a job from package manage to the form in the API.
func JobSpecOf(spec manage.JobSpec) client.JobSpec {
	job := client.JobSpec{Paused: spec.Paused, IfRev: spec.IfRev, Declared: spec.Declared}
	fill(&job, baseOf(&spec.Def, spec.Schedule, spec.Misfire, spec.Grace, spec.Deadline))
	if s := spec.Def.Script; s != nil {
		job.Script = client.ScriptSpec{Kind: string(s.Kind), Note: s.Note, Source: spec.Source}
		if spec.Source == "" {
			job.Script.Hash = s.Hash
		}
	}
	return job
}

// ManageJob converts the settings of a job from the form in the API to package manage. An error names the invalid
// field.
func ManageJob(j client.JobSpec) (manage.JobSpec, error) {
	spec := manage.JobSpec{
		Def: core.Def{
			App: j.App, Name: j.Name, Title: j.Title, Author: j.Author, Labels: j.Labels, Set: j.Set,
			Handler: j.Handler, Params: j.Params, Template: j.Template,
			Route: core.Route(j.Route), BroadcastFail: core.BroadcastFail(j.Broadcast.Fail),
			Block:      core.Block(j.Block),
			Retry:      core.Retry{Max: j.Retry.Max, Backoff: core.Backoff(j.Retry.Backoff), On: as[core.State](j.Retry.On)},
			Overlap:    coreOverlap(j.Overlap),
			PauseAfter: j.PauseAfter, After: coreParents(j.After),
		},
		Misfire: core.Misfire(j.Misfire), Paused: j.Paused, IfRev: j.IfRev, Declared: j.Declared,
	}
	err := parseDurations([]durationField{
		{"grace", j.Grace, &spec.Grace},
		{"deadline", j.Deadline, &spec.Deadline},
		{"timeout", j.Timeout, &spec.Def.Timeout},
		{"lostAfter", j.LostAfter, &spec.Def.LostAfter},
		{"waitForExecutor", j.WaitForExecutor, &spec.Def.WaitForExecutor},
		{"within", j.Within, &spec.Def.Within},
		{"retry.delay", j.Retry.Delay, &spec.Def.Retry.Delay},
		{"retry.maxDelay", j.Retry.MaxDelay, &spec.Def.Retry.MaxDelay},
	})
	if err != nil {
		return spec, err
	}
	if spec.Def.Keep, err = coreKeep(j.Retention); err != nil {
		return spec, err
	}
	if spec.Def.Call, err = coreCall(j.Call); err != nil {
		return spec, err
	}
	if spec.Def.Command, err = coreCommand(j.Command); err != nil {
		return spec, err
	}
	if spec.Def.Script, err = coreScript(j.Script); err != nil {
		return spec, err
	}
	spec.Source = j.Script.Source
	if spec.Def.Notify, err = coreNotify(j.Notify); err != nil {
		return spec, err
	}
	spec.Schedule, err = coreSchedule(j.Schedule)
	return spec, err
}

// keepOf writes forever as 0, and leaves Days nil if it is not set.
func keepOf(k core.Keep) (out client.Retention) {
	out.Log = string(cmp.Or(k.Log, core.KeepLogFailure))
	if k.Days != 0 {
		out.Days = new(max(k.Days, 0))
	}
	return out
}

// coreKeep converts keep from the API. Its errors name the field.
func coreKeep(k client.Retention) (out core.Keep, err error) {
	out.Log = core.Keep{Log: core.KeepLog(k.Log)}.Kept()
	switch {
	case k.Days == nil:
	case *k.Days == 0:
		out.Days = core.KeepForever
	case *k.Days < 0:
		return out, core.Invalid("retention.days", strconv.Itoa(*k.Days), "allowed values: 1 to %d; 0 keeps them forever", core.MaxKeepDays)
	default:
		out.Days = *k.Days
	}
	return out, nil
}

func parentsOf(list []core.Parent) (out []client.Parent) {
	for _, p := range list {
		out = append(out, client.Parent{Job: p.Job, When: string(p.When)})
	}
	return out
}

func coreParents(list []client.Parent) (out []core.Parent) {
	for _, p := range list {
		out = append(out, core.Parent{Job: p.Job, When: core.ParentCondition(p.When)})
	}
	return out
}

func scheduleOf(s core.Schedule) client.Schedule {
	out := client.Schedule{Timezone: s.Timezone, From: s.From, Until: s.Until, Jitter: orNone(s.Jitter)}
	rules := make([]client.Rule, len(s.Any))
	for i, w := range s.Any {
		r := &rules[i]
		switch w.Kind {
		case core.KindCron:
			r.Cron = w.Expr
		case core.KindCrontab:
			r.Crontab = w.Expr
		case core.KindEvery:
			r.Every = core.FormatDuration(w.Every)
		case core.KindFixedDelay:
			r.FixedDelay = core.FormatDuration(w.Every)
		case core.KindAt:
			r.At = w.At.Time()
		default: // a job must not be shown as one that never fires
			panic("api: a rule has no field for the kind " + string(w.Kind))
		}
		if w.Offset != 0 || w.Aligned {
			r.Offset = new(core.FormatDuration(w.Offset))
		}
	}
	if len(rules) == 1 {
		r := rules[0]
		out.Cron, out.Crontab, out.Every, out.Offset, out.FixedDelay, out.At = r.Cron, r.Crontab, r.Every, r.Offset, r.FixedDelay, r.At
	} else if len(rules) > 1 {
		out.Any = rules
	}
	return out
}

// coreSchedule converts a schedule from the API. Its errors name the field.
func coreSchedule(s client.Schedule) (core.Schedule, error) {
	out := core.Schedule{Timezone: s.Timezone, From: s.From, Until: s.Until}
	var err error
	if out.Jitter, err = parseDuration("schedule.jitter", s.Jitter); err != nil {
		return out, err
	}
	own := client.Rule{Cron: s.Cron, Crontab: s.Crontab, Every: s.Every, Offset: s.Offset, FixedDelay: s.FixedDelay, At: s.At}
	if own != (client.Rule{}) {
		if len(s.Any) > 0 {
			return out, core.Invalid("schedule.any", "", "set either one rule or a list under `any`, not both")
		}
		w, err := coreRule(own, "schedule")
		if err != nil {
			return out, err
		}
		out.Any = []core.When{w}
		return out, nil
	}
	for i, r := range s.Any {
		path := "schedule"
		if len(s.Any) > 1 {
			path = fmt.Sprintf("schedule[%d]", i)
		}
		w, err := coreRule(r, path)
		if err != nil {
			return out, err
		}
		out.Any = append(out.Any, w)
	}
	return out, nil
}

func coreRule(r client.Rule, path string) (core.When, error) {
	var kinds []string
	var w core.When
	var period string
	take := func(kind core.Kind, there bool) {
		if there {
			w.Kind = kind
			kinds = append(kinds, string(kind))
		}
	}
	take(core.KindCron, r.Cron != "")
	take(core.KindCrontab, r.Crontab != "")
	take(core.KindEvery, r.Every != "")
	take(core.KindFixedDelay, r.FixedDelay != "")
	take(core.KindAt, !r.At.IsZero())
	if len(kinds) != 1 {
		return w, core.Invalid(path, strings.Join(kinds, ", "), "exactly one of %s is expected", core.JoinAllowed(core.Kinds))
	}
	switch w.Kind {
	case core.KindCron:
		w.Expr = r.Cron
	case core.KindCrontab:
		w.Expr = r.Crontab
	case core.KindEvery:
		period = r.Every
	case core.KindFixedDelay:
		period = r.FixedDelay
	case core.KindAt:
		if r.At.Nanosecond() != 0 {
			return w, core.Invalid(path+".at", r.At.Format(time.RFC3339Nano), "whole seconds are expected")
		}
		w.At = core.InstantOf(r.At)
	default:
		return w, core.Invalid(path, string(w.Kind), "this kind is not supported")
	}
	var err error
	if w.Every, err = parseDuration(path+"."+string(w.Kind), period); err != nil {
		return w, err
	}
	if r.Offset != nil {
		w.Aligned = true
		w.Offset, err = parseDuration(path+".offset", *r.Offset)
	}
	return w, err
}

func pauseOf(p core.Pause) *client.Pause {
	if p.From.IsZero() {
		return nil
	}
	return &client.Pause{From: p.From, Until: p.To, By: p.By, Reason: p.Why}
}

func overlapOf(o core.Overlap) client.Overlap {
	return client.Overlap{Limit: o.Limit, Group: o.Group, WhenFull: string(o.Full), Max: o.Max, Key: o.Key}
}

func coreOverlap(o client.Overlap) core.Overlap {
	return core.Overlap{Limit: o.Limit, Group: o.Group, Full: core.Full(o.WhenFull), Max: o.Max, Key: o.Key}
}

func limitsOf(l core.Limits) client.AppLimits {
	return client.AppLimits{InFlight: l.InFlight, PerSecond: l.PerSecond}
}

// AppOf converts an app from package core to the form in the API, without its secrets.
func AppOf(a *core.App) client.App {
	app := client.App{Name: a.Name, Title: a.Title, Set: a.Set, HasToken: a.Token != "", Executors: a.Executors, Withheld: a.Withheld,
		WaitForExecutor: orNone(a.WaitForExecutor), Rev: a.Rev, CreatedAt: a.Created, Pause: pauseOf(a.Pause),
		Overlap: overlapOf(a.Overlap), Limits: limitsOf(a.Limits), Call: callOf(a.Call.Shown()), Notify: NotifyOf(a.Notify)}
	app.Allow = each(a.Allow, (*netip.Prefix).String)
	return app
}

// ManageApp converts the settings of an app from the form in the API to package manage. An error names the invalid
// field.
func ManageApp(a client.AppSpec) (manage.AppSpec, error) {
	wait, err := parseDuration("waitForExecutor", a.WaitForExecutor)
	if err != nil {
		return manage.AppSpec{}, err
	}
	notify, err := coreNotify(a.Notify)
	if err != nil {
		return manage.AppSpec{}, err
	}
	call, err := coreCall(a.Call)
	return manage.AppSpec{Name: a.Name, Title: a.Title, Set: a.Set, Token: a.Token, Executors: a.Executors, Allow: a.Allow,
		WaitForExecutor: wait, Overlap: coreOverlap(a.Overlap), Limits: core.Limits{InFlight: a.Limits.InFlight, PerSecond: a.Limits.PerSecond},
		Call: call, Notify: notify, IfRev: a.IfRev}, err
}

// countedBy names the limits that counted a run which has ended.
func countedBy(r *core.Run) *client.Permit {
	out := &client.Permit{HeldBy: []string{}}
	for _, name := range core.PermitNames(r.Permit) {
		limit, value := core.SplitPermit(name)
		if out.Of != "" {
			out.Of += ", "
		}
		out.Of, out.Value = out.Of+strings.Replace(limit, "/", " ", 1), cmp.Or(out.Value, value)
	}
	return out
}

// permitOf describes the place of a retry chain among the runs that share its limit.
func permitOf(p *core.Permits, first core.RunID) *client.Permit {
	if p == nil {
		return nil
	}
	limit, value := core.SplitPermit(p.Name)
	out := &client.Permit{Of: strings.Replace(limit, "/", " ", 1), Value: value, Limit: p.Limit, Has: p.Holds(first),
		HeldBy: each(p.Holders, func(h *core.Holder) string { return h.First.String() }),
		Place:  slices.Index(p.Queue, first) + 1, Waiting: len(p.Queue)}
	if at := p.From(first); at != 0 {
		out.Begins = at.Time()
	}
	return out
}

func runOf(r *core.Run, job *core.Job) client.Run {
	out := client.Run{
		ID: r.ID.String(), LogID: int64(r.ID), JobID: int32(r.ID.Job()), App: r.App,
		State: string(r.State), Reason: string(r.Reason), Cause: string(r.Cause),
		ScheduledAt: r.At.Time(), DueAt: r.Slot.Time(), EndedAt: r.EndedAt,
		Address: r.Address, Attempt: r.Attempt, Retries: r.Retries,
		Params: r.Params, Key: r.Key, By: r.By,
		MaybeTwice: r.MaybeSent && r.Sent() && r.State != core.Planned,
		KillBy:     r.KillBy, KillAt: r.KillAt, Code: r.Code, Message: r.Message, Data: r.Data,
	}
	if r.First != 0 && r.First != r.ID {
		out.First = r.First.String()
	}
	if r.Then != 0 {
		out.Then = r.Then.String()
	}
	if r.Parent != 0 {
		out.Parent = r.Parent.String()
	}
	if r.RerunOf != 0 {
		out.RerunOf = r.RerunOf.String()
	}
	if !r.IsBroadcast() { // a broadcast would list the addresses of its shards
		out.Addresses = r.Addresses
	}
	if s := r.Shard; s.Total > 0 {
		out.Shard = &client.Shard{Total: s.Total}
		if !r.IsBroadcast() {
			out.Shard.Index = &s.Index
		}
		if s.Of != 0 {
			out.Shard.Of = s.Of.String()
		}
	}
	if r.Sent() {
		out.SentAt = r.SentAt
	}
	if r.HasLateness() {
		out.LatenessMs = new(r.Lateness().Milliseconds())
	}
	if job != nil {
		out.Job, out.Timezone = job.Name(), job.Sched.Schedule.Timezone
	}
	if r.Late != nil {
		out.Late = &client.LateResult{At: r.Late.At, Code: r.Late.Code, Message: r.Late.Message}
	}
	out.Tries = each(r.Tries, func(t *core.Try) client.Try {
		return client.Try{Address: t.Address, Code: t.Code, Message: t.Message, Request: t.Request, Log: t.Log, By: string(t.By),
			Of: t.Of, From: t.From}
	})
	return out
}

func ranWithOf(w *query.RanWith) *client.RanWith {
	if w == nil {
		return nil
	}
	d := w.Def
	out := &client.RanWith{Handler: d.Handler, Script: scriptOf(d.Script, ""), Command: commandOf(d.Command.Shown()),
		Params: d.Params, Template: d.Template, Route: string(d.Route),
		Block:   string(d.Block),
		Timeout: orNone(d.Timeout), Change: w.Rev, At: core.FromMillis(w.RevAt)}
	if c := w.Change; c != nil {
		out.Change, out.At, out.Verb, out.By = c.ID, c.At, c.Verb, c.By
	}
	return out
}

func shardOf(r *core.Run) client.ShardRun {
	if r.ID == 0 {
		return client.ShardRun{Index: r.Shard.Index, State: string(core.Planned)}
	}
	return client.ShardRun{Index: r.Shard.Index, ID: r.ID.String(), Address: cmp.Or(r.Address, first(r.Addresses)), State: string(r.State),
		Reason: string(r.Reason), Attempt: r.Attempt}
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func skipOf(s *core.Skip) client.Skip {
	return client.Skip{FirstAt: s.First.Time(), LastAt: s.Last.Time(), Count: s.Count, Reason: string(s.Reason)}
}

func timesOf(instants []core.Instant) []time.Time {
	return each(instants, func(at *core.Instant) time.Time { return at.Time() })
}

func changeOf(c *core.Change) client.Change {
	out := client.Change{At: c.At, By: c.By, From: c.From, Via: c.Via, Verb: c.Verb, App: c.App, JobID: int32(c.Job), Reason: c.Why,
		Operation: c.Act, Old: rawOf(c.Old), New: rawOf(c.New)}
	switch {
	case c.Name != "" && c.App == "" && c.Job == 0:
		if person, is := strings.CutPrefix(c.Name, core.OfPerson); is {
			out.User = person
		} else {
			out.Channel = c.Name
		}
	case c.Name != "":
		out.Job = c.App + "/" + c.Name
	}
	return out
}

func rawOf(text string) json.RawMessage {
	if !json.Valid([]byte(text)) {
		return nil
	}
	return json.RawMessage(text)
}

func runIDs(runs []core.RunID) []string { return each(runs, (*core.RunID).String) }
