package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/lambdatest"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store/dynamo"
)

// calls records how a handler processed a batch.
type calls struct {
	fires   []ring.Message
	checks  []*ring.Check
	dead    []string // bodies
	reasons []string
	// The answers to the handler; nil is success.
	verdict func(i int) dispatch.Verdict
	failing error // of checks
	refuse  error // of dead-letter messages
}

func (c *calls) handler() *handler {
	return &handler{
		fires: func(_ context.Context, msgs []ring.Message) []dispatch.Verdict {
			c.fires = append(c.fires, msgs...)
			list := make([]dispatch.Verdict, len(msgs))
			for i := range list {
				list[i].Ack = true
				if c.verdict != nil {
					list[i] = c.verdict(i)
				}
			}
			return list
		},
		check: func(_ context.Context, k *ring.Check) error {
			c.checks = append(c.checks, k)
			return c.failing
		},
		bury: func(_ context.Context, body, reason string) error {
			c.dead, c.reasons = append(c.dead, body), append(c.reasons, reason)
			return c.refuse
		},
		log: slog.New(slog.DiscardHandler),
	}
}

// invoke passes an event to the handler, and returns the IDs to deliver again.
func invoke(t *testing.T, h *handler, doc []byte) ([]string, error) {
	t.Helper()
	return lambdatest.Deliver(t, h.handle, doc)
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	check.OK(t, err)
	return b
}

var id, batch = lambdatest.ID, lambdatest.Batch

const slot = core.Instant(1795275060)

func fires(job core.JobID) string {
	return string(ring.Encode(ring.Message{Kind: ring.KindFires, Slot: slot,
		Fires: []core.Fire{{Run: core.PlannedRun(job, slot), Rev: 1, At: slot, Slot: slot, Cause: core.CauseSchedule}}}))
}

func TestBatch(t *testing.T) {
	var c calls
	back, err := invoke(t, c.handler(), read(t, "batch.json"))
	if err != nil || len(back) > 0 || len(c.dead) > 0 {
		t.Errorf("%v come again, dead letters %q, %v", back, c.dead, err)
	}
	if len(c.fires) != 3 || len(c.checks) != 1 {
		t.Fatalf("%d messages of fires and %d checks; want 3 and 1", len(c.fires), len(c.checks))
	}
	// Duplicates are passed on twice, in one call: dispatch recognizes copies by their runs.
	if f := c.fires[0].Fires; len(f) != 2 || f[0] != (core.Fire{Run: core.PlannedRun(7, slot), Rev: 1795000000000, At: slot, Slot: slot,
		Cause: core.CauseSchedule, Seq: 12}) {
		t.Errorf("fires %+v", f)
	}
	if c.fires[1].Try != 2 || c.fires[1].Fires[0].Cause != core.CauseMisfire || !slices.Equal(c.fires[2].Fires, c.fires[0].Fires) {
		t.Errorf("messages %+v", c.fires)
	}
	if r := c.checks[0].Runs; len(r) != 1 || r[0] != core.PlannedRun(7, slot) {
		t.Errorf("check of %v", r)
	}
}

// TestLaneIsThatOfTheQueue: messages from the slow queue are recognized by its name and processed as such.
func TestLaneIsThatOfTheQueue(t *testing.T) {
	for arn, slow := range map[string]bool{
		"arn:aws:sqs:us-east-1:123456789012:tickring-fires":    false,
		"arn:aws:sqs:us-east-1:123456789012:tickring-slow":     true,
		"arn:aws-cn:sqs:cn-north-1:123456789012:tickring-slow": true,
		"arn:aws:sqs:us-east-1:123456789012:not-tickring-slow": false,
		"": false,
	} {
		var c calls
		h := c.handler()
		h.slow = queueName("https://sqs.us-east-1.amazonaws.com/123456789012/tickring-slow")
		doc := strings.ReplaceAll(string(read(t, "batch.json")), "arn:aws:sqs:us-east-1:123456789012:tickring-fires", arn)
		if back, err := invoke(t, h, []byte(doc)); err != nil || len(back) > 0 {
			t.Fatalf("%v come again, %v", back, err)
		}
		for _, m := range c.fires {
			check.Equal(t, m.Slow, slow, "%q: on the slow lane", arn)
		}
	}
}

