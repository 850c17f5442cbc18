package finish_test

import (
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/golden"
)

var id = core.PlannedRun(1, core.InstantOf(begin)-1)

// TestLostAnswerIsTold: Options.Closed is called once for a close whose answer was lost, and
// never for a close by another process.
func TestLostAnswerIsTold(t *testing.T) {
	for _, result := range []finish.Result{
		{Run: id, Reported: true, State: core.Succeeded, Code: 200},
		{Run: id, Reported: true, State: core.Failed, Reason: core.ReasonHandler, Code: 500},
	} {
		for what, c := range map[string]struct {
			faults []fault
			told   int
		}{
			"it happened":               {[]fault{{err: errUnknown, done: true}}, 1},
			"it did not":                {[]fault{{err: errUnknown}}, 1},
			"the last one happened":     {[]fault{{err: errUnknown}, {err: errUnknown, done: true}}, 1},
			"another process closed it": {[]fault{{err: core.ErrRefused}}, 0},
		} {
			r := newRig(t)
			r.job(1, nil)
			r.run(id, func(run *core.Run) { run.Retries = 0 })
			r.faults.faults["close"] = c.faults
			if c.told == 0 {
				r.faults.faults["close"][0].between = func() {
					put := core.End(id, core.Run{State: core.Lost, Reason: core.ReasonNoReport, EndedAt: begin})
					r.Must(r.Change(put))
				}
			}
			r.Must(r.end(result))
			r.now = r.now.Add(time.Minute)
			r.Must(r.end(result))
			if len(r.closed) != c.told {
				t.Errorf("%s, %s: told %d times", result.State, what, len(r.closed))
			}
		}
	}
}

// TestEndListsUnclaimedRuns: if lists use journals, a run without a claim is named in one before it is closed, unless a
// dispatcher recorded it within the last hour.
func TestEndListsUnclaimedRuns(t *testing.T) {
	recent := core.JournalKey{Minute: begin.Unix()/60 - 30, Nonce: "a"}
	for _, c := range []struct {
		name    string
		journal core.JournalKey
		sent    time.Time
		lists   bool
		named   bool
	}{
		{"planned", core.JournalKey{}, time.Time{}, true, true}, {"queued half an hour ago", recent, time.Time{}, true, false},
		{"queued two hours ago", core.JournalKey{Minute: recent.Minute - 90, Nonce: "a"}, time.Time{}, true, true},
		{"claimed", core.JournalKey{Minute: recent.Minute - 90, Nonce: "a"}, begin.Add(-2 * time.Hour), true, false},
		{"runs have an index", core.JournalKey{}, time.Time{}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.with.ByJournal = c.lists
			r.f = finish.New(r.with, finish.Options{Now: func() time.Time { return r.now }, Plan: plan.Local(),
				Log: slog.New(slog.DiscardHandler)})
			r.job(1, nil)
			id := core.NumberedRun(1, 1)
			r.run(id, func(run *core.Run) {
				run.State, run.Owner, run.Until, run.Address = core.Planned, "", time.Time{}, ""
				run.Journal, run.SentAt = c.journal, c.sent
			})
			other := core.NumberedRun(1, 2) // it is claimed
			r.run(other, nil)
			cancel := finish.Result{Run: id, State: core.Skipped, Reason: core.ReasonCancelled, Unowned: true}
			down := fault{err: errUnknown}
			r.faults.faults["journal"] = []fault{down, down, down} // all tries of one call
			errs := r.f.End(t.Context(), []finish.Result{cancel, {Run: other, State: core.Succeeded}})
			if (errs[0] != nil) != c.named || errs[1] != nil {
				t.Errorf("without a journal: %v", errs)
			}
			r.faults.faults["journal"] = []fault{down}
			r.Must(r.end(cancel))
			got := r.Run(id)
			if is := got.Journal != c.journal; got.State != core.Skipped || is != c.named {
				t.Fatalf("it was closed as %s with journal %s", got.State, got.Journal)
			}
			if !c.named {
				return
			}
			found, err := r.Journals(t.Context(), []core.JournalKey{got.Journal})
			r.Must(err)
			j := found[got.Journal]
			if e, is := j.Find(id); !is || e.Outcome != core.Recorded || j.Key.Minute != begin.Unix()/60 {
				t.Errorf("the journal says %+v", j)
			}
		})
	}
}

