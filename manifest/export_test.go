package manifest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// formOf is a job as the API answers it.
func formOf(j *core.Job) *client.Job {
	if j == nil {
		return nil
	}
	c := *j
	c.Normalize()
	form := api.JobOf(&c)
	return &form
}

func appForm(a *core.App) *client.App {
	if a == nil {
		return nil
	}
	form := api.AppOf(a)
	return &form
}

func export(apps []core.App, jobs []core.Job) ([]byte, error) {
	var as []client.App
	for i := range apps {
		as = append(as, *appForm(&apps[i]))
	}
	var js []client.Job
	for i := range jobs {
		js = append(js, *formOf(&jobs[i]))
	}
	return Export(as, js)
}

func diff(old, new *core.Job) []FieldChange    { return Diff(formOf(old), formOf(new)) }
func diffApp(old, new *core.App) []FieldChange { return DiffApp(appForm(old), appForm(new)) }

// jobOf returns the result of saving a spec over old; nil: a new job.
func jobOf(spec manage.JobSpec, old *core.Job) core.Job { return api.Wanted(&spec, old) }

// appOf returns the result of saving spec over old.
func appOf(spec manage.AppSpec, old core.App) core.App {
	old.Title, old.Executors, old.Allow = spec.Title, spec.Executors, nil
	for _, text := range spec.Allow {
		p, _ := manage.ParseRange(text)
		old.Allow = append(old.Allow, p)
	}
	old.WaitForExecutor = spec.WaitForExecutor
	return old
}

// fullJob returns a job with every field set.
func fullJob() core.Job {
	return core.Job{
		Def: core.Def{ID: 7, App: "reports", Name: "nightly", Title: "每日报表: x", Author: "lina",
			Labels:  map[string]string{"team": "finance", "on": "yes"},
			Set:     "finance",
			Handler: "POST /run", Params: "a\nb\\ \"c\"\x00\u2028", Route: core.RouteBroadcast,
			BroadcastFail: core.BroadcastFailAll, Block: core.BlockCoverEarly, Timeout: 90 * time.Second,
			Retry: core.Retry{Max: 3, Delay: time.Minute, Backoff: core.BackoffExponential, MaxDelay: time.Hour, On: []core.State{core.Lost}},
			Keep:  core.Keep{Days: 90, Log: core.KeepLogAlways},
			Notify: core.Notify{To: []string{"oncall", "mail"}, On: []core.Event{core.EventFailed, core.EventLate, core.EventSlow,
				core.EventOverdue},
				Late: 30 * time.Second, Slow: 45 * time.Minute, Quiet: 2 * time.Hour, Overdue: core.Overdue{By: "06:00"}},
			LostAfter: time.Hour, WaitForExecutor: 10 * time.Minute,
			Overlap: core.Overlap{Limit: 3, Group: "db", Full: core.FullSkip, Max: 5, Key: "/tenant"}, PauseAfter: 4, Call: fullCall(),
			After: []core.Parent{{Job: "reports/list", ID: 3, When: core.UponFailure}, {Job: "pay/ledger", ID: 4, When: core.UponSuccess}}},
		Sched: core.Sched{State: core.Paused, Misfire: core.MisfireAll, Grace: 30 * time.Second, Deadline: 36 * time.Hour,
			Schedule: core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Hour, Offset: 5 * time.Minute, Aligned: true}},
				Timezone: "Asia/Shanghai", From: "2026-12-01", Until: "2027-12-31T00:00:00+08:00", Jitter: 2 * time.Minute}},
	}
}

func fullApp() core.App {
	return core.App{Name: "Reports", Title: "报表", Set: "finance", Token: "s3cret", Executors: []string{"call:https://x.example",
		"http://h:9999"},
		Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}, WaitForExecutor: time.Minute,
		Overlap: core.Overlap{Limit: 2, Group: "db", Full: core.FullQueue, Max: 100, Key: "/tenant"},
		Limits:  core.Limits{InFlight: 200, PerSecond: 50}, Call: fullCall(),
		Notify: core.Notify{To: []string{"oncall"}, On: []core.Event{core.EventFailed, core.EventLate, core.EventSlow},
			Late: time.Minute, Slow: time.Hour, Quiet: 30 * time.Minute}}
}

func fullCall() *core.Call {
	return &core.Call{Headers: map[string]string{"X-Team": "finance", "X-Key": "s3cret"}, Hidden: []string{"X-Key"},
		Auth: core.Auth{Bearer: "s3cret"}, Expect: []int{200, 202}, MaxAnswer: 64 << 10}
}

