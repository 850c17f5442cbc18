package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
)

var base = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func oneJob(id core.JobID) core.Job {
	return core.Job{
		Def: core.Def{ID: id, App: "orders", Name: fmt.Sprintf("job-%d", id), Handler: "demo", Created: base},
		Sched: core.Sched{ID: id, App: "orders", State: core.Started, Rev: 100, RevAt: base, Next: core.InstantOf(base) + 60,
			PlanAt:   core.InstantOf(base) + 55,
			Schedule: core.Schedule{Any: []core.When{{Kind: core.KindCron, Expr: "0 * * * * ?"}}}},
	}
}

// create creates jobs, and their app if necessary.
func (f *fakes) create(t *testing.T, jobs ...core.Job) {
	t.Helper()
	if err := f.store.PutApp(t.Context(), 0, core.App{Name: "orders", Rev: 1}, core.Change{ID: 1, At: base, App: "orders"}); !errors.Is(err,
		core.ErrRefused) {
		ok(t, err)
	}
	ok(t, createJobs(t.Context(), f.store, jobs, nil)...)
}

func oneRun(id core.RunID) core.Run {
	return core.Run{ID: id, App: "orders", State: core.Running, Cause: core.CauseSchedule, Rev: 100, At: core.InstantOf(base),
		Slot:  core.InstantOf(base),
		Owner: "nonce-1", Until: base.Add(31 * time.Second), Address: "http://10.0.0.1:9999/", SentAt: base, Attempt: 1, First: id,
		Journal: core.JournalKey{Minute: base.Unix() / 60, Suffix: 5, Nonce: "nonce-1"}}
}

func ok(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func (f *fakes) send(t *testing.T, queue, body string) {
	t.Helper()
	_, err := f.sqs.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &queue, MessageBody: &body})
	ok(t, err)
}

// TestDeadLetterFits: a dead-letter message as long as a queue takes is truncated, and its reason is printable.
func TestDeadLetterFits(t *testing.T) {
	f := newFakes(t, dynamo.Options{})
	body := `"` + strings.Repeat("ü", 1<<19-1) + `"`
	ok(t, f.store.BuryRaw(t.Context(), body, "why\x00"+strings.Repeat("y", 2000)))
	dead := f.sqs.Messages(fakeaws.Names.Dead)
	if len(dead) != 1 || !strings.HasPrefix(dead[0].Reason, "why?yy") || !strings.HasPrefix(body, dead[0].Body) ||
		len(dead[0].Body) < len(body)-3000 {
		t.Fatalf("%d dead-letter messages", len(dead))
	}
}

