package main

import (
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
