package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/lambdatest"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/send"
	"github.com/tickring/tickring/store"
)

// document is a record as Lambda puts it on its destination, with the key of
// the run that it is about.
func document(t *testing.T, c *lambdaboot.Config, name string, replace ...string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/records/" + name + ".json")
	check.OK(t, err)
	return strings.NewReplacer(append(replace, "RUNKEY", send.ReportSignature(keyOf(t, c), run))...).Replace(string(b))
}

type graveyard struct {
	bodies, reasons []string
	err             error
}

func (g *graveyard) bury(_ context.Context, body, reason string) error {
	if g.err != nil {
		return g.err
	}
	g.bodies, g.reasons = append(g.bodies, body), append(g.reasons, reason)
	return nil
}

// records sends a batch of the results queue, and returns the IDs to deliver again.
func records(t *testing.T, c *lambdaboot.Config, e *store.Store, g *graveyard, bodies ...string) ([]string, error) {
	t.Helper()
	return lambdatest.Deliver(t, wire(c, e, g.bury, slog.New(slog.DiscardHandler)), lambdatest.Batch(bodies...))
}

var config = &lambdaboot.Config{AdminToken: "function-admin-token"}

// TestRecords: each recorded document, and its end of the run.
func TestRecords(t *testing.T) {
	texts := golden.New(t)
	for name, want := range map[string]struct {
		state  core.State
		reason core.Reason
	}{
		"success":       {core.Succeeded, ""},
		"success-text":  {core.Succeeded, ""},
		"success-null":  {core.Succeeded, ""},
		"sdk-failed":    {core.Failed, core.ReasonHandler},
		"sdk-snoozed":   {core.Failed, core.ReasonSnoozed},
		"later":         {core.Failed, core.ReasonSnoozed},
		"never":         {core.Failed, core.ReasonCancelled},
		"sdk-reported":  {core.Running, ""},
		"error":         {core.Failed, core.ReasonHandler},
		"error-retried": {core.Failed, core.ReasonHandler},
		"timeout":       {core.TimedOut, core.ReasonTimeout},
		"exit":          {core.Failed, core.ReasonCrashed},
		"exited":        {core.Failed, core.ReasonCrashed},
		"throttled":     {core.Failed, core.ReasonNotAccepted},
		"given-up":      {core.Lost, core.ReasonNoReport},
	} {
		t.Run(name, func(t *testing.T) {
			e, g := open(t), &graveyard{}
			for range 2 { // Lambda and SQS deliver at least once
				if again, err := records(t, config, e, g, document(t, config, name)); err != nil || len(again) > 0 || len(g.bodies) > 0 {
					t.Fatalf("%v %v %q", again, err, g.reasons)
				}
			}
			r := memory.Run(t, e, run)
			if r.State != want.state || r.Reason != want.reason {
				t.Errorf("%s: %s %q", r.State, r.Reason, r.Message)
			}
			texts.Equal(t, name, r.Message)
		})
	}
	if list, _ := filepath.Glob("testdata/records/*.json"); len(list) != 15 {
		t.Errorf("%d documents: is one of them unchecked?", len(list))
	}
}

// TestRecordsData: the data that an SDK handler passes to child runs is in its function's return value.
func TestRecordsData(t *testing.T) {
	e, g := open(t), &graveyard{}
	if again, err := records(t, config, e, g, document(t, config, "sdk-failed", `"no money left"`,
		`"no money left", "tickringData": "17"`)); err != nil || len(again) > 0 {
		t.Fatalf("%v %v", again, err)
	}
	if r := memory.Run(t, e, run); r.Data != "17" || r.State != core.Failed {
		t.Errorf("%+v", r)
	}
}

// TestForeignRecords: a record without the right key ends no run, although its sender can write to the queue. Foreign records are
// kept and block no others.
func TestForeignRecords(t *testing.T) {
	forged := document(t, config, "success", "RUNKEY", "00000000000000000000000000000000")
	texts := golden.New(t)
	for name, body := range map[string]string{
		"forged":           forged,
		"no condition":     "{}",
		"not JSON":         "hello",
		"of another event": `{"requestContext":{"condition":"Success"},"requestPayload":{"ORDER_IDS":["9e07af03"]}}`,
		"condition":        document(t, config, "success", `"Success"`, `"Tired"`),
	} {
		e, g := open(t), &graveyard{}
		again, err := records(t, config, e, g, body)
		if err != nil || len(again) > 0 || len(g.bodies) != 1 || g.bodies[0] != body || state(t, e) != core.Running {
			t.Errorf("%.80s: %v %v %q, the run is %s", body, again, err, g.reasons, state(t, e))
		}
		texts.Equal(t, name, strings.Join(g.reasons, "\n"))
		g.err = errors.New("throttled")
		if again, err := records(t, config, e, g, body, document(t, config, "success")); err != nil ||
			!slices.Equal(again, []string{lambdatest.ID(1)}) || state(t, e) != core.Succeeded {
			t.Errorf("%.80s: %v %v, the run is %s", body, again, err, state(t, e))
		}
	}
	e, g := open(t), &graveyard{}
	if _, err := records(t, &lambdaboot.Config{}, e, g, document(t, config, "success")); err == nil || state(t, e) != core.Running {
		t.Errorf("without a token to check keys with: %v", err)
	}
	gone := strings.ReplaceAll(document(t, config, "success"), "30282209332", "30282209333")
	gone = strings.ReplaceAll(gone, send.ReportSignature(keyOf(t, config), run), send.ReportSignature(keyOf(t, config), run+1))
	if again, err := records(t, config, e, g, gone); err != nil || len(again)+len(g.bodies) > 0 {
		t.Errorf("a run that is no longer kept: %v %v %q", again, err, g.reasons)
	}
}

// TestUnsentRecord: the log of an unusable result names the state of its run.
func TestUnsentRecord(t *testing.T) {
	texts := golden.New(t)
	for name, end := range map[string]error{
		"unsent":  &core.Error{Code: core.CodeNotFound, Err: finish.ErrUnsent},
		"deleted": core.Errorf(core.CodeNotFound, "there is no run"),
	} {
		var told bytes.Buffer
		h := results{key: config.ReportKey, now: time.Now, log: slog.New(slog.NewTextHandler(&told, nil)),
			end: func(context.Context, []finish.Result) []error { return []error{end} }}
		res, err := h.handle(t.Context(), events.SQSEvent{Records: []events.SQSMessage{{MessageId: "a", Body: document(t, config, "success")}}})
		if err != nil || len(res.BatchItemFailures) != 0 {
			t.Errorf("%v: %+v %v, %s", end, res, err, &told)
		}
		_, line, _ := strings.Cut(told.String(), " ") // without its time
		texts.Equal(t, name, line)
	}
}