// TestWhatDoesNotExistIsNamed: the error of each kind of request names the
// table or the queue.
func TestWhatDoesNotExistIsNamed(t *testing.T) {
	n := fakeaws.Names
	n.Jobs, n.Runs, n.State, n.Fires, n.Slow, n.Checks, n.Dead = "no-jobs", "no-runs", "no-state", "https://sqs/no-fires",
		"https://sqs/no-slow", "https://sqs/no-checks", "https://sqs/no-dead"
	s := newFakes(t, dynamo.Options{Names: n}).store
	ctx := t.Context()
	run := oneRun(core.PlannedRun(1, core.InstantOf(base)))
	fires := ring.Message{Kind: ring.KindFires, Slot: 1772600767,
		Fires: []core.Fire{{Run: run.ID, Rev: 1, At: 1772600767, Slot: 1772600767, Cause: core.CauseSchedule}}}
	check := ring.Message{Kind: ring.KindCheck, Slot: 1772600767, Check: &ring.Check{Runs: []core.RunID{run.ID}}}
	texts := golden.New(t)
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"PutItem", func() error { return s.PutGlobal(ctx, 0, core.Global{Rev: 1}) }},
		{"UpdateItem", func() error { _, err := s.Store.JobIDs(ctx, 1); return err }},
		{"DeleteItem", func() error { return s.RemoveExecutor(ctx, "a", "b", time.Time{}) }},
		{"BatchGetItem", func() error { _, err := getJobs(ctx, s, store.Planning, []core.JobID{1}); return err }},
		{"BatchWriteItem", func() error { return s.Enter(ctx, []core.DueItem{{PlanAt: 5, Job: 1, Run: run.ID}})[0] }},
		{"Query", func() error { _, err := s.Store.Jobs.Due(ctx, 0, 1000, core.DueItem{}, 10); return err }},
		{"BatchExecuteStatement", func() error { return s.CreateRuns(ctx, []core.Run{run})[0] }},
		{"TransactWriteItems", func() error {
			return s.Store.Runs.Put(ctx, []store.RunPut{{Create: &run, Enter: &core.DueItem{PlanAt: 5, Job: 1, Run: run.ID}}})[0]
		}},
		{"SendMessageBatch", func() error { return s.Enqueue(ctx, []ring.Out{{Message: fires}})[0] }},
		{"SendMessageBatch of checks", func() error { return s.Enqueue(ctx, []ring.Out{{Message: check}})[0] }},
		{"SendMessage", func() error { return s.Bury(ctx, fires, "why") }},
		{"ReceiveMessage", func() error { _, err := s.TakeLetters(ctx, nil); return err }},
		{"GetQueueAttributes", func() error { _, _, _, err := s.Depth(ctx, ring.KindFires); return err }},
	} {
		err := c.do()
		texts.Equal(t, c.name, fmt.Sprint(err))
	}
}

// TestItemTooLarge: the error reports the size, and nothing is stored.
func TestItemTooLarge(t *testing.T) {
	f := newFakes(t, dynamo.Options{})
	s, ctx := f.store, t.Context()
	long := strings.Repeat("x", 450<<10)
	j := oneJob(1)
	j.Def.Params = long
	run := oneRun(core.PlannedRun(1, core.InstantOf(base)))
	run.Params = &long
	wide := oneRun(core.PlannedRun(1, core.InstantOf(base)+1))
	wide.By = long
	app := core.App{Name: "orders", Rev: 1, Title: long}
	f.create(t)
	texts := golden.New(t)
	for name, err := range map[string]error{
		"a job": createJobs(ctx, s, []core.Job{j}, nil)[0], "a run's params": s.CreateRuns(ctx, []core.Run{run})[0],
		"a run":  s.CreateRuns(ctx, []core.Run{wide})[0],
		"an app": s.PutApp(ctx, 1, app, core.Change{ID: 1, App: "orders"}),
	} {
		if core.CodeOf(err) != core.CodeTooLarge {
			t.Errorf("%s: got %v, want that it is too large", name, err)
		}
		texts.Equal(t, name, fmt.Sprint(err))
	}
	if stored, runs := f.JobOf(1), f.Stored(run.ID, wide.ID); stored.Def.ID != 0 || len(runs) != 0 {
		t.Errorf("stored are %+v and %v", stored, runs)
	}
}

