package arch_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
)

// TestSettingsAreDocumented: docs/reference/aws-settings.md has each setting of the CDK app with
// its value. The app is in a module of its own, which is slow to build.
func TestSettingsAreDocumented(t *testing.T) {
	code := contents(t, "infra/app/context.go")
	doc := contents(t, "docs/reference/aws-settings.md")
	settings := regexp.MustCompile(`(?m)^\t\{"(\w+)", "([^"]+)",`).FindAllStringSubmatch(code, -1)
	if len(settings) < 30 {
		t.Fatalf("only %d settings were found", len(settings))
	}
	for _, s := range settings {
		check.Contains(t, doc, "| `"+s[1]+"` | "+s[2]+" | ", "docs/reference/aws-settings.md does not have the row")
	}
}

// TestAlarmsAreDocumented compares the alarms of the construct with the table of docs/reference/aws-alarms.md, which has a
// meaning and an action for each.
func TestAlarmsAreDocumented(t *testing.T) {
	code := contents(t, "infra/alarms.go")
	doc := contents(t, "docs/reference/aws-alarms.md")
	made := regexp.MustCompile(`(?m)^\t+(?:over|alarm)\("(\w+)"`).FindAllStringSubmatch(code, -1)
	told := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| [^|]{20,} \\| [^|]{20,} \\|$").FindAllStringSubmatch(doc, -1)
	names := func(list [][]string) (out []string) {
		for _, m := range list {
			out = append(out, m[1])
		}
		slices.Sort(out)
		return out
	}
	if m, d := names(made), names(told); len(m) < 8 || !slices.Equal(m, d) {
		t.Errorf("there are the alarms %v, docs/reference/aws-alarms.md has %v", m, d)
	}
}

// TestDecisionIndexMatchesFiles compares the index in docs/decisions/README.md with the decisions: title, status and date of
// each file, and the numbers that have none.
func TestDecisionIndexMatchesFiles(t *testing.T) {
	index := contents(t, "docs/decisions/README.md")
	entries, err := os.ReadDir("../../docs/decisions")
	check.OK(t, err)
	head := regexp.MustCompile(`\A# (\d{3}): (.+)\n\n(Accepted|Rejected|Superseded by \d{3}), (\d{4}-\d\d-\d\d)\.\n\n## Context\n`)
	var want, missing []string
	for _, e := range entries {
		if e.Name() == "README.md" {
			continue
		}
		m := head.FindStringSubmatch(contents(t, "docs/decisions/"+e.Name()))
		if m == nil || !strings.HasPrefix(e.Name(), m[1]+"-") {
			t.Errorf("docs/decisions/%s does not begin with its number, title, status, date and context", e.Name())
			continue
		}
		want = append(want, fmt.Sprintf("| [%s](%s) | %s | %s | %s |", m[1], e.Name(), m[2], strings.ToLower(m[3]), m[4]))
		for n, _ := strconv.Atoi(m[1]); len(want)+len(missing) < n; {
			missing = append(missing, fmt.Sprintf("%03d", len(want)+len(missing)))
		}
	}
	if rows := regexp.MustCompile(`(?m)^\| \[\d.*$`).FindAllString(index, -1); !slices.Equal(rows, want) {
		t.Errorf("the index of docs/decisions/README.md should be\n%s", strings.Join(want, "\n"))
	}
	_, withdrawn, _ := strings.Cut(index, "\nWithdrawn numbers")
	withdrawn, _, _ = strings.Cut(withdrawn, "\n")
	if got := regexp.MustCompile(`\d{3}`).FindAllString(withdrawn, -1); !slices.Equal(got, missing) {
		t.Errorf("docs/decisions/README.md lists %v as withdrawn, and no file has %v", got, missing)
	}
}