func TestExport(t *testing.T) {
	job, list, bare := fullJob(), fullJob(), core.Job{Def: core.Def{App: "reports", Name: "bare", Handler: "h", Set: "finance"}}
	list.Def = core.Def{App: "reports", Name: "list", Handler: "h", Set: "finance"}
	list.Sched = core.Sched{Schedule: core.Schedule{Any: []core.When{{Kind: core.KindCron, Expr: "0 0 2 * * ?"},
		{Kind: core.KindAt, At: 1798761600}}, Timezone: "Europe/Berlin"}}
	got, err := export([]core.App{fullApp()}, []core.Job{job, list, bare})
	check.OK(t, err)
	golden.New(t).Equal(t, "all fields", string(got))
	bare.Def.Set = "other"
	if got, err = export(nil, []core.Job{job, bare}); err != nil || !strings.Contains(string(got), "    handler: h\n    # set: other\n") ||
		strings.Contains(string(got), "\nset:") {
		t.Errorf("%s%v", got, err)
	}
	if _, err := export(nil, []core.Job{{Def: core.Def{App: "a", Name: "b"}}}); err == nil {
		t.Error("a job without a handler was written")
	}
}

// TestExportsMany: a large export can be parsed again.
func TestExportsMany(t *testing.T) {
	jobs := make([]core.Job, 1000)
	for i := range jobs {
		jobs[i].Def = core.Def{App: "a", Name: fmt.Sprintf("j%d", i), Handler: "h", Set: "s", Params: strings.Repeat("x", 5000)}
	}
	out, err := export(nil, jobs)
	check.OK(t, err)
	doc, err := Parse("m", out, Options{})
	if err != nil || len(doc.Jobs) != len(jobs) || doc.Jobs[999].Set != "s" || len(out) < MaxDocument {
		t.Fatal(len(out), err)
	}
}

// Each field that may be written is written, so a field cannot be forgotten.
func TestExportsAll(t *testing.T) {
	j, a := fullJob(), fullApp()
	missing := func(of string, form object) string {
		s, written, missing := component(of), map[string]bool{}, []string{}
		for _, c := range s.diff("", nil, form) {
			fields := strings.FieldsFunc(c.Path, func(r rune) bool { return r == '.' || r == '[' })
			written[fields[0]], written[strings.Join(fields[:min(len(fields), 2)], ".")] = true, true
		}
		for _, p := range s.Properties {
			if !written[p.name] {
				missing = append(missing, p.name)
				continue
			}
			for _, below := range p.fields().Properties {
				if path := p.name + "." + below.name; !written[path] {
					missing = append(missing, path)
				}
			}
		}
		return strings.Join(missing, " ")
	}
	// Commands, scripts and joins have tests of their own.
	check.Equal(t, missing("ManifestJob", jobForm(formOf(&j), false)), "template command script schedule.cron schedule.crontab "+
		"schedule.fixedDelay schedule.at after.all after.within", "not written of a job")
	check.Equal(t, missing("ManifestApp", plainly(appForm(&a))), "token notify.overdue", "not written of an app")
}

// TestExportsAJoin: an exported join can be parsed again.
func TestExportsAJoin(t *testing.T) {
	file := "version: 1\njobs:\n  - app: a\n    name: b\n    handler: h\n" +
		"    after: {all: [{job: a/c}, {job: a/d, when: finished}], within: 6h}\n"
	doc, err := Parse("m", []byte(file), Options{})
	check.OK(t, err)
	j := jobOf(settings(t, &doc.Jobs[0]), nil)
	if j.Def.Within != 6*time.Hour || len(j.Def.After) != 2 {
		t.Fatalf("%+v", j.Def)
	}
	got, err := Export(nil, []client.Job{*formOf(&j)})
	check.OK(t, err)
	check.Contains(t, string(got), "after: {all: [{job: a/c, when: succeeded}, {job: a/d, when: finished}], within: 6h}", "%s", got)
}

