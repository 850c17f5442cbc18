package dynamo_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
)

// TestCosts counts the cost of each call of the store: testdata/TestCosts.txt is the table.
func TestCosts(t *testing.T) {
	f := newFakes(t, dynamo.Options{})
	s, ctx := f.store, t.Context()
	text := "| Call | Arguments | Write units | Index units | Read units | Requests |\n|---|---|---|---|---|---|\n"
	row := func(call, what string, do func()) {
		t.Helper()
		f.db.Units()
		f.sqs.Units()
		do()
		u, q := f.db.Units(), f.sqs.Units()
		requests := 0
		for _, n := range u.Requests {
			requests += n
		}
		for _, n := range q.Requests {
			requests += n
		}
		text += fmt.Sprintf("| `%s` | %s | %g | %g | %g | %d |\n", call, what, u.Write, u.Index, u.Read, requests)
	}
	jobs := make([]core.Job, 14)
	changes := make([]core.Change, len(jobs))
	ids := make([]core.JobID, len(jobs))
	for i := range jobs {
		jobs[i] = oneJob(core.JobID(i + 1))
		jobs[i].Sched.Schedule.Any[0].Expr = "0 0/5 8-18 ? * MON-FRI"
		jobs[i].Sched.Schedule.Timezone = "America/Argentina/Buenos_Aires"
		ids[i] = jobs[i].Def.ID
		changes[i] = core.Change{ID: 100, At: base, By: "ann", Verb: core.VerbCreated, App: "orders", Job: ids[i],
			New: core.RecordOf(&jobs[i].Sched, &jobs[i].Def).String()}
	}
	ok(t, s.PutApp(ctx, 0, core.App{Name: "orders", Rev: 1}, core.Change{ID: 1, At: base, App: "orders"}))
	row("CreateJobs", "14 jobs with their change records", func() { ok(t, createJobs(ctx, s, jobs, changes)...) })
	row("Jobs", "14 jobs", func() { _, err := getJobs(ctx, s, store.Whole, ids); ok(t, err) })
	row("Jobs", "14 jobs with cached definitions", func() { _, err := getJobs(ctx, s, store.Whole, ids); ok(t, err) })
	row("Scheds", "14 jobs", func() { _, err := getJobs(ctx, s, store.Planning, ids); ok(t, err) })
	row("Due", "14 entries of the index", func() {
		_, err := s.Store.Jobs.Due(ctx, 0, core.Horizon, core.DueItem{}, 1000)
		ok(t, err)
	})
	a := jobs[0].Sched.Stay()
	a.NewNext, a.NewPlanAt, a.NewSeq = a.NewNext+600, a.NewPlanAt+600, 10
	row("Advance", "one job", func() { ok(t, s.Advance(ctx, []core.Advance{a})...) })
	refused := func(errs []error) {
		if t.Helper(); errs[0] == nil {
			t.Error("it was not refused")
		}
	}
	row("Advance", "one job with a conflict", func() { refused(s.Advance(ctx, []core.Advance{a})) })
	var moves []core.Advance
	for i := range jobs[1:] {
		m := jobs[i+1].Sched.Stay()
		m.NewSeq = 10
		moves = append(moves, m)
	}
	row("Advance", "13 jobs at their old times", func() { ok(t, s.Advance(ctx, moves)...) })
	edited := jobs[1]
	edited.Def.Title, edited.Sched.Rev = "new", 101
	c := changes[1]
	c.ID = 101
	row("UpdateJobs", "one job with its definition", func() {
		ok(t, updateJobs(ctx, s, update(100, edited, c))...)
	})
	row("DeleteJob", "one job", func() {
		ok(t, deleteJob(ctx, s, 100, core.Tombstone{Job: 3, App: "orders", Name: "job-3", Rev: 200, RevAt: base}, changes[2]))
	})
	runs := make([]core.Run, 50)
	var ends []core.RunPut
	journal := core.Journal{V: 1}
	for i := range runs {
		runs[i] = oneRun(core.PlannedRun(1, core.InstantOf(base)+core.Instant(i)))
		ends = append(ends, seen(core.End(runs[i].ID, core.Run{State: core.Succeeded, Code: 200, Message: "done", EndedAt: base}), &runs[i]))
		journal.Key = runs[i].Journal
		journal.Entries = append(journal.Entries, core.Entry{Run: runs[i].ID, Address: runs[i].Address, Outcome: core.Accepted})
	}
	row("Create", "50 claims", func() { ok(t, s.CreateRuns(ctx, runs)...) })
	row("Create", "one claim with a conflict", func() { refused(s.CreateRuns(ctx, runs[:1])) })
	chosen := oneRun(core.NumberedRun(1, 13))
	chosen.Tries = core.ChosenFrom(core.RouteRandom, chosen.Address, append(slices.Repeat([]string{"10.0.0.2:9999"}, 99), chosen.Address))
	row("Create", "one claim with 100 addresses to choose from", func() { ok(t, s.CreateRuns(ctx, []core.Run{chosen})...) })
	answered := []core.Try{{Address: chosen.Address, Code: 500, Message: strings.Repeat("m", 400)}}
	row("PutRuns", "one failover after an answer of 400 bytes", func() {
		ok(t, s.ChangeRuns(ctx, []core.RunPut{chosen.Readdress("http://10.0.0.9:9999/", answered)})...)
	})
	if tries := f.Run(chosen.ID).Tries; !reflect.DeepEqual(tries, answered) {
		t.Errorf("tries %+v", tries)
	}
	chosen.Owner = "nonce-x"
	row("PutRuns", "one failover with a conflict", func() {
		refused(s.ChangeRuns(ctx, []core.RunPut{chosen.Readdress("http://10.0.0.8:9999/", answered)}))
	})
	row("PutRuns", "one takeover", func() {
		claim := core.Claim{Owner: "nonce-2", Until: base.Add(time.Minute), Journal: runs[0].Journal}
		ok(t, s.ChangeRuns(ctx, []core.RunPut{runs[0].Take(claim, "", base, nil)})...)
	})
	row("PutJournal", "50 runs", func() { ok(t, s.PutJournal(ctx, journal)) })
	row("Runs", "50 runs", func() {
		list := make([]core.RunID, len(runs))
		for i := range runs {
			list[i] = runs[i].ID
		}
		f.Stored(list...)
	})
	row("PutRuns", "50 results with short messages", func() { ok(t, s.ChangeRuns(ctx, ends)...) })
	unread := oneRun(core.NumberedRun(1, 6))
	ok(t, s.CreateRuns(ctx, []core.Run{unread})...)
	row("PutRuns", "one result of 300 bytes of a run that was not read", func() {
		end := core.End(unread.ID, core.Run{State: core.Succeeded, Code: 200, Message: strings.Repeat("m", 300), EndedAt: base})
		end.If, end.Was.App = core.RunApp, "orders"
		ok(t, s.ChangeRuns(ctx, []core.RunPut{end})...)
	})
	long := oneRun(core.NumberedRun(1, 7))
	ok(t, s.CreateRuns(ctx, []core.Run{long})...)
	row("PutRuns", "one result with a message of 15 KB", func() {
		ok(t, s.ChangeRuns(ctx, []core.RunPut{seen(core.End(long.ID,
			core.Run{State: core.Failed, Reason: core.ReasonHandler, Code: 500, Message: strings.Repeat("m", core.MessageMax),
				EndedAt: base}), &long)})...)
	})
	params := strings.Repeat("p", 2000)
	given, retry := oneRun(core.NumberedRun(1, 9)), oneRun(core.NumberedRun(1, 11))
	given.Params = &params
	ok(t, s.CreateRuns(ctx, []core.Run{given})...)
	row("PutRuns", "one result of a run with its own 2 KB of params", func() {
		ok(t, s.ChangeRuns(ctx, []core.RunPut{seen(core.End(given.ID, core.Run{State: core.Succeeded, Code: 200, EndedAt: base}), &given)})...)
	})
	failed := oneRun(core.NumberedRun(1, 10))
	failed.State, failed.Then, failed.EndedAt, retry.First = core.Failed, retry.ID, base, failed.ID
	ok(t, s.CreateRuns(ctx, []core.Run{failed, retry})...)
	row("PutRuns", "one result of a second attempt", func() {
		ok(t, s.ChangeRuns(ctx, []core.RunPut{seen(core.End(retry.ID, core.Run{State: core.Succeeded, Code: 200, EndedAt: base}), &retry)})...)
	})
	row("JournalsAt", "a minute with one journal",
		func() { _, err := s.JournalsAt(ctx, journal.Key.Minute, core.JournalKey{}, 100); ok(t, err) })
	row("RunsByID", "50 runs", func() {
		_, err := s.Store.Runs.Span(ctx, runs[0].ID, runs[49].ID, 100)
		ok(t, err)
	})
	triggered := core.Run{ID: core.NumberedRun(1, 8), App: "orders", State: core.Planned, Cause: core.CauseManual, At: 1_800_000_000,
		Slot: 1_800_000_000, Attempt: 1}
	row("PutTriggered", "one run with its index entry", func() {
		ok(t, s.Runs.Put(ctx, []store.RunPut{{Create: &triggered, Enter: &core.DueItem{PlanAt: 1_800_000_000, Job: 1, Run: triggered.ID}}})[0])
	})
	row("ChangeTriggered", "one run moved to another time", func() {
		to := triggered
		to.Slot = 1_800_000_100
		put, enter := triggered.Retime(to, base), core.DueItem{PlanAt: 1_800_000_100, Job: 1, Run: triggered.ID}
		ok(t, s.Store.Runs.Put(ctx, []store.RunPut{{Change: &put, Enter: &enter,
			Leave: []core.DueItem{{PlanAt: 1_800_000_000, Job: 1, Run: triggered.ID}},
			Changes: []core.Change{{ID: 1, At: base, By: "ann", Verb: core.VerbChanged, App: "orders", Job: 1, Name: "a", Old: "{}",
				New: "{}"}}}})...)
	})
	row("PutSkips", "one record", func() {
		ok(t, s.PutSkips(ctx, []core.Skip{{Job: 1, First: 1, Last: 9, Count: 9, Reason: core.ReasonMisfire, Rev: 100, Made: base}})...)
	})
	row("PutExecutor", "one heartbeat", func() {
		ok(t, s.PutExecutor(ctx, core.Executor{App: "orders", Address: "http://10.0.0.1:9999/", Beat: base, Since: base}))
	})
	row("Executors", "one app with one executor", func() { _, err := s.Executors(ctx, []string{"orders"}); ok(t, err) })
	row("PutLease", "one lease", func() {
		ok(t, s.PutLease(ctx, core.Lease{}, core.Lease{Name: "partition/0", Owner: "a", Epoch: 1, Until: base}))
	})
	row("Numbers", "any number of run numbers", func() { _, err := s.RunNumbers(ctx, 1, 10); ok(t, err) })
	source := strings.Repeat("x", 10_000)
	row("PutSource", "a script of 10 KB", func() { ok(t, s.PutSource(ctx, 1, source, base)) })
	row("Source", "a script of 10 KB", func() { _, _, err := s.Source(ctx, 1, core.HashScript(source)); ok(t, err) })
	versions := core.Scripts{Job: 1, V: 1, Stored: map[string]int64{}}
	for i := range core.KeepVersions - 1 {
		hash := core.HashScript(fmt.Sprint(i))
		versions.Old = append(versions.Old, core.Script{Kind: core.ScriptShell, Note: "what is new", Hash: hash, Size: 10_000, Version: i + 1,
			Rev: core.Millis(base), By: "ann"})
		versions.Stored[hash] = core.Millis(base)
	}
	row("PutScripts", "29 earlier versions", func() { ok(t, s.PutScripts(ctx, versions)) })
	row("Scripts", "29 earlier versions", func() { _, err := s.Scripts(ctx, 1); ok(t, err) })
	row("DropSource", "a script of 10 KB", func() { ok(t, s.DropSource(ctx, 1, core.HashScript(source), base.Add(time.Hour))) })
	slow := []core.Health{{Of: "http://10.0.0.1:9999/", Slow: true, At: base}, {Of: "job/1", Slow: true, At: base}}
	row("PutHealths", "two slow addresses or jobs", func() { ok(t, s.PutHealths(ctx, slow)...) })
	row("Healths", "two slow addresses or jobs", func() { _, err := s.Healths(ctx); ok(t, err) })
	row("KeepLetter", "one dead-letter message of 1 KB", func() {
		ok(t, s.KeepLetter(ctx, core.Letter{ID: store.LetterID(base, "m"), At: base, Reason: "why", Body: strings.Repeat("x", 900)}))
	})
	kept := oneRun(core.NumberedRun(1, 12))
	ok(t, s.CreateRuns(ctx, []core.Run{kept})...)
	row("PutRuns", "one failure with a log to store", func() {
		end := seen(core.End(kept.ID, core.Run{State: core.Failed, Reason: core.ReasonHandler, Code: 500, EndedAt: base,
			PostRun: core.PostRun{Log: true}}), &kept)
		end.Set |= core.RunPostRun
		ok(t, s.ChangeRuns(ctx, []core.RunPut{end})...)
		end.Apply(&kept)
	})
	row("PutLog", "a log, 10 KB compressed", func() {
		ok(t, s.PutLog(ctx, &kept, core.KeptLog{Run: kept.ID, At: base, Text: make([]byte, 10_000), From: 990_001}))
	})
	row("PutRuns", "one run whose log was stored", func() { ok(t, s.ChangeRuns(ctx, []core.RunPut{kept.ClearPostRun(core.PostRun{})})...) })
	row("KeptLog", "a log, 10 KB compressed", func() { _, _, err := s.KeptLog(ctx, kept.ID); ok(t, err) })
	state := notification.State{Name: notification.JobName(1), V: 1, Told: []notification.Told{{Event: core.EventFailed, Quiet: base}}}
	looks := []ring.CheckRequest{{At: core.InstantOf(base), Job: 1}}
	row("PutLooks", "one check of a job", func() { ok(t, s.PutLooks(ctx, looks)) })
	row("PutNotices", "the notifications of one job", func() { ok(t, notification.PutState(ctx, s.Store, state)) })
	row("Notices", "the notifications of one job", func() { _, err := notification.States(ctx, s.Store, state.Name); ok(t, err) })
	row("DueLooks", "one check of a job", func() { _, err := s.DueLooks(ctx, core.InstantOf(base), 100); ok(t, err) })
	row("DropLooks", "one check of a job", func() { ok(t, s.DropLooks(ctx, looks)) })
	row("OldestMessage", "both queues empty", func() { _, err := s.Oldest(ctx); ok(t, err) })
	row("Enqueue", "20 messages", func() {
		var out []ring.Out
		for i := range 20 {
			out = append(out, ring.Out{NotBefore: time.Now(), Message: ring.Message{Kind: ring.KindFires, Slot: core.InstantOf(time.Now()),
				Fires: []core.Fire{{Run: core.NumberedRun(1, uint32(i)), At: core.InstantOf(time.Now()), Slot: core.InstantOf(time.Now()),
					Cause: core.CauseAPI}}}})
		}
		ok(t, s.Enqueue(ctx, out)...)
	})
	golden.File(t, "testdata/TestCosts.txt", []byte(text))
}
