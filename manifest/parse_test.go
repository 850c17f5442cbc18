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
	"github.com/tickring/tickring/internal/testkit/peak"
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

// head is a job without further fields.
const head = "version: 1\njobs:\n- app: a\n  name: j\n  handler: h\n"

// TestErrors parses manifests that are wrong. Below each in the file are its errors, behind an exclamation mark. One that
// begins with a space has fields of a job.
func TestErrors(t *testing.T) {
	golden.Replay(t, func(t *testing.T, text string) string {
		in := ""
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "! ") {
				in += line
			}
		}
		whole := in
		if strings.HasPrefix(in, " ") {
			whole = head + in
		}
		return in + "! " + strings.ReplaceAll(rejected(t, whole), "\n", "\n! ") + "\n"
	})
}

// TestErrorsOfOddFiles has the manifests that are too long or too odd for the file of TestErrors.
func TestErrorsOfOddFiles(t *testing.T) {
	texts := golden.New(t)
	for name, in := range map[string]string{
		"nothing":          "",
		"33 MB":            string(make([]byte, MaxFile+1)),
		"not UTF-8":        "version: 1\nset: \xff\n",
		"zero byte":        "version: 1\nset: a\x00\n",
		"params too large": head + "  params: " + strings.Repeat("x", core.MaxParams+1) + "\n",
		"deep":             "version: 1\nset: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "\n",
		"many keys":        "version: 1\n" + strings.Repeat("a:\n", 1001),
	} {
		texts.Equal(t, name, rejected(t, in))
	}
}

// rejected returns the errors of a manifest that is wrong. Each is translated.
func rejected(t *testing.T, in string) string {
	t.Helper()
	doc, err := Parse("m", []byte(in), env())
	errs, is := errors.AsType[Errors](err)
	if !is || doc != nil {
		t.Fatalf("%.200s is accepted, or fails with another error: %v", in, err)
	}
	for _, e := range errs {
		zh := words.Say(words.Chinese, e.Reason)
		if !strings.ContainsFunc(zh, han) || english.MatchString(zh) {
			t.Errorf("in Chinese it is %q", zh)
		}
	}
	return err.Error()
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
		if took := peak.Allocated(func() {
			_, _ = Parse("m", []byte(in), Options{})
			_, _ = Parse("m", []byte(strings.Repeat(unit, 25_000/len(unit))), Options{})
			_, _ = Parse("m", []byte("version: 1\njobs: {"+strings.Repeat(unit, 25_000/len(unit))+"}"), Options{})
		}) >> 20; took > 256 { // 200 under the race detector, in which pools keep little; else 20
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
