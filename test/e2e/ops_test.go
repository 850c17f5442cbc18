package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/test/rig"
)

// redrive: a message that cannot be handled is among the dead letters, its fire
// recorded as skipped. Redrive sends what of it can be read, and it runs.
func (s *stack) redrive(t *testing.T) {
	app := s.app(t, "redrive", "")
	ran := make(chan int64, 10)
	s.executes(t, app, "work", func(_ context.Context, run *executor.Run) error {
		ran <- run.ID
		return nil
	})
	s.OK(t, "", "create", app+"/yearly", "--cron", "0 0 0 1 1 ?", "--handler", "work")
	var job struct {
		ID  core.JobID `json:"id"`
		Rev int64      `json:"rev"`
	}
	if err := json.Unmarshal([]byte(s.OK(t, "", "get", app+"/yearly", "-o", "json")), &job); err != nil || job.Rev == 0 {
		t.Fatalf("%+v, %v", job, err)
	}
	at := core.Instant(time.Now().Unix())
	id := core.PlannedRun(job.ID, at)
	// As planning writes it, but that nothing was ever tried that often.
	body := fmt.Sprintf(`{"v":1,"kind":"fires","slot":%d,"try":1048577,"fires":[{"run":%d,"rev":%d,"cause":"schedule"}]}`, at, id, job.Rev)
	if _, err := sqs.NewFromConfig(s.sdk).SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &s.FiresQueue, MessageBody: aws.String(body)}); err != nil {
		t.Fatal(err)
	}
	if err := rig.Eventually(settles, func() error {
		out := s.OK(t, "", "redrive", "--dry-run")
		if !strings.Contains(out, "try 1048577 is out of range") || !strings.Contains(out, app+"/yearly") {
			return fmt.Errorf("the dead letters are %q", out)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var page struct {
		Runs  []rig.Run
		Skips []struct{ FirstAt, Reason string }
	}
	out := s.OK(t, "", "runs", app+"/yearly", "-o", "json")
	if err := json.Unmarshal([]byte(out), &page); err != nil || len(page.Runs) > 0 || len(page.Skips) != 1 || page.Skips[0].Reason != "undeliverable" || page.Skips[0].FirstAt != at.Time().Format(time.RFC3339) {
		t.Errorf("of the fire in the dead letter it is said: %s", out)
	}
	select {
	case run := <-ran:
		t.Fatalf("run %d began before it was sent again", run)
	default:
	}
	// There may be letters of others.
	if out := s.OK(t, "", "redrive"); !regexp.MustCompile(app + "/yearly .* sent again\n").MatchString(out) {
		t.Errorf("redrive says %q", out)
	}
	if r := s.WaitState(t, fmt.Sprint(id), "succeeded", settles); r.Cause != "schedule" {
		t.Errorf("%+v", r)
	}
	if out := s.OK(t, "", "redrive", "--dry-run"); strings.Contains(out, app) {
		t.Errorf("the letter is still there: %q", out)
	}
	if run := <-ran; run != int64(id) || len(ran) > 0 {
		t.Errorf("run %d and %d more reached the executor, want %d alone", run, len(ran), id)
	}
}
