package arch_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
)

// TestTroubleshootingQuotesOutputsThatExist: each output in the first columns of docs/how-to/troubleshoot.md occurs in the
// source, or in an output that a test or its golden file expects. An ellipsis stands for any text.
func TestTroubleshootingQuotesOutputsThatExist(t *testing.T) {
	page := contents(t, "docs/how-to/troubleshoot.md")
	var source strings.Builder
	err := filepath.WalkDir("../..", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || d.Name() == "api"):
			return filepath.SkipDir
		case !d.IsDir() && slices.Contains([]string{".go", ".txt", ".txtar"}, filepath.Ext(p)):
			b, err := os.ReadFile(p)
			source.Write(b)
			return err
		}
		return nil
	})
	check.OK(t, err)
	all, found := source.String(), 0
	stateAndReason := regexp.MustCompile(`^([a-z-]+): ([a-z-]+)$`) // composed from two constants
	for _, row := range regexp.MustCompile(`(?m)^\| (.*?) \|`).FindAllStringSubmatch(page, -1) {
		for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			if !strings.Contains(quoted[1], " ") || strings.HasPrefix(quoted[1], "tickring ") {
				continue
			}
			found++
			if m := stateAndReason.FindStringSubmatch(quoted[1]); m != nil {
				quoted[1] = `"` + m[1] + `"…"` + m[2] + `"`
			}
			for part := range strings.SplitSeq(quoted[1], "…") {
				if part = strings.Trim(part, ` ,:`); !strings.Contains(all, part) {
					t.Errorf("docs/how-to/troubleshoot.md quotes %q, and no source has %q", quoted[1], part)
				}
			}
		}
	}
	if found < 15 {
		t.Errorf("%d outputs were found", found)
	}
}