// TestPartOfABatchIsTriedAgain: only the rejected part of a batch is retried, the rest is not sent twice, and exactly the part that
// is throttled for a second returns errors.
func TestPartOfABatchIsTriedAgain(t *testing.T) {
	const n = 10
	began := core.InstantOf(base)
	out, runs, ids, entries := make([]ring.Out, n), make([]core.Run, n), make([]core.RunID, n), make([]core.DueItem, n)
	for i := range n {
		ids[i] = core.NumberedRun(1, uint32(i))
		runs[i], entries[i] = oneRun(ids[i]), core.DueItem{PlanAt: began, Job: 1, Run: ids[i]}
		out[i] = ring.Out{Message: ring.Message{Kind: ring.KindFires, Slot: began,
			Fires: []core.Fire{{Run: ids[i], Rev: 1, At: began, Slot: began, Cause: core.CauseManual}}}}
	}
	received := func(t *testing.T, s *dynamo.Store) (got []store.Delivery) {
		ok(t, s.Enqueue(t.Context(), out)...)
		for len(got) < n {
			some, err := s.Queue.Receive(t.Context(), ring.KindFires, n)
			ok(t, err)
			got = append(got, some...)
		}
		return got
	}
	records, changes := make([]store.Group, n), make([]store.Group, n)
	for i := range n {
		records[i].Writes = []store.Write{{Record: store.Record{Key: store.Key{Kind: "k", Name: fmt.Sprint(i)}, V: 1}, Was: store.Any}}
		changes[i].Changes = []core.Change{{ID: int64(i + 1), At: base, App: "orders"}} // of no job: one record each
	}
	plain := func(do func(context.Context, *dynamo.Store) []error) func(*testing.T, *dynamo.Store) func() []error {
		return func(t *testing.T, s *dynamo.Store) func() []error {
			return func() []error { return do(t.Context(), s) }
		}
	}
	for name, call := range map[string]func(*testing.T, *dynamo.Store) func() []error{
		"SendMessageBatch": plain(func(ctx context.Context, s *dynamo.Store) []error { return s.Enqueue(ctx, out) }),
		"DeleteMessageBatch": func(t *testing.T, s *dynamo.Store) func() []error {
			got := received(t, s)
			return func() []error { return s.Queue.Ack(t.Context(), got) }
		},
		"ChangeMessageVisibilityBatch": func(t *testing.T, s *dynamo.Store) func() []error {
			got := received(t, s)
			return func() []error { return s.Queue.Release(t.Context(), got, time.Now().Add(time.Minute)) }
		},
		"BatchExecuteStatement":            plain(func(ctx context.Context, s *dynamo.Store) []error { return s.CreateRuns(ctx, runs) }),
		"BatchWriteItem":                   plain(func(ctx context.Context, s *dynamo.Store) []error { return s.Enter(ctx, entries) }),
		"BatchWriteItem of records":        plain(func(ctx context.Context, s *dynamo.Store) []error { return s.Records.Write(ctx, records...) }),
		"BatchWriteItem of change records": plain(func(ctx context.Context, s *dynamo.Store) []error { return s.Records.Write(ctx, changes...) }),
		"BatchGetItem": func(t *testing.T, s *dynamo.Store) func() []error {
			return func() []error {
				got, err := s.Runs.Get(t.Context(), ids)
				ok(t, err)
				errs := make([]error, len(ids))
				for i, id := range ids {
					errs[i] = got[id].Err
				}
				return errs
			}
		},
	} {
		for _, times := range []int{1, 4, 1000} {
			op, _, _ := strings.Cut(name, " ")
			fixture.Bubble(t, fmt.Sprintf("%s refuses three of ten %d times", name, times), func(t *testing.T) {
				f := newFakes(t, dynamo.Options{Visibility: time.Hour})
				do := call(t, f.store)
				var sizes []int
				fault := func(_ context.Context, c fakeaws.Call) fakeaws.Fault {
					if c.Op != op {
						return fakeaws.Fault{}
					}
					sizes = append(sizes, c.N)
					if len(sizes) > times {
						return fakeaws.Fault{}
					}
					return fakeaws.Fault{Part: func(i int) bool { return c.N < n || i%3 == 1 }}
				}
				f.db.Faults, f.sqs.Faults = fault, fault
				began := time.Now()
				for i, err := range do() {
					if (err != nil) != (times == 1000 && i%3 == 1) {
						t.Errorf("%d of %d: %v", i, n, err)
					}
				}
				if again := sizes[1:]; len(again) < min(times, 4) || len(again) > 8 || slices.ContainsFunc(again, func(k int) bool { return k != 3 }) {
					t.Errorf("requests of %v: the three rejected ones are to be tried again, for a second", sizes)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("it took %s", took)
				}
			})
		}
	}
}