func TestEndOfNoRun(t *testing.T) {
	r := newRig(t)
	r.run(id, nil)
	errs := r.f.End(t.Context(), []finish.Result{{Run: id + 1, State: core.Succeeded}, {Run: id, State: core.Succeeded}})
	if core.CodeOf(errs[0]) != core.CodeNotFound || errs[1] != nil {
		t.Errorf("got %v, want not found and nil", errs)
	}
}

// TestCloseWithoutClearAnswer: a close succeeds after a few lost answers. After too many, the
// caller gets an error with the last answer and must try again.
func TestCloseWithoutClearAnswer(t *testing.T) {
	for lost, ok := range map[int]bool{budget.ReadTries: true, budget.ReadTries + 1: false, 2*budget.ReadTries + 1: false} {
		r := newRig(t)
		r.job(1, nil)
		r.run(id, nil)
		for range lost {
			r.faults.faults["close"] = append(r.faults.faults["close"], fault{err: errUnknown})
		}
		end := finish.Result{Run: id, State: core.Succeeded}
		err := r.end(end)
		if (err == nil) != ok || !ok && (core.CodeOf(err) != core.CodeUnavailable || !strings.Contains(err.Error(), errUnknown.Error())) {
			t.Errorf("%d answers are lost: %v", lost, err)
		}
		r.Must(r.end(end))
		if got := r.Run(id).State; got != core.Succeeded {
			t.Errorf("%d answers are lost: it is %s", lost, got)
		}
	}
}

// TestPermitsThatOthersWrite: a permit change succeeds after a few conflicts. After too many, the
// caller gets an error and must try again.
func TestPermitsThatOthersWrite(t *testing.T) {
	for writes, ok := range map[int]bool{budget.PermitTries - 1: true, budget.PermitTries: false, 3 * budget.PermitTries: false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			for range writes {
				r.faults.faults["put permits"] = append(r.faults.faults["put permits"], fault{err: core.ErrRefused})
			}
			err := r.f.PutPermits(t.Context(), "job/1", nil, func(p *core.Permits) (bool, error) {
				p.Limit++
				return true, nil
			})
			if (err == nil) != ok || !ok && core.CodeOf(err) != core.CodeUnavailable {
				t.Errorf("others wrote it %d times: %v", writes, err)
			}
		})
	}
}

// TestManyCopiesWithoutRoom: one call has many results for one run, and no clear answers.
func TestManyCopiesWithoutRoom(t *testing.T) {
	r := newRig(t)
	r.job(1, nil)
	r.run(id, nil)
	for range 10 {
		r.faults.faults["close"] = append(r.faults.faults["close"], fault{err: errUnknown})
	}
	results := make([]finish.Result, 6)
	for i := range results {
		results[i] = finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler}
	}
	for _, err := range r.f.End(t.Context(), results) {
		if core.CodeOf(err) != core.CodeUnavailable {
			t.Errorf("got %v", err)
		}
	}
}

func TestMessageIsCutAtACharacter(t *testing.T) {
	r := newRig(t)
	for i, n := range []int{core.MessageMax, core.MessageMax + 1} {
		run := core.NumberedRun(1, uint32(i))
		r.run(run, nil)
		r.Must(r.end(finish.Result{Run: run, State: core.Succeeded, Message: strings.Repeat("é", n)}))
		if m := r.Run(run).Message; utf8.RuneCountInString(m) != core.MessageMax || !utf8.ValidString(m) {
			t.Errorf("of %d characters %d were kept", n, utf8.RuneCountInString(m))
		}
	}
}

