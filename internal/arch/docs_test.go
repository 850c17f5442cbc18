package arch_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSettingsAreDocumented: docs/deploy.md has each setting of the CDK app with
// what it takes. The app is in a module of its own, which is slow to build.
func TestSettingsAreDocumented(t *testing.T) {
	code, err := os.ReadFile("../../infra/app/context.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	settings := regexp.MustCompile(`(?m)^\t\{"(\w+)", "([^"]+)",`).FindAllStringSubmatch(string(code), -1)
	if len(settings) < 30 {
		t.Fatalf("only %d settings were found", len(settings))
	}
	for _, s := range settings {
		if row := "| `" + s[1] + "` | " + s[2] + " |\n"; !strings.Contains(string(doc), row) {
			t.Errorf("docs/deploy.md does not have the row\n%s", row)
		}
	}
}

// TestAlarmsAreDocumented: docs/operations.md says of each alarm of the construct
// what it means and what to do, and names none that is not there.
func TestAlarmsAreDocumented(t *testing.T) {
	code, err := os.ReadFile("../../infra/alarms.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	made := regexp.MustCompile(`(?m)^\t+(?:over|silent)\("(\w+)"`).FindAllStringSubmatch(string(code), -1)
	_, onAWS, _ := strings.Cut(string(doc), "\n# On AWS\n")
	told := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| [^|]{20,} \\| [^|]{20,} \\|$").FindAllStringSubmatch(onAWS, -1)
	names := func(list [][]string) (out []string) {
		for _, m := range list {
			out = append(out, m[1])
		}
		slices.Sort(out)
		return out
	}
	if m, d := names(made), names(told); len(m) < 8 || !slices.Equal(m, d) {
		t.Errorf("there are the alarms %v, docs/operations.md has %v", m, d)
	}
}
