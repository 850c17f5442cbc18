package manifest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/internal/wiring"
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
	check.OK(t, err)
	return b
}

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

// settings converts a job of a document to package manage.
func settings(t check.T, j *client.JobSpec) manage.JobSpec {
	t.Helper()
	spec, err := api.ManageJob(*j)
	check.OK(t, err)
	return spec
}

// everywhere is sent to.
type everywhere struct{}

func (everywhere) Takes(context.Context, core.Channel) error { return nil }
func (everywhere) Test(context.Context, core.Channel) error  { return nil }

// TestExample checks that this version rejects only the calendars of the complete example.
func TestExample(t *testing.T) {
	_, err := Parse("example.yaml", read(t, "example.yaml"), exampleEnv)
	check.Equal(t, places(t, err), "15:1 calendars, 46:7 jobs[0].schedule.calendar, 90:40 jobs[6].schedule.calendar", "errors at")
	golden.New(t).Equal(t, "calendars", err.Error())
}

// TestExampleIsBuilt: of the complete example all is saved but calendars.
func TestExampleIsBuilt(t *testing.T) {
	var whole map[string]any
	check.OK(t, yaml.Unmarshal(read(t, "example.yaml"), &whole))
	without(whole, "calendars", "calendar")
	for _, job := range whole["jobs"].([]any) {
		if job := job.(map[string]any); job["handler"] == nil && job["command"] == nil && job["script"] == nil {
			job["handler"] = "in its place"
		}
	}
	text, err := yaml.Marshal(whole)
	check.OK(t, err)
	doc, err := Parse("example.yaml", text, exampleEnv)
	if err != nil || len(doc.Jobs) != 7 || len(doc.Channels) != 4 {
		t.Fatalf("%v\n%s", err, text)
	}
	runs := func(*core.Command) error { return nil }
	m := wiring.New(memory.Open(t, memory.Options{}), wiring.Options{}).People(nil,
		people.Options{Manage: manage.Options{Command: runs, Notifier: everywhere{}}})
	ann := core.Actor{Name: "ann"}
	for _, c := range doc.Channels {
		spec, err := api.ManageChannel(c)
		check.OK(t, err)
		if _, err := m.SaveChannel(t.Context(), ann, spec); err != nil {
			t.Error(err)
		}
	}
	for _, a := range doc.Apps {
		spec, err := api.ManageApp(a)
		check.OK(t, err)
		if _, err := m.SaveApp(t.Context(), ann, spec); err != nil {
			t.Error(err)
		}
	}
	var specs []manage.JobSpec
	for _, j := range doc.Jobs {
		specs = append(specs, settings(t, &j))
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

// TestAccepted: the requests to the API for a manifest without errors.
func TestAccepted(t *testing.T) {
	doc, err := Parse("accepted.yaml", read(t, "accepted.yaml"), env("REPORTS_TOKEN", "s3cret"))
	check.OK(t, err)
	text, err := json.MarshalIndent(doc, "", "  ")
	check.OK(t, err)
	golden.New(t).Equal(t, "document", string(text))
}

// places returns the line, column and path of each error of err, which must be Errors.
func places(t testing.TB, err error) string {
	t.Helper()
	errs, is := errors.AsType[Errors](err)
	if !is {
		t.Fatalf("%v is no error of a manifest", err)
	}
	var list []string
	for _, e := range errs {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%d:%d %s", e.Line, e.Column, e.Path)))
	}
	return strings.Join(list, ", ")
}

// A job without the fields in the rows of the table below.
const head = "version: 1\njobs:\n- app: a\n  name: j\n  handler: h\n"

func TestErrors(t *testing.T) {
	job := func(s string) string { return head + "  " + s + "\n" }
	app := func(s string) string { return "version: 1\napps:\n- name: a\n  " + s + "\n" }
	work := func(s string) string { return "version: 1\njobs:\n- app: a\n  name: j\n  " + s + "\n" }
	texts := golden.New(t)
	for _, c := range []struct{ name, in, at string }{
		{"nothing", "", "0:0"},
		{"33 MB", string(make([]byte, MaxFile+1)), "0:0"},
		{"comments only", "# hello\n---\n", "0:0"},
		{"a list", "- a\n", "1:1"},
		{"a text", "hello\n", "1:1"},
		{"no version", "set: x\n", "1:1 version"},
		{"other version", "version: 2\n", "1:10 version"},
		{"version as text", "version: \"1\"\n", "1:10 version"},
		{"not UTF-8", "version: 1\nset: \xff\n", "2:6"},
		{"zero byte", "version: 1\nset: a\x00\n", "2:7"},
		{"duplicate key", job("params: a\n  params: b"), "7:3 jobs[0].params"},
		{"duplicate key in flow", job("retry: {max: 1, max: 2}"), "6:19 jobs[0].retry.max"},
		{"duplicate at the top", "version: 1\nversion: 1\n", "2:1 version"},
		{"unknown field", job("timeuot: 5m"), "6:3 jobs[0].timeuot"},
		{"unknown field in another case", job("max_delay: 5m\n  Lost-After: 5m"), "6:3 jobs[0].max_delay, 7:3 jobs[0].Lost-After"},
		{"a join without its window", job("after: {all: [{job: a/b}]}"), "6:10 jobs[0].after.within"},
		{"a join of nothing", job("after: {all: [], within: 6h}"), "6:16 jobs[0].after.all"},
		{"too long a window", job("after: {all: [{job: a/b}], within: 8d}"), "6:38 jobs[0].after.within"},
		{"a join after no name", job("after: {all: [{job: b}], within: 6h}"), "6:23 jobs[0].after.all[0].job"},
		{"joins after themselves, round about", job("after: {all: [{job: a/y}], within: 1h}") +
			"- {app: a, name: y, handler: h, after: {all: [{job: x/y}, {job: a/z}], within: 1h}}\n" +
			"- {app: a, name: z, handler: h, after: [{job: a/y, when: finished}]}\n", "7:65 jobs[1].after.all[1].job, 8:47 jobs[2].after[0].job"},
		{"after another word", job("after: [{job: a/b, when: done}]"), "6:28 jobs[0].after[0].when"},
		{"after no name", job("after: [{job: b}]"), "6:17 jobs[0].after[0].job"},
		{"after itself, round about", job("after: [{job: a/y}]") + "- {app: a, name: y, handler: h, after: [{job: x/y}, {job: a/z}]}\n" +
			"- {app: a, name: z, handler: h, after: [{job: a/y, when: finished}]}\n", "7:59 jobs[1].after[1].job, 8:47 jobs[2].after[0].job"},
		{"field of the schedule", job("jitter: 5m"), "6:3 jobs[0].jitter"},
		{"unknown at the top", "version: 1\njob: []\n", "2:1 job"},
		{"bare number", job("timeout: 600"), "6:12 jobs[0].timeout"},
		{"bare number in quotes", job("timeout: \"600\""), "6:12 jobs[0].timeout"},
		{"negative", job("timeout: -5m"), "6:12 jobs[0].timeout"},
		{"too long", job("timeout: 8d"), "6:12 jobs[0].timeout"},
		{"half a second", job("timeout: 500ms"), "6:12 jobs[0].timeout"},
		{"zero that is not the default", job("grace: 0s"), "6:10 jobs[0].grace"},
		{"wrong types", job("retry: 3\n  labels: [a]\n  paused: yes\n  title: 5\n  params:\n  retention: {days: many}"),
			"6:10 jobs[0].retry, 7:11 jobs[0].labels, 8:11 jobs[0].paused, 9:10 jobs[0].title, 10:10 jobs[0].params, 11:21 jobs[0].retention.days"},
		{"jobs as a map", "version: 1\njobs: {a: 1}\n", "2:7 jobs"},
		{"number out of range", job("retry: {max: 101}"), "6:16 jobs[0].retry.max"},
		{"wrong word", job("misfire: lastest"), "6:12 jobs[0].misfire"},
		{"broadcast of another route", job("broadcast: {fail: all}"), "6:14 jobs[0].broadcast"},
		{"more in flight than may be", app("limits: {inFlight: 1001}"), "4:22 apps[0].limits.inFlight"},
		{"a limit by the minute", app("limits: {perMinute: 5}"), "4:12 apps[0].limits.perMinute"},
		{"a key that is no pointer", job("overlap: {limit: 1, key: tenant}"), "6:28 jobs[0].overlap.key"},
		{"broadcast that is replaced", job("route: broadcast\n  overlap: {limit: 1, whenFull: replace}"), "7:33 jobs[0].overlap.whenFull"},
		{"no retry.on", job("retry: {on: []}"), "6:15 jobs[0].retry.on"},
		{"delays", job("retry: {delay: 1m, maxDelay: 30s}"), "6:32 jobs[0].retry.maxDelay"},
		{"five fields", job("schedule: {cron: \"30 2 * * *\"}"), "6:20 jobs[0].schedule.cron"},
		{"never", job("schedule: {cron: \"0 0 0 31 2 ?\"}"), "6:20 jobs[0].schedule.cron"},
		{"appname of an app", "version: 1\napps: [{appname: a}]\n", "2:8 apps[0].name, 2:9 apps[0].appname"},
		{"glueType", job("glueType: BEAN"), "6:3 jobs[0].glueType"},
		{"Chinese name", "version: 1\njobs: [{app: a, name: 日报, handler: h}]\n", "2:23 jobs[0].name"},
		{"unknown zone", job("schedule: {every: 5m, timezone: Europe/Brelin}"), "6:35 jobs[0].schedule.timezone"},
		{"unknown zone in defaults",
			"version: 1\ndefaults: {timezone: Mars}\njobs: [{app: a, name: b, handler: c}, {app: a, name: d, handler: c}]\n",
			"2:22 defaults.timezone"},
		{"until before from", job("schedule: {every: 5m, from: 2027-01-02, until: 2027-01-01}"), "6:31 jobs[0].schedule.from"},
		{"no date", job("schedule: {every: 5m, from: tomorrow}"), "6:31 jobs[0].schedule.from"},
		{"at without zone", job("schedule: {at: 2027-01-01T00:00:00}"), "6:18 jobs[0].schedule.at"},
		{"second in a list", job("schedule: [{every: 5m}, {crontab: \"61 * * * *\"}]"), "6:37 jobs[0].schedule[1].crontab"},
		{"zones that differ", job("schedule: [{every: 5m, timezone: UTC}, {every: 7m, timezone: Asia/Tokyo}]"),
			"6:64 jobs[0].schedule[1].timezone"},
		{"two kinds", job("schedule: {every: 5m, crontab: \"0 4 * * *\"}"), "6:21 jobs[0].schedule.every"},
		{"no kind in a list", job("schedule: [{timezone: UTC}]"), "6:14 jobs[0].schedule[0]"},
		{"offset of cron", job("schedule: {crontab: \"0 4 * * *\", offset: 5s}"), "6:44 jobs[0].schedule.offset"},
		{"offset too large", job("schedule: {every: 5m, offset: 5m}"), "6:33 jobs[0].schedule.offset"},
		{"fixed delay in a list", job("schedule: [{every: 5m}, {fixedDelay: 5m}]"), "6:40 jobs[0].schedule[1].fixedDelay"},
		{"params too large", job("params: " + strings.Repeat("x", core.MaxParams+1)), "6:11 jobs[0].params"},
		{"name twice", head + "- app: a\n  name: j\n  handler: h\n", "7:9 jobs[1].name"},
		{"app twice", app("title: x\n- name: a"), "5:9 apps[1].name"},
		{"name without a letter", "version: 1\njobs:\n- {app: a, name: \"12\", handler: h}\n", "3:18 jobs[0].name"},
		{"name as a number", "version: 1\njobs:\n- {app: a, name: 12, handler: h}\n", "3:18 jobs[0].name"},
		{"name with capitals", "version: 1\njobs:\n- {app: a, name: Nightly, handler: h}\n", "3:18 jobs[0].name"},
		{"nothing of a job", "version: 1\njobs:\n- {}\n- title: x\n",
			"3:3 jobs[0].app, 3:3 jobs[0].name, 3:3 jobs[0].handler, 4:3 jobs[1].app, 4:3 jobs[1].name, 4:3 jobs[1].handler"},
		{"labels", job("labels: {\"a b\": x, c: 5}"), "6:19 jobs[0].labels.a b, 6:25 jobs[0].labels.c"},
		{"several of one job", job("title: \"\\e\"\n  schedule: {cron: nope, timezone: Mars}\n  deadline: 31d"),
			"6:10 jobs[0].title, 7:20 jobs[0].schedule.cron, 7:36 jobs[0].schedule.timezone, 8:13 jobs[0].deadline"},
		{"handler of a call", "version: 1\napps: [{name: a, executors: [\"call:http://x\"]}]\njobs:\n- app: a\n  name: j\n  handler: run\n",
			"6:12 jobs[0].handler"},
		{"executors", app("executors: [nope, \"http://h:1\", \"http://h:1\", \"queue:x.fifo\"]"),
			"4:15 apps[0].executors[0], 4:35 apps[0].executors[2], 4:49 apps[0].executors[3]"},
		{"an empty name and title", "version: 1\napps: [{name: \"\", title: \"\\e\"}]\n", "2:15 apps[0].name, 2:26 apps[0].title"},
		{"allow", app("allow: [10.0.0.0/8, 10.0.0]"), "4:23 apps[0].allow[1]"},
		{"secret without environment", app("token: {env: NOPE}"), "4:16 apps[0].token.env"},
		{"secret of a parameter", app("token: {ssm: /x}"), "4:16 apps[0].token.ssm"},
		{"header with a line break", job("call: {headers: {X-Team: \"a\\nb\"}}"), "6:28 jobs[0].call.headers.X-Team"},
		{"headers that are not given", job("call: {headers: {Host: a, X.Y: b, Tickring-Run: c}, expect: [200, 99], maxAnswer: 64}"),
			"6:26 jobs[0].call.headers.Host, 6:51 jobs[0].call.headers.Tickring-Run, 6:69 jobs[0].call.expect[1], 6:85 jobs[0].call.maxAnswer"},
		{"two auths", job("call: {auth: {bearer: {env: NOPE}, basic: {user: a}, oauth: {tokenUrl: x}}}"),
			"6:16 jobs[0].call.auth, 6:31 jobs[0].call.auth.bearer.env, 6:63 jobs[0].call.auth.oauth.clientId, " +
				"6:63 jobs[0].call.auth.oauth.clientSecret"},
		{"call without an address",
			"version: 1\napps: [{name: a, call: {expect: [200]}}]\njobs:\n- {app: a, name: j, handler: h, call: {maxAnswer: 1MB}}\n",
			"2:24 apps[0].call, 4:39 jobs[0].call"},
		{"call of an app",
			"version: 1\napps:\n- name: a\n  executors: [\"call:http://h\"]\n  call: {expect: [200, 200], headers: {TE: trailers}}\n",
			"5:24 apps[0].call.expect[1], 5:44 apps[0].call.headers.TE"},
		{"the settings of a map", job("notify: {to: [a, B], overdue: {by: \"25:00\"}}"),
			"6:20 jobs[0].notify.to[1], 6:38 jobs[0].notify.overdue.by"},
		{"secret of nothing", app("token: {}"), "4:10 apps[0].token"},
		{"secret that is a number", app("token: 8734587345"), "4:10 apps[0].token"},
		{"secret with a space", app("token: \" x\""), "4:10 apps[0].token"},
		{"missing comma", job("labels: {a: b c: d}"), "6:15 jobs[0].labels.a"},
		{"tag", job("title: !!str 5"), "6:10 jobs[0].title"},
		{"merge key", "version: 1\ndefaults: &d {grace: 5s}\njobs:\n- {<<: *d, app: a, name: b, handler: c}\n", "4:4 jobs[0]"},
		{"a crontab without quotes", job("schedule: {crontab: * 0 * * *}"), "6:23 jobs[0].schedule.crontab"},
		{"unknown alias", job("title: *x"), "6:10 jobs[0].title"},
		{"alias of itself", job("labels: &x {a: *x}"), "6:14 jobs[0].labels.a"},
		{"deep", "version: 1\nset: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "\n", "2:70"},
		{"many keys", "version: 1\n" + strings.Repeat("a:\n", 1001), "1001:2"},
		{"the same place in two documents", "version: 1\nchannels: [{name: a, webhook: {url: 5}}]\n---\nversion: 1\n" +
			"channels: [{name: b, webhook: {url: \"ftp://x\"}}]\n", "2:37 channels[0].webhook.url, 5:37 channels[0].webhook.url"},
		{"name twice, in two documents", head + "---\nversion: 1\njobs: [{app: a, name: j, handler: h}]\n", "8:23 jobs[0].name"},
		{"an open map", job("retention: {"), "6:14"},
		{"a tab", head + "\tretention: {}\n", "6:1"},
		{"second document", "version: 1\n---\nversion: 1\nset: [\n", "4:6"},
		{"sets that differ", "version: 1\nset: a\n---\nversion: 1\nset: b\n", "5:6 set"},
		{"no command line", work("command: {dir: /x}"), "5:12 jobs[0].command.line"},
		{"a relative directory", work("command: {line: x, dir: backups}"), "5:27 jobs[0].command.dir"},
		{"a directory with ..", work("command: {line: x, dir: /a/../etc}"), "5:27 jobs[0].command.dir"},
		{"a user with a space", work("command: {line: x, user: \"a b\"}"), "5:28 jobs[0].command.user"},
		{"an output of one byte", work("command: {line: x, maxOutput: 1B}"), "5:33 jobs[0].command.maxOutput"},
		{"variables of a command", work("command: {line: x, env: {TICKRING_RUN: a, B: {env: NONE}}}"),
			"5:42 jobs[0].command.env.TICKRING_RUN, 5:54 jobs[0].command.env.B.env"},
		{"a command and a handler", work("command: {line: x}\n  handler: h"), "6:12 jobs[0].handler"},
		{"a command with a route", work("command: {line: x}\n  route: broadcast"), "6:10 jobs[0].route"},
		{"a command with a block", work("command: {line: x}\n  block: discard-later"), "6:10 jobs[0].block"},
		{"a command and a script that cannot be read", work("command: {line: x}\n  script: {kind: shell, file: f}"), "6:31 jobs[0].script.file"},
		{"no work", work("title: x"), "3:3 jobs[0].handler"},
		{"unknown kind of script", work("script: {kind: perl, source: x}"), "5:18 jobs[0].script.kind"},
		{"kind of script of xxl-job", work("script: {kind: GLUE_SHELL, source: x}"), "5:18 jobs[0].script.kind"},
		{"no kind of script", work("script: {source: x}"), "5:11 jobs[0].script.kind"},
		{"a script without a text", work("script: {kind: shell}"), "5:11 jobs[0].script"},
		{"a script with two texts", work("script: {kind: shell, source: x, file: f}"), "5:33 jobs[0].script.source"},
		{"a script in a file", work("script: {kind: shell, file: f}"), "5:31 jobs[0].script.file"},
		{"zero byte in a script", work("script: {kind: shell, source: \"a\\0b\"}"), "5:33 jobs[0].script.source"},
		{"script and handler", work("script: {kind: shell, source: x}\n  handler: h"), "6:12 jobs[0].handler"},
		{"note of two lines", work("script: {kind: shell, source: x, note: \"a\\nb\"}"), "5:42 jobs[0].script.note"},
		{"a script for an endpoint", "version: 1\napps: [{name: a, executors: [\"call:http://x\"]}]\njobs: [{app: a, name: b, script: " +
			"{kind: shell, source: x}}]\n", "3:34 jobs[0].script"},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc, err := Parse("m", []byte(c.in), env())
			if got := places(t, err); got != c.at || doc != nil {
				t.Errorf("errors at %q, not %q; document %v", got, c.at, doc)
			}
			texts.Equal(t, c.name, err.Error())
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
			for _, name := range slices.Concat(s.Required, s.One[:min(len(s.One), 1)]) {
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

// Errors are bounded and in order.
func TestManyErrors(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\njobs:\n")
	for i := range 2_000 {
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
	if last := errs[MaxErrors]; last.Line != 0 || last.Path != "" {
		t.Errorf("the last error is %+v", last)
	}
	golden.New(t).Equal(t, "the last error", errs[MaxErrors].Error())
}

// many returns a manifest of n jobs.
func many(n int) []byte {
	var b bytes.Buffer
	b.WriteString("version: 1\nset: x\n\napps:\n  - {name: a}\n\njobs: # all of them\n")
	for i := range n {
		fmt.Fprintf(&b, "  # number %d\n  - app: a\n    name: job-%d\n    title: Job number %d\n    labels: {team: finance, n: \"%d\"}\n    "+
			"handler: doIt\n    params: |\n      - x=%d\n      - y\n"+
			"    schedule:\n      cron: \"0 %d 2 * * ?\"\n      timezone: Europe/Berlin\n    misfire: latest\n    grace: 60s\n    route: "+
			"failover\n    timeout: 10m\n"+
			"    retry: {max: 3, delay: 30s, backoff: exponential, maxDelay: 10m, on: [failed, timed-out]}\n", i, i, i, i, i, i%60)
	}
	b.WriteString("defaults: {retention: {days: 7}}\n")
	return b.Bytes()
}

func TestAliases(t *testing.T) {
	doc, err := Parse("m", []byte("version: 1\njobs:\n- app: &a app\n  name: one\n  handler: h\n  schedule: &s {every: 5m}\n- {app: *a, "+
		"name: two, handler: h, schedule: *s}\n- {app: *a, name: three, handler: h, schedule: [*s, {every: 7m}]}\n"), Options{})
	check.OK(t, err)
	every := client.Rule{Every: "5m"}
	if got := doc.Jobs[1].Schedule.Any; !cmp.Equal(got, []client.Rule{every}) {
		t.Error(got)
	}
	if got := doc.Jobs[2].Schedule.Any; len(got) != 2 || got[0] != every || doc.Jobs[2].App != "app" {
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
	for i := range 8_000 {
		fmt.Fprintf(&b, "- {app: a, name: j%d, handler: h, labels: *l}\n", i)
	}
	_, err := Parse("m", []byte(b.String()), Options{})
	errs, is := errors.AsType[Errors](err)
	if !is || errs[0].Path != "jobs[6807].labels.k21" {
		t.Fatal(err)
	}
	golden.New(t).Equal(t, "all errors", err.Error())
}

// TestKnownToken: the publicly known default token causes a warning, whatever its source.
func TestKnownToken(t *testing.T) {
	o := Options{Getenv: func(string) (string, bool) { return "default_token", true },
		ReadFile: func(string) ([]byte, error) { return []byte("default_token\n"), nil }}
	texts := golden.New(t)
	for _, token := range []string{"default_token", "{env: T}", "{file: t}"} {
		doc, err := Parse("m", []byte("version: 1\napps: [{name: a, token: "+token+"}]\n"), o)
		check.OK(t, err)
		texts.Equal(t, token, Errors(doc.Warnings).Error())
	}
	o.Getenv = func(string) (string, bool) { return "another", true }
	if doc, err := Parse("m", []byte("version: 1\napps: [{name: a, token: {env: T}}]\n"), o); err != nil || len(doc.Warnings) > 0 {
		t.Error(doc.Warnings, err)
	}
}

func TestSecrets(t *testing.T) {
	const secret = "hunter2-very-secret"
	doc, err := Parse("m", []byte("version: 1\napps: [{name: a, token: "+secret+"}]\n"), Options{})
	if err != nil || *doc.Apps[0].Token != secret {
		t.Fatal(doc, err)
	}
	check.Equal(t, places(t, Errors(doc.Warnings)), "2:25 apps[0].token", "warnings at")
	golden.New(t).Equal(t, "a secret in plain text", Errors(doc.Warnings).Error())
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
	def := settings(t, &doc.Jobs[0]).Def
	check.Equal(t, cmp.Diff(want, def.Call), "")
	job := api.JobOf(&core.Job{Def: def})
	out, err := Export(nil, []client.Job{job})
	if err != nil || strings.Contains(string(out), "hunter2") || strings.Contains(string(out), "of /a/b") {
		t.Errorf("%s %v", out, err)
	}
	again, err := Parse("m", out, Options{})
	if err != nil || !settings(t, &again.Jobs[0]).Def.Call.Equal(want.Shown()) || len(again.Warnings) > 0 {
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
	texts := golden.New(t)
	for _, bad := range []struct{ value, at string }{
		{"{env: LINES}", "7:44 jobs[0].call.headers.X-Key"}, {"{env: NONE}", "7:50 jobs[0].call.headers.X-Key.env"},
	} {
		text := strings.Replace(strings.Replace(file, "{env: KEY}", bad.value, 1), "hidden: [X-Old]", "hidden: [X-Old, X-Key]", 1)
		e := env("LINES", "two\nlines")
		e.Parameter = o.Parameter
		for _, text := range []string{text, strings.Replace(text, ", X-Key]", "]", 1)} {
			_, err := Parse("m", []byte(text), e)
			check.Equal(t, places(t, err), bad.at, "errors at")
			texts.Equal(t, bad.value, err.Error())
		}
	}
	o.Parameter = func(string) (string, error) { return "", errors.New("no stack") }
	_, err = Parse("m", []byte(file), o)
	check.Equal(t, places(t, err), "8:25 jobs[0].call.auth.oauth.clientSecret.ssm", "errors at")
	texts.Equal(t, "{ssm: /a/b}", err.Error())
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		check.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		check.OK(t, os.WriteFile(path, []byte(text), 0o600))
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
	check.OK(t, err)
	var names []string
	for _, j := range doc.Jobs {
		names = append(names, j.Name+" "+j.Set+" "+j.Grace)
	}
	if want := []string{"b s 5s", "c s ", "d s "}; !cmp.Equal(names, want) || doc.Set != "s" || *doc.Apps[0].Token != "s3cret" ||
		doc.Apps[0].Set != "s" {
		t.Errorf("%v, %+v", names, doc)
	}

	write("sub/e.yaml", "version: 1\nset: t\njobs: [{app: a, name: b, handler: h}]\n")
	_, err = Load([]string{dir}, nil, o)
	check.Equal(t, places(t, err), "2:6 set, 3:23 jobs[0].name", "errors at")
	texts, empty := golden.New(t), t.TempDir()
	texts.Equal(t, "two files", err.Error(), dir, "DIR")
	for name, path := range map[string]string{"a missing file": filepath.Join(dir, "none"), "an empty directory": empty, "empty input": "-",
		"a hidden directory": filepath.Join(dir, ".hidden")} {
		if _, err := Load([]string{path}, nil, o); err == nil {
			t.Errorf("%s: accepted", name)
		} else {
			texts.Equal(t, name, err.Error(), dir, "DIR", empty, "EMPTY")
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
		if last := doc.Jobs[n-1]; last.Name != fmt.Sprintf("j%d", n-1) || last.Grace != "5s" {
			t.Errorf("%+v", last)
		}
	}
	texts := golden.New(t)
	for _, c := range []struct{ name, text, at string }{
		{"a long document", "---\n" + strings.ReplaceAll(yaml.String(), "---\nversion: 1\nset: fleet\ndefaults: {grace: 5s}\njobs:\n",
			"")[:MaxDocument+2], "1:1"},
		{"two lines", lines.String() + "\n" + `{"version": 1, "jobs": [{"app": "a", "name": "j", "handler": 5}]}` + "\n" +
			`{"version": 1, "jobs": [` + "\n", "102:62 jobs[0].handler, 103:24"},
		{"the second document", "{\"version\": 1}\n---\nversion: 2\n", "3:10 version"},
	} {
		_, err := Parse("m", []byte(c.text), Options{})
		check.Equal(t, places(t, err), c.at, "%s: errors at", c.name)
		texts.Equal(t, c.name, err.Error())
	}
}

// TestHostile: input that costs time or stack in a YAML reader is rejected early: without the reader's limits this test does not
// end in time. It measures memory, which does not depend on the load of the machine.
func TestHostile(t *testing.T) {
	for _, unit := range []string{"[", "{", "- ", "? ", "a: ", "\"", "'", " ", "\n", "&a ", "*a ", "!!x ", "{a: ", "- - ", "| ", "#", "a:\n ",
		"---\n", "%\n", "<<: ", "\t", ", ", "[a, ", "é", "a: 1\n", "a: 1, ", "{a: 1, ", "- a: 1\n", "? a\n"} {
		in := "version: 1\nset: " + strings.Repeat(unit, 25_000/len(unit))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = Parse("m", []byte(in), Options{})
		_, _ = Parse("m", []byte(strings.Repeat(unit, 25_000/len(unit))), Options{})
		_, _ = Parse("m", []byte("version: 1\njobs: {"+strings.Repeat(unit, 25_000/len(unit))+"}"), Options{})
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 128 {
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
	}{{"1", many(1)}, {"100", many(100)}, {"10000", many(10_000)}, {"50000 lines", lines.Bytes()}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.in)))
			b.ReportAllocs()
			for b.Loop() {
				check.Call(b)(Parse("m", c.in, Options{}))
			}
		})
	}
}