// TestWhoMayEnd checks the conditions of F1.
func TestWhoMayEnd(t *testing.T) {
	killed := func(x *core.Run) { x.KillBy, x.KillAt = "ann", begin.Add(-time.Second) }
	twice := func(x *core.Run) { x.MaybeSent = true }
	unsent := func(x *core.Run) { x.Owner, x.Address, x.State = "", "", core.Planned }
	fail := finish.Result{State: core.Failed, Reason: core.ReasonHandler, Code: 500}
	cancel := finish.Result{State: core.Skipped, Reason: core.ReasonCancelled, Unowned: true}
	replaced := finish.Result{State: core.Failed, Killed: true, Reason: core.ReasonReplaced}
	with := func(res finish.Result, change func(*finish.Result)) finish.Result { change(&res); return res }
	reported := func(r *finish.Result) { r.Reported = true }
	for _, c := range []struct {
		name   string
		run    func(*core.Run)
		res    finish.Result
		state  core.State // empty: still open
		reason core.Reason
		err    error
	}{
		{"anybody", nil, fail, core.Failed, core.ReasonHandler, nil},
		{"its owner", nil, with(fail, func(r *finish.Result) { r.Owner = "nonce" }), core.Failed, core.ReasonHandler, nil},
		{"an owner who lost it", nil, with(fail, func(r *finish.Result) { r.Owner = "other" }), "", "", core.ErrRefused},
		{"a cancellation of a waiting run", unsent, cancel, core.Skipped, core.ReasonCancelled, nil},
		{"a cancellation of an owned run", nil, cancel, "", "", core.ErrRefused},
		{"a cancellation of a run that may be sent", func(x *core.Run) { unsent(x); twice(x) },
			cancel, "", "", core.ErrRefused},
		{"a report of an unsent run", unsent, with(fail, reported), "", "", finish.ErrUnsent},
		{"a success of an unsent run", unsent, finish.Result{State: core.Succeeded, Reported: true}, "", "", finish.ErrUnsent},
		{"a report of a run maybe sent", func(x *core.Run) { unsent(x); twice(x) }, with(fail, reported), core.Failed, core.ReasonHandler, nil},
		{"a killed report", nil, finish.Result{State: core.Failed, Killed: true}, core.Killed, core.ReasonPerson, nil},
		{"a killed report of a newer run's doing", nil, replaced, core.Killed, core.ReasonReplaced, nil},
		{"a killed report of a run sent twice", twice, replaced, "", "", nil},
		{"a killed report after a kill of a run sent twice", func(x *core.Run) { twice(x); killed(x) },
			replaced, core.Killed, core.ReasonPerson, nil},
		{"a failure after a kill", killed, fail, core.Killed, core.ReasonPerson, nil},
		{"a loss after a kill", killed, finish.Result{State: core.Lost, Reason: core.ReasonGone}, core.Killed, core.ReasonPerson, nil},
		{"a success after a kill", killed, finish.Result{State: core.Succeeded}, core.Succeeded, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.job(1, nil)
			r.run(id, func(x *core.Run) {
				x.Retries = 0
				if c.run != nil {
					c.run(x)
				}
			})
			res := c.res
			res.Run = id
			if err := r.end(res); !errors.Is(err, c.err) {
				t.Errorf("answered %v, want %v", err, c.err)
			}
			got := r.Run(id)
			if c.state == "" && !got.State.Open() || c.state != "" && (got.State != c.state || got.Reason != c.reason) {
				t.Errorf("it is %s: %s, want %s: %s", got.State, got.Reason, c.state, c.reason)
			}
		})
	}
}

// TestConditionsHoldInTheStore: a read can be stale when the close is written, so the close
// itself is conditional.
func TestConditionsHoldInTheStore(t *testing.T) {
	taken := func(r *rig) func() {
		return func() {
			run := r.Run(id)
			r.Must(r.ChangeRuns(t.Context(), []core.RunPut{run.Take(core.Claim{Owner: "taker", Until: begin.Add(time.Hour)}, "", begin,
				nil)})[0])
		}
	}
	for _, c := range []struct {
		name string
		res  finish.Result
		err  error
	}{
		{"owner", finish.Result{Run: id, State: core.Failed, Reason: core.ReasonNotAccepted, Owner: "nonce"}, core.ErrRefused},
		{"killed", finish.Result{Run: id, State: core.Failed, Killed: true}, nil},
		{"a report", finish.Result{Run: id, State: core.Failed, Reported: true}, finish.ErrUnsent},
	} {
		r := newRig(t)
		r.run(id, func(x *core.Run) { x.Retries = 0 })
		r.faults.faults["close"] = []fault{{between: taken(r)}}
		if c.res.Reported { // the claim is released in between
			r.faults.faults["close"] = []fault{{between: func() {
				run := r.Run(id)
				r.Must(r.Change(run.GiveBack()))
			}}}
		}
		if err := r.end(c.res); !errors.Is(err, c.err) {
			t.Errorf("%s: answered %v, want %v", c.name, err, c.err)
		}
		if got := r.Run(id); !got.State.Open() {
			t.Errorf("%s: a run that another process took is closed as %s", c.name, got.State)
		}
	}
}

