package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/postrun"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/wire"
)

func record(id, body string) events.SQSMessage {
	return events.SQSMessage{MessageId: id, Body: body, EventSourceARN: "arn:aws:sqs:eu-central-1:1:postrun", ReceiptHandle: "r" + id}
}

func ofRun(id core.RunID) string {
	return string(ring.Encode(ring.Message{Kind: ring.KindPostRun, Slot: core.InstantOf(time.Now()),
		PostRun: &ring.PostRun{Run: id, PostRun: core.PostRun{Log: true}}}))
}

// TestHandle: of a batch each message is answered by itself.
func TestHandle(t *testing.T) {
	var made, buried []string
	refuse := error(nil)
	h := &handler{log: slog.New(slog.DiscardHandler), look: func(context.Context) error { return refuse },
		make: func(_ context.Context, list []ring.Message) []error {
			errs := make([]error, len(list))
			for i, m := range list {
				if made = append(made, m.PostRun.Run.String()); m.PostRun.Run == core.NumberedRun(1, 2) {
					errs[i] = errors.New("throttled")
				}
			}
			return errs
		},
		bury: func(_ context.Context, body, _ string) error {
			if buried = append(buried, body); strings.Contains(body, "unburied") {
				return errors.New("cut connection")
			}
			return nil
		}}
	fires := string(ring.Encode(ring.Message{Kind: ring.KindFires, Slot: 9, Fires: []core.Fire{{Run: core.PlannedRun(1, 9), At: 9, Slot: 9,
		Cause: core.CauseSchedule}}}))
	res, err := h.handle(t.Context(), events.SQSEvent{Records: []events.SQSMessage{
		record("1", ofRun(core.NumberedRun(1, 1))), record("2", ofRun(core.NumberedRun(1, 2))), record("3", "{"), record("4", `{"v":99}`),
		record("5", fires), record("6", "unburied"), record("7", ofRun(core.NumberedRun(1, 7)))}})
	check.OK(t, err)
	var again []string
	for _, f := range res.BatchItemFailures {
		again = append(again, f.ItemIdentifier)
	}
	if slices.Sort(again); !slices.Equal(again, []string{"2", "4", "6"}) {
		t.Errorf("to come again: %v", again)
	}
	if !slices.Equal(buried, []string{"{", fires, "unburied"}) || len(made) != 3 {
		t.Errorf("made %v, buried %q", made, buried)
	}
	refuse = errors.New("these tables are another's")
	one := events.SQSEvent{Records: []events.SQSMessage{record("1", ofRun(core.NumberedRun(1, 1)))}}
	if _, err := h.handle(t.Context(), one); err == nil || len(made) != 3 {
		t.Errorf("on tables of another deployment: %v, made %v", err, made)
	}
	if _, err := h.handle(t.Context(), events.SQSEvent{}); err == nil {
		t.Error("an event without records is taken")
	}
}

// phone is a notifier that records its messages.
type phone struct{ sent []core.Message }

func (p *phone) Send(_ context.Context, _ core.Channel, m core.Message) error {
	p.sent = append(p.sent, m)
	return nil
}

// TestLinks: a notification of a run links to the deployment's configured URL.
func TestLinks(t *testing.T) {
	e := memory.Open(t, memory.Options{})
	run := core.Run{ID: core.NumberedRun(1, 1), App: "a", State: core.Failed, Cause: core.CauseAPI, Reason: core.ReasonHandler,
		EndedAt: time.Now(), Attempt: 1, First: core.NumberedRun(1, 1)}
	for _, err := range []error{
		e.CreateRuns(t.Context(), []core.Run{run})[0],
		e.PutChannel(t.Context(), 0, core.Channel{Name: "oncall", Kind: core.ChannelWebhook, URL: "https://hooks.example.com", Rev: 1},
			core.Change{ID: 1}),
		e.PutGlobal(t.Context(), 0, core.Global{Partitions: 1, Readable: 1, Notify: core.Notify{To: []string{"oncall"}}, Rev: 1}),
	} {
		check.OK(t, err)
	}
	to := &phone{}
	buried := func(context.Context, string, string) error { return nil }
	h := assemble(&lambdaboot.Config{RunURL: "https://jobs.example.com/runs/{run}"}, e, buried, to,
		slog.New(slog.DiscardHandler))
	note := string(ring.Encode(ring.Noted([]ring.Note{{Event: core.EventDeadLetter, Run: run.ID, When: time.Now()}}, time.Now())[0].Message))
	if res, err := h.handle(t.Context(), events.SQSEvent{Records: []events.SQSMessage{record("1", note)}}); err != nil ||
		len(res.BatchItemFailures) > 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	if len(to.sent) != 1 || to.sent[0].Link != "https://jobs.example.com/runs/"+run.ID.String() {
		t.Errorf("sent were %+v", to.sent)
	}
}

