package bulk_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/bulk"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
)

type fixture struct{ *usecasetest.Fixture }

var ctx, ann = usecasetest.Ctx, usecasetest.Ann

func newFixture(t *testing.T, n int) *fixture {
	f := &fixture{usecasetest.New(t)}
	for i := range n {
		s := usecasetest.Spec(fmt.Sprintf("j%d", i), usecasetest.Every(time.Hour))
		s.Def.Labels = map[string]string{"team": fmt.Sprint(i % 2)}
		f.Create(s)
	}
	return f
}

func (f *fixture) act(r bulk.Request) bulk.Result {
	f.T.Helper()
	res, err := f.M.Act(ctx, ann, r)
	check.OK(f.T, err)
	return res
}

func (f *fixture) names(state core.JobState) (names []string) {
	f.T.Helper()
	page, err := f.M.Jobs(ctx, query.JobFilter{States: []core.JobState{state}})
	check.OK(f.T, err)
	for i := range page.Jobs {
		names = append(names, page.Jobs[i].Def.Name)
	}
	return names
}

var team1 = &query.JobsAsk{JobFilter: query.JobFilter{Labels: map[string]string{"team": "1"}}}

// TestPauseIsOneAct checks that an operation counts and pauses the filtered jobs, records them under one
// name, and that its undo resumes only unchanged ones.
func TestPauseIsOneAct(t *testing.T) {
	f := newFixture(t, 7)
	check.Call(t)(f.M.Pause(ctx, ann, manage.Target{Job: "shop/j1"}, manage.PauseRequest{Why: "before"}))
	dry := f.act(bulk.Request{Verb: bulk.Pause, Filter: team1, DryRun: true})
	if dry.Found != 3 || !slices.Equal(dry.Sample, []string{"shop/j1", "shop/j3", "shop/j5"}) || dry.Act != "" ||
		len(f.names(core.Paused)) != 1 {
		t.Errorf("dry: %+v; paused %v", dry, f.names(core.Paused))
	}
	f.Clock = f.Clock.Add(time.Second)
	res := f.act(bulk.Request{Verb: bulk.Pause, Filter: team1})
	if res.Done != 2 || res.Same != 1 || res.Fail != 0 || res.Next != 0 || res.Act == "" {
		t.Errorf("%+v", res)
	}
	changes, err := f.Changes("", "", 100)
	check.OK(t, err)
	var verbs []string
	for _, c := range changes {
		if c.Act == res.Act {
			verbs = append(verbs, c.Verb+" "+c.Name)
		}
	}
	slices.Sort(verbs)
	if !slices.Equal(verbs, []string{"acted ", "paused j3", "paused j5"}) {
		t.Errorf("records of the act: %v", verbs)
	}
	f.Clock = f.Clock.Add(time.Second)
	check.Call(t)(f.M.Pause(ctx, ann, manage.Target{Job: "shop/j5"}, manage.PauseRequest{Why: "for another reason"}))
	undone := f.act(bulk.Request{Verb: bulk.Resume, Undo: res.Act})
	if undone.Done != 1 || !slices.Equal(f.names(core.Paused), []string{"j1", "j5"}) {
		t.Errorf("undone %+v; paused %v", undone, f.names(core.Paused))
	}
}

// TestActsAreOnesOwn checks that equal names of two actors are separate operations, and that a repeated or
// continued request is one.
func TestActsAreOnesOwn(t *testing.T) {
	f := newFixture(t, 4)
	bob := core.Actor{Name: "bob"}
	const name = "console-NAMENAMENAMENAME"
	act := func(who core.Actor, r bulk.Request, done int) string {
		t.Helper()
		res, err := f.M.Act(ctx, who, r)
		if err != nil || res.Done != done {
			t.Errorf("%s, %+v: %+v, %v", who.Name, r, res, err)
		}
		return res.Act
	}
	both := []string{"shop/j0", "shop/j1"}
	trigger := bulk.Request{Verb: bulk.Trigger, Jobs: both, Act: name}
	anns := act(ann, trigger, 2)
	act(ann, trigger, 0)
	trigger.Act = anns
	if again := act(ann, trigger, 0); again != anns {
		t.Errorf("%s, then %s", anns, again)
	}
	for _, name := range []string{name, anns} {
		trigger.Act = name
		if bobs := act(bob, trigger, 2); bobs == anns {
			t.Errorf("two have the act %s", anns)
		}
	}
	f.Clock = f.Clock.Add(time.Second)
	anns = act(ann, bulk.Request{Verb: bulk.Pause, Jobs: both, Act: name}, 2)
	bobs := act(bob, bulk.Request{Verb: bulk.Pause, Jobs: []string{"shop/j2"}, Act: name}, 1)
	f.Clock = f.Clock.Add(time.Second)
	act(bob, bulk.Request{Verb: bulk.Resume, Undo: bobs}, 1)
	if paused := f.names(core.Paused); !slices.Equal(paused, []string{"j0", "j1"}) {
		t.Errorf("after bob's act is undone: %v", paused)
	}
	act(bob, bulk.Request{Verb: bulk.Resume, Undo: anns}, 2)
	long := bulk.Request{Verb: bulk.Trigger, Jobs: both, Act: strings.Repeat("x", bulk.MaxAct)}
	act(core.Actor{Name: strings.Repeat("n", 64)}, long, 2)
}