func TestWhatOwesARetry(t *testing.T) {
	for _, c := range []struct {
		state   core.State
		reason  core.Reason
		on      []core.State
		retries int
		killed  bool
		want    bool
	}{
		{core.Failed, core.ReasonHandler, nil, 1, false, true},
		{core.Failed, core.ReasonNoExecutor, nil, 1, false, true},
		{core.TimedOut, core.ReasonTimeout, nil, 1, false, true},
		{core.Lost, core.ReasonGone, nil, 1, false, false},
		{core.Lost, core.ReasonGone, []core.State{core.Lost}, 1, false, true},
		{core.Failed, core.ReasonHandler, []core.State{core.Lost}, 1, false, false},
		{core.Failed, core.ReasonHandler, nil, 0, false, false},
		{core.Failed, core.ReasonHandler, nil, 1, true, false},
		{core.TimedOut, core.ReasonTimeout, nil, 1, true, false},
		{core.Lost, core.ReasonGone, []core.State{core.Lost}, 1, true, false},
		{core.Succeeded, "", nil, 1, false, false},
		{core.Skipped, core.ReasonOverlap, nil, 1, false, false},
		{core.Killed, core.ReasonReplaced, nil, 1, false, false},
	} {
		r := newRig(t)
		r.job(1, func(j *core.Job) { j.Def.Retry.On = c.on })
		r.run(id, func(x *core.Run) {
			x.Retries = c.retries
			if c.killed {
				x.KillBy, x.KillAt = "ann", begin
			}
		})
		r.Must(r.end(finish.Result{Run: id, State: c.state, Reason: c.reason}))
		if got := len(r.Numbered(1)); got > 1 || got == 1 != c.want {
			t.Errorf("%+v: %d retries", c, got)
		}
		if m := r.messages(ring.KindFires); len(m) > 1 || len(m) == 1 != c.want {
			t.Errorf("%+v: %d messages", c, len(m))
		}
	}
}

func TestRetry(t *testing.T) {
	r := newRig(t)
	r.job(1, nil)
	params := "p"
	first := r.run(id, func(x *core.Run) {
		x.Params, x.Addresses, x.By, x.Attempt, x.Retries, x.First = &params, []string{"http://a:1"}, "ann", 2, 3, core.NumberedRun(1, 1<<20)
	})
	r.now = begin.Add(200 * time.Millisecond)
	r.Must(r.end(finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler, Code: 500}))
	list := r.Numbered(1)
	if len(list) != 1 {
		t.Fatalf("%d retries", len(list))
	}
	retry := list[0]
	slot := core.InstantOf(begin) + 6 // 5 s later, rounded up
	want := core.Run{ID: retry.ID, App: "orders", State: core.Planned, Cause: core.CauseRetry, Rev: 1, At: first.At, Slot: slot,
		Seq:     first.Seq,
		Attempt: 3, First: first.First, Retries: 2, Params: &params, Addresses: []string{"http://a:1"}, By: "ann",
		Notice: true} // the retry's claim sets it
	if !reflect.DeepEqual(retry, want) {
		t.Errorf("the retry is\n%+v, want\n%+v", retry, want)
	}
	if got := r.Run(id); got.Then != retry.ID || len(got.Owes) != 0 {
		t.Errorf("the first is followed by %d and owes %v, want %d and nothing", got.Then, got.Owes, retry.ID)
	}
	fire := core.Fire{Run: retry.ID, Rev: 1, At: first.At, Slot: slot, Cause: core.CauseRetry, Seq: first.Seq}
	if m := r.messages(ring.KindFires); !reflect.DeepEqual(m, []ring.Message{{Kind: ring.KindFires, Slot: slot, Fires: []core.Fire{fire}}}) {
		t.Errorf("on the ring: %+v", m)
	}
	// More reports create no second retry and no second message.
	for range 3 {
		r.Must(r.end(finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler, Code: 500}))
	}
	if n, m := len(r.Numbered(1)), r.messages(ring.KindFires); n != 1 || m != nil {
		t.Errorf("after more reports %d retries, and on the ring %+v", n, m)
	}
}

// TestRetryOfAJobThatIsGone: a deleted job's retry is still created, and its dispatch records it
// as deleted.
func TestRetryOfAJobThatIsGone(t *testing.T) {
	r := newRig(t)
	r.run(id, nil)
	r.Must(r.end(finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler}))
	r.now = begin.Add(20 * time.Second)
	if list := r.Numbered(1); len(list) != 1 || list[0].Slot != core.InstantOf(begin) {
		t.Errorf("retries: %+v", list)
	}
}

