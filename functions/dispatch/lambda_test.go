package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/internal/traces"
	"github.com/tickring/tickring/send/awssend"
)

// invocations is Lambda: which functions were invoked, and its answer to each.
type invocations struct {
	mu     sync.Mutex
	names  []string
	last   string // the payload of the last invocation
	answer func(w http.ResponseWriter, function string)
}

func (v *invocations) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	payload, _ := io.ReadAll(r.Body)
	name := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/2015-03-31/functions/"), "/invocations")
	v.mu.Lock()
	v.names, v.last = append(v.names, name), string(payload)
	v.mu.Unlock()
	v.answer(w, name)
}

func (v *invocations) invoked() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.names)
}

// dispatched brings one fire of a job with two functions to dispatch, several
// times, and answers its run.
func dispatched(t *testing.T, route core.Route, v *invocations, receipts int) core.Run {
	t.Helper()
	srv := httptest.NewServer(v)
	t.Cleanup(srv.Close)
	c, err := lambdaboot.Read(func(name string) string { return environment[name] }, lambdaboot.Needs{})
	check.OK(t, err)
	c.Functions = awssend.NewFunctions(lambda.New(lambda.Options{Region: "us-east-1", BaseEndpoint: &srv.URL,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key"}, nil
		})}), nil)
	if c.Traces, err = traces.New(traces.Options{Salt: []byte("test")}); err != nil {
		t.Fatal(err)
	}
	e := memory.Open(t, memory.Options{})
	log := slog.New(slog.DiscardHandler)
	m := c.Assemble(e, log).People(nil, people.Options{})
	actor := core.Actor{Name: "test"}
	check.Call(t)(m.SaveApp(t.Context(), actor, manage.AppSpec{Name: "pay", Executors: []string{"lambda:one", "lambda:two"}}))
	saved := m.Save(t.Context(), actor, []manage.JobSpec{{Def: core.Def{App: "pay", Name: "salaries", Handler: "salaries", Route: route}}})[0]
	check.OK(t, saved.Err)
	at := core.InstantOf(time.Now())
	id := core.PlannedRun(saved.ID, at)
	doc := batch(string(ring.Encode(ring.Message{Kind: ring.KindFires, Slot: at,
		Fires: []core.Fire{{Run: id, Rev: saved.Rev, At: at, Slot: at, Cause: core.CauseSchedule}}})))
	h := wire(&c, e, (&calls{}).handler().bury, log)
	for range receipts {
		if back, err := invoke(t, h, doc); err != nil || len(back) > 0 {
			t.Fatalf("%v come again, %v", back, err)
		}
	}
	return memory.Run(t, e, id)
}

// TestRefusedMovesOn: after a proven rejection the next function is tried. If there is none, the run fails with the reason.
func TestRefusedMovesOn(t *testing.T) {
	texts := golden.New(t)
	refuse := func(w http.ResponseWriter) {
		w.Header().Set("X-Amzn-Errortype", "ResourceNotFoundException")
		w.WriteHeader(404)
		io.WriteString(w, `{"Message":"Function not found"}`)
	}
	v := &invocations{answer: func(w http.ResponseWriter, name string) {
		if name == "one" {
			refuse(w)
			return
		}
		w.Header().Set("X-Amzn-Requestid", "8476a536-e9f4-11e8-9739-2dfe598c3fcd")
		w.WriteHeader(http.StatusAccepted)
	}}
	if r := dispatched(t, core.RouteFailover, v, 2); r.State != core.Running || r.Address != "lambda:two" || len(v.invoked()) != 2 {
		t.Errorf("%s at %s, invoked were %v", r.State, r.Address, v.invoked())
	} else if len(r.Tries) == 0 {
		t.Error("failover does not record its choice")
	} else if last := r.Tries[len(r.Tries)-1]; last.Address != "lambda:two" || last.Request != "8476a536-e9f4-11e8-9739-2dfe598c3fcd" ||
		last.Log != "/aws/lambda/two" {
		t.Errorf("the log location of the run is not kept: %+v", r.Tries)
	} else {
		texts.Equal(t, "a choice", r.Tries[0].Message)
	}
	v = &invocations{answer: func(w http.ResponseWriter, _ string) { refuse(w) }}
	r := dispatched(t, core.RouteFirst, v, 2)
	if r.State != core.Failed || r.Reason != core.ReasonNotAccepted {
		t.Errorf("%s: %s %q", r.State, r.Reason, r.Message)
	}
	texts.Equal(t, "all functions refuse", r.Message)
}

// TestFunctionIsToldOfItsSpan: with traces enabled, a send is a span, and the payload carries it to the function.
func TestFunctionIsToldOfItsSpan(t *testing.T) {
	v := &invocations{answer: func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusAccepted) }}
	if dispatched(t, core.RouteFirst, v, 1); strings.Contains(v.last, "traceparent") || v.last == "" {
		t.Error(v.last)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318") // it is not asked: nothing is flushed
	if dispatched(t, core.RouteFirst, v, 1); !strings.Contains(v.last, `"traceparent":"00-`) {
		t.Error(v.last)
	}
}

// TestLate: a send more than a second after its due time is reported once, a run triggered for now never.
func TestLate(t *testing.T) {
	var l late
	slot := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	at := func(after time.Duration, cause core.Cause) {
		l.sent(&core.Run{Slot: core.InstantOf(slot), Cause: cause}, slot.Add(after), nil)
	}
	at(900*time.Millisecond, core.CauseSchedule)
	at(time.Hour, core.CauseManual)
	if got := l.take(); got[lambdaboot.Lateness] != 0 || got[lambdaboot.LateFires] != 0 {
		t.Errorf("on time: %v", got)
	}
	at(1500*time.Millisecond, core.CauseSchedule)
	at(4*time.Second, core.CauseRetry)
	at(2*time.Second, core.CauseSchedule)
	if got := l.take(); got[lambdaboot.Lateness] != 4 || got[lambdaboot.LateFires] != 3 {
		t.Errorf("three late ones, 4 s at most: %v", got)
	}
	if got := l.take(); got[lambdaboot.Lateness] != 0 || got[lambdaboot.LateFires] != 0 {
		t.Errorf("told twice: %v", got)
	}
}
