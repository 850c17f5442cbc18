package arch_test

import (
	"os"
	"regexp"
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