// TestFarRetryWaitsInTheDueIndex: a retry beyond the ring's reach goes to the due index.
func TestFarRetryWaitsInTheDueIndex(t *testing.T) {
	r := newRig(t)
	r.job(1, func(j *core.Job) { j.Def.Retry.Delay = time.Hour })
	r.run(id, nil)
	r.Must(r.end(finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler}))
	if m := r.messages(ring.KindFires); m != nil {
		t.Errorf("on the ring: %+v", m)
	}
	retry := r.Numbered(1)[0]
	slot := core.InstantOf(begin) + 3600
	due, err := r.Jobs.Due(t.Context(), 0, core.Horizon, core.DueItem{}, 10)
	r.Must(err)
	if want := []core.DueItem{{PlanAt: slot - 2, Job: 1, Run: retry.ID}}; retry.Slot != slot || !reflect.DeepEqual(due, want) {
		t.Errorf("slot %s, entries %+v, want %s and %+v", retry.Slot, due, slot, want)
	}
}

func TestTwoReportsInOneCall(t *testing.T) {
	r := newRig(t)
	r.job(1, nil)
	r.run(id, nil)
	res := finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler}
	for i, err := range r.f.End(t.Context(), []finish.Result{res, res, res}) {
		if err != nil {
			t.Errorf("report %d: %v", i, err)
		}
	}
	if n, m := len(r.Numbered(1)), r.messages(ring.KindFires); n != 1 || len(m) != 1 || len(r.closed) != 1 {
		t.Errorf("%d retries, %d messages, closed %d times", n, len(m), len(r.closed))
	}
}

// TestClosesComeFirst: all closes of a call are written before any follow-up.
func TestClosesComeFirst(t *testing.T) {
	r := newRig(t)
	r.family(2)
	fails, succeeds, seen, over := core.NumberedRun(1, 901), core.NumberedRun(1, 902), core.NumberedRun(1, 903), core.NumberedRun(1, 904)
	r.run(fails, nil)
	for _, of := range []core.RunID{succeeds, seen, over} {
		r.run(of, func(run *core.Run) { run.Place = 1 })
	}
	run := r.Run(seen)
	if err := r.end(finish.Result{Run: over, State: core.Succeeded}); err != nil { // its children exist after this
		t.Fatal(err)
	}
	r.order = nil
	for i, err := range r.f.End(t.Context(), []finish.Result{{Run: succeeds, State: core.Succeeded}, {Run: over, State: core.Succeeded},
		{Run: fails, State: core.Failed, Reason: core.ReasonHandler}, {Run: seen, State: core.Succeeded, Seen: &run}}) {
		if err != nil {
			t.Errorf("end %d: %v", i, err)
		}
	}
	last, follow := 0, len(r.order)
	for i, op := range r.order {
		switch op {
		case "close":
			last = i
		case "create", "enqueue", "clear owed":
			follow = min(follow, i)
		}
	}
	if r.calls["create"] < 3 || follow < last {
		t.Errorf("the calls are %v", r.order)
	}
}

// TestLateResult: a result that arrives after its run was given up is kept once.
func TestLateResult(t *testing.T) {
	for _, state := range []core.State{core.Lost, core.TimedOut, core.Failed} {
		r := newRig(t)
		r.run(id, func(x *core.Run) { x.Retries = 0 })
		r.Must(r.end(finish.Result{Run: id, State: state, Reason: core.Reasons[state][0], Message: "given up"}))
		r.Must(r.end(finish.Result{Run: id, State: state, Reason: core.Reasons[state][0], Message: "again"}))
		if got := r.Run(id); got.Late != nil {
			t.Errorf("%s: a second look at it is kept as %+v", state, got.Late)
		}
		r.now = begin.Add(time.Minute)
		r.Must(r.end(finish.Result{Run: id, State: core.Succeeded, Code: 200, Message: "done"}))
		r.Must(r.end(finish.Result{Run: id, State: core.Succeeded, Code: 200, Message: "done twice"}))
		got := r.Run(id)
		want := &core.LateResult{At: r.now, Code: 200, Message: "done"}
		if state == core.Failed {
			want = nil
		}
		if got.State != state || got.Message != "given up" || !reflect.DeepEqual(got.Late, want) {
			t.Errorf("%s: it is %s with %+v, want %+v", state, got.State, got.Late, want)
		}
	}
}

