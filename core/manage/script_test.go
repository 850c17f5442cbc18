package manage_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/hook"
)

// scripted returns a job with a script.
func scripted(name, source string) manage.JobSpec {
	s := spec(name, every(time.Hour))
	s.Def.Handler, s.Def.Script, s.Source = "", &core.Script{Kind: core.ScriptShell, Note: fmt.Sprint("of ", len(source))}, source
	return s
}

// versions returns the versions of a job, newest first, and checks that all have their sources.
func (f *fixture) versions(ref string) (list []string) {
	f.T.Helper()
	j := f.Job(ref)
	all, err := f.M.ScriptVersions(ctx, &j)
	check.OK(f.T, err)
	for i := range all {
		source, err := f.M.ScriptSource(ctx, &j, &all[i])
		if err != nil || core.HashScript(source) != all[i].Hash || len(source) != all[i].Size {
			f.T.Fatalf("%+v: %q %v", all[i], source, err)
		}
		list = append(list, fmt.Sprintf("%d %s %s", all[i].Version, all[i].Kind, source))
	}
	return list
}

func (f *fixture) wantVersions(ref string, want ...string) {
	f.T.Helper()
	if got := f.versions(ref); !slices.Equal(got, want) {
		f.T.Errorf("%s has %q, want %q", ref, got, want)
	}
}

// script saves another version of a job a second later. It returns the error.
func (f *fixture) script(ref string, s manage.ScriptSpec, want string) string {
	f.T.Helper()
	f.Clock = f.Clock.Add(time.Second)
	res, err := f.M.SaveScript(ctx, core.Actor{Name: "bob"}, ref, s)
	wantResults(f.T, []manage.SaveResult{{Name: ref, Change: res.Change, Err: err}}, want)
	return fmt.Sprintln(err)
}

func TestScriptVersions(t *testing.T) {
	f := newFixture(t)
	made := f.Create(scripted("a", "one"))
	if s := made.Def.Script; *s != (core.Script{Kind: core.ScriptShell, Note: "of 3", Hash: core.HashScript("one"), Size: 3, Version: 1,
		Rev: made.Sched.Rev, By: "ann"}) {
		t.Errorf("%+v", s)
	}
	wantResults(t, f.Save(scripted("a", "one")), "unchanged")

	// Another note is not a new version: executors keep their compiled script.
	f.Clock = f.Clock.Add(time.Second)
	noted := scripted("a", "one")
	noted.Def.Script.Note = "better"
	wantResults(t, f.Save(noted), "updated")
	if s := f.Job("shop/a").Def.Script; s.Note != "better" || s.Version != 1 || s.Rev != made.Sched.Rev || s.By != "ann" {
		t.Errorf("%+v", s)
	}
	f.wantVersions("shop/a", "1 shell one")

	f.script("shop/a", manage.ScriptSpec{Source: "two"}, "updated")
	two := f.Job("shop/a")
	if s := two.Def.Script; s.Version != 2 || s.Rev != two.Sched.Rev || s.Rev <= made.Sched.Rev || s.By != "bob" || s.Note != "" {
		t.Errorf("%+v", s)
	}
	f.script("shop/a", manage.ScriptSpec{Source: "two"}, "unchanged")
	f.script("shop/a", manage.ScriptSpec{Source: "two", Kind: core.ScriptPython}, "updated")
	f.script("shop/a", manage.ScriptSpec{Version: 1, Note: "again"}, "updated")
	f.wantVersions("shop/a", "4 shell one", "3 python two", "2 shell two", "1 shell one")
	f.script("shop/a", manage.ScriptSpec{Version: 4}, "updated") // the note is cleared
	bad := f.script("shop/a", manage.ScriptSpec{Version: 9}, "not-found version")
	bad += f.script("shop/a", manage.ScriptSpec{}, "invalid script.source")
	bad += f.script("shop/a", manage.ScriptSpec{Source: "x\x00"}, "invalid script.source")
	bad += f.script("shop/a", manage.ScriptSpec{Source: strings.Repeat("x", core.MaxScript+1)}, "too-large script.source")
	bad += f.script("shop/a", manage.ScriptSpec{Source: "x", IfRev: new(int64)}, "conflict ")
	f.wantVersions("shop/a", "4 shell one", "3 python two", "2 shell two", "1 shell one")

	// With a handler, the job has only its old versions. Another script becomes the next version.
	f.Clock = f.Clock.Add(time.Second)
	wantResults(t, f.Save(spec("a", every(time.Hour))), "updated")
	f.wantVersions("shop/a", "4 shell one", "3 python two", "2 shell two", "1 shell one")
	golden.New(t).Equal(t, "rejected", bad+f.script("shop/a", manage.ScriptSpec{Source: "x"}, "refused "))
	f.Clock = f.Clock.Add(time.Second)
	wantResults(t, f.Save(scripted("a", "five")), "updated")
	f.wantVersions("shop/a", "5 shell five", "4 shell one", "3 python two", "2 shell two", "1 shell one")

	// By the hash of a stored source of this job, not of another job.
	byHash := func(hash string) manage.JobSpec {
		s := scripted("a", "")
		s.Def.Script.Hash = hash
		return s
	}
	f.Clock = f.Clock.Add(time.Second)
	wantResults(t, f.Save(byHash(core.HashScript("two"))), "updated")
	f.Create(scripted("b", "other"))
	wantResults(t, f.Save(byHash(core.HashScript("other"))), "invalid script.hash")
	check.Equal(t, f.versions("shop/a")[0], "6 shell two")
	for _, c := range f.changes("shop/a") {
		if text := c.Old + c.New; strings.Contains(text, "five") || strings.Contains(text, "two") {
			t.Errorf("a record has a source: %s", text)
		}
	}

	// All versions are deleted with the job.
	check.Call(t)(f.M.Delete(ctx, ann, "shop/a", nil))
	rec, err := f.E.Scripts(ctx, made.Def.ID)
	if err != nil || rec.V != 0 {
		t.Errorf("%+v %v", rec, err)
	}
	for _, source := range []string{"one", "two", "five"} {
		if _, found, err := f.E.Source(ctx, made.Def.ID, core.HashScript(source)); err != nil || found {
			t.Errorf("%s stays: %v", source, err)
		}
	}
	f.wantVersions("shop/b", "1 shell other")
}