// Invalid requests fail without a retry, and retries end with the caller's deadline.
func TestTriedAgainInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t, dynamo.Options{})
		f.sqs.Faults = always(fakeaws.Fault{Part: func(int) bool { return true }}, "SendMessageBatch")
		one := []ring.Out{{Message: ring.Message{Kind: ring.KindCheck, Slot: core.InstantOf(base),
			Check: &ring.Check{Runs: []core.RunID{core.NumberedRun(1, 1)}}}}}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		if err := f.store.Enqueue(ctx, one)[0]; err == nil || time.Since(began) >= 100*time.Millisecond {
			t.Errorf("after %s of 100 ms: %v", time.Since(began), err)
		}
		f.sqs.Faults = nil
		ok(t, f.store.Enqueue(t.Context(), one)...)
		got, err := f.store.Queue.Receive(t.Context(), ring.KindCheck, 1)
		ok(t, err)
		time.Sleep(2 * visibility)
		asked := 0
		f.sqs.Faults = func(context.Context, fakeaws.Call) fakeaws.Fault { asked++; return fakeaws.Fault{} }
		if err := f.store.Queue.Release(t.Context(), got, time.Now())[0]; err == nil || asked != 1 {
			t.Errorf("a message that is visible again: asked %d times, %v", asked, err)
		}
	})
}

// TestComeAgain: messages that Lambda received are redelivered at their time, whole seconds from now, ten to a request.
// The error for a foreign queue names it.
func TestComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t, dynamo.Options{})
		for i := range 12 {
			f.send(t, fakeaws.Names.Fires, fmt.Sprint(i))
		}
		var asked atomic.Int64
		f.sqs.Faults = func(_ context.Context, c fakeaws.Call) fakeaws.Fault {
			if c.Op == "ChangeMessageVisibilityBatch" {
				asked.Add(1)
			}
			return fakeaws.Fault{}
		}
		var list []dynamo.Again
		for len(list) < 12 {
			out, err := f.sqs.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &fakeaws.Names.Fires, MaxNumberOfMessages: 10,
				VisibilityTimeout: 25})
			ok(t, err)
			for _, m := range out.Messages {
				list = append(list, dynamo.Again{Receipt: *m.ReceiptHandle, At: time.Now().Add(time.Duration(len(list)) * 700 * time.Millisecond)})
			}
		}
		now := time.Now()
		ok(t, f.store.ComeAgain(t.Context(), "fires", list)...)
		hidden := map[time.Duration]int{}
		for _, m := range f.sqs.Messages(fakeaws.Names.Fires) {
			hidden[m.Hidden.Sub(now)]++
		}
		if want := map[time.Duration]int{0: 1, 1 * time.Second: 1, 2 * time.Second: 1, 3 * time.Second: 2, 4 * time.Second: 1, 5 * time.Second: 2,
			6 * time.Second: 1, 7 * time.Second: 2, 8 * time.Second: 1}; !maps.Equal(hidden, want) || asked.Load() != 2 {
			t.Errorf("by %d requests they come again after %v, want %v", asked.Load(), hidden, want)
		}
		var receipts []string
		for i := range list {
			receipts = append(receipts, list[i].Receipt)
		}
		ok(t, f.store.Done(t.Context(), "fires", receipts[1:])...)
		if left := f.sqs.Messages(fakeaws.Names.Fires); len(left) != 1 {
			t.Errorf("%d messages are left of 12, of which 11 are done", len(left))
		}
		if err := f.store.ComeAgain(t.Context(), "dead", list)[11]; err == nil || !strings.Contains(err.Error(), `"dead"`) {
			t.Errorf("of another queue: %v", err)
		}
	})
}

