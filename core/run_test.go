package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// The claim sets SentAt before an executor is known to be available.
func TestSent(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		r              Run
		sent, lateness bool
	}{
		{Run{State: Planned}, false, false},
		{Run{State: Planned, SentAt: at}, false, false}, // released
		{Run{State: Planned, SentAt: at, MaybeSent: true}, true, true},
		{Run{State: Running, SentAt: at, Owner: "me"}, true, true},
		{Run{State: Running, SentAt: at, Owner: "me", Cause: CauseManual}, true, false},
		{Run{State: Succeeded, SentAt: at}, true, true},
		{Run{State: Succeeded, SentAt: at, Cause: CauseAPI}, true, false},
		{Run{State: Succeeded, SentAt: at, Cause: CauseRetry}, true, true},
		{Run{State: Failed, SentAt: at, Reason: ReasonHandler}, true, true},
		{Run{State: Failed, SentAt: at, Reason: ReasonNotAccepted}, true, true},
		{Run{State: Failed, SentAt: at, Reason: ReasonNoExecutor}, false, false},
		{Run{State: Skipped, SentAt: at, Reason: ReasonOverlap}, true, true},
		{Run{State: Skipped, SentAt: at, Reason: ReasonPaused}, false, false},
		{Run{State: Skipped, Reason: ReasonCancelled}, false, false},
	} {
		c.r.Slot = InstantOf(at)
		if c.r.Sent() != c.sent || c.r.HasLateness() != c.lateness {
			t.Errorf("%s %s %s: sent %t, lateness %t", c.r.State, c.r.Reason, c.r.Cause, c.r.Sent(), c.r.HasLateness())
		}
	}
}

// Change records are read for years: their JSON can only grow.
func TestRecordsAreStable(t *testing.T) {
	s := Sched{ID: 7, State: Paused, Rev: 1700000000001, RevAt: time.UnixMilli(1700000000000),
		Schedule: Schedule{Any: []When{{Kind: KindEvery, Every: time.Minute}}, Timezone: "Asia/Shanghai"},
		Misfire:  MisfireLatest, Grace: time.Minute, PauseUntil: 1700000600, PauseBy: "ann", PauseWhy: "db"}
	const job = `{"rev":1700000000001,"revAt":1700000000000,"state":"paused","schedule":{"any":[{"kind":"every","every":60000000000}],"timezone":"Asia/Shanghai"},"misfire":"latest","grace":60000000000,"pauseUntil":1700000600,"pauseBy":"ann","pauseWhy":"db"}`
	check.Equal(t, RecordOf(&s, nil).String(), job, "got")
	r, ok := ParseJobRecord(job)
	if !ok || r.Rev != s.Rev || !r.Schedule.Equal(s.Schedule) || r.State != Paused {
		t.Errorf("%+v %t", r, ok)
	}
	a := App{Name: "shop", Token: "secret", Rev: 3, Pause: Pause{From: time.UnixMilli(5), To: time.UnixMilli(9), By: "ann", Why: "db"}}
	const app = `{"name":"shop","rev":3,"hasToken":true,"pauseFrom":5,"pauseTo":9,"pauseBy":"ann","pauseWhy":"db"}`
	check.Equal(t, AppRecordOf(&a).String(), app, "got")
	p, ok := ParseAppRecord(app)
	if !ok || !p.Pause().From.Equal(a.Pause.From) || !p.Pause().To.Equal(a.Pause.To) {
		t.Errorf("%+v %t", p, ok)
	}
	for _, text := range []string{"", "{", "[]", `{"run":"7"}`} {
		if _, ok := ParseJobRecord(text); ok {
			t.Errorf("%q is taken for a record", text)
		}
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		all  bool
		ends []State
		want string
	}{
		{false, []State{Succeeded, Succeeded}, "succeeded  2 of 2 shards succeeded"},
		{false, []State{Succeeded, Lost}, "failed shards 1 of 2 shards succeeded, 1 lost"},
		{true, []State{Succeeded, Lost}, "succeeded  1 of 2 shards succeeded, 1 lost"},
		{false, []State{TimedOut, Failed, Lost, Failed, Killed, Skipped},
			"failed shards 0 of 6 shards succeeded, 2 failed, 1 timed-out, 1 lost, 1 killed, 1 skipped"},
		{false, []State{Killed, Skipped}, "killed person 0 of 2 shards succeeded, 1 killed, 1 skipped"},
		{false, []State{Skipped, Skipped}, "skipped paused 0 of 2 shards succeeded, 2 skipped"},
		{false, []State{Succeeded, Skipped}, "failed shards 1 of 2 shards succeeded, 1 skipped"},
	} {
		ends := make([]Run, len(c.ends))
		for i, state := range c.ends {
			ends[i] = Run{State: state, Reason: ReasonPaused}
		}
		state, reason, message := Shard{Total: len(ends), All: c.all}.Verdict(ends)
		check.Equal(t, fmt.Sprint(state, " ", reason, " ", message), c.want)
	}
}

// TestJoinLacks checks that the text is short for any length of names and any number of parents.
func TestJoinLacks(t *testing.T) {
	d := Def{Within: MaxWithin}
	for i := range JobID(MaxParents) {
		d.After = append(d.After, Parent{Job: strings.Repeat("a", 64) + "/" + strings.Repeat("n", 128), ID: i + 1})
	}
	j := Join{Parent: PlannedRun(1, 1_900_000_000), Begun: 1_900_000_000, Marks: []Mark{{Run: PlannedRun(1, 1_900_000_000), Counts: true}}}
	j.End = j.Begun.Add(d.Within)
	text := j.Lacks(&d)
	if len(text) >= 200 {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	texts := golden.New(t)
	texts.Equal(t, "20 parents", text)
	d.After[0].ID = 99 // this parent is removed
	texts.Equal(t, "the first parent is removed", j.Lacks(&d))
}