func (f *fixture) changes(ref string) []core.Change {
	f.T.Helper()
	j := f.Job(ref)
	list, err := f.E.Changes(ctx, "shop", j.Def.ID, math.MaxInt64, 100)
	check.OK(f.T, err)
	return list
}

func TestScriptRefused(t *testing.T) {
	f := newFixture(t)
	f.Must(f.M.SaveApp(ctx, ann, manage.AppSpec{Name: "called", Executors: []string{"call:http://10.0.0.1"}}))
	with := func(change func(s *manage.JobSpec)) manage.JobSpec {
		s := scripted("a", "x")
		change(&s)
		return s
	}
	texts := golden.New(t)
	for name, c := range map[string]struct {
		spec manage.JobSpec
		want string
	}{
		"app of a call":     {with(func(s *manage.JobSpec) { s.Def.App = "called" }), "invalid script"},
		"no source":         {with(func(s *manage.JobSpec) { s.Source = "" }), "invalid script.source"},
		"long source":       {with(func(s *manage.JobSpec) { s.Source = strings.Repeat("x", core.MaxScript+1) }), "too-large script.source"},
		"hash of no source": {with(func(s *manage.JobSpec) { s.Source, s.Def.Script.Hash = "", core.HashScript("y") }), "invalid script.hash"},
	} {
		got := f.Save(c.spec)
		wantResults(t, got, c.want)
		texts.Equal(t, name, messages(got))
	}
	exact := scripted("byte-for-byte", "#!/bin/sh\r\necho ü\r\n")
	wantResults(t, f.Save(exact), manage.Created)
	f.wantVersions("shop/byte-for-byte", "1 shell "+exact.Source)
}

