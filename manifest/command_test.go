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
	def := settings(t, &doc.Jobs[0]).Def
	if diff := cmp.Diff(want, def.Command); diff != "" || def.Handler != "" {
		t.Errorf("handler %q (-want +got):\n%s", def.Handler, diff)
	}
	printed, err := export(nil, []core.Job{{Def: def}})
	if err != nil || strings.Contains(string(printed), "s3cret") {
		t.Fatalf("%s%v", printed, err)
	}
	again, err := Parse("m", printed, Options{})
	check.OK(t, err)
	kept, err := settings(t, &again.Jobs[0]).Def.Command.Kept(def.Command)
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