// TestChecksSideBySide: the checks of a batch run concurrently: each starts before the others end.
func TestChecksSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bodies []string
		for i := range 10 {
			bodies = append(bodies, string(ring.Encode(ring.Message{Kind: ring.KindCheck, Slot: slot,
				Check: &ring.Check{Runs: []core.RunID{core.PlannedRun(7, slot+core.Instant(i))}}})))
		}
		var c calls
		h := c.handler()
		h.check = func(_ context.Context, k *ring.Check) error {
			time.Sleep(3 * time.Second)
			if k.Runs[0] == core.PlannedRun(7, slot+4) {
				return core.ErrThrottled
			}
			return nil
		}
		began := time.Now()
		back, err := invoke(t, h, batch(bodies...))
		if took := time.Since(began); err != nil || !slices.Equal(back, []string{id(5)}) || took != 3*time.Second {
			t.Errorf("after %s: %v come again, %v", took, back, err)
		}
	})
}

// TestPoisoned: unreadable messages go to the dead-letter queue, each with its reason, and block no others. Newer messages are
// delivered again instead.
func TestPoisoned(t *testing.T) {
	var c calls
	back, err := invoke(t, c.handler(), read(t, "poisoned.json"))
	if err != nil || !slices.Equal(back, []string{id(3)}) {
		t.Errorf("%v come again, %v; want only the newer one", back, err)
	}
	check.Equal(t, len(c.fires), 2, "messages were dispatched, want 2")
	golden.New(t).Equal(t, "reasons", strings.Join(c.reasons, "\n"))
	if len(c.dead) != 4 || c.dead[0] != `{"v":1,"kind":"fires","slot":` {
		t.Errorf("dead letters %q", c.dead)
	}
}

// TestBadEvents: events that are no batch return descriptive errors, and no part of them is processed, because a retry would repeat
// that part.
func TestBadEvents(t *testing.T) {
	schedule, err := os.ReadFile("../tick/testdata/schedule.json")
	check.OK(t, err)
	noID := strings.Replace(string(read(t, "poisoned.json")), `"messageId": "`+id(7)+`"`, `"messageId": ""`, 1)
	if noID == string(read(t, "poisoned.json")) {
		t.Fatal("the document has no such ID")
	}
	var largest calls
	if back, err := invoke(t, largest.handler(), batch(slices.Repeat([]string{fires(7)}, 10_000)...)); err != nil || len(back) > 0 ||
		len(largest.fires) != 10_000 {
		t.Errorf("the largest batch: %d dispatched, %d come again, %v", len(largest.fires), len(back), err)
	}
	texts := golden.New(t)
	for name, doc := range map[string]string{
		"not JSON":                `{"Records":[`,
		"of a schedule":           string(schedule),
		"no records":              `{"Records":[]}`,
		"records of another kind": `{"Records":"7"}`,
		"no messageId":            noID,
		"10,001 records":          string(batch(slices.Repeat([]string{fires(7)}, 10_001)...)),
	} {
		t.Run(name, func(t *testing.T) {
			var k calls
			_, err := invoke(t, k.handler(), []byte(doc))
			text, _, _ := strings.Cut(fmt.Sprint(err), " into Go ")
			texts.Equal(t, name, text)
			if len(k.fires)+len(k.dead)+len(k.checks) > 0 {
				t.Errorf("%d dispatched, %d dead-lettered, %d checked", len(k.fires), len(k.dead), len(k.checks))
			}
		})
	}
}

// failing returns verdicts that fail the messages selected by bad.
func failing(bad func(i int) bool, err error) func(i int) dispatch.Verdict {
	return func(i int) dispatch.Verdict {
		if bad(i) {
			return dispatch.Verdict{Err: err}
		}
		return dispatch.Verdict{Ack: true}
	}
}

