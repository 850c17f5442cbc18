package operate_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// ended stores a run, as the job was at creation, that has ended; change may edit it.
func (f *fixture) ended(job core.JobID, at core.Instant, change func(r *core.Run)) core.Run {
	f.T.Helper()
	changes, err := f.E.Changes(ctx, "", job, math.MaxInt64, 100)
	must(f.T, err)
	r := newRun(planned(job, at), core.Failed, at)
	r.Reason, r.Rev = core.ReasonHandler, changes[len(changes)-1].ID // as the job was created
	r.SentAt, r.EndedAt, r.Address = at.Time(), at.Time().Add(time.Second), "http://10.0.0.1:9999"
	if change != nil {
		change(&r)
	}
	f.Put(r)
	return r
}

// TestRerun: an ended run is rerun as its own trigger, with the scheduled time and the params of
// the first run.
func TestRerun(t *testing.T) {
	f := newFixture(t)
	s := spec("sweep", every(time.Hour))
	s.Def.Params, s.Def.Retry.Max = "of then", 3
	j := f.Create(s)
	at := core.InstantOf(f.Clock.Add(time.Minute))
	f.Clock = f.Clock.Add(time.Hour)
	f.Fires()
	first := f.ended(j.Def.ID, at, nil)
	again := func(q operate.RerunRequest) operate.Rerun {
		t.Helper()
		q.Run = first.ID.String()
		res, err := f.M.Rerun(ctx, ann, q)
		if err != nil || len(res.Runs) != 1 || res.Next != "" {
			t.Fatalf("%+v %v", res, err)
		}
		return res.Runs[0]
	}
	if x := again(operate.RerunRequest{DryRun: true}); x.As.ID != 0 || len(f.Fires()) != 0 {
		t.Errorf("only asked: %+v", x)
	}
	x := again(operate.RerunRequest{Key: "k"})
	if r := x.As; r.RerunOf != first.ID || r.At != at || r.Slot != core.InstantOf(f.Clock) || r.Params == nil || *r.Params != "of then" ||
		r.Cause != core.CauseManual || r.By != "ann" || r.Retries != 3 || r.First != r.ID || r.Addresses != nil {
		t.Errorf("%+v", r)
	}
	if fires := f.Fires(); len(fires) != 1 || fires[0].Run != x.As.ID || fires[0].At != at {
		t.Errorf("fires: %+v", fires)
	}
	if v, err := f.M.Run(ctx, x.As.ID.String()); err != nil || v.Run.RerunOf != first.ID {
		t.Errorf("%+v %v", v, err)
	}
	if y := again(operate.RerunRequest{Key: "k"}); !y.Existing || y.As.ID != x.As.ID {
		t.Errorf("the same key: %+v", y)
	}
	fails(t, core.CodeRefused, "of an open run")(f.M.Rerun(ctx, ann, operate.RerunRequest{Run: x.As.ID.String()}))
	changes, err := f.Changes("", "shop/sweep", 1)
	if want := fmt.Sprintf(`{"runs":["%d"],"rerunOf":["%d"]}`, x.As.ID, first.ID); err != nil || changes[0].Verb != core.VerbTriggered ||
		changes[0].New != want {
		t.Errorf("%+v %v, want %s", changes, err, want)
	}

	// The job has other params and another schedule by this time.
	s.Def.Params = "of now"
	f.Save(s)
	if x := again(operate.RerunRequest{}); x.As.Params == nil || *x.As.Params != "of then" {
		t.Errorf("after an edit: %+v", x.As)
	}
	if x := again(operate.RerunRequest{SameAddress: true}); len(x.As.Addresses) != 1 || x.As.Addresses[0] != first.Address {
		t.Errorf("to the same address: %+v", x.As)
	}
	none, other := 0, "other"
	if x := again(operate.RerunRequest{Params: &other, Retries: &none, Cause: core.CauseAPI}); *x.As.Params != other || x.As.Retries != 0 ||
		x.As.Cause != core.CauseAPI {
		t.Errorf("with others: %+v", x.As)
	}
	nobody := f.ended(j.Def.ID, at+120, func(r *core.Run) { r.Address = "http://198.51.100.7:1" }).ID.String()
	never := f.ended(j.Def.ID, at+180, func(r *core.Run) { r.Address = "" }).ID.String()
	texts := golden.New(t)
	for name, q := range map[string]operate.RerunRequest{
		"an unknown address": {Addresses: []string{"http://198.51.100.7:9999"}},
		"to no executor":     {SameAddress: true, Run: nobody},
		"never sent":         {SameAddress: true, Run: never},
		"both":               {SameAddress: true, Addresses: []string{"http://10.0.0.1:9999"}},
		"a withdrawn address": {Run: f.ended(j.Def.ID, at+240,
			func(r *core.Run) { r.Addresses = []string{"http://198.51.100.7:1"} }).ID.String()},
		"another run's key": {Key: "k", Run: f.ended(j.Def.ID, at+60, nil).ID.String()},
	} {
		if q.Run == "" {
			q.Run = first.ID.String()
		}
		_, err := f.M.Rerun(ctx, ann, q)
		texts.Equal(t, name, fmt.Sprint(err))
	}
	f.Delete("shop/sweep")
	_, err = f.M.Rerun(ctx, ann, operate.RerunRequest{Run: first.ID.String()})
	check.Equal(t, code(err), core.CodeRefused, "of a deleted job: %v", err)
	texts.Equal(t, "deleted job", fmt.Sprint(err))
}

