// Package enginetest tests every engine through its ports: each condition met and not met,
// orders, pages, answers. It requires only the promises in the comments of the ports.
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/storetest"
)

// Visibility is the visibility for engines under this suite.
const Visibility = 2 * time.Second

// Harness opens engines for the cases.
type Harness struct {
	// Open opens an empty engine, which is closed at the end of the test.
	Open func(t *testing.T) *engine.Engine
	// Reopen closes an engine and opens it again on the same data; nil if the engine keeps nothing.
	Reopen func(t *testing.T, e *engine.Engine) *engine.Engine
	// Damage makes the stored text of a job unreadable; nil if nothing is stored as text.
	Damage func(t *testing.T, e *engine.Engine, job core.JobID)
	// DamageApp makes the stored text of an app unreadable; nil if nothing is stored as text.
	DamageApp func(t *testing.T, e *engine.Engine, name string)
	// SetOwes replaces the stored text of Run.Owes; nil if tests cannot change the stored text.
	SetOwes func(t *testing.T, e *engine.Engine, run core.RunID, text string)
	// Patience is how long a stale read is repeated; 0: the read is made once.
	Patience time.Duration
	// Visibility is the visibility of the engine's queue; 0 is Visibility.
	Visibility time.Duration
	// Coarse is how early before NotBefore a message may come. If it is not 0, the queue has no order, counts approximately,
	// and knows only a bound of the age of its oldest message.
	Coarse time.Duration
	// Expires is true if the store removes expired items automatically.
	Expires bool
	// Wait lets time pass for an engine; nil if that is impossible.
	Wait func(e *engine.Engine, d time.Duration)
}

func (h Harness) visibility() time.Duration {
	if h.Visibility != 0 {
		return h.Visibility
	}
	return Visibility
}

// Case is one part of the suite. It opens its own engines, and calls neither t.Run nor
// time.Sleep, so that it can run in a testing/synctest bubble.
type Case struct {
	Name string
	Run  func(t *testing.T, h Harness)
}

// Run runs the cases of the suite with a harness, in parallel, because some wait.
func Run(t *testing.T, h Harness) {
	for _, c := range Cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, h)
		})
	}
}

// Cases lists the cases of the suite.
var Cases = []Case{
	{"JobConditions", jobConditions}, {"JobLists", jobLists}, {"Unreadable", unreadable}, {"Due", due}, {"DueMany", dueMany},
	{"Advance", advance}, {"Families", families}, {"FamiliesAtOnce", familiesAtOnce}, {"Edges", edges},
	{"MostChildren", mostChildren}, {"Places", places},
	{"Entries", entries}, {"Skips", skips}, {"Changes", changes}, {"AppPauses", appPauses}, {"AppDeleted", appDeleted},
	{"GlobalPast", globalPast}, {"Apps", apps.test}, {"Channels", channels.test}, {"People", accounts.test},
	{"Executors", executors.test}, {"Global", globals.test},
	{"Healths", healths.test}, {"Uses", allUses}, {"Permits", permits.test}, {"Notices", notices.test}, {"Scripts", scripts.test},
	{"Leases", leases.test}, {"Cursor", cursors.test},
	{"Lanes", lanes}, {"Counted", counted}, {"Sources", sources}, {"SweepScripts", sweepScripts},
	{"Letters", letters},
	{"NoticeLooks", noticeLooks},
	{"Renewals", renewals}, {"Counters", counters}, {"Keys", keys},
	{"Create", create}, {"Broadcasts", broadcasts}, {"Claims", claims}, {"TakeOver", takeOver}, {"RunChanges", runChanges},
	{"CloseRuns", closeUnread}, {"CloseRunsRead", closeRead},
	{"ClearOwedAndLate", clearOwedAndLate}, {"PostRuns", postRuns}, {"KeptLogs", keptLogs},
	{"PostRunLane", postRunLane}, {"Triggered", triggered},
	{"ChangeTriggered", changed},
	{"RunsByID", runsByID}, {"RecentRuns", recentRuns}, {"RecentRunsOfStates", recentRunsOfStates}, {"LastRuns", lastRuns},
	{"OpenRuns", openRuns}, {"Waiting", waiting}, {"Journals", journals}, {"Watch", watch}, {"WatchPages", watchPages},
	{"Queue", queue}, {"QueueOrder", queueOrder}, {"QueueVisibility", queueVisibility}, {"QueueWakes", queueWakes},
	{"QueueAcrossReceivers", queueAcross},
	{"OldestMessage", oldestMessage}, {"Sweep", sweep}, {"SweepNeeded", sweepNeeded}, {"SweepJournals", sweepJournals},
	{"SweepExecutors", sweepExecutors}, {"Keeping", keeping}, {"KeyOfRemoved", keyOfRemoved}, {"Copies", copies},
	{"Alive", alives.test}, {"NoAliasing", noAliasing},
	{"EndedContext", endedContext}, {"Empty", empty},
	{"Pulls", pulls}, {"Reopen", reopen}, {"Began", began}, {"Clean", clean}, {"CleanCounted", cleanCounted},
	{"Lists", lists},
	{"UnreadableRun", unreadableRun}, {"NewerRun", newerRun}, {"RefusedOfMany", refusedOfMany}, {"LongTexts", longTexts},
	{"WaitingMessages", waitingMessages},
	{"RecordConditions", ofRecords(storetest.Conditions)}, {"RecordGroups", ofRecords(storetest.Groups)},
	{"RecordLists", ofRecords(storetest.Lists)}, {"RecordRaces", ofRecords(storetest.Races)},
	{"RecordTables", ofRecords(storetest.Tables)}, {"RecordRefusedOfMany", ofRecords(storetest.RefusedOfMany)},
}