// TestFixedDelayWithoutAnAnswer: a move with an unknown result returns an error. A second report
// or the tick repeats it.
func TestFixedDelayWithoutAnAnswer(t *testing.T) {
	for _, fault1 := range []fault{{err: core.ErrRefused}, {err: errUnknown}} {
		r := newRig(t)
		_, run := r.delayed(1, time.Hour, nil)
		r.faults.faults["advance"] = []fault{fault1, fault1, fault1, fault1}
		res := finish.Result{Run: run.ID, State: core.Succeeded}
		if err := r.end(res); err == nil || errors.Is(err, core.ErrRefused) {
			t.Errorf("after %v: answered %v, although the job was never moved on", fault1.err, err)
		}
		if s := r.sched(1); s.Tail != run.ID {
			t.Fatalf("the fault was not met: tail %d", s.Tail)
		}
		r.Must(r.end(res))
		if s := r.sched(1); s.Tail != 0 {
			t.Errorf("tail %d after the second report", s.Tail)
		}
	}
}

// TestSuccessIsClosedUnread: a success is closed without a read. The run is read only if the
// close has an unclear answer or conflicts.
func TestSuccessIsClosedUnread(t *testing.T) {
	success := finish.Result{Run: id, State: core.Succeeded, Code: 200}
	for _, c := range []struct {
		name  string
		fault []fault
		app   string
		reads int
		err   error
		state core.State
	}{
		{"well", nil, "orders", 0, nil, core.Succeeded},
		{"of whatever app", nil, "", 0, nil, core.Succeeded},
		{"of another app", nil, "billing", 1, core.ErrRefused, core.Running},
		{"throttled", []fault{{err: core.ErrThrottled}}, "orders", 0, core.ErrThrottled, core.Running},
		{"unknown, done", []fault{{err: errUnknown, done: true}}, "orders", 1, nil, core.Succeeded},
		{"unknown, not done", []fault{{err: errUnknown}}, "orders", 1, nil, core.Succeeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.job(1, nil)
			r.run(id, nil)
			r.faults.faults["close"] = c.fault
			res := success
			res.App = c.app
			if err := r.end(res); !errors.Is(err, c.err) {
				t.Errorf("answered %v, want %v", err, c.err)
			}
			if n := r.calls["runs"]; n != c.reads {
				t.Errorf("%d reads, want %d", n, c.reads)
			}
			if got := r.Run(id); got.State != c.state || c.state == core.Succeeded && (got.Code != 200 || !got.EndedAt.Equal(begin)) {
				t.Errorf("it is %s: %d, ended at %s; want %s", got.State, got.Code, got.EndedAt, c.state)
			}
		})
	}
}

// TestSeenSavesARead: Seen saves a read, and the close is still conditional.
func TestSeenSavesARead(t *testing.T) {
	r := newRig(t)
	run := r.run(id, func(x *core.Run) { x.Retries = 0 })
	r.Must(r.end(finish.Result{Run: id, State: core.Succeeded, Seen: &run}))
	if n := r.calls["runs"]; n != 0 {
		t.Errorf("%d reads", n)
	}
	r.Must(r.end(finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler, Seen: &run}))
	if got := r.Run(id); got.State != core.Succeeded {
		t.Errorf("an old sight closed it again as %s", got.State)
	}
	if len(r.closed) != 1 {
		t.Errorf("closed %d times", len(r.closed))
	}
}

// TestRepeatedRetryWaitsInTheSlowLane: retries after the second go to the slow queue, if there is
// one, so that they do not delay other runs.
func TestRepeatedRetryWaitsInTheSlowLane(t *testing.T) {
	for _, lane := range []bool{true, false} {
		for attempt := 1; attempt <= 5; attempt++ {
			r := newRig(t)
			o := plan.Local()
			o.SlowLane = lane
			f := finish.New(r.with, finish.Options{Now: func() time.Time { return r.now }, Plan: o,
				Log: slog.New(slog.DiscardHandler)})
			r.job(1, nil)
			r.run(id, func(x *core.Run) { x.Attempt, x.Retries = attempt, 9 })
			r.Must(f.End(t.Context(), []finish.Result{{Run: id, State: core.Failed, Reason: core.ReasonHandler}})[0])
			fast, slow := len(r.messages(ring.KindFires)), len(r.messages(ring.KindSlow))
			// The failed run was attempt n, so its retry is number n.
			if want := lane && attempt > 2; fast+slow != 1 || slow == 1 != want {
				t.Errorf("retry %d, a slow lane: %t: %d on the fast lane, %d on the slow one", attempt, lane, fast, slow)
			}
		}
	}
}