// TestRerunWhereNobodyIs: a user sent a run to addresses without an executor. It is rerun there
// only for users who may give these addresses, alone or in bulk.
func TestRerunWhereNobodyIs(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", every(time.Hour)))
	at := core.InstantOf(f.Clock)
	f.Clock = f.Clock.Add(time.Hour)
	const there, nowhere = "http://10.0.0.1:9999", "http://10.6.6.6:9999" // both in the app's allow
	must(t, f.E.PutExecutor(ctx, core.Executor{App: "shop", Address: there, Beat: f.Clock, Since: f.Clock}))
	given := func(at core.Instant, address string) string {
		return f.ended(j.Def.ID, at, func(r *core.Run) { r.Address, r.Addresses = address, []string{address} }).ID.String()
	}
	bad, good := given(at+60, nowhere), given(at+120, there)
	never := func(app string) error { return core.Errorf(core.CodeForbidden, "not %s", app) }
	res, err := f.M.Rerun(ctx, ann, operate.RerunRequest{Filter: query.RunFilter{Job: "shop/sweep", Failed: true}, Key: "k", Direct: never})
	if err != nil || len(res.Runs) != 2 || code(res.Runs[1].Why) != core.CodeForbidden || res.Runs[0].Why != nil {
		t.Errorf("%+v %v", res, err)
	}
	for _, c := range []struct {
		q    operate.RerunRequest
		want core.Code
	}{
		{operate.RerunRequest{Run: bad}, ""},
		{operate.RerunRequest{Run: bad, Direct: func(string) error { return nil }}, ""},
		{operate.RerunRequest{Run: bad, Direct: never}, core.CodeForbidden},
		{operate.RerunRequest{Run: bad, Direct: never, SameAddress: true}, core.CodeForbidden},
		{operate.RerunRequest{Run: good, Direct: never}, ""},
		{operate.RerunRequest{Run: good, Direct: never, Addresses: []string{nowhere}}, core.CodeForbidden},
	} {
		if _, err := f.M.Rerun(ctx, ann, c.q); code(err) != c.want {
			t.Errorf("%+v: %v, want %q", c.q, err, c.want)
		}
	}
}

// TestRerunOfATemplate: the scheduled time and the last success before it fill the template, even
// if the job has another template now.
func TestRerunOfATemplate(t *testing.T) {
	for name, c := range map[string]struct{ was, is, want string }{
		"filled by its dispatch": {"{{scheduledAt HH:mm}}", "{{scheduledAt HH:mm}}", ""},
		"another by now":         {"{{scheduledAt HH:mm}} {{attempt}}", "{{attempt}}", "12:10 1"},
		"its last success":       {"{{lastSuccessAt HH:mm}}", "{{lastSuccessAt HH:mm}}", "12:05"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			s := spec("sweep", every(time.Hour))
			s.Def.Params, s.Def.Template = c.was, true
			j := f.Create(s)
			f.Clock = f.Clock.Add(time.Hour)
			if c.is != c.was {
				s.Def.Params = c.is
				f.Save(s)
			}
			noon := core.InstantOf(start.Truncate(24 * time.Hour).Add(12 * time.Hour))
			if start.Hour() != 12 {
				t.Fatalf("the fixture starts at %v", start)
			}
			f.Ran(j.Def.ID, noon+300, 0)
			f.Ran(j.Def.ID, noon+1200, 0)
			first := f.ended(j.Def.ID, noon+600, nil)
			res, err := f.M.Rerun(ctx, ann, operate.RerunRequest{Run: first.ID.String()})
			must(t, err)
			got := ""
			if p := res.Runs[0].As.Params; p != nil {
				got = *p
			}
			check.Equal(t, got, c.want)
		})
	}
}