// TestDefaults: the defaults and limits in the API's document match core.
func TestDefaults(t *testing.T) {
	job := component("ManifestJob")
	for _, c := range job.diff("", nil, jobForm(formOf(&core.Job{}), true)) {
		s := job
		for _, name := range strings.Split(c.Path, ".") {
			s = s.get(name)
		}
		if def := s.flow(s.Default); def != c.New && c.Path != "paused" {
			t.Errorf("%s is %s, the document has %s", c.Path, c.New, def)
		}
	}
	at := func(path string, v any) error {
		form := object{"app": "a", "name": "a", "handler": "h", "retry": object{"delay": "1s", "maxDelay": "1d"}, "schedule": object{},
			"overlap": object{"limit": 1}}
		in, key := form, path
		for first, rest, ok := strings.Cut(key, "."); ok; first, rest, ok = strings.Cut(key, ".") {
			if _, ok := in[first]; !ok {
				in[first] = object{}
			}
			in, key = in[first].(object), rest
		}
		in[key] = v
		switch path {
		case "after.within":
			form["after"], form["within"] = []any{object{"job": "a/b"}}, v
		case "schedule.offset":
			in["every"] = "366d"
		case "broadcast.fail":
			form["route"] = "broadcast"
		case "script.kind":
			in["source"] = "x"
			delete(form, "handler")
		}
		_, spec, err := spec(form)
		if err != nil {
			return err
		}
		return judge(form, spec)
	}
	var walk func(s *schema, path string)
	walk = func(s *schema, path string) {
		within, beyond := []any{}, []any{}
		switch s.fields().kind {
		case kObject:
			for _, p := range s.fields().Properties {
				walk(p.schema, join(path, p.name))
			}
		case kInt:
			within, beyond = []any{max(s.Minimum, 1), s.Maximum}, []any{s.Maximum + 1, -1}
		case kSpan:
			within = []any{FormatDuration(max(s.min, time.Second)), FormatDuration(s.max)}
			beyond = []any{FormatDuration(s.max + time.Second), "1s500ms"}
			if path == "schedule.offset" {
				within = within[:1]
			}
			if s.min > time.Second {
				beyond = append(beyond, FormatDuration(s.min-time.Second))
			}
		case kWord:
			for _, w := range s.words {
				within = append(within, w)
			}
			for w := range s.Later {
				beyond = append(beyond, w)
			}
		}
		for _, v := range within {
			if err := at(path, v); err != nil {
				t.Errorf("the document allows %v of %s: %v", v, path, err)
			}
		}
		for _, v := range beyond {
			if err := at(path, v); err == nil {
				t.Errorf("the document does not allow %v of %s, core does", v, path)
			}
		}
	}
	walk(job, "")
}