// TestUnreadableJobBlocksNoAct checks that an operation by filter, by name or as an undo skips an
// unreadable job and reports it to callers who may see it.
func TestUnreadableJobBlocksNoAct(t *testing.T) {
	f := newFixture(t, 4)
	f.Create(usecasetest.Spec("bad", usecasetest.Every(time.Hour)))
	bad := f.Job("shop/bad").Def.ID
	f.M = f.Fresh(&usecasetest.Faults{Bad: []core.JobID{bad}})
	all := &query.JobsAsk{}
	shop := func(app string) bool { return app == "shop" }
	told := func(what string, res bulk.Result, done, fail int) {
		t.Helper()
		if res.Done != done || res.Fail != fail || fail > 0 && (len(res.Failed) != fail || res.Failed[0].Job != bad ||
			!strings.Contains(res.Failed[0].Err.Error(), "no JSON")) {
			t.Errorf("%s: %+v", what, res)
		}
	}
	pause := func(r bulk.Request, fail int) string {
		t.Helper()
		f.Clock = f.Clock.Add(time.Second)
		r.Verb = bulk.Pause
		res := f.act(r)
		told("pause", res, 4, fail)
		return res.Act
	}
	dry := f.act(bulk.Request{Verb: bulk.Pause, Filter: all, DryRun: true})
	if told("dry", dry, 0, 1); dry.Found != 4 {
		t.Errorf("%+v", dry)
	}
	act := pause(bulk.Request{Filter: all}, 1)
	f.Clock = f.Clock.Add(time.Second)
	told("undo", f.act(bulk.Request{Verb: bulk.Resume, Undo: act}), 4, 1)
	act = pause(bulk.Request{Filter: all, Sees: shop}, 0) // of any app
	f.Clock = f.Clock.Add(time.Second)
	told("undo", f.act(bulk.Request{Verb: bulk.Resume, Undo: act, Sees: shop}), 4, 0)
	pause(bulk.Request{Filter: &query.JobsAsk{JobFilter: query.JobFilter{App: "shop"}}, Sees: shop}, 1)
	named := []string{"shop/j0", "shop/bad", "shop/j1", "shop/j2", "shop/j3"}
	told("named", f.act(bulk.Request{Verb: bulk.Resume, Jobs: named}), 4, 1)
}

