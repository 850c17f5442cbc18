package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// TestScriptFile: a script's file is read relative to the manifest, byte for byte.
func TestScriptFile(t *testing.T) {
	dir := t.TempDir()
	const text = "#!/bin/sh\r\necho \"ü\"\t\r\n\r\n"
	for name, data := range map[string]string{"m.yaml": "version: 1\njobs:\n  - {app: a, name: b, script: {kind: shell, file: " +
		"./b.sh, note: first}}\n",
		"b.sh": text} {
		check.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600))
	}
	doc, err := Load([]string{filepath.Join(dir, "m.yaml")}, nil, Options{ReadFile: os.ReadFile})
	check.OK(t, err)
	if j := doc.Jobs[0]; j.Handler != "" || j.Script != (client.ScriptSpec{Kind: "shell", Note: "first", Source: text}) {
		t.Errorf("%+v", j)
	}
}

// TestScriptFileErrors has the errors of a script's file; TestErrors has the others of scripts.
func TestScriptFileErrors(t *testing.T) {
	texts := golden.New(t)
	for _, c := range []struct{ name, file, text string }{
		{"missing file", "other", ""},
		{"empty file", "f", ""},
		{"zero byte in a file", "f", "a\x00b"},
		{"not UTF-8", "f", "\xff\xfe"},
		{"large file", "f", strings.Repeat("x", core.MaxScript+1)},
	} {
		in := "version: 1\njobs: [{app: a, name: b, script: {kind: shell, file: " + c.file + "}}]\n"
		_, err := Parse("m", []byte(in), withFile(Options{}, "f", c.text))
		check.Equal(t, places(t, err), "2:54 jobs[0].script.file", "%s: errors at", c.name)
		texts.Equal(t, c.name, err.Error())
	}
}

// scripted is a job with a script, as it is read for an export.
func scripted(source string) client.Job {
	j := api.JobOf(&core.Job{Def: core.Def{App: "a", Name: "b", Script: core.ScriptOf(core.ScriptPHP, "a note", source)}})
	j.Script.Source = source
	return j
}

// TestExportsAScript: an exported script is parsed again byte for byte, whatever its text; plain text becomes a block of lines.
func TestExportsAScript(t *testing.T) {
	reads := func(t interface{ Errorf(string, ...any) }, source string) {
		out, err := Export(nil, []client.Job{scripted(source)})
		if err != nil {
			t.Errorf("%q: %v", source, err)
			return
		}
		doc, err := Parse("m", out, Options{})
		if err != nil || doc.Jobs[0].Script.Source != source || doc.Jobs[0].Script.Note != "a note" {
			t.Errorf("%q became %v, %v by\n%s", source, doc, err, out)
		}
	}
	for _, source := range []string{"x", "x\n", "x\n\n\n", "x\r\ny\r\n", "  x\n", "\tx\n", "\nx",
		"#!/bin/sh\nif true; then\n  echo: \"a\"\nfi   \n\n", "x: y", "- a\n", "---\nx\n",
		"a\u2028b", "\ufeffx", "tab\tx\n", "a\n   \nb\n", "...\n", "|", "# c\n", "a\rb", "\x7f", "\u0085", strings.Repeat("echo line\n", 20000)} {
		reads(t, source)
	}
	rapid.Check(t, func(t *rapid.T) {
		source := rapid.StringMatching(`([a-z#:'"|>\-\\ \t\n\r{}\[\]%&*!?,.]|\PC){1,40}`).Draw(t, "source")
		if core.CheckSource("", source) == nil {
			reads(t, source)
		}
	})
	out, _ := Export(nil, []client.Job{scripted("#!/usr/bin/php\n<?php\n\n  echo 1;\n")})
	want := "    script:\n      kind: php\n      source: |\n        #!/usr/bin/php\n        <?php\n\n          echo 1;\n      note: a note\n"
	check.Contains(t, string(out), want, "%s", out)
	j := scripted("x")
	if j.Script.Source = ""; true {
		if _, err := Export(nil, []client.Job{j}); err == nil {
			t.Error("a script without its source was written")
		}
	}
}

// TestScriptDiffers: a comparison reports another source without printing it.
func TestScriptDiffers(t *testing.T) {
	a, b := scripted("one\n"), scripted("two two\n")
	got := fmt.Sprint(Diff(&a, &b))
	if !strings.HasPrefix(got, `[{script.source "sha256 `) || !strings.Contains(got, "4 bytes") || !strings.Contains(got, "8 bytes") ||
		strings.Contains(got, "two") {
		t.Error(got)
	}
	check.Equal(t, a.Script.Source, "one\n", "the job is another")
}