func genSchedule(t *rapid.T) core.Schedule {
	seconds := func(from, to int) time.Duration {
		return time.Duration(rapid.IntRange(from, to).Draw(t, "seconds")) * time.Second
	}
	one := func(kinds ...core.Kind) core.When {
		w := core.When{Kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
		switch w.Kind {
		case core.KindCron:
			w.Expr = rapid.SampledFrom([]string{"0 30 2 * * ?", "*/5 * * * * ?", "0 0 9 ? * MON#1 2030"}).Draw(t, "cron")
		case core.KindCrontab:
			w.Expr = rapid.SampledFrom([]string{"30 2 28 * *", "@daily"}).Draw(t, "crontab")
		case core.KindAt:
			w.At = core.Instant(rapid.Int64Range(10*86400, int64(core.Horizon)).Draw(t, "at"))
		case core.KindEvery:
			w.Every = seconds(1, 100_000)
			if rapid.Bool().Draw(t, "aligned") {
				w.Aligned, w.Offset = true, seconds(0, int(w.Every/time.Second)-1)
			}
		case core.KindFixedDelay:
			w.Every = seconds(1, 100_000)
		}
		return w
	}
	var s core.Schedule
	switch n := rapid.IntRange(0, 4).Draw(t, "rules"); n {
	case 0:
	case 1:
		s.Any = []core.When{one(core.Kinds...)}
	default:
		for range n {
			s.Any = append(s.Any, one(core.KindCron, core.KindCrontab, core.KindEvery, core.KindAt))
		}
	}
	s.Timezone = rapid.SampledFrom([]string{"", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"}).Draw(t, "zone")
	s.From = rapid.SampledFrom([]string{"", "1970-01-02", "1970-01-02T00:00:00+01:00"}).Draw(t, "from")
	s.Until = rapid.SampledFrom([]string{"", "2099-01-01", "2090-01-01T00:00:00.5Z"}).Draw(t, "until")
	s.Jitter = seconds(0, 3600)
	return s
}

func genJob(t *rapid.T, name string) core.Job {
	text := rapid.OneOf(rapid.StringMatching(`[a-zA-Z0-9 :#,\[\]{}&*!|>'"%@\\~-]{0,12}`), rapid.String(),
		rapid.SampledFrom([]string{"null", "~", "true", "1", "1.5", "0x1f", "2026-12-01", "-", "---", "a: b", "a #b", " a", "a ", "\n", "a\n",
			"\r\n", "\t", "<<", "= x", "é\u0085", "\ufeff", "\U0001F600"}))
	seconds := func(from, to int) time.Duration {
		return time.Duration(rapid.IntRange(from, to).Draw(t, "seconds")) * time.Second
	}
	line := func(name string) string {
		return strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return -1
			}
			return r
		}, text.Draw(t, name))
	}
	j := core.Job{
		Def: core.Def{App: "app", Name: name, Title: line("title"), Author: line("author"), Set: "set",
			Handler: "h" + line("handler"), Params: text.Draw(t, "params"),
			Route:   rapid.SampledFrom([]core.Route{core.RouteFirst, core.RouteFailover, core.RouteHash}).Draw(t, "route"),
			Block:   rapid.SampledFrom(core.Blocks).Draw(t, "block"),
			Timeout: seconds(0, 600_000),
			Retry: core.Retry{Max: rapid.IntRange(0, 100).Draw(t, "max"), Delay: seconds(1, 100), Backoff: rapid.SampledFrom(core.Backoffs).Draw(t,
				"backoff"),
				MaxDelay: seconds(100, 86400), On: rapid.SliceOf(rapid.SampledFrom(core.RetryOns)).Draw(t, "on")},
			Keep: core.Keep{Days: rapid.OneOf(rapid.Just(core.KeepForever), rapid.IntRange(1, 3650)).Draw(t, "days"),
				Log: rapid.SampledFrom([]core.KeepLog{"", core.KeepLogNever, core.KeepLogAlways}).Draw(t, "log")},
			LostAfter: seconds(60, 2_000_000)},
		Sched: core.Sched{State: rapid.SampledFrom([]core.JobState{core.Started, core.Paused}).Draw(t, "state"),
			Misfire: rapid.SampledFrom(core.Misfires).Draw(t, "misfire"),
			Grace:   seconds(1, 86400), Deadline: seconds(0, 100_000), Schedule: genSchedule(t)},
	}
	for range rapid.IntRange(0, 3).Draw(t, "labels") {
		if j.Def.Labels == nil {
			j.Def.Labels = map[string]string{}
		}
		j.Def.Labels[rapid.StringMatching(`[!-+\--<>-~]{1,8}`).Draw(t, "label")] = line("value")
	}
	j.Normalize()
	return j
}

// TestRoundTrip: an export that is applied changes nothing.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var jobs []core.Job
		for i := range rapid.IntRange(1, 3).Draw(t, "jobs") {
			jobs = append(jobs, genJob(t, fmt.Sprintf("job-%d", i)))
		}
		for i := range jobs {
			if err := jobs[i].Validate(); err != nil {
				t.Skip(err) // a bound that the generator does not know
			}
		}
		app := fullApp()
		app.Title, app.Set = "x", "set"
		out, err := export([]core.App{app}, jobs)
		check.OK(t, err)
		doc, err := Parse("m", out, Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for i := range jobs {
			if got := jobOf(settings(t, &doc.Jobs[i]), nil); !got.Def.Equal(jobs[i].Def) || !cmp.Equal(got.Sched, jobs[i].Sched) {
				t.Fatalf("(-want +got):\n%s\n%s", cmp.Diff(jobs[i], got), out)
			}
			if got := jobOf(settings(t, &doc.Jobs[i]), &jobs[i]); diff(&jobs[i], &got) != nil {
				t.Fatalf("changes: %v", diff(&jobs[i], &got))
			}
		}
		spec, err := api.ManageApp(doc.Apps[0])
		check.OK(t, err)
		if got := appOf(spec, app); !cmp.Equal(got, app, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })) {
			t.Fatalf("app %+v", got)
		}
	})
}

