package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"os/user"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
)

// TestPageExamplesApply applies each YAML example of the pages about jobs: a whole file as it is, a field of a
// job below the file with which docs/reference/job-settings.md begins.
func TestPageExamplesApply(t *testing.T) {
	t.Setenv("TICKRING_DATA", t.TempDir())
	t.Setenv("LEDGER_TOKEN", "secret-of-the-ledger")
	t.Setenv("REPORTS_TOKEN", "secret-of-the-reports")
	me, err := user.Current()
	check.OK(t, err)
	serveHere(t, "serve", "--commands-user", me.Username, "--commands-dir", t.TempDir())
	apply := func(text string) {
		t.Helper()
		cmd := command(t, "tickring-main", "apply", "-f", "-")
		cmd.Stdin, cmd.Stderr = strings.NewReader(text), nil
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s\n%s", err, out, text)
		}
	}
	above := pageBlocks(t, "reference/job-settings.md")("yaml")[0]
	for _, page := range []string{"reference/job-settings.md", "reference/manifest.md", "reference/schedules.md",
		"how-to/limit-concurrency.md", "how-to/chain-jobs.md"} {
		examples := pageBlocks(t, page)("yaml")
		if len(examples) < 2 {
			t.Errorf("%s has %d examples", page, len(examples))
		}
		for _, example := range examples {
			if !strings.HasPrefix(example, "version: 1\n") {
				example = above + "    " + strings.ReplaceAll(strings.TrimSpace(example), "\n", "\n    ") + "\n"
			}
			apply(example)
		}
	}
}

// TestJobSettingsPageIsComplete compares docs/reference/job-settings.md with the JSON Schema: a heading for each
// field of a job, and a row for each field of one that is a map.
func TestJobSettingsPageIsComplete(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/job-settings.md")
	check.OK(t, err)
	out, err := command(t, "tickring-main", "schema").Output()
	var schema struct {
		Defs map[string]struct {
			Properties map[string]struct {
				Ref string `json:"$ref"`
			}
		} `json:"$defs"`
	}
	if err == nil {
		err = json.Unmarshal(out, &schema)
	}
	check.OK(t, err)
	job := schema.Defs["job"].Properties
	if len(job) == 0 {
		t.Fatalf("the schema has no fields of a job: %s", out)
	}
	for name, field := range job {
		check.Contains(t, string(page), "\n### "+name+"\n", "no heading for %s", name)
		for below := range schema.Defs[strings.TrimPrefix(field.Ref, "#/$defs/")].Properties {
			check.Contains(t, string(page), "\n| `"+name+"."+below+"` |", "no row for %s.%s", name, below)
		}
	}
}

// TestManifestPage: the commands of docs/reference/manifest.md work as pasted, and print the output on the page.
func TestManifestPage(t *testing.T) {
	blocks := pageBlocks(t, "reference/manifest.md")
	t.Setenv("TICKRING_DATA", t.TempDir())
	serveHere(t, "serve")
	dir := t.TempDir()
	scripts, shown := blocks("sh"), blocks("text")
	if len(scripts) != 3 || len(shown) != len(scripts) {
		t.Fatalf("%d scripts, %d answers", len(scripts), len(shown))
	}
	for i := range scripts {
		sh := exec.CommandContext(t.Context(), "sh", "-ec", scripts[i])
		sh.Dir = dir
		if out, err := sh.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), shown[i]) {
			t.Errorf("%s%v: %s", scripts[i], err, out)
		}
	}
	// A set of another file stays, and an export of both can be applied.
	other := exec.CommandContext(t.Context(), "sh", "-ec", `printf 'version: 1\nset: pay\napps: [{name: pay}]\n' >pay.yaml; tickring apply -f pay.yaml
		tickring apply -f shop.yaml --prune --yes; tickring get -o yaml >all.yaml; tickring apply -f all.yaml; cat all.yaml`)
	other.Dir = dir
	out, err := other.CombinedOutput()
	if said := string(out); err != nil || !strings.Contains(said, "\n2 unchanged\n3 unchanged\n# Several sets: ") ||
		!strings.Contains(said, "    # set: pay\n") {
		t.Errorf("%v: %s", err, out)
	}
}