// A handler's word on its retry is followed within bounds. A kill or a timeout takes precedence.
func TestWordOnTheRetry(t *testing.T) {
	texts := golden.New(t)
	for _, c := range []struct {
		name             string
		state            core.State
		after            time.Duration
		attempt, retries int
		kill             string // user who killed it, if any
		over             bool   // past its timeout
		want             core.Reason
		left             int // retries of the next attempt; -1: none follows
		wait             time.Duration
	}{
		{"snoozes", core.Failed, time.Minute, 1, 0, "", false, core.ReasonSnoozed, 0, time.Minute},
		{"keeps its retries", core.Failed, time.Minute, 4, 3, "", false, core.ReasonSnoozed, 3, time.Minute},
		{"for a day", core.Failed, 24 * time.Hour, 1, 0, "", false, core.ReasonSnoozed, 0, 24 * time.Hour},
		{"too long", core.Failed, 24*time.Hour + 1, 1, 0, "", false, core.ReasonHandler, -1, 0},
		{"too long, and retried", core.Failed, 48 * time.Hour, 1, 2, "", false, core.ReasonHandler, 1, 5 * time.Second},
		{"the last of its chain", core.Failed, time.Minute, 100, 0, "", false, core.ReasonSnoozed, 0, time.Minute},
		{"beyond that", core.Failed, time.Minute, 101, 0, "", false, core.ReasonHandler, -1, 0},
		{"with all retries left", core.Failed, time.Minute, 1, 100, "", false, core.ReasonHandler, 99, 5 * time.Second},
		{"cancels", core.Failed, core.NoRetry, 1, 3, "", false, core.ReasonCancelled, -1, 0},
		{"was killed", core.Failed, time.Minute, 1, 3, "ann", false, core.ReasonPerson, -1, 0},
		{"its time was over", core.Failed, core.NoRetry, 1, 3, "", true, core.ReasonTimeout, 2, 5 * time.Second},
		{"succeeded", core.Succeeded, time.Minute, 1, 3, "", false, "", -1, 0},
		{"timed out", core.TimedOut, core.NoRetry, 1, 3, "", false, core.ReasonTimeout, 2, 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.job(1, nil)
			r.run(id, func(x *core.Run) {
				x.Attempt, x.Retries, x.KillBy = c.attempt, c.retries, c.kill
				if c.kill != "" || c.over {
					x.KillAt = begin
				}
			})
			reason := map[core.State]core.Reason{core.Failed: core.ReasonHandler, core.TimedOut: core.ReasonTimeout}[c.state]
			for range 2 { // a second report creates nothing again
				r.Must(r.end(finish.Result{Run: id, State: c.state, Reason: reason, Message: "said", RetryAfter: c.after}))
			}
			got := r.Run(id)
			if got.Reason != c.want || !strings.HasSuffix(got.Message, "said") {
				t.Errorf("it is %s: %s %q", got.State, got.Reason, got.Message)
			}
			if got.Message != "said" {
				texts.Equal(t, c.name, got.Message)
			}
			list := r.Numbered(1)
			if c.left < 0 {
				if len(list) > 0 {
					t.Errorf("followed by %+v", list)
				}
				return
			}
			if len(list) != 1 || list[0].Retries != c.left || list[0].Attempt != c.attempt+1 || list[0].Slot != core.Ceil(begin.Add(c.wait)) {
				t.Fatalf("followed by %+v", list)
			}
			if n := len(r.messages(ring.KindFires)); n > 1 {
				t.Errorf("%d messages", n)
			}
		})
	}
}