func TestDiff(t *testing.T) {
	old := fullJob()
	j := old
	j.Def.Labels = map[string]string{"team": "ops"}
	j.Def.Params = "x"
	j.Def.Retry.Max = 0
	j.Def.Timeout = 0
	j.Sched.State = core.Started
	j.Sched.Grace = time.Minute
	j.Sched.Schedule = core.Schedule{Any: []core.When{{Kind: core.KindCron, Expr: "0 45 2 * * ?"}}, Timezone: "UTC"}
	want := []FieldChange{
		{"labels.on", `"yes"`, ""},
		{"labels.team", "finance", "ops"},
		{"params", `"a\nb\\ \"c\"\x00\u2028"`, "x"},
		{"schedule.cron", "", `"0 45 2 * * ?"`},
		{"schedule.every", "1h", ""},
		{"schedule.offset", "5m", ""},
		{"schedule.timezone", "Asia/Shanghai", "UTC"},
		{"schedule.from", "2026-12-01", ""},
		{"schedule.until", "2027-12-31T00:00:00+08:00", ""},
		{"schedule.jitter", "2m", ""},
		{"grace", "30s", "60s"},
		{"timeout", "1m30s", ""},
		{"retry.max", "3", "0"},
		{"paused", "true", "false"},
	}
	check.Equal(t, cmp.Diff(want, diff(&old, &j)), "", "(-want +got)")
	if got := diff(&old, &old); got != nil {
		t.Error(got)
	}
	bare := core.Job{Def: core.Def{App: "a", Name: "b", Handler: "h"}}
	check.Equal(t, cmp.Diff([]FieldChange{{"app", "", "a"}, {"name", "", "b"}, {"handler", "", "h"}}, diff(nil, &bare)), "", "(-want +got)")
	if got := diff(&bare, nil); len(got) != 3 || got[2] != (FieldChange{"handler", "h", ""}) {
		t.Error(got)
	}
	a, b := fullApp(), fullApp()
	b.Token, b.Executors = "", nil
	if diff := cmp.Diff([]FieldChange{{"executors", `["call:https://x.example", "http://h:9999"]`, ""}, {"token", "(set)", ""}},
		diffApp(&a, &b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, c := range diffApp(nil, &a) {
		if strings.Contains(c.New, a.Token) {
			t.Error(c)
		}
	}
}

func TestJobOf(t *testing.T) {
	old := fullJob()
	old.Sched.Rev = 9
	no := false
	got := jobOf(manage.JobSpec{Def: core.Def{App: "reports", Name: "nightly", Handler: "h"}}, &old)
	if got.Sched.State != core.Paused || got.Def.ID != 7 || got.Sched.Rev != 9 || got.Def.Set != "finance" || got.Def.Params != "" {
		t.Errorf("%+v", got)
	}
	if got = jobOf(manage.JobSpec{Paused: &no}, &old); got.Sched.State != core.Started {
		t.Errorf("%+v", got)
	}
}

// valid is as much of a JSON Schema validator as the schema needs.
func valid(root, s map[string]any, v any) bool {
	if ref, ok := s["$ref"].(string); ok {
		return valid(root, root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any), v)
	}
	fit := 0
	for _, one := range items(s["oneOf"]) {
		if valid(root, one.(map[string]any), v) {
			fit++
		}
	}
	if s["not"] != nil || s["oneOf"] != nil && fit != 1 || s["enum"] != nil && !slices.Contains(items(s["enum"]), v) {
		return false
	}
	is, fits := "", true
	switch x := v.(type) {
	case string:
		pattern, _ := s["pattern"].(string)
		is, fits = "string", regexp.MustCompile(pattern).MatchString(x)
	case bool:
		is = "boolean"
	case uint64:
		is = "integer"
		if most, ok := s["maximum"].(float64); ok {
			fits = float64(x) >= s["minimum"].(float64) && float64(x) <= most
		}
	case []any:
		is = "array"
		item, ok := s["items"].(map[string]any)
		fits = !slices.ContainsFunc(x, func(one any) bool { return ok && !valid(root, item, one) })
	case map[string]any:
		is = "object"
		fields, _ := s["properties"].(map[string]any)
		more, _ := s["additionalProperties"].(map[string]any)
		for key, one := range x {
			field, ok := fields[key].(map[string]any)
			if !ok {
				field = more
			}
			fits = fits && (field != nil && valid(root, field, one) || field == nil && s["additionalProperties"] != false)
		}
		for _, key := range items(s["required"]) {
			fits = fits && x[key.(string)] != nil
		}
	}
	want, ok := s["type"].(string)
	return fits && (!ok || want == is)
}

func items(v any) []any {
	out, _ := v.([]any)
	return out
}

// The schema and the parser agree.
func TestSchema(t *testing.T) {
	var schema map[string]any
	check.OK(t, json.Unmarshal(Schema(), &schema))
	validate := func(in []byte) bool {
		var v map[string]any
		check.OK(t, yaml.Unmarshal(in, &v))
		return valid(schema, schema, v)
	}
	check.Equal(t, validate(read(t, "accepted.yaml")), true, "accepted.yaml is valid")
	check.Equal(t, validate(read(t, "example.yaml")), false, "the complete example is valid")
	for _, s := range []string{"timeuot: 5m", "timeout: 600", "timeout: -5m", "timeout: \"\"", "retry: {max: 101}", "retry: 3",
		"misfire: lastest", "broadcast: {fail: some}", "template: yes",
		"notify: {on: [calendar-end]}", "notify: {too: [x]}", "retention: {log: sometimes}", "labels: {a: 5}", "schedule: {calendar: x}",
		"schedule: 5m", "title: 5", "version: 1"} {
		in := []byte(head + "  " + s + "\n")
		if _, err := Parse("m", in, Options{}); err == nil {
			t.Errorf("%s: the parser takes it", s)
		}
		if s != "timeout: \"\"" && validate(in) { // its minLength is not checked
			t.Errorf("%s: the schema takes it", s)
		}
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"500ms": 500 * time.Millisecond, "10s": 10 * time.Second, "5m": 5 * time.Minute,
		"2h":  2 * time.Hour,
		"30d": 720 * time.Hour, "1h30m": 90 * time.Minute, "1d2h3m4s5ms": 26*time.Hour + 3*time.Minute + 4*time.Second + 5*time.Millisecond,
		"0s": 0, "90m": 90 * time.Minute} {
		if got, err := api.ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	texts := golden.New(t)
	for _, text := range []string{"", "600", "-5m", "1.5h", "1m1h", "5x", "s", "1 h", "999999d", "99999999999999999999s"} {
		if got, err := api.ParseDuration(text); err == nil {
			t.Errorf("%q: %v", text, got)
		} else {
			texts.Equal(t, fmt.Sprintf("%q", text), err.Error())
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", time.Minute: "60s", 2 * time.Minute: "2m", 90 * time.Second: "1m30s",
		720 * time.Hour:         "30d",
		1500 * time.Millisecond: "1s500ms", -time.Minute: "-1m0s", time.Microsecond: "1µs"} {
		check.Equal(t, FormatDuration(d), want, "%v", d)
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, (1<<62)/1_000_000).Draw(t, "ms")) * time.Millisecond
		if got, err := api.ParseDuration(FormatDuration(d)); err != nil || got != d {
			t.Fatalf("%v: %s: %v, %v", d, FormatDuration(d), got, err)
		}
	})
}