// TestEachVerb checks each action on named jobs, and its failures.
func TestEachVerb(t *testing.T) {
	f := newFixture(t, 4)
	child := manage.JobSpec{Def: core.Def{App: "shop", Name: "child", Handler: "x", After: []core.Parent{{Job: "shop/j3"}}}}
	check.OK(t, f.Save(child)[0].Err)
	both := []string{"shop/j0", "shop/j1"}
	if res := f.act(bulk.Request{Verb: bulk.Label, Jobs: both, Labels: map[string]string{"team": "", "tier": "gold"}}); res.Done != 2 {
		t.Errorf("label: %+v", res)
	}
	if j := f.Job("shop/j0"); j.Def.Labels["tier"] != "gold" || len(j.Def.Labels) != 1 || j.Sched.State != core.Started || j.Sched.Next == 0 {
		t.Errorf("%+v", j)
	}
	if res := f.act(bulk.Request{Verb: bulk.Label, Jobs: both, Labels: map[string]string{"tier": "gold"}}); res.Done != 0 || res.Same != 2 {
		t.Errorf("label again: %+v", res)
	}
	if res := f.act(bulk.Request{Verb: bulk.Label, Jobs: both, Labels: map[string]string{"a b": "c"}}); res.Fail != 2 || len(res.Failed) != 2 {
		t.Errorf("a label of a bad name: %+v", res)
	}
	res := f.act(bulk.Request{Verb: bulk.Trigger, Jobs: both})
	again := f.act(bulk.Request{Verb: bulk.Trigger, Jobs: both, Act: res.Act})
	if res.Done != 2 || again.Done != 0 || again.Same != 2 {
		t.Errorf("trigger: %+v, then %+v", res, again)
	}
	if res := f.act(bulk.Request{Verb: bulk.Kill, Jobs: both}); res.Fail != 0 {
		t.Errorf("kill: %+v", res)
	}
	if res := f.act(bulk.Request{Verb: bulk.Delete, Jobs: []string{"shop/j0", "shop/j3"}}); res.Done != 1 || res.Fail != 1 ||
		res.Failed[0].Of != "shop/j3" || !strings.Contains(res.Failed[0].Err.Error(), "shop/child") {
		t.Errorf("delete: %+v", res)
	}
	f.act(bulk.Request{Verb: bulk.Pause, Filter: &query.JobsAsk{}})
	check.Equal(t, len(f.names(core.Paused)), 4, "paused")
	if res := f.act(bulk.Request{Verb: bulk.Resume, Filter: &query.JobsAsk{Is: []query.Standing{query.IsHeld}}}); res.Done != 4 {
		t.Errorf("resume: %+v", res)
	}
	soon, both := f.Clock.Add(-time.Second), []string{"shop/j1", "shop/j2"}
	for name, bad := range map[string]bulk.Request{
		"verb":      {Verb: "odd", Jobs: both},
		"nothing":   {Verb: bulk.Pause},
		"two":       {Verb: bulk.Pause, Jobs: both, Filter: team1},
		"undo":      {Verb: bulk.Pause, Undo: "act-1"},
		"operation": {Verb: bulk.Pause, Jobs: both, Act: "a b"},
		"longer":    {Verb: bulk.Pause, Jobs: both, Act: strings.Repeat("x", bulk.MaxAct+1)},
		"undone":    {Verb: bulk.Resume, Undo: strings.Repeat("x/", 100)},
		"labels":    {Verb: bulk.Label, Jobs: both},
		"until":     {Verb: bulk.Pause, Jobs: both, Until: &soon},
		"reason":    {Verb: bulk.Pause, Jobs: both, Why: strings.Repeat("x", 1001)},
		"status":    {Verb: bulk.Pause, Filter: &query.JobsAsk{Is: []query.Standing{"odd"}}},
	} {
		if _, err := f.M.Act(ctx, ann, bad); core.CodeOf(err) != core.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	many := make([]string, bulk.MaxNamed+1)
	if _, err := f.M.Act(ctx, ann, bulk.Request{Verb: bulk.Pause, Jobs: many}); core.CodeOf(err) != core.CodeTooLarge {
		t.Error(err)
	}
	some := f.act(bulk.Request{Verb: bulk.Pause, Jobs: []string{"shop/j1", "shop/none"}})
	if some.Done != 1 || some.Fail != 1 || core.CodeOf(some.Failed[0].Err) != core.CodeNotFound || some.Failed[0].Of != "shop/none" {
		t.Errorf("%+v", some)
	}
}

// TestLostAnswers checks that after any lost write or answer, each job is paused or reported as failed.
func TestLostAnswers(t *testing.T) {
	for at := 1; at <= 4; at++ {
		for _, after := range []bool{false, true} {
			f := newFixture(t, 3)
			f.Faults.At, f.Faults.After = f.Faults.N+at, after
			res, err := f.M.Act(ctx, ann, bulk.Request{Verb: bulk.Pause, Filter: &query.JobsAsk{}})
			if paused := len(f.names(core.Paused)); err == nil && paused+res.Fail != 3 || err != nil && paused != 0 {
				t.Errorf("write %d (%s), stored %t: %d paused, %+v, %v", at, f.Faults.Last, after, paused, res, err)
			}
		}
	}
	f := newFixture(t, 3)
	stop, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := f.M.Act(stop, ann, bulk.Request{Verb: bulk.Pause, Filter: &query.JobsAsk{}}); err == nil || len(f.names(core.Paused)) != 0 {
		t.Errorf("%v, paused %v", err, f.names(core.Paused))
	}
}

// TestReasonIsBounded checks that an invalid reason is rejected before a record is written.
func TestReasonIsBounded(t *testing.T) {
	f := newFixture(t, 1)
	before, err := f.Changes("", "", 100)
	check.OK(t, err)
	for _, verb := range bulk.Verbs {
		_, err := f.M.Act(ctx, ann, bulk.Request{Verb: verb, Jobs: []string{"shop/j0"}, Why: strings.Repeat("x", 1001)})
		check.Equal(t, core.CodeOf(err), core.CodeInvalid, "%s: %v", verb, err)
	}
	if after, err := f.Changes("", "", 100); err != nil || len(after) != len(before) {
		t.Errorf("%d records, %d before: %v", len(after), len(before), err)
	}
}
