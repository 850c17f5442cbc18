package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/internal/assembly"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/words"
)

func env(pairs ...string) Options {
	return Options{Getenv: func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The parts of the complete example that this version does not support.
const exampleRefusals = `example.yaml:15:1: calendars: not supported: calendars come with a later version; leave the field out
example.yaml:46:7: jobs[0].schedule.calendar: not supported: calendars come with a later version; leave the field out
example.yaml:90:40: jobs[6].schedule.calendar: not supported: calendars come with a later version; leave the field out`

var exampleEnv = withFile(env("REPORTS_TOKEN", "s3cret", "LEDGER_TOKEN", "s3cret", "HOOK_SECRET", "s3cret",
	"SMTP_PASSWORD", "s3cret"), "./cleanup.sh", "rm -f /tmp/old\n")

// withFile has one file that may be read.
func withFile(o Options, name, text string) Options {
	o.ReadFile = func(path string) ([]byte, error) {
		if path != name {
			return nil, fs.ErrNotExist
		}
		return []byte(text), nil
	}
	o.Parameter = func(string) (string, error) { return "https://open.feishu.cn/open-apis/bot/v2/hook/0", nil }
	return o
}

// everywhere is sent to.
type everywhere struct{}

func (everywhere) Takes(context.Context, core.Channel) error { return nil }
func (everywhere) Test(context.Context, core.Channel) error  { return nil }

func TestExample(t *testing.T) {
	_, err := Parse("example.yaml", read(t, "example.yaml"), exampleEnv)
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(strings.Split(exampleRefusals, "\n"), strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestExampleIsBuilt: of the complete example all is saved but calendars.
func TestExampleIsBuilt(t *testing.T) {
	var whole map[string]any
	if err := yaml.Unmarshal(read(t, "example.yaml"), &whole); err != nil {
		t.Fatal(err)
	}
	without(whole, "calendars", "calendar")
	for _, job := range whole["jobs"].([]any) {
		if job := job.(map[string]any); job["handler"] == nil && job["command"] == nil && job["script"] == nil {
			job["handler"] = "in its place"
		}
	}
	text, err := yaml.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Parse("example.yaml", text, exampleEnv)
	if err != nil || len(doc.Jobs) != 7 || len(doc.Channels) != 4 {
		t.Fatalf("%v\n%s", err, text)
	}
	runs := func(*core.Command) error { return nil }
	m := assembly.New(memory.Open(memory.Options{}), assembly.Options{}).People(nil,
		people.Options{Manage: manage.Options{Command: runs, Notifier: everywhere{}}})
	ann := core.Actor{Name: "ann"}
	for _, c := range doc.Channels {
		if _, err := m.SaveChannel(t.Context(), ann, c.Spec); err != nil {
			t.Error(err)
		}
	}
	for _, a := range doc.Apps {
		if _, err := m.SaveApp(t.Context(), ann, a.Spec); err != nil {
			t.Error(err)
		}
	}
	var specs []manage.JobSpec
	for _, j := range doc.Jobs {
		specs = append(specs, j.Spec)
	}
	for _, r := range m.Save(t.Context(), ann, specs) {
		if r.Err != nil {
			t.Errorf("%s: %v", r.Name, r.Err)
		}
	}
}

// without removes keys from a tree at every level.
func without(tree any, keys ...string) {
	switch v := tree.(type) {
	case map[string]any:
		for _, key := range keys {
			delete(v, key)
		}
		for _, below := range v {
			without(below, keys...)
		}
	case []any:
		for _, below := range v {
			without(below, keys...)
		}
	}
}

func TestAccepted(t *testing.T) {
	doc, err := Parse("accepted.yaml", read(t, "accepted.yaml"), env("REPORTS_TOKEN", "s3cret"))
	if err != nil {
		t.Fatal(err)
	}
	token, yes, no := "s3cret", true, false
	at := func(line int) Pos { return Pos{"accepted.yaml", line, 5} }
	retry := core.Retry{Max: 1, Delay: 30 * time.Second}
	keep, wait := core.Keep{Days: 30}, 5*time.Minute
	want := &Document{
		Set: "finance-prod",
		Apps: []App{
			{manage.AppSpec{Name: "reports", Title: "报表", Set: "finance-prod", Token: &token, Allow: []string{"10.0.0.0/8", "192.0.2.7"},
				WaitForExecutor: 2 * time.Minute}, at(7)},
			{manage.AppSpec{Name: "pay", Set: "finance-prod", Executors: []string{"call:https://pay.internal"}}, at(12)},
		},
		Jobs: []Job{
			{manage.JobSpec{
				Def: core.Def{App: "reports", Name: "nightly", Title: "每日报表", Author: "lina", Labels: map[string]string{"team": "finance"},
					Set: "finance-prod", Handler: "nightlyReport", Params: "day={{scheduledAt yyyy-MM-dd -1d}}", Route: core.RouteFailover,
					Block:   core.BlockSerial,
					Timeout: 10 * time.Minute, LostAfter: 10 * time.Minute, WaitForExecutor: 10 * time.Minute, Keep: core.Keep{Days: 90},
					Overlap: core.Overlap{Limit: 1, Full: core.FullQueue, Max: 10}, PauseAfter: 5,
					Retry: core.Retry{Max: 3, Delay: 30 * time.Second, Backoff: core.BackoffExponential, MaxDelay: 10 * time.Minute,
						On: []core.State{core.Failed, core.TimedOut}}},
				Schedule: core.Schedule{Any: []core.When{{Kind: core.KindCron, Expr: "0 30 2 * * ?"}}, Timezone: "Asia/Shanghai",
					From: "2026-12-01", Until: "2027-12-31", Jitter: 2 * time.Minute},
				Misfire: core.MisfireLatest, Grace: time.Minute, Deadline: 2 * time.Hour}, at(16)},
			{manage.JobSpec{
				Def: core.Def{App: "reports", Name: "reindex", Set: "finance-prod", Handler: "reindex", Route: core.RouteBroadcast,
					BroadcastFail: core.BroadcastFailAny, Retry: retry, Keep: keep,
					WaitForExecutor: wait, After: []core.Parent{{Job: "reports/nightly", When: core.UponClose}}},
				Schedule: core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: 15 * time.Minute}}, Timezone: "Europe/Berlin"}}, at(42)},
			{manage.JobSpec{
				Def: core.Def{App: "reports", Name: "cleanup", Set: "finance-prod", Handler: "cleanup",
					Retry: core.Retry{Max: 5, Delay: 30 * time.Second}, Keep: keep, WaitForExecutor: wait},
				Schedule: core.Schedule{Any: []core.When{{Kind: core.KindCrontab, Expr: "0 4 * * 0"}, {Kind: core.KindAt, At: 1798761600},
					{Kind: core.KindEvery, Every: 90 * time.Minute, Aligned: true}}, Timezone: "UTC"},
				Paused: &yes}, at(49)},
			{manage.JobSpec{
				Def: core.Def{App: "pay", Name: "salaries", Set: "finance-prod", Handler: "POST /run", Params: "{\"kind\": \"salary\"}\n",
					Retry: retry, Keep: keep, WaitForExecutor: wait},
				Schedule: core.Schedule{Any: []core.When{{Kind: core.KindFixedDelay, Every: 30 * time.Second}}, Timezone: "Europe/Berlin"}}, at(58)},
			{manage.JobSpec{
				Def:      core.Def{App: "pay", Name: "by-hand", Set: "finance-prod", Handler: "/hand", Retry: retry, Keep: keep, WaitForExecutor: wait},
				Schedule: core.Schedule{Timezone: "Europe/Berlin"}, Paused: &no}, at(64)},
		},
	}
	if diff := cmp.Diff(want, doc); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A job without the fields in the rows of the table below.
const head = "version: 1\njobs:\n- app: a\n  name: j\n  handler: h\n"

func TestErrors(t *testing.T) {
	job := func(s string) string { return head + "  " + s + "\n" }
	app := func(s string) string { return "version: 1\napps:\n- name: a\n  " + s + "\n" }
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", "m:  the manifest is empty: start it with version: 1"},
		{"comments only", "# hello\n---\n", "m: the manifest is empty: start it with version: 1"},
		{"a list", "- a\n", "m:1:1: a list; a manifest must be a map that starts with version: 1"},
		{"a text", "hello\n", `m:1:1: "hello"; a manifest must be a map that starts with version: 1`},
		{"no version", "set: x\n", "m:1:1: version: required: 1."},
		{"other version", "version: 2\n", "m:1:10: version: the number 2; this program supports version: 1"},
		{"version as text", "version: \"1\"\n", `m:1:10: version: "1"; this program supports version: 1`},
		{"not UTF-8", "version: 1\nset: \xff\n", "m:2:6: not UTF-8"},
		{"zero byte", "version: 1\nset: a\x00\n", "m:2:7: zero byte found: a manifest must be UTF-8 text"},
		{"duplicate key", job("params: a\n  params: b"), "m:7:3: jobs[0].params: duplicate key: already set at 6:3"},
		{"duplicate key in flow", job("retry: {max: 1, max: 2}"), "m:6:19: jobs[0].retry.max: duplicate key: already set at 6:11"},
		{"duplicate at the top", "version: 1\nversion: 1\n", "m:2:1: version: duplicate key: already set at 1:1"},
		{"unknown field", job("timeuot: 5m"), `m:6:3: jobs[0].timeuot: a job has no field "timeuot"; did you mean timeout?`},
		{"unknown field in another case", job("max_delay: 5m\n  Lost-After: 5m"),
			"m:6:3: jobs[0].max_delay: a job has no field \"max_delay\"; allowed values: app, name, title, author, labels, handler, params, " +
				"template, " +
				"call, command, script, schedule, after, misfire, grace, deadline, block, route, broadcast, timeout, retry, lostAfter, " +
				"waitForExecutor, overlap, pauseAfter, retention, notify, " +
				"paused\n" +
				`m:7:3: jobs[0].Lost-After: a job has no field "Lost-After"; did you mean lostAfter?`},
		{"a join without its window", job("after: {all: [{job: a/b}]}"),
			"m:6:10: jobs[0].after.within: required: Maximum time after the first parent ended. After this time, one run is skipped, and " +
				"the next end starts a new period."},
		{"a join of nothing", job("after: {all: [], within: 6h}"), "m:6:16: jobs[0].after.all: the list is empty; expected a list such as [{…}]"},
		{"too long a window", job("after: {all: [{job: a/b}], within: 8d}"),
			`m:6:38: jobs[0].after.within: 8d; allowed values: whole seconds from 1s to 7d, such as 10s 5m 2h`},
		{"a join after no name", job("after: {all: [{job: b}], within: 6h}"),
			`m:6:23: jobs[0].after.all[0].job: "b": write a job as APP/NAME`},
		{"joins after themselves, round about", job("after: {all: [{job: a/y}], within: 1h}") +
			"- {app: a, name: y, handler: h, after: {all: [{job: x/y}, {job: a/z}], within: 1h}}\n" +
			"- {app: a, name: z, handler: h, after: [{job: a/y, when: finished}]}\n",
			`m:7:65: jobs[1].after.all[1].job: "a/z": the parent jobs form a cycle of 2 jobs` + "\n" +
				`m:8:47: jobs[2].after[0].job: "a/y": the parent jobs form a cycle of 2 jobs`},
		{"after another word", job("after: [{job: a/b, when: done}]"), `m:6:28: jobs[0].after[0].when: "done"; allowed values: succeeded, failed, finished`},
		{"after no name", job("after: [{job: b}]"), `m:6:17: jobs[0].after[0].job: "b": write a job as APP/NAME`},
		{"after itself, round about", job("after: [{job: a/y}]") + "- {app: a, name: y, handler: h, after: [{job: x/y}, {job: a/z}]}\n" +
			"- {app: a, name: z, handler: h, after: [{job: a/y, when: finished}]}\n",
			`m:7:59: jobs[1].after[1].job: "a/z": the parent jobs form a cycle of 2 jobs` + "\n" +
				`m:8:47: jobs[2].after[0].job: "a/y": the parent jobs form a cycle of 2 jobs`},
		{"field of the schedule", job("jitter: 5m"), `m:6:3: jobs[0].jitter: a job has no field "jitter"; did you mean schedule.jitter?`},
		{"unknown at the top", "version: 1\njob: []\n", `m:2:1: job: a manifest has no field "job"; did you mean jobs?`},
		{"bare number", job("timeout: 600"),
			"m:6:12: jobs[0].timeout: 600: a number needs a unit: use 600s; allowed values: whole seconds from 0s to 7d, such as 10s 5m 2h"},
		{"bare number in quotes", job("timeout: \"600\""),
			"m:6:12: jobs[0].timeout: 600: a number needs a unit: use 600s; allowed values: whole seconds from 0s to 7d, such as 10s 5m 2h"},
		{"negative", job("timeout: -5m"),
			"m:6:12: jobs[0].timeout: -5m: negative; allowed values: whole seconds from 0s to 7d, " +
				"such as 10s 5m 2h"},
		{"too long", job("timeout: 8d"), "m:6:12: jobs[0].timeout: 8d; allowed values: whole seconds from 0s to 7d, such as 10s 5m 2h"},
		{"half a second", job("timeout: 500ms"),
			"m:6:12: jobs[0].timeout: 500ms; allowed values: whole seconds from 0s to 7d, such as 10s 5m 2h"},
		{"zero that is not the default", job("grace: 0s"),
			"m:6:10: jobs[0].grace: 0s; allowed values: whole seconds from 1s to 1d, such as 10s 5m 2h"},
		{"wrong types", job("retry: 3\n  labels: [a]\n  paused: yes\n  title: 5\n  params:\n  retention: {days: many}"),
			"m:6:10: jobs[0].retry: the number 3; expected a map with fields: max, delay, backoff, maxDelay, on\n" +
				"m:7:11: jobs[0].labels: a list; expected a map such as {team: finance}\n" +
				"m:8:11: jobs[0].paused: \"yes\"; allowed values: true and false\n" +
				"m:9:10: jobs[0].title: the number 5 is not a text: use quotes: \"5\"\n" +
				"m:10:10: jobs[0].params: empty: write a text, or leave the field out\n" +
				"m:11:21: jobs[0].retention.days: \"many\"; allowed values: whole numbers from 0 to 3650"},
		{"jobs as a map", "version: 1\njobs: {a: 1}\n", "m:2:7: jobs: a map; expected a list such as [{…}]"},
		{"number out of range", job("retry: {max: 101}"), "m:6:16: jobs[0].retry.max: the number 101; " +
			"allowed values: whole numbers from 0 to 100"},
		{"wrong word", job("misfire: lastest"), `m:6:12: jobs[0].misfire: "lastest"; allowed values: latest, all, skip`},
		{"broadcast of another route", job("broadcast: {fail: all}"),
			`m:6:14: jobs[0].broadcast: "all": only for route: broadcast, but the route of this job is first`},
		{"more in flight than may be", app("limits: {inFlight: 1001}"), `m:4:22: apps[0].limits.inFlight: the number 1001; allowed values: whole numbers from 1 to 1000`},
		{"a limit by the minute", app("limits: {perMinute: 5}"), `m:4:12: apps[0].limits.perMinute: limits has no field "perMinute"; allowed values: inFlight, perSecond`},
		{"a key that is no pointer", job("overlap: {limit: 1, key: tenant}"), `m:6:28: jobs[0].overlap.key: "tenant": a JSON pointer into the params starts with /, such as /tenant or /order/customer`},
		{"broadcast that is replaced", job("route: broadcast\n  overlap: {limit: 1, whenFull: replace}"),
			`m:7:33: jobs[0].overlap.whenFull: "replace": broadcast runs cannot be replaced: with route: broadcast use queue or skip`},
		{"no retry.on", job("retry: {on: []}"), "m:6:15: jobs[0].retry.on: the list is empty; expected a list such as [failed, timed-out, lost]"},
		{"delays", job("retry: {delay: 1m, maxDelay: 30s}"), `m:6:32: jobs[0].retry.maxDelay: "30s": shorter than retry.delay, 1m0s`},
		{"five fields", job("schedule: {cron: \"30 2 * * *\"}"),
			`m:6:20: jobs[0].schedule.cron: "30 2 * * *": 5 fields are Unix crontab syntax: use the kind crontab; cron has 6 or 7: seconds minutes hours day-of-month month day-of-week [year]`},
		{"never", job("schedule: {cron: \"0 0 0 31 2 ?\"}"), `m:6:20: jobs[0].schedule.cron: "0 0 0 31 2 ?": the schedule never fires`},
		{"appname of an app", "version: 1\napps: [{appname: a}]\n",
			`m:2:8: apps[0].name: required: 1 to 64 characters a-z A-Z 0-9 . _ -
m:2:9: apps[0].appname: an app has no field "appname"; xxl-job's appname is app (in apps: name) in tickring`},
		{"glueType", job("glueType: BEAN"), `m:6:3: jobs[0].glueType: a job has no field "glueType"; ` +
			"xxl-job's glueType is handler: NAME for BEAN, script: {kind: shell, file: FILE} for GLUE_SHELL in tickring"},
		{"Chinese name", "version: 1\njobs: [{app: a, name: 日报, handler: h}]\n",
			`m:2:23: jobs[0].name: "日报": a name can have only a-z 0-9 . _ -: use this text as the title, and choose a short name`},
		{"unknown zone", job("schedule: {every: 5m, timezone: Europe/Brelin}"),
			`m:6:35: jobs[0].schedule.timezone: "Europe/Brelin": not an IANA time zone; did you mean Europe/Berlin?`},
		{"unknown zone in defaults",
			"version: 1\ndefaults: {timezone: Mars}\njobs: [{app: a, name: b, handler: c}, {app: a, name: d, handler: c}]\n",
			`m:2:22: defaults.timezone: "Mars": not an IANA time zone; write one such as Europe/Berlin, or leave the field out for UTC`},
		{"until before from", job("schedule: {every: 5m, from: 2027-01-02, until: 2027-01-01}"),
			`m:6:31: jobs[0].schedule.from: "2027-01-02": the start is after the end (2027-01-01)`},
		{"no date", job("schedule: {every: 5m, from: tomorrow}"),
			`m:6:31: jobs[0].schedule.from: "tomorrow"; expected a date such as 2026-12-01, or a time such as 2026-12-01T09:00:00+01:00`},
		{"at without zone", job("schedule: {at: 2027-01-01T00:00:00}"),
			`m:6:18: jobs[0].schedule.at: "2027-01-01T00:00:00"; expected a time in whole seconds, such as 2027-01-01T00:00:00Z or 2027-01-01T01:00:00+01:00`},
		{"second in a list", job("schedule: [{every: 5m}, {crontab: \"61 * * * *\"}]"),
			`m:6:37: jobs[0].schedule[1].crontab: "61 * * * *": minutes: at offset 0: 61 is out of range; allowed: 0-59`},
		{"zones that differ", job("schedule: [{every: 5m, timezone: UTC}, {every: 7m, timezone: Asia/Tokyo}]"),
			"m:6:64: jobs[0].schedule[1].timezone: differs from 6:36: the schedules of a job share one timezone; " +
				"write it once, or the same value in each"},
		{"two kinds", job("schedule: {every: 5m, crontab: \"0 4 * * *\"}"),
			"m:6:21: jobs[0].schedule.every: crontab and every in one schedule: only one of cron, crontab, every, fixedDelay, at " +
				"is allowed; write several schedules as a list"},
		{"no kind in a list", job("schedule: [{timezone: UTC}]"),
			"m:6:14: jobs[0].schedule[0]: the schedule is missing: set one of cron, crontab, every, fixedDelay, at"},
		{"offset of cron", job("schedule: {crontab: \"0 4 * * *\", offset: 5s}"),
			"m:6:44: jobs[0].schedule.offset: only every can have an offset"},
		{"offset too large", job("schedule: {every: 5m, offset: 5m}"),
			`m:6:33: jobs[0].schedule.offset: "5m0s": an offset must be at least 0s, shorter than the period (5m0s), and in whole seconds`},
		{"fixed delay in a list", job("schedule: [{every: 5m}, {fixedDelay: 5m}]"),
			`m:6:40: jobs[0].schedule[1].fixedDelay: "5m0s": a fixed delay cannot be part of a list`},
		{"params too large", job("params: " + strings.Repeat("x", core.MaxParams+1)),
			"m:6:11: jobs[0].params: 65537 bytes, at most 65536 (64 KB) are allowed"},
		{"name twice", head + "- app: a\n  name: j\n  handler: h\n", `m:7:9: jobs[1].name: job "a/j" is already defined at m:3:3`},
		{"app twice", app("title: x\n- name: a"), `m:5:9: apps[1].name: app "a" is already defined at m:3:3`},
		{"name without a letter", "version: 1\njobs:\n- {app: a, name: \"12\", handler: h}\n",
			`m:3:18: jobs[0].name: "12": a name needs at least one letter, because digits alone are read as a number`},
		{"name as a number", "version: 1\njobs:\n- {app: a, name: 12, handler: h}\n",
			`m:3:18: jobs[0].name: the number 12 is not a text: use quotes: "12"`},
		{"name with capitals", "version: 1\njobs:\n- {app: a, name: Nightly, handler: h}\n",
			`m:3:18: jobs[0].name: "Nightly": a name has 1 to 128 characters of a-z 0-9 . _ - and starts and ends with a letter or digit`},
		{"nothing of a job", "version: 1\njobs:\n- {}\n- title: x\n",
			"m:3:3: jobs[0].app: required: The app that runs the job.\nm:3:3: jobs[0].name: required: 1 to 128 characters a-z 0-9 . _ - " +
				"with at least one letter; " +
				"unique in the app.\nm:3:3: jobs[0].handler: required: The handler that the executor runs; for call: executors \"POST /path\".\n" +
				"m:4:3: jobs[1].app: required: The app that runs the job.\nm:4:3: jobs[1].name: required: 1 to 128 characters a-z 0-9 . _ - " +
				"with at least one letter; " +
				"unique in the app.\nm:4:3: jobs[1].handler: required: The handler that the executor runs; for call: executors \"POST /path\"."},
		{"labels", job("labels: {\"a b\": x, c: 5}"),
			"m:6:19: jobs[0].labels.a b: \"a b\": a label name has 1 to 63 printable ASCII characters without space, comma and =\n" +
				"m:6:25: jobs[0].labels.c: the number 5 is not a text: use quotes: \"5\""},
		{"several of one job", job("title: \"\\e\"\n  schedule: {cron: nope, timezone: Mars}\n  deadline: 31d"),
			"m:6:10: jobs[0].title: \"\\\"\\\\x1b\\\"\": control characters are not allowed\n" +
				"m:7:20: jobs[0].schedule.cron: \"nope\": at offset 4: has only 1 field; allowed: 6 or 7: seconds minutes hours day-of-month month " +
				"day-of-week [year]\n" +
				"m:7:36: jobs[0].schedule.timezone: \"Mars\": not an IANA time zone; write one such as Europe/Berlin, " +
				"or leave the field out for UTC\n" +
				"m:8:13: jobs[0].deadline: 31d; allowed values: whole seconds from 0s to 30d, such as 10s 5m 2h"},
		{"handler of a call", "version: 1\napps: [{name: a, executors: [\"call:http://x\"]}]\njobs:\n- app: a\n  name: j\n  handler: run\n",
			`m:6:12: jobs[0].handler: "run": the executors of the app are call: addresses: the handler must be "POST /path" or "/path"; the path starts with one slash, is escaped, and has no fragment`},
		{"executors", app("executors: [nope, \"http://h:1\", \"http://h:1\", \"queue:x.fifo\"]"),
			"m:4:15: apps[0].executors[0]: \"nope\": not an http or https URL; allowed: http://HOST:PORT or https://… (an xxl-job executor), " +
				"call:https://… (a plain HTTP endpoint), lambda:NAME or lambda:ARN (a function), queue:NAME or queue:ARN (a queue that executors " +
				"pull from)\n" +
				"m:4:35: apps[0].executors[2]: \"http://h:1\" is named twice\n" +
				"m:4:49: apps[0].executors[3]: \"queue:x.fifo\": FIFO queues are not supported: they hold back messages of one group, " +
				"and runs have no group; create a standard queue"},
		{"allow", app("allow: [10.0.0.0/8, 10.0.0]"),
			`m:4:23: apps[0].allow[1]: "10.0.0"; write a range as 10.0.0.0/8 or fd00::/8, or as a single IP address`},
		{"secret without environment", app("token: {env: NOPE}"), "m:4:16: apps[0].token.env: the environment variable NOPE is not set"},
		{"secret of a parameter", app("token: {ssm: /x}"), "m:4:16: apps[0].token.ssm: SSM parameters are not supported here"},
		{"header with a line break", job("call: {headers: {X-Team: \"a\\nb\"}}"),
			"m:6:28: jobs[0].call.headers.X-Team: the value of a header can have at most 4096 printable ASCII characters, " +
				"without line breaks or surrounding spaces"},
		{"headers that are not given", job("call: {headers: {Host: a, X.Y: b, Tickring-Run: c}, expect: [200, 99], maxAnswer: 64}"),
			`m:6:26: jobs[0].call.headers.Host: "Host": this header cannot be set: the address determines the value` + "\n" +
				`m:6:51: jobs[0].call.headers.Tickring-Run: "Tickring-Run": this header cannot be set: reserved for tickring` + "\n" +
				"m:6:69: jobs[0].call.expect[1]: the number 99; allowed values: whole numbers from 200 to 599\n" +
				"m:6:85: jobs[0].call.maxAnswer: the number 64; allowed values: 1KB to 16MB, such as 64KB"},
		{"two auths", job("call: {auth: {bearer: {env: NOPE}, basic: {user: a}, oauth: {tokenUrl: x}}}"),
			"m:6:16: jobs[0].call.auth: use exactly one of bearer, basic and oauth\n" +
				"m:6:31: jobs[0].call.auth.bearer.env: the environment variable NOPE is not set\n" +
				"m:6:63: jobs[0].call.auth.oauth.clientId: required: The client ID.\n" +
				"m:6:63: jobs[0].call.auth.oauth.clientSecret: required: The client secret."},
		{"call without an address",
			"version: 1\napps: [{name: a, call: {expect: [200]}}]\njobs:\n- {app: a, name: j, handler: h, call: {maxAnswer: 1MB}}\n",
			`m:2:24: apps[0].call: app a has no executor that is an HTTP endpoint: add one, such as executors: ["call:https://example.com"]` + "\n" +
				`m:4:39: jobs[0].call: app a has no executor that is an HTTP endpoint: add one, such as executors: ["call:https://example.com"]`},
		{"call of an app",
			"version: 1\napps:\n- name: a\n  executors: [\"call:http://h\"]\n  call: {expect: [200, 200], headers: {TE: trailers}}\n",
			`m:5:44: apps[0].call.headers.TE: "TE": this header cannot be set: reserved for the connection`},
		{"secret of nothing", app("token: {}"),
			"m:4:10: apps[0].token: use exactly one of env, file and ssm; allowed values: {env: NAME}, {file: PATH} and {ssm: NAME}"},
		{"secret that is a number", app("token: 8734587345"),
			"m:4:10: apps[0].token: a number; allowed values: {env: NAME}, {file: PATH} and {ssm: NAME}"},
		{"secret with a space", app("token: \" x\""),
			"m:4:10: apps[0].token: a token can have at most 256 printable ASCII characters, without surrounding spaces"},
		{"missing comma", job("labels: {a: b c: d}"),
			"m:6:15: jobs[0].labels.a: a text with a colon and a space needs quotes, or a comma is missing before the text"},
		{"tag", job("title: !!str 5"), "m:6:10: jobs[0].title: tags are not supported: remove !!str"},
		{"merge key", "version: 1\ndefaults: &d {grace: 5s}\njobs:\n- {<<: *d, app: a, name: b, handler: c}\n",
			"m:4:4: jobs[0]: merge keys (<<) are not supported: use defaults, or an alias in place of a whole value"},
		{"a crontab without quotes", job("schedule: {crontab: * 0 * * *}"),
			"m:6:23: jobs[0].schedule.crontab: anchor &0 * * * is not defined before this: quote a text that starts with *"},
		{"unknown alias", job("title: *x"), "m:6:10: jobs[0].title: anchor &x is not defined before this: quote a text that starts with *"},
		{"alias of itself", job("labels: &x {a: *x}"), "m:6:14: jobs[0].labels.a: a map; expected a text"},
		{"deep", "version: 1\nset: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "\n",
			"m:2:70: nested too deep: a manifest can have at most 6 levels"},
		{"many keys", "version: 1\n" + strings.Repeat("a:\n", 1001),
			"m:1001:2: more than 1000 keys in a row: a map in a manifest has only a few"},
		{"second document", "version: 1\n---\nversion: 1\nset: [\n", "m:4:6: invalid YAML: sequence end token ']' not found"},
		{"sets that differ", "version: 1\nset: a\n---\nversion: 1\nset: b\n",
			`m:5:6: set: the set is "b" here, but "a" at m:2:6: files that are applied together must use one set`},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc, err := Parse("m", []byte(c.in), env())
			if err == nil || doc != nil {
				t.Fatalf("no error, document %v", doc)
			}
			if _, ok := errors.AsType[Errors](err); !ok {
				t.Errorf("a %T", err)
			}
			want := strings.Replace(c.want, "m:  ", "m: ", 1)
			if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, e := range err.(Errors) {
				zh := words.Say(words.Chinese, e.Reason)
				if !strings.ContainsFunc(zh, han) || english.MatchString(zh) {
					t.Errorf("in Chinese it is %q", zh)
				}
			}
		})
	}
}