// TestThrottledAndUnknown: a throttled request did nothing; a request without an answer has an unknown result.
func TestThrottledAndUnknown(t *testing.T) {
	reset := errors.New("connection reset by peer")
	for _, c := range []struct {
		name      string
		fault     fakeaws.Fault
		throttled bool
	}{{"throttled", fakeaws.Fault{Before: fakeaws.Throttled()}, true}, {"lost", fakeaws.Fault{After: reset}, false},
		{"cut", fakeaws.Fault{Before: reset}, false}} {
		f := newFakes(t, dynamo.Options{})
		fault := func(context.Context, fakeaws.Call) fakeaws.Fault { return c.fault }
		f.db.Faults, f.sqs.Faults = fault, fault
		s, ctx := f.store, t.Context()
		id := core.PlannedRun(1, core.InstantOf(base))
		msg := ring.Message{Kind: ring.KindFires, Slot: 1772600767,
			Fires: []core.Fire{{Run: id, Rev: 1, At: 1772600767, Slot: 1772600767, Cause: core.CauseSchedule}}}
		for name, err := range map[string]error{
			"Create": s.CreateRuns(ctx, []core.Run{oneRun(id)})[0], "CreateJobs": createJobs(ctx, s, []core.Job{oneJob(1)}, nil)[0],
			"Advance": s.Advance(ctx, []core.Advance{{Job: 1}})[0], "Enqueue": s.Enqueue(ctx, []ring.Out{{Message: msg}})[0],
			"PutEntries": s.Enter(ctx, []core.DueItem{{PlanAt: 5, Job: 1, Run: id}})[0],
			"PutLease":   s.PutLease(ctx, core.Lease{}, core.Lease{Name: "p0", Owner: "a", Epoch: 1}),
			"PutRuns": s.ChangeRuns(ctx, []core.RunPut{core.End(id,
				core.Run{State: core.Succeeded, EndedAt: base, Message: strings.Repeat("m", 5000)})})[0],
		} {
			if err == nil || errors.Is(err, core.ErrRefused) || errors.Is(err, core.ErrThrottled) != c.throttled {
				t.Errorf("%s, %s: got %v", c.name, name, err)
			}
		}
	}
}

// TestJobIsOfOneMoment: the two items of a job are read at different moments. A job with one item from before an edit and
// the other from after it is unread: a pause would otherwise write the old definition back.
func TestJobIsOfOneMoment(t *testing.T) { synctest.Test(t, jobIsOfOneMoment) }

func jobIsOfOneMoment(t *testing.T) {
	f := newFakes(t, dynamo.Options{})
	s, ctx := f.store, t.Context()
	j := oneJob(1)
	f.create(t, j)
	f.create(t, oneJob(2))
	f.JobOf(2) // its definition is cached, so only job 1's is read
	edited := j
	edited.Def.Params, edited.Sched.Rev = "new", 200
	var made atomic.Bool
	f.db.Faults = func(_ context.Context, c fakeaws.Call) fakeaws.Fault {
		if c.N == 1 && !made.Swap(true) { // the request for the definition waits until the schedules were read
			time.Sleep(time.Millisecond)
			ok(t, updateJobs(ctx, s, update(100, edited, core.Change{ID: 200, App: "orders", Job: 1}))...)
		}
		return fakeaws.Fault{}
	}
	got, err := s.Jobs.Get(ctx, store.Whole, []core.JobID{1, 2})
	if ok(t, err, got[2].Err); !errors.Is(got[1].Err, core.ErrThrottled) {
		t.Fatalf("read across an edit: %v, params %q of revision %d", got[1].Err, got[1].Is.Def.Params, got[1].Is.Sched.Rev)
	}
	if found := f.JobOf(1); found.Def.Params != "new" || found.Sched.Rev != 200 {
		t.Fatalf("then: params %q of revision %d", found.Def.Params, found.Sched.Rev)
	}
	// A change of only the schedule does not touch the definition.
	f.Edit(1, func(j *core.Job) { j.Sched.Rev, j.Sched.State = 300, core.Paused })
	if found := f.JobOf(1); found.Def.Params != "new" || found.Sched.Rev != 300 {
		t.Fatalf("finally: params %q of revision %d", found.Def.Params, found.Sched.Rev)
	}
}