func ofRecords(test func(*testing.T, store.Records)) func(*testing.T, Harness) {
	return func(t *testing.T, h Harness) { test(t, h.Open(t).Records) }
}

// base is a time that needs no rounding, in the future of every run of the suite's jobs.
var base = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func at(seconds int) core.Instant { return core.InstantOf(base) + core.Instant(seconds) }

// aCall is a call in which every field is set, with secrets, which are stored.
var aCall = &core.Call{Headers: map[string]string{"X-Team": "a", "X-Key": "k"}, Hidden: []string{"X-Key"}, Expect: []int{200, 202},
	MaxAnswer: 4096,
	Auth:      core.Auth{OAuth: core.OAuth{TokenURL: "http://login/token", ClientID: "id", ClientSecret: "s", Scope: "a b"}}}

// aCommand is a command in which every field is set.
var aCommand = &core.Command{Line: "pg_dump shop\n", Dir: "/var/backups", Env: map[string]string{"A": "a", "B": "b"}, Hidden: []string{"B"},
	User: "postgres", MaxOutput: 4096}

func job(id core.JobID) core.Job {
	return core.Job{
		Def: core.Def{ID: id, App: "orders", Name: fmt.Sprintf("job-%d", id), Title: "a job", Author: "lina",
			Labels:  map[string]string{"team": "a"},
			Handler: "demo", Params: "{}", Template: true, Route: core.RouteRound, Block: core.BlockSerial, Timeout: time.Minute,
			Retry:     core.Retry{Max: 2, Delay: time.Second, Backoff: core.BackoffConstant, On: []core.State{core.Failed}},
			LostAfter: 10 * time.Minute, WaitForExecutor: time.Hour, Keep: core.Keep{Days: 7}, Declared: core.DeclaredCode,
			Overlap: core.Overlap{Limit: 3, Group: "db", Full: core.FullSkip, Max: 5, Key: "/tenant"}, Call: aCall, Command: aCommand,
			Created: base.Add(123 * time.Millisecond)},
		Sched: core.Sched{ID: id, App: "orders", State: core.Started, Rev: 100, RevAt: base,
			Schedule: core.Schedule{Any: []core.When{{Kind: core.KindCron, Expr: "0 * * * * ?"}}, Timezone: "Europe/Berlin", Jitter: time.Second},
			Misfire:  core.MisfireLatest, Grace: time.Minute, Deadline: time.Hour, Next: at(60), PlanAt: at(55), Seq: 3},
	}
}

func change(j core.Job, id int64) core.Change {
	return core.Change{ID: id, At: base.Add(time.Duration(id) * time.Millisecond), By: "ann", Verb: "created", App: j.Def.App, Job: j.Def.ID,
		Name: j.Def.Name,
		Why:  "because", Act: "act-1", From: "2001:db8::7", Via: core.ByToken("ci"), Old: "", New: `{"a":1}`}
}

// createApps makes apps that are not there yet.
func createApps(t *testing.T, e *engine.Engine, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := e.Manage.PutApp(t.Context(), 0, core.App{Name: name, Rev: 1}, core.Change{ID: 1, At: base, App: name}); !errors.Is(err,
			core.ErrRefused) {
			ok(t, err)
		}
	}
}

func createJobs(t *testing.T, e *engine.Engine, list ...core.Job) {
	t.Helper()
	for i := range list {
		createApps(t, e, list[i].Def.App)
	}
	changes := make([]core.Change, len(list))
	for i, j := range list {
		changes[i] = change(j, j.Sched.Rev)
	}
	allNil(t, e.Manage.CreateJobs(t.Context(), list, changes))
}

// run is a claim as a dispatch makes it.
func run(id core.RunID) core.Run {
	r := core.Run{ID: id, App: "orders", State: core.Running, Cause: core.CauseSchedule, Rev: 100, At: at(60), Slot: at(61), Seq: 4,
		Owner: "nonce-1", Until: base.Add(31 * time.Second), Address: "http://10.0.0.1:9999/",
		Journal: core.JournalKey{Minute: base.Unix() / 60, Suffix: 5, Nonce: "nonce-1"},
		SentAt:  base.Add(61 * time.Second), Attempt: 1, First: id, Retries: 2}
	return r
}

func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Prefix{})); d != "" {
		t.Fatalf("%s: (-want +got)\n%s", what, d)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}