// TestOldVersionsGo: the last 30 versions and the versions of open runs stay. Others are deleted
// with their sources. Versions of the last hour stay, up to a limit.
func TestOldVersionsGo(t *testing.T) {
	f := newFixture(t)
	j := f.Create(scripted("a", "v1"))
	at := core.InstantOf(f.Clock)
	id := core.PlannedRun(j.Def.ID, at)
	r := core.Run{ID: id, App: "shop", State: core.Running, Cause: core.CauseSchedule, Rev: j.Sched.Rev, At: at, Slot: at, Attempt: 1,
		First: id,
		Owner: "n", SentAt: f.Clock, Address: "http://10.0.0.1:9999"}
	check.OK(t, f.E.CreateRuns(ctx, []core.Run{r})[0])
	next := func(from, to int, gap time.Duration) {
		t.Helper()
		for v := from; v <= to; v++ {
			f.Clock = f.Clock.Add(gap)
			f.script("shop/a", manage.ScriptSpec{Source: fmt.Sprint("v", v)}, "updated")
		}
	}
	numbers := func() (list []int) {
		for _, v := range f.versions("shop/a") {
			var n int
			check.Call(t)(fmt.Sscan(v, &n))
			list = append(list, n)
		}
		slices.Reverse(list)
		return list
	}
	kept := func(source string, want bool) {
		t.Helper()
		if _, found, err := f.E.Source(ctx, j.Def.ID, core.HashScript(source)); err != nil || found != want {
			t.Errorf("%s: %v %v", source, found, err)
		}
	}
	next(2, 31, 2*time.Hour)
	if got := numbers(); len(got) != 31 || got[0] != 1 {
		t.Errorf("the version of an open run is gone: %v", got)
	}
	check.OK(t, f.E.ChangeRuns(ctx, []core.RunPut{core.End(id, core.Run{State: core.Succeeded, EndedAt: f.Clock})})[0])
	next(32, 33, 2*time.Hour)
	if got := numbers(); len(got) != core.KeepVersions || got[0] != 4 {
		t.Errorf("kept are %v", got)
	}
	kept("v2", false)
	kept("v4", true)
	next(34, 36, time.Second)
	if got := numbers(); len(got) != core.KeepVersions || got[0] != 7 {
		t.Errorf("kept are %v", got)
	}
	next(37, 100, time.Second) // the last 30, and all of the hour
	if got := numbers(); got[0] != 32 {
		t.Errorf("kept are %v", got)
	}
	next(101, 131, time.Second)
	golden.New(t).Equal(t, "full", f.script("shop/a", manage.ScriptSpec{Source: "more"}, "refused "))
	f.Clock = f.Clock.Add(2 * time.Hour)
	f.script("shop/a", manage.ScriptSpec{Source: "more"}, "updated")
	if got := numbers(); len(got) != core.KeepVersions || got[0] != 103 {
		t.Errorf("kept are %v", got)
	}
	f.script("shop/a", manage.ScriptSpec{Source: "and more"}, "updated")
	kept("v50", false)
	rec, _ := f.E.Scripts(ctx, j.Def.ID)
	if len(rec.Stored) > core.KeepVersions+3 {
		t.Errorf("%d sources are noted", len(rec.Stored))
	}
}

// TestScriptKilled: a save is killed before or after any of its writes. No job names a missing
// source, and the next save repairs all versions.
func TestScriptKilled(t *testing.T) {
	for _, first := range []bool{true, false} {
		for _, after := range []bool{false, true} {
			for at := 1; ; at++ {
				f := newFixture(t)
				if !first {
					f.Create(scripted("a", "one"))
					f.Clock = f.Clock.Add(3 * time.Hour)
					f.script("shop/a", manage.ScriptSpec{Source: "two"}, "updated")
					f.Clock = f.Clock.Add(3 * time.Hour)
				}
				dying := &faults{At: at, After: after, Kill: true}
				f.Fresh(dying).Save(ctx, ann, []manage.JobSpec{scripted("a", "three")})
				died := dying.Dead
				f.M = f.Fresh(&faults{})
				where := fmt.Sprintf("first %v, killed at write %d, %s, after it %v", first, at, dying.Last, after)
				if j, err := f.M.Job(ctx, "shop/a"); err == nil {
					if _, err := f.M.ScriptSource(ctx, &j, j.Def.Script); err != nil {
						t.Fatalf("%s: %v", where, err)
					}
				}
				f.Clock = f.Clock.Add(3 * time.Hour)
				if r := f.Save(scripted("a", "three"))[0]; r.Err != nil {
					t.Fatalf("%s: %v", where, r.Err)
				}
				f.script("shop/a", manage.ScriptSpec{Source: "four"}, "updated")
				want := []string{"4 shell four", "3 shell three", "2 shell two", "1 shell one"}
				if first {
					want = []string{"2 shell four", "1 shell three"}
				}
				if got := f.versions("shop/a"); !slices.Equal(got, want) {
					t.Fatalf("%s: %q, want %q", where, got, want)
				}
				if !died {
					break
				}
			}
		}
	}
}