func TestFailures(t *testing.T) {
	newer := `{"v":2}`
	check := string(ring.Encode(ring.Message{Kind: ring.KindCheck, Slot: slot,
		Check: &ring.Check{Runs: []core.RunID{core.PlannedRun(7, slot)}}}))
	first := func(n int) func(int) bool { return func(i int) bool { return i < n } }
	for name, c := range map[string]struct {
		bodies []string
		calls  calls
		back   []string
		fails  bool
	}{
		"one of three": {bodies: []string{fires(1), fires(2), fires(3)},
			calls: calls{verdict: failing(func(i int) bool { return i == 1 }, core.ErrThrottled)}, back: []string{id(2)}},
		"half": {bodies: []string{fires(1), fires(2), fires(3), fires(4)},
			calls: calls{verdict: failing(first(2), core.ErrThrottled)}, back: []string{id(1), id(2)}},
		"more than half": {bodies: []string{fires(1), fires(2), fires(3)},
			calls: calls{verdict: failing(first(2), core.ErrThrottled)}, fails: true},
		"the only one": {bodies: []string{fires(1)}, calls: calls{verdict: failing(first(1), core.ErrThrottled)},
			back: []string{id(1)}},
		"newer ones are no weather": {bodies: []string{newer, newer, fires(1)}, back: []string{id(1), id(2)}},
		"newer ones and weather": {bodies: []string{newer, fires(1), fires(2), fires(3)},
			calls: calls{verdict: failing(first(3), core.ErrThrottled)}, fails: true},
		"newer ones and some weather": {bodies: []string{newer, newer, fires(1)}, calls: calls{verdict: failing(first(1), core.ErrThrottled)},
			back: []string{id(1), id(2), id(3)}},
		"a check": {bodies: []string{check, fires(1)}, calls: calls{failing: core.ErrThrottled}, back: []string{id(1)}},
		"cannot be dead-lettered": {bodies: []string{"x", fires(1)}, calls: calls{refuse: errors.New("no such queue")},
			back: []string{id(1)}},
		"none can be dead-lettered": {bodies: []string{"x", "y", fires(1)}, calls: calls{refuse: errors.New("no such queue")}, fails: true},
		// A failed batch is delivered as a whole, and the message would go to the dead-letter queue twice.
		"weather beside poison": {bodies: []string{"x", fires(1), fires(2)}, calls: calls{verdict: failing(first(2), core.ErrThrottled)},
			back: []string{id(2), id(3)}},
	} {
		t.Run(name, func(t *testing.T) {
			back, err := invoke(t, c.calls.handler(), batch(c.bodies...))
			if c.fails != (err != nil) || !slices.Equal(back, c.back) {
				t.Errorf("%v come again, %v; want %v, an error: %t", back, err, c.back, c.fails)
			}
		})
	}
}

// TestWhatIsNotDoneComesAgainSoon: failed messages are delivered again at the time that they name, or after a wait that doubles
// with each receipt. They do not wait for the visibility, which is at least one invocation long. Messages for a newer reader wait
// for it.
func TestWhatIsNotDoneComesAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		now := time.Now()
		claimed := now.Add(7 * time.Second)
		verdicts := []dispatch.Verdict{{Ack: true}, {Err: core.ErrThrottled}, {RetryAt: claimed, Err: core.ErrRefused}, {Err: core.ErrThrottled},
			{RetryAt: now.Add(-time.Minute), Err: core.ErrThrottled}}
		within := map[string][2]time.Duration{ // the delays that the queue is asked for
			id(3): {time.Second, 1250 * time.Millisecond}, id(4): {7 * time.Second, 7 * time.Second},
			id(5): {8 * time.Second, 10 * time.Second}, id(6): {25 * time.Second, 25 * time.Second},
		}
		newer := `{"v":2,"kind":"fires","slot":1795275060}`
		var e events.SQSEvent
		check.OK(t, json.Unmarshal(batch(newer, fires(1), fires(2), fires(3), fires(4), fires(5)), &e))
		for i := range e.Records {
			e.Records[i].ReceiptHandle, e.Records[i].EventSourceARN = e.Records[i].MessageId, "arn:aws:sqs:us-east-1:123456789012:tickring-fires"
			e.Records[i].Attributes = map[string]string{"ApproximateReceiveCount": []string{"1", "1", "1", "2", "4", "200"}[i]}
		}
		c := calls{verdict: func(i int) dispatch.Verdict { return verdicts[i] }}
		h := c.handler()
		told := map[string]time.Duration{}
		h.visibility = 25 * time.Second
		h.again = func(ctx context.Context, queue string, list []dynamo.Again) []error {
			if end, ok := ctx.Deadline(); queue != "tickring-fires" || !ok || end.After(now.Add(19*time.Second)) {
				t.Errorf("the queue %s is reported by %s", queue, end)
			}
			for _, a := range list {
				if told[a.Receipt] = a.At.Sub(now); a.Receipt == id(4) && h.look == nil && a.Slot == 0 {
					t.Error("the due time of a waiting message is not reported")
				}
			}
			return make([]error, len(list))
		}
		var before []ring.Message // received before: their due times are recorded
		h.returned = func(_ context.Context, list []ring.Message) { before = append(before, list...) }
		var done []string
		h.done = func(_ context.Context, queue string, receipts []string) []error {
			done = append(done, receipts...)
			return make([]error, len(receipts))
		}
		judge := func(what string) {
			t.Helper()
			for id, want := range within {
				if got, ok := told[id]; !ok || got < want[0] || got > want[1] {
					t.Errorf("%s: %s comes again after %s (%t), want %s to %s", what, id, got, ok, want[0], want[1])
				}
			}
			check.Equal(t, len(told), len(within), "%s: told of %v", what, told)
			clear(told)
		}
		// More than half of them: the invocation fails as a whole, and they come again as soon.
		if _, err := h.handle(ctx, e); err == nil {
			t.Error("four of six failed, and the mapping does not back off")
		}
		judge("not done")
		check.Equal(t, len(before), 3, "messages that were received before are reported, want 3")
		if !slices.Equal(done, []string{id(2)}) {
			t.Errorf("of the batch that failed %v were removed, want the one that is done", done)
		}
		h.look = func(context.Context) error { return core.ErrThrottled }
		if _, err := h.handle(ctx, e); err == nil {
			t.Error("nothing may be judged, and the invocation did not fail")
		}
		if len(done) > 1 {
			t.Errorf("removed without being judged: %v", done[1:])
		}
		soon := [2]time.Duration{time.Second, 1250 * time.Millisecond}
		within[id(1)], within[id(2)], within[id(4)] = soon, soon, [2]time.Duration{2 * time.Second, 2500 * time.Millisecond}
		judge("before it is judged")
	})
}