func refused(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, core.ErrRefused) {
		t.Fatalf("got %v, want refused", err)
	}
}

func allNil(t *testing.T, errs []error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("item %d: %v", i, err)
		}
	}
}

// answers compares errors with "ok" or "refused".
func answers(t *testing.T, errs []error, want ...string) {
	t.Helper()
	if len(errs) != len(want) {
		t.Fatalf("%d answers, want %d", len(errs), len(want))
	}
	for i, err := range errs {
		switch {
		case err == nil && want[i] == "ok", errors.Is(err, core.ErrRefused) && want[i] == "refused":
		default:
			t.Fatalf("item %d: got %v, want %s", i, err, want[i])
		}
	}
}

// readJob is a stored job; false if there is none.
func readJob(t *testing.T, e *engine.Engine, id core.JobID) (core.Job, bool) {
	t.Helper()
	ids := []core.JobID{id}
	for range 100 {
		found, unread, err := e.Dispatch.Jobs(t.Context(), ids)
		ok(t, err)
		if len(unread) == 0 {
			if j, is := found[id]; is {
				return *j, true
			}
			return core.Job{}, false
		}
	}
	t.Fatal("a job stays unread")
	return core.Job{}, false
}

func mustJob(t *testing.T, e *engine.Engine, id core.JobID) core.Job {
	t.Helper()
	j, is := readJob(t, e, id)
	if !is {
		t.Fatalf("job %d is not there", id)
	}
	return j
}

// readRun is a stored run; false if there is none.
func readRun(t *testing.T, e *engine.Engine, id core.RunID) (core.Run, bool) {
	t.Helper()
	for range 100 {
		found, unread, err := e.Dispatch.Runs(t.Context(), []core.RunID{id})
		ok(t, err)
		if len(unread) == 0 {
			r, is := found[id]
			return r, is
		}
	}
	t.Fatal("a run stays unread")
	return core.Run{}, false
}

func mustRun(t *testing.T, e *engine.Engine, id core.RunID) core.Run {
	t.Helper()
	r, is := readRun(t, e, id)
	if !is {
		t.Fatalf("run %d is not there", id)
	}
	return r
}

// sameRun checks a stored run.
func sameRun(t *testing.T, e *engine.Engine, want core.Run) {
	t.Helper()
	same(t, "stored run", mustRun(t, e, want.ID), want)
}

// readDue reads all pages of the due index.
func readDue(t *testing.T, e *engine.Engine, partition int, upTo core.Instant, page int) []core.DueItem {
	t.Helper()
	var list []core.DueItem
	after := core.DueItem{}
	for {
		items, err := e.Tick.Due(t.Context(), partition, upTo, after, page)
		ok(t, err)
		if len(items) == 0 {
			return list
		}
		if len(items) > page {
			t.Fatalf("%d items, at most %d were asked for", len(items), page)
		}
		for _, d := range items {
			if !after.Less(d) {
				t.Fatalf("%+v comes after %+v", d, after)
			}
			after = d
		}
		list = append(list, items...)
	}
}

// wantDue repeats readDue until it is as wanted or the patience is at its end.
func wantDue(t *testing.T, h Harness, e *engine.Engine, partition int, upTo core.Instant, page int, want ...core.DueItem) {
	t.Helper()
	eventually(t, h, func() string {
		return cmp.Diff(want, readDue(t, e, partition, upTo, page), cmpopts.EquateEmpty())
	})
}

// eventually repeats check until it returns "", at most as long as the patience of h.
func eventually(t *testing.T, h Harness, check func() string) {
	t.Helper()
	deadline := time.Now().Add(h.Patience)
	for {
		d := check()
		if d == "" {
			return
		}
		wait := time.Until(deadline)
		if wait <= 0 {
			t.Fatalf("(-want +got)\n%s", d)
		}
		<-time.After(min(wait, 50*time.Millisecond))
	}
}

func message(slot core.Instant, runs ...core.RunID) ring.Message {
	m := ring.Message{Kind: ring.KindFires, Slot: slot}
	for i, r := range runs {
		at, is := r.Planned()
		if !is {
			at = slot
		}
		m.Fires = append(m.Fires, core.Fire{Run: r, Rev: 100, At: at, Slot: slot, Cause: core.CauseSchedule, Seq: int64(i)})
	}
	return m
}

// limited is a context that ends with the test, or a while after Visibility.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// receive waits for one receipt of fires.
func receive(t *testing.T, e *engine.Engine, limit int) []store.Delivery {
	t.Helper()
	got, err := e.Queue.Receive(limited(t), ring.KindFires, limit)
	ok(t, err)
	if len(got) == 0 || len(got) > limit {
		t.Fatalf("%d messages, 1 to %d were asked for", len(got), limit)
	}
	return got
}

// nothing checks that no message is visible for a while.
func nothing(t *testing.T, e *engine.Engine, kind ring.Kind, for_ time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), for_)
	defer cancel()
	got, err := e.Queue.Receive(ctx, kind, 10)
	if err == nil || len(got) > 0 {
		t.Fatalf("got %v, want nothing", got)
	}
}