// english is four words of it one after the other: data has fewer.
var english = regexp.MustCompile(`(?:\b[a-z]{2,} ){3}[a-z]{2,}\b`)

func han(r rune) bool { return unicode.Is(unicode.Han, r) }

// TestEveryPhrase: the API document's phrases in errors have Chinese translations: names of objects, reasons for later fields, and
// descriptions of required fields.
func TestEveryPhrase(t *testing.T) {
	phrases, seen := map[string]bool{}, map[*schema]bool{}
	var walk func(s *schema)
	walk = func(s *schema) {
		if s == nil || seen[s] {
			return
		}
		seen[s] = true
		if s.kind == kObject {
			phrases[s.Title] = true
			for _, name := range s.Required {
				phrases[s.get(name).Description] = true
			}
		}
		for _, why := range s.Later {
			phrases[why] = true
		}
		for _, p := range s.Properties {
			walk(p.schema)
		}
		for _, one := range append(s.OneOf, s.Items, s.Entries) {
			walk(one)
		}
	}
	walk(component("Manifest"))
	walk(component("ManifestSecret"))
	if len(phrases) < 40 {
		t.Fatalf("only %d phrases were found", len(phrases))
	}
	for phrase := range phrases {
		text := core.Phrase(phrase)
		if zh := words.Say(words.Chinese, text); zh == phrase || phrase == "" || strings.Contains(phrase, "%") {
			t.Errorf("api/openapi.yaml has %q, without a translation: add to words/catalog/zh.po\nmsgid %q\nmsgstr \"…the same in Chinese…\"",
				phrase, phrase)
		}
	}
}

