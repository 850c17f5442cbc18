package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/tickring/tickring/executor"
)

// console: a newcomer's first session in a browser, on the pages that the function api serves.
func (s *stack) console(t *testing.T) {
	app := s.app(t, "console", "")
	s.executes(t, app, "report", func(ctx context.Context, run *executor.Run) error {
		for part := 1; part <= 3; part++ {
			run.Printf("part %d of 3 is done", part)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}, nil)
	s.OK(t, "", "create", app+"/report", "--handler", "report", "--every", "1h")
	args := []string{"test", "-count=1", "-v", "-timeout", "5m", "-run", "TestFirstSession$", ".", "-base", s.URL,
		"-token", s.AdminToken, "-job", app + "/report", "-log", "part 3 of 3 is done"}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = "../browser", os.Environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the session in the browser: %v\n%s", err, out)
	} else {
		fmt.Fprintf(t.Output(), "%s\n", out)
	}
}
