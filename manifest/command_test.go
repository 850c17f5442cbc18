package manifest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
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
	if err != nil {
		t.Fatal(err)
	}
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
	for _, c := range []struct{ in, want string }{
		{"command: {dir: /x}", "m:5:12: jobs[0].command.line: required: The command line that /bin/sh -c runs, at most 8 KB; the params are $1."},
		{"command: {line: x, dir: backups}",
			`m:5:27: jobs[0].command.dir: "backups": expected an absolute path without . and .., such as /var/backups`},
		{"command: {line: x, dir: /a/../etc}",
			`m:5:27: jobs[0].command.dir: "/a/../etc": expected an absolute path without . and .., such as /var/backups`},
		{"command: {line: x, user: \"a b\"}",
			`m:5:28: jobs[0].command.user: "a b": the name of a system user has 1 to 32 characters of a-z A-Z 0-9 . _ -`},
		{"command: {line: x, maxOutput: 1B}", `m:5:33: jobs[0].command.maxOutput: "1B"; allowed values: 1KB to 64MB, such as 64KB`},
		{"command: {line: x, env: {TICKRING_RUN: a, B: {env: NONE}}}",
			"m:5:42: jobs[0].command.env.TICKRING_RUN: names that start with TICKRING_ are reserved for information " +
				"about the run: choose another name\n" +
				"m:5:54: jobs[0].command.env.B.env: the environment variable NONE is not set"},
		{"command: {line: x}\n  handler: h",
			`m:6:12: jobs[0].handler: "h": the server itself runs a job with a command and calls no handler: set either handler or command`},
		{"command: {line: x}\n  route: broadcast",
			`m:6:10: jobs[0].route: "broadcast": the server itself runs a job with a command, so no executor is chosen: leave this field out`},
		{"command: {line: x}\n  block: discard-later",
			`m:6:10: jobs[0].block: "discard-later": the server runs the command of a job one run after the other: to change this, ` +
				`use overlap: {limit: 1, whenFull: skip} or {limit: 1, whenFull: replace}`},
		{"title: x", "m:3:3: jobs[0].handler: required: The handler that the executor runs; for call: executors \"POST /path\"."},
	} {
		_, err := Parse("m", []byte(job(c.in)), env())
		if err == nil {
			t.Errorf("%s: no error", c.in)
			continue
		}
		if diff := cmp.Diff(strings.Split(c.want, "\n"), strings.Split(err.Error(), "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.in, diff)
		}
	}
}

// The schema has a job with a handler or a command, and the answer of the API no secret.
func TestCommandSchema(t *testing.T) {
	var doc struct {
		Defs map[string]struct {
			Required []string `json:"required"`
			OneOf    []struct {
				Required []string `json:"required"`
			} `json:"oneOf"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(Schema(), &doc); err != nil {
		t.Fatal(err)
	}
	job := doc.Defs["job"]
	if diff := cmp.Diff([]string{"app", "name"}, job.Required); diff != "" || len(job.OneOf) != 3 || job.OneOf[0].Required[0] != "handler" ||
		job.OneOf[1].Required[0] != "command" {
		t.Errorf("%+v %s", job, diff)
	}
	j := core.Job{Def: core.Def{Command: &core.Command{Line: "x", Env: map[string]string{"A": "s3cret"}, Hidden: []string{"A"}}}}
	raw, err := json.Marshal(api.JobOf(&j))
	if err != nil || strings.Contains(string(raw), "s3cret") {
		t.Errorf("%s %v", raw, err)
	}
	if record := core.RecordOf(&j.Sched, &j.Def).String(); strings.Contains(record, "s3cret") || !strings.Contains(record, `"command"`) {
		t.Errorf("a change record has %s", record)
	}
}
