package manifest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// TestCommand: a command is parsed unchanged, its secrets are never printed, and applying the output of get keeps them.
func TestCommand(t *testing.T) {
	file := `version: 1
jobs:
  - app: ops
    name: dump
    command: {line: "pg_dump shop > shop.dump", dir: /var/backups, env: {PGPASSWORD: {env: PGPASSWORD}, PGUSER: shop},
      user: postgres, maxOutput: 64KB}
`
	doc, err := Parse("m", []byte(file), env("PGPASSWORD", "s3cret"))
	if err != nil || len(doc.Warnings) > 0 {
		t.Fatal(err, doc.Warnings)
	}
	want := &core.Command{Line: "pg_dump shop > shop.dump", Dir: "/var/backups",
		Env: map[string]string{"PGPASSWORD": "s3cret", "PGUSER": "shop"}, Hidden: []string{"PGPASSWORD"}, User: "postgres", MaxOutput: 64 << 10}
	def := doc.Jobs[0].Spec.Def
	if diff := cmp.Diff(want, def.Command); diff != "" || def.Handler != "" {
		t.Errorf("handler %q (-want +got):\n%s", def.Handler, diff)
	}
	printed, err := export(nil, []core.Job{{Def: def}})
	if err != nil || strings.Contains(string(printed), "s3cret") {
		t.Fatalf("%s%v", printed, err)
	}
	again, err := Parse("m", printed, Options{})
	check.OK(t, err)
	kept, err := again.Jobs[0].Spec.Def.Command.Kept(def.Command)
	if diff := cmp.Diff(want, kept); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	paths := map[string]bool{}
	for _, c := range Diff(nil, formOf(&core.Job{Def: def})) {
		paths[c.Path] = true
		if strings.Contains(c.New, "s3cret") {
			t.Errorf("%+v", c)
		}
	}
	for _, p := range component("Command").Properties {
		if !paths["command."+p.name] && !paths["command."+p.name+".PGUSER"] {
			t.Errorf("command.%s is not written: %v", p.name, paths)
		}
	}
}

func TestCommandErrors(t *testing.T) {
	job := func(s string) string { return "version: 1\njobs:\n- app: a\n  name: j\n  " + s + "\n" }
	texts := golden.New(t)
	for _, c := range []struct{ in, at string }{
		{"command: {dir: /x}", "5:12 jobs[0].command.line"},
		{"command: {line: x, dir: backups}", "5:27 jobs[0].command.dir"},
		{"command: {line: x, dir: /a/../etc}", "5:27 jobs[0].command.dir"},
		{"command: {line: x, user: \"a b\"}", "5:28 jobs[0].command.user"},
		{"command: {line: x, maxOutput: 1B}", "5:33 jobs[0].command.maxOutput"},
		{"command: {line: x, env: {TICKRING_RUN: a, B: {env: NONE}}}", "5:42 jobs[0].command.env.TICKRING_RUN, 5:54 jobs[0].command.env.B.env"},
		{"command: {line: x}\n  handler: h", "6:12 jobs[0].handler"},
		{"command: {line: x}\n  route: broadcast", "6:10 jobs[0].route"},
		{"command: {line: x}\n  block: discard-later", "6:10 jobs[0].block"},
		{"title: x", "3:3 jobs[0].handler"},
	} {
		_, err := Parse("m", []byte(job(c.in)), env())
		check.Equal(t, places(t, err), c.at, "%s: errors at", c.in)
		texts.Equal(t, strings.Join(strings.Fields(c.in), " "), err.Error())
	}
}

// The schema has a job with a handler, a command or a script, and the answer of the API no secret.
func TestCommandSchema(t *testing.T) {
	var doc struct {
		Defs map[string]struct {
			Required []string `json:"required"`
			OneOf    []struct {
				Required []string `json:"required"`
			} `json:"oneOf"`
		} `json:"$defs"`
	}
	check.OK(t, json.Unmarshal(Schema(), &doc))
	job := doc.Defs["job"]
	check.Equal(t, fmt.Sprint(job), "{[app name] [{[handler]} {[command]} {[script]}]}", "a job has")
	j := core.Job{Def: core.Def{Command: &core.Command{Line: "x", Env: map[string]string{"A": "s3cret"}, Hidden: []string{"A"}}}}
	raw, err := json.Marshal(api.JobOf(&j))
	if err != nil || strings.Contains(string(raw), "s3cret") {
		t.Errorf("%s %v", raw, err)
	}
	if record := core.RecordOf(&j.Sched, &j.Def).String(); strings.Contains(record, "s3cret") || !strings.Contains(record, `"command"`) {
		t.Errorf("a change record has %s", record)
	}
}