// TestRerunOfMany: the runs of a filter are rerun page by page, each once for one key. Open and
// retried runs, and runs of deleted jobs, are skipped with a reason.
func TestRerunOfMany(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", every(time.Hour)))
	gone := f.Create(spec("gone", every(time.Hour)))
	f.Clock = f.Clock.Add(time.Hour)
	at := core.InstantOf(f.Clock) - 1000
	of := map[core.RunID]bool{}
	for i := range core.Instant(5) {
		of[f.ended(j.Def.ID, at+i, nil).ID] = true
	}
	f.ended(j.Def.ID, at+10, func(r *core.Run) { r.Then = numbered(j.Def.ID, 7) })
	f.ended(j.Def.ID, at+11, func(r *core.Run) { r.State, r.Reason, r.EndedAt = core.Running, "", time.Time{} })
	f.ended(gone.Def.ID, at+12, nil)
	f.Delete("shop/gone")
	f.Fires()
	all := func(dry bool) (made map[core.RunID]core.RunID, left int) {
		made = map[core.RunID]core.RunID{}
		q := operate.RerunRequest{Filter: query.RunFilter{App: "shop", Limit: 2}, Key: "k", DryRun: dry}
		for {
			res, err := f.M.Rerun(ctx, ann, q)
			must(t, err)
			for _, x := range res.Runs {
				if x.Why != nil {
					left++
				} else {
					made[x.Of.ID] = x.As.ID
				}
			}
			if q.Filter.After = res.Next; res.Next == "" {
				return made, left
			}
		}
	}
	if made, left := all(true); len(made) != len(of) || left != 3 || len(f.Fires()) != 0 {
		t.Errorf("only asked: %v, %d left", made, left)
	}
	made, left := all(false)
	if len(made) != len(of) || left != 3 || len(f.Fires()) != len(of) {
		t.Errorf("%v, %d left", made, left)
	}
	for _, id := range made { // they fail again, and belong to another request
		must(t, errors.Join(f.E.ChangeRuns(ctx, []core.RunPut{core.End(id, core.Run{State: core.Failed, Reason: core.ReasonHandler,
			EndedAt: f.Clock})})...))
	}
	again, left := all(false)
	if len(again) != len(of) || left != 3 {
		t.Errorf("again: %v, %d left", again, left)
	}
	for id, as := range again {
		if made[id] != as || !of[id] {
			t.Errorf("run %d is run again as %d and as %d", id, made[id], as)
		}
	}
	for name, q := range map[string]operate.RerunRequest{
		"of everything": {Key: "k"},
		"without a key": {Filter: query.RunFilter{App: "shop"}},
		"a long key":    {Filter: query.RunFilter{App: "shop"}, Key: strings.Repeat("k", core.MaxKey)},
	} {
		fails(t, core.CodeInvalid, "%s", name)(f.M.Rerun(ctx, ann, q))
	}
}

// TestRerunOfWhatWasRunAgain: a request with another key skips runs that were rerun before, by
// filter or ID, unless the new run was skipped. A failed new run is rerun itself. The same key
// returns its runs, and a run that is named by ID is rerun.
func TestRerunOfWhatWasRunAgain(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", every(time.Hour)))
	f.Clock = f.Clock.Add(time.Hour)
	first := f.ended(j.Def.ID, core.InstantOf(f.Clock)-1000, nil)
	end := func(id core.RunID, s core.State, why core.Reason) {
		t.Helper()
		put := core.End(id, core.Run{State: s, Reason: why, EndedAt: f.Clock})
		must(t, errors.Join(f.E.ChangeRuns(ctx, []core.RunPut{put})...))
	}
	failed := func(key string) (made []core.Run, existing bool) {
		t.Helper()
		f.Clock = f.Clock.Add(24 * time.Hour)
		res, err := f.M.Rerun(ctx, ann, operate.RerunRequest{Filter: query.RunFilter{App: "shop", Failed: true}, Key: key})
		must(t, err)
		for _, x := range res.Runs {
			if x.Why == nil {
				made, existing = append(made, x.As), x.Existing
			}
		}
		return made, existing
	}
	of := first.ID
	for key, s := range []core.State{core.Skipped, core.Failed, core.Failed, core.Succeeded} {
		made, _ := failed(fmt.Sprint("n", key))
		if len(made) != 1 || made[0].RerunOf != of {
			t.Fatalf("%d: of %d: %+v", key, of, made)
		}
		if made, existing := failed(fmt.Sprint("n", key)); len(made) != 1 || !existing {
			t.Errorf("the same key: %+v", made)
		}
		end(made[0].ID, s, map[core.State]core.Reason{core.Skipped: core.ReasonOverlap, core.Failed: core.ReasonHandler}[s])
		if s == core.Failed {
			of = made[0].ID
		}
	}
	if made, _ := failed("n9"); len(made) != 0 {
		t.Errorf("after a success: %+v", made)
	}
	if res, err := f.M.Rerun(ctx, ann, operate.RerunRequest{Run: first.ID.String()}); err != nil || res.Runs[0].As.RerunOf != first.ID {
		t.Errorf("by its ID: %+v %v", res, err)
	}
	by := f.ended(j.Def.ID, core.InstantOf(f.Clock), nil)
	check.Call(t)(f.M.Rerun(ctx, ann, operate.RerunRequest{Run: by.ID.String()}))
	if made, _ := failed("n10"); len(made) != 0 {
		t.Errorf("after one by its ID: %+v", made)
	}
}