// Errors are bounded, in order, and the same when a large file is read in pieces.
func TestManyErrors(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\njobs:\n")
	for i := range 20_000 {
		fmt.Fprintf(&b, "  - app: a\n    name: j%d\n    handler: h\n    oops: %d\n", i, i)
	}
	_, err := Parse("m", []byte(b.String()), Options{})
	errs, ok := errors.AsType[Errors](err)
	if !ok || len(errs) != MaxErrors+1 {
		t.Fatalf("%d errors: %v", len(errs), err)
	}
	for i, e := range errs[:MaxErrors] {
		if e.Line != 6+4*i || e.Column != 5 || e.Path != fmt.Sprintf("jobs[%d].oops", i) {
			t.Fatalf("error %d: %v", i, e)
		}
	}
	if got := errs[MaxErrors].Error(); got != "m: more errors exist: fix these first" {
		t.Error(got)
	}
}

// many returns a manifest of n jobs; a nonempty last is inserted at the last job.
func many(n int, last string) []byte {
	var b bytes.Buffer
	b.WriteString("version: 1\nset: x\n\napps:\n  - {name: a}\n\njobs: # all of them\n")
	for i := range n {
		fmt.Fprintf(&b, "  # number %d\n  - app: a\n    name: job-%d\n    title: Job number %d\n    labels: {team: finance, n: \"%d\"}\n    "+
			"handler: doIt\n    params: |\n      - x=%d\n      - y\n"+
			"    schedule:\n      cron: \"0 %d 2 * * ?\"\n      timezone: Europe/Berlin\n    misfire: latest\n    grace: 60s\n    route: "+
			"failover\n    timeout: 10m\n"+
			"    retry: {max: 3, delay: 30s, backoff: exponential, maxDelay: 10m, on: [failed, timed-out]}\n", i, i, i, i, i, i%60)
		if i == n-1 {
			b.WriteString(last)
		}
	}
	b.WriteString("defaults: {retention: {days: 7}}\n")
	return b.Bytes()
}