// TestLogsOwed: which ends make keeping the log pending with the close, and what their retries
// inherit. A success is closed unread.
func TestLogsOwed(t *testing.T) {
	failed := finish.Result{State: core.Failed, Reason: core.ReasonHandler, Code: 500}
	succeeded := finish.Result{State: core.Succeeded, Code: 200}
	lost := finish.Result{State: core.Lost, Reason: core.ReasonGone}
	killed := func(r *core.Run) { r.KillBy, r.KillAt = "ann", begin }
	for _, c := range []struct {
		name               string
		end                finish.Result
		run                func(*core.Run)
		def, always, never bool // expected for each keepLog setting of the job
	}{
		{"failed", failed, nil, true, true, false},
		{"timed out", finish.Result{State: core.TimedOut, Reason: core.ReasonTimeout}, nil, true, true, false},
		{"lost", lost, nil, true, true, false},
		{"succeeded", succeeded, nil, false, true, false},
		{"killed", failed, killed, false, true, false},
		{"without an executor", finish.Result{State: core.Failed, Reason: core.ReasonNoExecutor}, nil, false, false, false},
		{"taken by none", finish.Result{State: core.Failed, Reason: core.ReasonNotAccepted}, nil, false, false, false},
		{"skipped by its executor", finish.Result{State: core.Skipped, Reason: core.ReasonOverlap}, nil, false, false, false},
		{"of a function", failed, func(r *core.Run) { r.Address = "lambda:payroll" }, true, true, false},
		{"a command", failed, func(r *core.Run) { r.Address = core.LocalAddress }, true, true, false},
		{"a command, succeeded", succeeded, func(r *core.Run) { r.Address = core.LocalAddress }, false, true, false},
		{"of an endpoint", failed, func(r *core.Run) { r.Address = "call:https://pay" }, false, false, false},
		{"of an endpoint, succeeded", succeeded, func(r *core.Run) { r.Address = "call:https://pay" }, false, false, false},
		{"pulled", failed, func(r *core.Run) { r.Address = "queue:nightly" }, false, false, false},
		{"never sent", lost, func(r *core.Run) { r.Address = "" }, false, false, false},
	} {
		for keep, want := range map[core.KeepLog]bool{"": c.def, core.KeepLogAlways: c.always, core.KeepLogNever: c.never} {
			t.Run(c.name+" "+string(keep), func(t *testing.T) {
				r := newRig(t)
				r.job(1, nil)
				r.run(id, func(x *core.Run) {
					x.KeepLog = keep
					if c.run != nil {
						c.run(x)
					}
				})
				end := c.end
				end.Run = id
				for range 2 { // a second report asks again, which is harmless
					r.Must(r.end(end))
				}
				run := r.Run(id)
				if owes := run.OwesPostRun().Log; owes != want {
					t.Errorf("it is %s: %s, keeps %q, and owes its log: %t", run.State, run.Reason, keep, owes)
				}
				asked := r.messages(ring.KindPostRun)
				if want != (len(asked) > 0) {
					t.Errorf("asked for by %+v", asked)
				}
				for _, m := range asked {
					if m.PostRun.Run != id || !m.PostRun.Log || m.Try != 0 {
						t.Errorf("asked for %+v", m.PostRun)
					}
				}
				for _, retry := range r.Numbered(1) {
					if retry.KeepLog != keep || retry.PostRun != (core.PostRun{}) {
						t.Errorf("its retry keeps %q and owes %+v", retry.KeepLog, retry.PostRun)
					}
				}
				if c.end.State == core.Succeeded && r.calls["close"] > 2 { // one for each report
					t.Errorf("a success took %d writes", r.calls["close"])
				}
			})
		}
	}
}

// TestPostRunNotAsked: if the post-run queue rejects a message, the caller gets an error and the
// log stays pending. The next report or pass sends the message again.
func TestPostRunNotAsked(t *testing.T) {
	for what, next := range map[string]func(r *rig) error{
		"a report": func(r *rig) error {
			return r.end(finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler})
		},
		"the walk": func(r *rig) error {
			run := r.Run(id)
			return r.f.Mend(r.t.Context(), &run)
		},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			r.job(1, nil)
			r.run(id, func(x *core.Run) { x.Retries = 0 })
			r.faults.faults["enqueue"] = []fault{{err: core.ErrThrottled}}
			if err := r.end(finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler}); err == nil {
				t.Error("it is reported as done")
			}
			if run := r.Run(id); run.State != core.Failed || !run.OwesPostRun().Log || len(r.messages(ring.KindPostRun)) > 0 {
				t.Errorf("it is %s and owes %+v", run.State, run.OwesPostRun())
			}
			r.Must(next(r))
			if asked := r.messages(ring.KindPostRun); len(asked) != 1 || asked[0].PostRun.Run != id || asked[0].Slot != core.InstantOf(begin) {
				t.Errorf("asked for by %+v", asked)
			}
		})
	}
}
