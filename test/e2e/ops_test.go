package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/waiting"
	"github.com/tickring/tickring/test/harness"
)

// redrive: a message that cannot be processed is in the dead-letter queue, and its run is recorded as skipped. Redrive sends the
// readable parts again, and the run succeeds.
func (s *stack) redrive(t *testing.T) {
	app := s.app(t, "redrive", "")
	ran := make(chan int64, 10)
	s.executes(t, app, "work", func(_ context.Context, run *executor.Run) error {
		ran <- run.ID
		return nil
	}, nil)
	s.OK(t, "", "create", app+"/yearly", "--cron", "0 0 0 1 1 ?", "--handler", "work")
	job := harness.JSON[client.Job](t, s.Server, "get", app+"/yearly")
	if job.Rev == 0 {
		t.Fatalf("%+v", job)
	}
	at := core.Instant(time.Now().Unix())
	id := core.PlannedRun(core.JobID(job.ID), at)
	// As planning writes it, but that nothing was ever tried that often.
	body := fmt.Sprintf(`{"v":1,"kind":"fires","slot":%d,"try":1048577,"fires":[{"run":%d,"rev":%d,"cause":"schedule"}]}`, at, id, job.Rev)
	check.Call(t)(sqs.NewFromConfig(s.sdk).SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &s.FiresQueue,
		MessageBody: aws.String(body)}))
	check.OK(t, waiting.For(patience, func() error { // the tick takes dead-letter messages once a minute
		out := s.OK(t, "", "redrive", "--dry-run")
		if !strings.Contains(out, "try 1048577 is out of range") || !strings.Contains(out, app+"/yearly") {
			time.Sleep(time.Second)
			return fmt.Errorf("the dead letters are %q", out)
		}
		return nil
	}))
	page := harness.JSON[client.RunPage](t, s.Server, "runs", app+"/yearly")
	if len(page.Runs) > 0 || len(page.Skips) != 1 || page.Skips[0].Reason != "undeliverable" || !page.Skips[0].FirstAt.Equal(at.Time()) {
		t.Errorf("the run of the dead-letter message: %+v", page)
	}
	select {
	case run := <-ran:
		t.Fatalf("run %d began before it was sent again", run)
	default:
	}
	// Other tests can have dead-letter messages too.
	if out := s.OK(t, "", "redrive"); !regexp.MustCompile(app + "/yearly .* resent\n").MatchString(out) {
		t.Errorf("redrive says %q", out)
	}
	check.Equal(t, s.WaitState(t, fmt.Sprint(id), "succeeded", patience).Cause, "schedule", "cause")
	if out := s.OK(t, "", "redrive", "--dry-run"); strings.Contains(out, app) {
		t.Errorf("the letter is still there: %q", out)
	}
	if run := <-ran; run != int64(id) || len(ran) > 0 {
		t.Errorf("run %d and %d more reached the executor, want %d alone", run, len(ran), id)
	}
}

// doctor looks at the deployment with the credentials of AWS and the name of the
// stack alone.
func (s *stack) doctor(t *testing.T) {
	// Doctor knows how long messages have been due only after it has seen a moment without due messages. Messages of the test before
	// are still due, and runs of paused jobs come due each second.
	check.NoError(t, waiting.For(patience, func() error { return s.examined(t) }))
}

// examined runs doctor once; the error lists missing checks and problems.
func (s *stack) examined(t *testing.T) error {
	var said struct {
		Findings []struct{ Check, Level, Says string }
	}
	out, code := s.CLI(t, "", "doctor", "--stack", "Tickring", "--region", s.sdk.Region, "--all", "-o", "json",
		"--lang", "en")
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		return fmt.Errorf("exit code %d: %w: %s", code, err, out)
	}
	var errs []error
	checked := map[string]bool{}
	for _, f := range said.Findings {
		checked[f.Check] = true
		if f.Check == "executors" || f.Check == "jobs" { // caused by an interrupted suite, or by failing test jobs
			continue
		}
		if strings.HasPrefix(f.Check, "function ") && strings.HasPrefix(f.Says, "errors of ") { // caused by throttled
			continue
		}
		if f.Level != "ok" {
			errs = append(errs, fmt.Errorf("%s: %s: %s", f.Level, f.Check, f.Says))
		}
	}
	for _, want := range []string{
		"server", "generation", "clock", "last tick", "planning", "messages", "table jobs", "table runs", "table state", "queue fires",
		"queue slow",
		"queue checks", "queue results", "queue dead", "dead letters", "function tick", "function dispatch", "function slow", "function api",
		"function callback", "schedule", "emulator", "account concurrency", "table quota",
	} {
		if !checked[want] {
			errs = append(errs, fmt.Errorf("missing: %s", want))
		}
	}
	return errors.Join(errs...)
}