// TestNotifyOfDefaults: defaults with a to set the recipients of notifications without a job, once for all documents, and their
// export applies to no job.
func TestNotifyOfDefaults(t *testing.T) {
	parse := func(text string) *Document {
		t.Helper()
		doc, err := Parse("f", []byte(text), Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return doc
	}
	if doc := parse("version: 1\ndefaults: {notify: {quiet: 2h}}\n"); doc.Notify != nil {
		t.Errorf("without a to it has %+v", doc.Notify)
	}
	if doc := parse("version: 1\ndefaults: {notify: {}}\n"); !cmp.Equal(doc.Notify, &client.Notify{}) {
		t.Errorf("nobody is %+v", doc.Notify)
	}
	doc := parse("version: 1\ndefaults: {notify: {to: [oncall], on: [late, dead-letter], quiet: 2h}}\n---\nversion: 1\n" +
		"defaults: {notify: {to: [mail]}}\njobs: [{app: a, name: b, handler: h}]\n")
	want := &client.Notify{To: []string{"oncall"}, On: []string{"late", "dead-letter"}, Quiet: "2h"}
	if !cmp.Equal(doc.Notify, want) || doc.Jobs[0].Notify.To[0] != "mail" {
		t.Errorf("%+v, the job %+v", doc.Notify, doc.Jobs[0].Notify)
	}
	if len(doc.Warnings) != 1 || !strings.Contains(doc.Warnings[0].Error(), "f:5") || !strings.Contains(doc.Warnings[0].Error(), "f:2") {
		t.Errorf("warned of %v", doc.Warnings)
	}
	job := api.JobOf(&core.Job{Def: core.Def{App: "a", Name: "b", Handler: "h"}})
	out, err := ExportAll(want, nil, nil, []client.Job{job})
	check.OK(t, err)
	if again := parse(string(out)); !cmp.Equal(again.Notify, want) || len(again.Jobs) != 1 ||
		!cmp.Equal(again.Jobs[0].Notify, client.Notify{}) {
		t.Errorf("the export has %+v, and for the job %+v:\n%s", again.Notify, again.Jobs, out)
	}
}