func TestPieces(t *testing.T) {
	const n = 2000
	doc, err := Parse("m", many(n, ""), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.Jobs) != n {
		t.Fatalf("%d jobs", len(doc.Jobs))
	}
	for i, j := range doc.Jobs {
		d := j.Spec.Def
		if d.Name != fmt.Sprintf("job-%d", i) || j.Pos != (Pos{"m", 9 + 17*i, 5}) || d.Params != fmt.Sprintf("- x=%d\n- y\n", i) ||
			d.Keep.Days != 7 || d.Set != "x" {
			t.Fatalf("job %d: %+v", i, j)
		}
	}
	for _, c := range []struct{ last, want string }{
		{"    timeout: 5\n", "jobs[1999].timeout: duplicate key: already set at 34006:5"},
		{"    retention: {days: -1}\n", "jobs[1999].retention.days: the number -1; allowed values: whole numbers from 0 to 3650"},
		{"    retention: {\n", "invalid YAML: "},
		{"\tretention: {}\n", "invalid YAML: tabs are not allowed: indent YAML with spaces"},
		{"jobs: []\n", "jobs: duplicate key: already set at 7:1"},
		{"---\nversion: 1\njobs: [{app: a, name: job-7, handler: h}]\n---\nversion: 1\n",
			`jobs[0].name: job "a/job-7" is already defined at m:128:5`},
	} {
		_, err := Parse("m", many(n, c.last), Options{})
		errs, ok := errors.AsType[Errors](err)
		if !ok || len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want) || errs[0].Line < 34004 {
			t.Errorf("%q: %v", c.last, err)
		}
	}
}