// TestWorkEndsInTime: work stops before the invocation ends, so its results can be returned.
func TestWorkEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var c calls
		h := c.handler()
		began := time.Now()
		h.fires = func(ctx context.Context, msgs []ring.Message) []dispatch.Verdict {
			<-ctx.Done()
			return make([]dispatch.Verdict, len(msgs))
		}
		var e events.SQSEvent
		check.OK(t, json.Unmarshal(batch(fires(7)), &e))
		res, err := h.handle(ctx, e)
		if took := time.Since(began); took != 28*time.Second || err != nil || len(res.BatchItemFailures) != 1 {
			t.Errorf("after %s: %+v, %v; want the one failure after 28s", took, res, err)
		}
	})
}

// TestWired: the handler as main builds it: a message is held until its due time, a job that never existed goes to the dead-letter
// queue, and a check of no run is finished.
func TestWired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(t, memory.Options{})
		c, err := lambdaboot.Read(func(name string) string { return environment[name] }, lambdaboot.Needs{})
		check.OK(t, err)
		var k calls
		h := wire(&c, store.Store, k.handler().bury, slog.New(slog.DiscardHandler))
		<-time.After(time.Until(slot.Time())) // a bubble begins before there were runs
		at := core.InstantOf(time.Now()) + 9
		doc := batch("{", string(ring.Encode(ring.Message{Kind: ring.KindFires, Slot: at,
			Fires: []core.Fire{{Run: core.PlannedRun(7, at), Rev: 1, At: at, Slot: at, Cause: core.CauseSchedule}}})),
			string(ring.Encode(ring.Message{Kind: ring.KindCheck, Slot: at, Check: &ring.Check{Runs: []core.RunID{core.PlannedRun(7, at)}}})))
		began := time.Now()
		back, err := invoke(t, h, doc)
		if err != nil || len(back) > 0 || time.Since(began) < 8*time.Second {
			t.Errorf("after %s: %v come again, %v", time.Since(began), back, err)
		}
		check.Equal(t, len(k.dead), 1, "unreadable messages were dead-lettered")
		if dead, err := store.Letters(t.Context(), "", 2); err != nil || len(dead) != 1 || !strings.Contains(dead[0].Reason, "job") {
			t.Errorf("dead letters %+v, %v", dead, err)
		}
	})
}

var environment = map[string]string{
	"TICKRING_TABLE_JOBS": "jobs", "TICKRING_TABLE_RUNS": "runs", "TICKRING_TABLE_STATE": "state",
	"TICKRING_QUEUE_FIRES": "http://127.0.0.1/fires", "TICKRING_QUEUE_SLOW": "http://127.0.0.1/slow",
	"TICKRING_QUEUE_CHECKS": "http://127.0.0.1/checks", "TICKRING_QUEUE_POSTRUN": "http://127.0.0.1/postrun",
	"TICKRING_QUEUE_DEAD": "http://127.0.0.1/dead",
}
