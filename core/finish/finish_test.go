package finish_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/finish"
)

var id = core.PlannedRun(1, core.InstantOf(begin)-1)

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
				r.faults.faults["put-permits"] = append(r.faults.faults["put-permits"], fault{err: core.ErrRefused})
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
		case "create", "enqueue", "change":
			follow = min(follow, i)
		}
	}
	if r.calls["create"] < 3 || follow < last {
		t.Errorf("the calls are %v", r.order)
	}
}
