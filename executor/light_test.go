package executor_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
)

// TestImports: the package depends only on Go and package wire. Handlers import no cloud SDK and no part of the scheduler.
func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Skipf("no go command here: %v", err)
	}
	const want = "github.com/tickring/tickring/executor/internal/request github.com/tickring/tickring/internal/connlimit " +
		"github.com/tickring/tickring/wire github.com/tickring/tickring/executor"
	check.Equal(t, strings.Join(strings.Fields(string(out)), " "), want, "it needs")
}