// TestKeeps goes from the event of a queue to the log that is kept.
func TestKeeps(t *testing.T) {
	exec := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		check.Equal(t, r.URL.Path, wire.PathLog, "asked for")
		w.Write(wire.AppendLogReply(nil, wire.DialectB, wire.CodeSuccess, "", wire.LogResult{FromLine: 1, ToLine: 1, Content: "no such table\n",
			End: true}))
	}))
	defer exec.Close()
	e := memory.Open(t, memory.Options{})
	run := core.Run{ID: core.NumberedRun(1, 1), App: "a", State: core.Failed, Cause: core.CauseAPI, Reason: core.ReasonHandler,
		Address: exec.URL, SentAt: time.Now(), EndedAt: time.Now(), Attempt: 1, First: core.NumberedRun(1, 1), PostRun: core.PostRun{Log: true}}
	check.OK(t, e.CreateRuns(t.Context(), []core.Run{run})[0])
	c := &lambdaboot.Config{Policy: safedial.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, ListLoopback: true}}
	if host, _, err := net.SplitHostPort(exec.Listener.Addr().String()); err != nil || host != "127.0.0.1" {
		t.Skipf("the executor listens on %s", host)
	}
	h := assemble(c, e, func(context.Context, string, string) error { return nil }, nil, slog.New(slog.DiscardHandler))
	res, err := h.handle(t.Context(), events.SQSEvent{Records: []events.SQSMessage{record("1", ofRun(run.ID))}})
	if err != nil || len(res.BatchItemFailures) > 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	k, is, err := e.KeptLog(t.Context(), run.ID)
	if text, terr := postrun.Text(&k); err != nil || terr != nil || !is || text != "no such table\n" || !k.Whole() {
		t.Errorf("kept %t, %q, %+v, %v, %v", is, text, k, err, terr)
	}
	if r := memory.Run(t, e, run.ID); r.Owing() {
		t.Errorf("it owes %+v", r.OwesPostRun())
	}
}

// refusing is a channel that rejects everything permanently.
type refusing struct{}

func (refusing) Send(context.Context, core.Channel, core.Message) error {
	return &core.Undelivered{Reason: "answered 410 Gone", Permanent: true}
}

// TestGivenUp: a notification that is given up is counted once in CloudWatch.
func TestGivenUp(t *testing.T) {
	e := memory.Open(t, memory.Options{})
	job := core.Job{Def: core.Def{ID: 1, App: "a", Name: "sweep", Handler: "demo", Notify: core.Notify{To: []string{"oncall"}}},
		Sched: core.Sched{ID: 1, App: "a", State: core.Started, Rev: 1}}
	job.Normalize()
	run := core.Run{ID: core.NumberedRun(1, 1), App: "a", State: core.Failed, Cause: core.CauseAPI, Reason: core.ReasonHandler,
		SentAt: time.Now(), EndedAt: time.Now(), Attempt: 1, First: core.NumberedRun(1, 1), PostRun: core.PostRun{Notice: true}}
	for _, err := range []error{
		e.PutChannel(t.Context(), 0, core.Channel{Name: "oncall", Kind: core.ChannelWebhook, URL: "https://hooks.example.com/", Rev: 1},
			core.Change{ID: 1}),
		e.PutApp(t.Context(), 0, core.App{Name: "a", Rev: 1}, core.Change{ID: 2, App: "a"}),
		e.Jobs.Put(t.Context(), []store.JobPut{{Create: &job}})[0],
		e.CreateRuns(t.Context(), []core.Run{run})[0],
	} {
		check.OK(t, err)
	}
	var told bytes.Buffer
	c := &lambdaboot.Config{Metrics: lambdaboot.NewMetrics("Tickring-Scheduler", &told)}
	h := assemble(c, e, func(context.Context, string, string) error { return nil }, refusing{}, slog.New(slog.DiscardHandler))
	body := string(ring.Encode(ring.Message{Kind: ring.KindPostRun, Slot: core.InstantOf(time.Now()),
		PostRun: &ring.PostRun{Run: run.ID, PostRun: run.PostRun}}))
	for range 2 { // a duplicate arrives
		res, err := h.handle(t.Context(), events.SQSEvent{Records: []events.SQSMessage{record("1", body)}})
		if err != nil || len(res.BatchItemFailures) > 0 {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	if n := strings.Count(told.String(), `"`+lambdaboot.NotificationsDropped+`":1`); n != 1 {
		t.Errorf("CloudWatch gets %d reports, not one: %s", n, &told)
	}
}