func TestAliases(t *testing.T) {
	doc, err := Parse("m", []byte("version: 1\njobs:\n- app: &a app\n  name: one\n  handler: h\n  schedule: &s {every: 5m}\n- {app: *a, "+
		"name: two, handler: h, schedule: *s}\n- {app: *a, name: three, handler: h, schedule: [*s, {every: 7m}]}\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	every := core.When{Kind: core.KindEvery, Every: 5 * time.Minute}
	if got := doc.Jobs[1].Spec.Schedule.Any; !cmp.Equal(got, []core.When{every}) {
		t.Error(got)
	}
	if got := doc.Jobs[2].Spec.Schedule.Any; len(got) != 2 || got[0] != every || doc.Jobs[2].Spec.Def.App != "app" {
		t.Error(got)
	}
}

// TestManyAliases: a file that expands to far more than its size is rejected.
func TestManyAliases(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\njobs:\n- app: a\n  name: j\n  handler: h\n  labels: &l {")
	for i := range core.MaxLabels {
		fmt.Fprintf(&b, "k%d: x, ", i)
	}
	b.WriteString("}\n")
	for i := range 40_000 {
		fmt.Fprintf(&b, "- {app: a, name: j%d, handler: h, labels: *l}\n", i)
	}
	_, err := Parse("m", []byte(b.String()), Options{})
	if err == nil || !strings.Contains(err.Error(), "the aliases in this file expand to more than 33554432 bytes") {
		t.Error(err)
	}
}

// TestKnownToken: the publicly known default token causes a warning, whatever its source.
func TestKnownToken(t *testing.T) {
	o := Options{Getenv: func(string) (string, bool) { return "default_token", true },
		ReadFile: func(string) ([]byte, error) { return []byte("default_token\n"), nil }}
	for _, token := range []string{"default_token", "{env: T}", "{file: t}"} {
		doc, err := Parse("m", []byte("version: 1\napps: [{name: a, token: "+token+"}]\n"), o)
		if err != nil {
			t.Fatal(err)
		}
		const says = "m:2:25: apps[0].token: default_token is the default token of xxl-job"
		if n := len(doc.Warnings); n == 0 || !strings.Contains(doc.Warnings[n-1].Error(), says) {
			t.Errorf("%s: %v", token, doc.Warnings)
		}
	}
	o.Getenv = func(string) (string, bool) { return "another", true }
	if doc, err := Parse("m", []byte("version: 1\napps: [{name: a, token: {env: T}}]\n"), o); err != nil || len(doc.Warnings) > 0 {
		t.Error(doc.Warnings, err)
	}
}

func TestSecrets(t *testing.T) {
	const secret = "hunter2-very-secret"
	doc, err := Parse("m", []byte("version: 1\napps: [{name: a, token: "+secret+"}]\n"), Options{})
	if err != nil || *doc.Apps[0].Spec.Token != secret {
		t.Fatal(doc, err)
	}
	if len(doc.Warnings) != 1 ||
		doc.Warnings[0].Error() != "m:2:25: apps[0].token: the secret is in plain text: use {env: NAME}, {file: PATH} or {ssm: NAME} "+
			"to keep it out of the file" {
		t.Error(doc.Warnings)
	}
	for _, in := range []string{
		"version: 1\napps: [{name: a, token: [" + secret + "]}]\n",
		"version: 1\napps: [{name: a, token: \"" + secret + "\\n\"}]\n",
		"version: 1\napps: [{name: a, token: " + secret + strings.Repeat("x", 300) + "}]\n",
		"version: 1\napps: [{name: a, token: {env: A, file: B}}]\n",
		"version: 1\napps: [{name: a, token: {env: TOKEN}}]\nx: 1\n",
		"version: 1\napps: [{name: a, token: " + secret + "\n",
		"version: 1\napps: [{name: a, token: \"" + secret + "}]\n",
		"version: 1\napps: [{name: a, token: " + secret + ": x}]\n",
		"version: 1\napps:\n- name: a\n  token: |" + secret + "\n",
		"version: 1\napps:\n- name: a\n  token: *" + secret + "\n  x: 1\n",
		"version: 1\napps:\n- name: a\n  token: !" + secret + " x\n",
		"version: 1\napps:\n- name: a\n  token: \"" + secret + "\" x\n",
		"version: 1\napps:\n- name: a\n  token: " + secret + "\n   b: c\n",
	} {
		doc, err := Parse("m", []byte(in), env("TOKEN", secret))
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v, %v", in, doc, err)
		}
	}
}

// TestSecretsOfCalls: secrets given by reference reach their fields, are hidden, and appear in no message.
func TestSecretsOfCalls(t *testing.T) {
	const file = `version: 1
apps: [{name: a, executors: ["call:http://h"]}]
jobs:
- app: a
  name: j
  handler: /x
  call: {headers: {X-Team: finance, X-Key: {env: KEY}, X-Old: "***"}, hidden: [X-Old], auth: {oauth: {tokenUrl: "http://l", clientId: me,
    clientSecret: {ssm: /a/b}}}, expect: [200, 202], maxAnswer: 64KB}
`
	o := env("KEY", "hunter2")
	o.Parameter = func(name string) (string, error) { return "of " + name, nil }
	doc, err := Parse("m", []byte(file), o)
	if err != nil || len(doc.Warnings) > 0 {
		t.Fatal(err, doc)
	}
	want := &core.Call{Headers: map[string]string{"X-Team": "finance", "X-Key": "hunter2", "X-Old": "***"}, Hidden: []string{"X-Key", "X-Old"},
		Auth: core.Auth{OAuth: core.OAuth{TokenURL: "http://l", ClientID: "me", ClientSecret: "of /a/b"}}, Expect: []int{200, 202},
		MaxAnswer: 65536}
	if diff := cmp.Diff(want, doc.Jobs[0].Spec.Def.Call); diff != "" {
		t.Error(diff)
	}
	job := api.JobOf(&core.Job{Def: doc.Jobs[0].Spec.Def})
	out, err := Export(nil, []client.Job{job})
	if err != nil || strings.Contains(string(out), "hunter2") || strings.Contains(string(out), "of /a/b") {
		t.Errorf("%s %v", out, err)
	}
	again, err := Parse("m", out, Options{})
	if err != nil || !again.Jobs[0].Spec.Def.Call.Equal(want.Shown()) || len(again.Warnings) > 0 {
		t.Errorf("%s\n%v", out, err)
	}
	for _, bad := range []struct{ of, to string }{{"X-Key: {env: KEY}", "X-Key: {env: KEY}, X-Key: hunter2"}, {"{ssm: /a/b}", "[hunter2]"},
		{"{ssm: /a/b}", "{ssm: /a/b, env: KEY}"}, {"finance", "[hunter2]"}, {"finance", "\"hunter2\\n\""}, {"{ssm: /a/b}", "\"hunter2\\n\""},
		{"{ssm: /a/b}", "!hunter2 x"}, {"finance", "*hunter2"}} {
		text := strings.Replace(file, bad.of, bad.to, 1)
		if _, err := Parse("m", []byte(text), o); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", bad.to, err)
		}
	}
	for _, bad := range []struct{ value, want string }{ // one error each
		{"{env: LINES}", "m:7:44: jobs[0].call.headers.X-Key: the value of a header can have at most 4096 printable ASCII characters, " +
			"without line breaks or surrounding spaces"},
		{"{env: NONE}", "m:7:50: jobs[0].call.headers.X-Key.env: the environment variable NONE is not set"},
	} {
		text := strings.Replace(strings.Replace(file, "{env: KEY}", bad.value, 1), "hidden: [X-Old]", "hidden: [X-Old, X-Key]", 1)
		e := env("LINES", "two\nlines")
		e.Parameter = o.Parameter
		for _, text := range []string{text, strings.Replace(text, ", X-Key]", "]", 1)} {
			if _, err := Parse("m", []byte(text), e); err == nil || err.Error() != bad.want {
				t.Errorf("%v, want %s", err, bad.want)
			}
		}
	}
	o.Parameter = func(string) (string, error) { return "", errors.New("no stack") }
	if _, err := Parse("m", []byte(file), o); err == nil || !strings.Contains(err.Error(),
		"m:8:25: jobs[0].call.auth.oauth.clientSecret.ssm: /a/b: no stack") {
		t.Error(err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("b.yaml", "version: 1\nset: s\ndefaults: {grace: 5s}\njobs: [{app: a, name: b, handler: h}]\n")
	one := write("a.json", "{\"version\": 1, \"apps\": [{\"name\": \"a\", \"token\": {\"file\": \"secret\"}}]}")
	write("sub/c.yml", "version: 1\njobs: [{app: a, name: c, handler: h}]\n")
	write(".hidden/d.yml", "nope")
	write("note.txt", "nope")
	write("secret", "s3cret\r\n")
	o := Options{ReadFile: os.ReadFile}

	doc, err := Load([]string{dir, one, "-"}, strings.NewReader("version: 1\njobs: [{app: a, name: d, handler: h}]"), o)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, j := range doc.Jobs {
		names = append(names, j.Spec.Def.Name+" "+j.Spec.Def.Set+" "+j.Spec.Grace.String())
	}
	if want := []string{"b s 5s", "c s 0s", "d s 0s"}; !cmp.Equal(names, want) || doc.Set != "s" || *doc.Apps[0].Spec.Token != "s3cret" ||
		doc.Apps[0].Spec.Set != "s" {
		t.Errorf("%v, %+v", names, doc)
	}

	write("sub/e.yaml", "version: 1\nset: t\njobs: [{app: a, name: b, handler: h}]\n")
	_, err = Load([]string{dir}, nil, o)
	e, b := filepath.Join(dir, "sub/e.yaml"), filepath.Join(dir, "b.yaml")
	if want := e + ":2:6: set: the set is \"t\" here, but \"s\" at " + b + ":2:6: files that are applied together must use one set\n" +
		e + ":3:23: jobs[0].name: job \"a/b\" is already defined at " + b + ":4:8"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %v", err, want)
	}
	none := filepath.Join(dir, "none")
	for _, c := range []struct {
		path, want string
	}{
		{none, none + ": no such file or directory"},
		{filepath.Join(dir, ".hidden"), filepath.Join(dir, ".hidden", "d.yml") + `:1:1: "nope"; a manifest must be a map that starts with version: 1`},
		{t.TempDir(), "no manifest in this directory: *.yaml, *.yml and *.json files are read"},
		{"-", "stdin: nothing to read"},
	} {
		if _, err := Load([]string{c.path}, nil, o); err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: %v", c.path, err)
		}
	}
}

// A fleet comes as several documents: between lines ---, or as JSON, one in each line.
func TestDocuments(t *testing.T) {
	var yaml, lines strings.Builder
	const n = 3000
	for i := range n {
		if i%1000 == 0 {
			yaml.WriteString("---\nversion: 1\nset: fleet\ndefaults: {grace: 5s}\njobs:\n")
		}
		job := fmt.Sprintf(`{"app": "a", "name": "j%d", "handler": "h", "schedule": {"every": "1h"}, "params": %q}`, i, strings.Repeat("x", 2000))
		yaml.WriteString("- " + job + "\n")
		if i < 100 {
			lines.WriteString(`{"version": 1, "set": "fleet", "defaults": {"grace": "5s"}, "jobs": [` + job + "]}\n")
		}
	}
	for text, n := range map[string]int{yaml.String(): n, lines.String(): 100} {
		doc, err := Parse("m", []byte(text), Options{})
		if err != nil || len(doc.Jobs) != n || doc.Set != "fleet" {
			t.Fatal(err)
		}
		if last := doc.Jobs[n-1].Spec; last.Def.Name != fmt.Sprintf("j%d", n-1) || last.Grace != 5*time.Second {
			t.Errorf("%+v", last)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"---\n" + strings.ReplaceAll(yaml.String(), "---\nversion: 1\nset: fleet\ndefaults: {grace: 5s}\njobs:\n", "")[:MaxDocument+2],
			"m:1:1: the document has 4 MB, but at most 4 MB are read at once: " +
				"start the next document with the lines --- and version: 1, or use several files"},
		{lines.String() + "\n" + `{"version": 1, "jobs": [{"app": "a", "name": "j", "handler": 5}]}` + "\n" + `{"version": 1, "jobs": [` + "\n",
			"m:102:62: jobs[0].handler: the number 5 is not a text: use quotes: \"5\"\nm:103:24: invalid YAML: sequence end token ']' not found"},
		{"{\"version\": 1}\n---\nversion: 2\n", "m:3:10: version: the number 2; this program supports version: 1"},
	} {
		if _, err := Parse("m", []byte(c.text), Options{}); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func TestTooLarge(t *testing.T) {
	if _, err := Parse("m", make([]byte, MaxFile+1), Options{}); err == nil ||
		err.Error() != "m: 33554433 bytes; at most 33554432 (32 MB) are allowed: use several files" {
		t.Error(err)
	}
}

// TestHostile: input that costs time or stack in a YAML reader is rejected early: without the reader's limits this test does not
// end in time. It measures memory, which does not depend on the load of the machine.
func TestHostile(t *testing.T) {
	for _, unit := range []string{"[", "{", "- ", "? ", "a: ", "\"", "'", " ", "\n", "&a ", "*a ", "!!x ", "{a: ", "- - ", "| ", "#", "a:\n ",
		"---\n", "%\n", "<<: ", "\t", ", ", "[a, ", "é", "a: 1\n", "a: 1, ", "{a: 1, ", "- a: 1\n", "? a\n"} {
		in := "version: 1\nset: " + strings.Repeat(unit, 100_000/len(unit))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = Parse("m", []byte(in), Options{})
		_, _ = Parse("m", []byte(strings.Repeat(unit, 100_000/len(unit))), Options{})
		_, _ = Parse("m", []byte("version: 1\njobs: {"+strings.Repeat(unit, 100_000/len(unit))+"}"), Options{})
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 512 {
			t.Errorf("%q took %d MB", unit, took)
		} else if testing.Verbose() {
			t.Logf("%q took %d MB", unit, took)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(read(f, "example.yaml"))
	f.Add(read(f, "accepted.yaml"))
	f.Add([]byte("version: 1\njobs: [{app: &a x, name: *a, handler: |\n x}]"))
	f.Add([]byte("versi na'.''', 1\n#'']W''#''], han(''A''' han('''&a \r, pp:\r:\r, pp, pp: n:mea "))
	f.Add([]byte("{\"version\": 1, \"jobs\": [{\"app\": \"a\"}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			t.Skip()
		}
		doc, err := Parse("m", data, env("REPORTS_TOKEN", "x"))
		if (doc == nil) == (err == nil) {
			t.Fatalf("%v, %v", doc, err)
		}
		if errs, ok := errors.AsType[Errors](err); ok {
			if len(errs) == 0 || len(errs) > MaxErrors+1 {
				t.Fatalf("%d errors", len(errs))
			}
			for _, e := range errs {
				if len(e.Reason.String()) > 2000 || e.Line < 0 || e.Line > bytes.Count(data, []byte("\n"))+bytes.Count(data, []byte("\r"))+2 {
					t.Errorf("%+v", e)
				}
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	var lines bytes.Buffer
	for i := range 50_000 {
		fmt.Fprintf(&lines, `{"version": 1, "jobs": [{"app": "a", "name": "job-%d", "title": "Job number %d", "labels": {"team": "finance"}, `+
			`"handler": "doIt", "params": "- x\n", "schedule": {"cron": "0 %d 2 * * ?", "timezone": "Europe/Berlin"}, "route": "failover", `+
			`"timeout": "10m", "retry": {"max": 3, "backoff": "exponential", "on": ["failed"]}}]}`+"\n", i, i, i%60)
	}
	for _, c := range []struct {
		name string
		in   []byte
	}{{"1", many(1, "")}, {"100", many(100, "")}, {"10000", many(10_000, "")}, {"50000 lines", lines.Bytes()}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.in)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse("m", c.in, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
