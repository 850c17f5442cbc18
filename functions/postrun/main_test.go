package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
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
	return string(ring.Encode(ring.Message{Kind: ring.KindPostRun, Slot: core.InstantOf(time.Now()), PostRun: &ring.PostRun{Run: id}}))
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
	log := func(n uint32) string { return ofRun(core.NumberedRun(1, n)) }
	res, err := h.handle(t.Context(), events.SQSEvent{Records: []events.SQSMessage{record("1", log(1)), record("2", log(2)), record("3", "{"),
		record("4", `{"v":99}`), record("5", fires), record("6", "unburied"), record("7", log(7))}})
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
	one := events.SQSEvent{Records: []events.SQSMessage{record("1", log(1))}}
	if _, err := h.handle(t.Context(), one); err == nil || len(made) != 3 {
		t.Errorf("on tables of another deployment: %v, made %v", err, made)
	}
	if _, err := h.handle(t.Context(), events.SQSEvent{}); err == nil {
		t.Error("an event without records is taken")
	}
}

// noGrave is for tests in which no message goes to the dead-letter queue.
func noGrave(context.Context, string, string) error { return errors.New("a dead letter") }

// stored stores a failed run of app a, and returns it.
func stored(t *testing.T, e *store.Store, address string, owes core.PostRun) core.Run {
	t.Helper()
	run := core.Run{ID: core.NumberedRun(1, 1), App: "a", State: core.Failed, Cause: core.CauseAPI, Reason: core.ReasonHandler,
		Address: address, SentAt: time.Now(), EndedAt: time.Now(), Attempt: 1, First: core.NumberedRun(1, 1), PostRun: owes}
	check.OK(t, e.CreateRuns(t.Context(), []core.Run{run})[0])
	return run
}

// delivered passes a message to the handler as main builds it.
func delivered(t *testing.T, c *lambdaboot.Config, e *store.Store, to notification.Sender, body string) {
	t.Helper()
	h := assemble(c, e, noGrave, to, slog.New(slog.DiscardHandler))
	res, err := h.handle(t.Context(), events.SQSEvent{Records: []events.SQSMessage{record("1", body)}})
	if err != nil || len(res.BatchItemFailures) > 0 {
		t.Fatalf("%+v, %v", res, err)
	}
}

// phone is a notifier that records its messages, and fails with err.
type phone struct {
	sent []core.Message
	err  error
}

func (p *phone) Send(_ context.Context, _ core.Channel, m core.Message) error {
	p.sent = append(p.sent, m)
	return p.err
}

// TestNotifications: a notification of a run links to the deployment's configured URL. A notification that the channel rejects
// permanently is counted once in CloudWatch, although its message is delivered twice.
func TestNotifications(t *testing.T) {
	e := memory.Open(t, memory.Options{})
	job := core.Job{Def: core.Def{ID: 1, App: "a", Name: "sweep", Handler: "demo", Notify: core.Notify{To: []string{"oncall"}}},
		Sched: core.Sched{ID: 1, App: "a", State: core.Started, Rev: 1}}
	job.Normalize()
	check.OK(t, errors.Join(
		e.PutChannel(t.Context(), 0, core.Channel{Name: "oncall", Kind: core.ChannelWebhook, URL: "https://hooks.example.com", Rev: 1},
			core.Change{ID: 1}),
		e.PutGlobal(t.Context(), 0, core.Global{Partitions: 1, Readable: 1, Notify: core.Notify{To: []string{"oncall"}}, Rev: 1}),
		e.PutApp(t.Context(), 0, core.App{Name: "a", Rev: 1}, core.Change{ID: 2, App: "a"}),
		e.Jobs.Put(t.Context(), []store.JobPut{{Create: &job}})[0]))
	run, to := stored(t, e, "", core.PostRun{Notice: true}), &phone{}
	c := &lambdaboot.Config{RunURL: "https://jobs.example.com/runs/{run}"}
	note := ring.Noted([]ring.Note{{Event: core.EventDeadLetter, Run: run.ID, When: time.Now()}}, time.Now())[0].Message
	delivered(t, c, e, to, string(ring.Encode(note)))
	if len(to.sent) != 1 || to.sent[0].Link != "https://jobs.example.com/runs/"+run.ID.String() {
		t.Errorf("sent were %+v", to.sent)
	}
	var told bytes.Buffer
	c.Metrics, to.err = lambdaboot.NewMetrics("Tickring-Scheduler", &told), &core.Undelivered{Reason: "answered 410 Gone", Permanent: true}
	for range 2 {
		delivered(t, c, e, to, ofRun(run.ID))
	}
	if n := strings.Count(told.String(), `"`+lambdaboot.NotificationsDropped+`":1`); n != 1 {
		t.Errorf("CloudWatch gets %d reports, not one: %s", n, &told)
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
	run := stored(t, e, exec.URL, core.PostRun{Log: true})
	c := &lambdaboot.Config{Policy: safedial.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, ListLoopback: true}}
	delivered(t, c, e, nil, ofRun(run.ID))
	k, is, err := e.KeptLog(t.Context(), run.ID)
	if text, terr := postrun.Text(&k); err != nil || terr != nil || !is || text != "no such table\n" || !k.Whole() {
		t.Errorf("kept %t, %q, %+v, %v, %v", is, text, k, err, terr)
	}
	if r := memory.Run(t, e, run.ID); r.Owing() {
		t.Errorf("it owes %+v", r.OwesPostRun())
	}
}