// TestScriptsAtOnce: two concurrent saves create a version each. Neither source is deleted,
// though the other save sees it without a name.
func TestScriptsAtOnce(t *testing.T) {
	for _, write := range []string{"put source", "update job"} {
		for _, dies := range []bool{false, true} { // the other save, before it changes the job
			f := newFixture(t)
			f.Create(scripted("a", "one"))
			want := []string{"3 shell ours", "2 shell theirs", "1 shell one"}
			other := func() { f.script("shop/a", manage.ScriptSpec{Source: "theirs"}, "updated") }
			if dies {
				want = []string{"2 shell ours", "1 shell one"}
				other = func() {
					dying := &faults{At: 4, Kill: true}
					f.Fresh(dying).Save(ctx, ann, []manage.JobSpec{scripted("a", "theirs")})
					check.Equal(t, dying.Last, "update job", "it died at")
				}
			}
			f.Clock = f.Clock.Add(2 * time.Hour)
			slow := f.Fresh(&faults{Before: before(write, other)})
			wantResults(t, slow.Save(ctx, ann, []manage.JobSpec{scripted("a", "ours")}), "updated")
			f.wantVersions("shop/a", want...)
		}
	}
}

// TestScriptsOfAStaleJob: a save of a job that is two versions old damages no version.
func TestScriptsOfAStaleJob(t *testing.T) {
	f := newFixture(t)
	f.Create(scripted("a", "one"))
	others := sync.OnceFunc(func() {
		f.script("shop/a", manage.ScriptSpec{Source: "two"}, "updated")
		f.script("shop/a", manage.ScriptSpec{Source: "three"}, "updated")
	})
	s := hook.Over(f.E, func(_ context.Context, c *hook.Call, next func() []error) []error {
		if len(c.Get) > 0 && strings.HasPrefix(c.Get[0].Kind, "script#") {
			others()
		}
		return next()
	})
	f.Clock = f.Clock.Add(2 * time.Hour)
	wantResults(t, f.Fresh(&faults{Store: s}).Save(ctx, ann, []manage.JobSpec{scripted("a", "ours")}), "updated")
	f.wantVersions("shop/a", "4 shell ours", "3 shell three", "2 shell two", "1 shell one")
}

// TestAbandonedSourceGoes: the source of a failed save is deleted by the first save at least an
// hour later.
func TestAbandonedSourceGoes(t *testing.T) {
	f := newFixture(t)
	j := f.Create(scripted("a", "one"))
	dying := &faults{At: 3, Kill: true} // the update
	if r := f.Fresh(dying).Save(ctx, ann, []manage.JobSpec{scripted("a", "lost")})[0]; r.Err == nil || dying.Last == "put source" {
		t.Fatalf("%+v %s", r, dying.Last)
	}
	f.M = f.Fresh(&faults{})
	for _, c := range []struct {
		wait time.Duration
		want bool
	}{{time.Minute, true}, {2 * time.Hour, false}} {
		f.Clock = f.Clock.Add(c.wait)
		f.script("shop/a", manage.ScriptSpec{Source: fmt.Sprint("after ", c.wait)}, "updated")
		if _, found, err := f.E.Source(ctx, j.Def.ID, core.HashScript("lost")); err != nil || found != c.want {
			t.Errorf("after %s it exists: %v, %v", c.wait, found, err)
		}
	}
}

// TestScriptStoreFull: if the store has no room for a source, the job is not changed.
func TestScriptStoreFull(t *testing.T) {
	f := newFixture(t)
	f.Create(scripted("a", "one"))
	full := 3
	m := f.Fresh(&faults{Before: func(write string) error {
		if write == "put source" && full > 0 {
			full--
			return core.ErrThrottled
		}
		return nil
	}})
	wantResults(t, m.Save(ctx, ann, []manage.JobSpec{scripted("a", "two")}), "updated")
	check.Equal(t, full, 0, "it was not tried again")
	f.wantVersions("shop/a", "2 shell two", "1 shell one")
}
