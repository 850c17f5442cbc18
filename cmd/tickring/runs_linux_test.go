package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestRunsPage: each example of docs/runs.md can be applied, by itself where it is a whole file,
// else below the lines with which the page begins.
func TestRunsPage(t *testing.T) {
	t.Setenv("TICKRING_DATA", t.TempDir())
	t.Setenv("LEDGER_TOKEN", "secret-of-the-ledger")
	serveHere(t, "serve")
	apply := func(text string) {
		t.Helper()
		cmd := command(t, "tickring-main", "apply", "-f", "-")
		cmd.Stdin, cmd.Stderr = strings.NewReader(text), nil
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s\n%s", err, out, text)
		}
	}
	examples := pageBlocks(t, "runs.md")("yaml")
	for _, example := range examples[1:] {
		if !strings.HasPrefix(example, "version: 1\n") {
			example = examples[0] + "\n" + example
		}
		apply(example + "\n")
	}
}

// TestManifestPage: the commands of docs/manifest.md work as pasted, and print what the page shows.
func TestManifestPage(t *testing.T) {
	blocks := pageBlocks(t, "manifest.md")
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
