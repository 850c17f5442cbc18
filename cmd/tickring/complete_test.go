package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
)

func TestCompletionIsBounded(t *testing.T) {
	run := func(endpoint, stdin string, args ...string) string {
		code, out, errs := runMain(t, endpoint, stdin, args...)
		if code != exitDone || errs != "" {
			t.Fatalf("%q: exit code %d: %s", args, code, errs)
		}
		return out
	}
	usual := completeFor
	defer func() { completeFor = usual }()
	completeFor = time.Minute
	s := testServer(t)
	defer s.Close()
	jobs := "version: 1\napps: [{name: many}]\njobs:\n"
	for i := range 2 * completeMost {
		jobs += fmt.Sprintf("  - {app: many, name: job-%03d, handler: x}\n", i)
	}
	run(s.URL, jobs, "apply", "-f", "-")
	check.Equal(t, strings.Count(run(s.URL, "", "complete", "bash", "--", "describe", ""), "\n"), completeMost, "names")
	if got := run(s.URL, "", "complete", "bash", "--", "describe", "many/job-39"); strings.Count(got, "\n") != 10 {
		t.Errorf("behind the first %d: %q", completeMost, got)
	}
	// A shell would execute a job name from a hostile server in the line that it completes.
	evil := knowing(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"jobs":[{"app":"a","name":"j$(touch${IFS}x)","id":1,"schedule":{}},{"app":"a","name":"fine","id":2,"schedule":{}}],`+
			`"apps":[{"name":"`+"`id`"+`"},{"name":"good"}]}`)
	}))
	defer evil.Close()
	for _, of := range []string{"describe", "executors"} {
		if got := run(evil.URL, "", "complete", "bash", "--", of, ""); strings.ContainsAny(got, "$`") || !strings.Contains(got, "fine") &&
			!strings.Contains(got, "good") {
			t.Errorf("%s: %q", of, got)
		}
	}
	hangs := knowing(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()
	completeFor = usual
	began := time.Now()
	check.Equal(t, run(hangs.URL, "", "complete", "bash", "--", "get", ""), "")
	if took := time.Since(began); usual != time.Second || took < usual || took > 20*time.Second { // it is busy here
		t.Errorf("%s of %s", took, usual)
	}
}