// TestRerunGoesOn: each call covers some runs and the next continues, until each was covered
// once.
func TestRerunGoesOn(t *testing.T) {
	for n, want := range map[int]int{budget.Reran: 1, budget.Reran + 1: 2, 3 * budget.Reran: 3} {
		f := newFixture(t)
		j := f.Create(spec("sweep", every(time.Hour)))
		f.Clock = f.Clock.Add(time.Hour)
		for i := range n {
			f.ended(j.Def.ID, core.InstantOf(f.Clock)-3000+core.Instant(i), nil)
		}
		looked, pages := 0, 0
		for filter := (query.RunFilter{Job: "shop/sweep", Failed: true}); ; {
			res, err := f.M.Rerun(ctx, ann, operate.RerunRequest{Filter: filter, DryRun: true})
			if err != nil || len(res.Runs) > budget.Reran {
				t.Fatalf("%d in one call, %v", len(res.Runs), err)
			}
			looked += len(res.Runs)
			pages++
			if filter.After = res.Next; res.Next == "" {
				break
			}
		}
		if looked != n || pages != want {
			t.Errorf("%d of %d runs in %d calls, want %d", looked, n, pages, want)
		}
	}
}

// TestRerunBehindManyRequests: only the newest requests for a job are read for earlier reruns. A
// run that ended before them is skipped; a later one is rerun.
func TestRerunBehindManyRequests(t *testing.T) {
	const read = budget.RerunPages * query.MaxPage
	texts := golden.New(t)
	for between, why := range map[int]string{read - 1: "already rerun", read: "too old", 3 * read: "too old"} {
		f := newFixture(t)
		j := f.Create(spec("sweep", every(time.Hour)))
		f.Clock = f.Clock.Add(time.Hour)
		old := f.ended(j.Def.ID, core.InstantOf(f.Clock)-1000, nil)
		check.Call(t)(f.M.Rerun(ctx, ann, operate.RerunRequest{Run: old.ID.String()}))
		list := make([]core.Change, between)
		for i := range list {
			at := f.Clock.Add(time.Duration(i+1) * time.Second)
			list[i] = core.Change{ID: core.Millis(at), At: at, App: "shop", Job: j.Def.ID, Verb: core.VerbTriggered, By: "ann"}
		}
		must(t, f.E.PutChanges(ctx, list))
		f.Clock = f.Clock.Add(48 * time.Hour)
		f.ended(j.Def.ID, core.InstantOf(f.Clock)-1000, nil)
		res, err := f.M.Rerun(ctx, ann, operate.RerunRequest{Filter: query.RunFilter{Job: "shop/sweep", Failed: true}, DryRun: true})
		if err != nil || len(res.Runs) != 2 {
			t.Fatalf("%+v, %v", res, err)
		}
		for _, x := range res.Runs {
			if x.Of.ID == old.ID {
				texts.Equal(t, why, fmt.Sprint(x.Why))
			} else if x.Why != nil {
				t.Errorf("%d records between, run %d: %v", between, x.Of.ID, x.Why)
			}
		}
	}
}

// TestKillOfWhatIsOver: a kill of an ended run is no error and changes nothing. A sent kill would
// end other runs of the job there.
func TestKillOfWhatIsOver(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", every(time.Hour)))
	at := core.InstantOf(f.Clock)
	over := f.ended(j.Def.ID, at, nil)
	works := f.ended(j.Def.ID, at+1, func(r *core.Run) { r.State, r.Reason, r.EndedAt = core.Running, "", time.Time{} })
	res, err := f.M.KillRun(ctx, ann, over.ID.String(), "")
	if err != nil || res.Changed || res.Job != j.Def.ID || len(res.Killed)+len(res.Cancelled)+len(res.Sent) != 0 || res.Next != "" {
		t.Errorf("%+v %v", res, err)
	}
	for _, want := range []core.Run{over, works} {
		if v, err := f.M.Run(ctx, want.ID.String()); err != nil || v.Run.State != want.State || !v.Run.KillAt.IsZero() {
			t.Errorf("%+v %v", v.Run, err)
		}
	}
}
