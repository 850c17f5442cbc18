// Package storetest tests every implementation of the interfaces of package store: each condition met and not met, orders, pages,
// and results. It requires only the promises in their comments.
package storetest

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
	"github.com/tickring/tickring/store"
)

// Visibility is the visibility for stores under this suite.
const Visibility = 2 * time.Second

// Harness opens stores for the cases.
type Harness struct {
	// Open opens an empty store, which is closed at the end of the test.
	Open func(t *testing.T) *store.Store
	// Reopen closes a store and opens it again on the same data; nil if the store keeps nothing.
	Reopen func(t *testing.T, s *store.Store) *store.Store
	// Damage makes the stored text of a job unreadable; nil if tests cannot change the stored text.
	Damage func(t *testing.T, s *store.Store, job core.JobID)
	// SetOwes replaces the stored text of Run.Owes; nil if tests cannot change the stored text.
	SetOwes func(t *testing.T, s *store.Store, run core.RunID, text string)
	// TakeLetters stores the dead-letter messages that are on a queue; nil if the store has no such queue.
	TakeLetters func(ctx context.Context, s *store.Store) error
	// Patience is how long a stale read is repeated; 0: the read is made once.
	Patience time.Duration
	// Visibility is the visibility of the store's queue; 0 is Visibility.
	Visibility time.Duration
	// Coarse is how early before NotBefore a message may come. If it is not 0, the queue has no order, counts approximately,
	// and reports only a bound of the age of its oldest message.
	Coarse time.Duration
	// Expires is true if the store removes expired items automatically.
	Expires bool
	// Wait lets time pass for a store; nil if that is impossible.
	Wait func(s *store.Store, d time.Duration)
}

func (h Harness) visibility() time.Duration {
	if h.Visibility != 0 {
		return h.Visibility
	}
	return Visibility
}

// Case is one part of the suite. It opens its own stores, and calls neither t.Run nor time.Sleep, so that it can run in a
// testing/synctest bubble.
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
	{"RecordConditions", ofRecords(Conditions)}, {"RecordGroups", ofRecords(Groups)}, {"RecordLists", ofRecords(Lists)},
	{"RecordRaces", ofRecords(Races)}, {"RecordTables", ofRecords(Tables)},
	{"Apps", apps.test}, {"Channels", channels.test}, {"People", accounts.test}, {"Executors", executors.test}, {"Global", globals.test},
	{"Healths", healths.test}, {"Uses", uses.test}, {"Permits", permits.test}, {"Notices", notices.test}, {"Scripts", scripts.test},
	{"Leases", leases.test}, {"Cursor", cursors.test},
	{"Alive", alives.test}, {"Cleaned", cleaned}, {"AppPauses", appPauses}, {"AppDeleted", appDeleted}, {"GlobalPast", globalPast},
	{"Sources", sources}, {"Renewals", renewals}, {"Keys", keys}, {"Skips", skips}, {"Changes", changes}, {"Journals", journals},
	{"WatchPages", watchPages}, {"Looks", looks},
	{"JobConditions", jobConditions}, {"Advance", advance}, {"Entries", entries}, {"Families", families},
	{"FamiliesAtOnce", familiesAtOnce}, {"Edges", edges}, {"MostChildren", mostChildren}, {"JobLists", jobLists}, {"Due", due},
	{"Unreadable", unreadable}, {"UnreadableRun", unreadableRun}, {"NewerRun", newerRun},
	{"LongTexts", longTexts}, {"Counters", counters},
	{"NoAliasing", noAliasing}, {"EndedContext", endedContext}, {"Empty", empty}, {"Reopen", reopen},
	{"Create", create}, {"Claims", claims}, {"RunPuts", runPuts}, {"CloseTexts", closeTexts}, {"Broadcasts", broadcasts},
	{"Triggered", triggered}, {"Drops", drops}, {"Spans", spans}, {"OpenRuns", openRuns}, {"RecentRuns", recentRuns},
	{"LastRuns", lastRuns}, {"Began", began},
	{"Queues", queues}, {"QueueOrder", queueOrder}, {"QueueVisibility", queueVisibility}, {"QueueWakes", queueWakes},
	{"QueueAcrossReceivers", queueAcross}, {"OldestMessage", oldestMessage}, {"Letters", letters}, {"Pulls", pulls},
	{"Expiry", expiry}, {"Sweep", swept(sweep)}, {"SweepNeeded", swept(sweepNeeded)}, {"SweepCursor", swept(sweepCursor)},
	{"SweepScripts", swept(sweepScripts)}, {"Keeping", keepsOpen}, {"KeyOfRemoved", keyOfRemoved}, {"KeptLogs", keptLogs},
	{"Lists", lists}, {"CleanCounted", cleanCounted},
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
func createApps(t *testing.T, s *store.Store, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := s.PutApp(t.Context(), 0, core.App{Name: name, Rev: 1}, core.Change{ID: 1, At: base, App: name}); !errors.Is(err,
			core.ErrRefused) {
			ok(t, err)
		}
	}
}

func createJobs(t *testing.T, s *store.Store, list ...core.Job) {
	t.Helper()
	puts := make([]store.JobPut, len(list))
	for i := range list {
		createApps(t, s, list[i].Def.App)
		puts[i] = creates(list[i])
		puts[i].Changes = []core.Change{change(list[i], list[i].Sched.Rev)}
	}
	ok(t, s.Jobs.Put(t.Context(), puts)...)
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

// reads returns a function that compares the result of a call with a value.
func reads[T any](t *testing.T, what string, want T) func(T, error) {
	return func(got T, err error) {
		t.Helper()
		ok(t, err)
		same(t, what, got, want)
	}
}

func ok(t testing.TB, errs ...error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("item %d: got %v, want no error", i, err)
		}
	}
}

func refused(t *testing.T, errs ...error) {
	t.Helper()
	for i, err := range errs {
		if !errors.Is(err, core.ErrRefused) {
			t.Fatalf("item %d: got %v, want refused", i, err)
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

// all reads values by their keys until none is throttled.
func all[K comparable, T any](t *testing.T, read func(...K) (map[K]store.Got[T], error), keys ...K) map[K]store.Got[T] {
	t.Helper()
	list := map[K]store.Got[T]{}
	for try := 0; len(keys) > 0; try++ {
		found, err := read(keys...)
		ok(t, err)
		keys = nil
		for key, got := range found {
			if errors.Is(got.Err, core.ErrThrottled) && try < 100 {
				keys = append(keys, key)
				continue
			}
			list[key] = got
		}
	}
	return list
}

// getJobs reads jobs that can be used.
func getJobs(t *testing.T, s *store.Store, part store.Part, ids ...core.JobID) map[core.JobID]core.Job {
	t.Helper()
	list := map[core.JobID]core.Job{}
	for id, got := range all(t, func(ids ...core.JobID) (map[core.JobID]store.Got[*core.Job], error) {
		return s.Jobs.Get(t.Context(), part, ids)
	}, ids...) {
		ok(t, got.Err)
		list[id] = *got.Is
	}
	return list
}

func getRuns(t *testing.T, s *store.Store, ids ...core.RunID) map[core.RunID]store.Got[*core.Run] {
	t.Helper()
	return all(t, func(ids ...core.RunID) (map[core.RunID]store.Got[*core.Run], error) {
		return s.Runs.Get(t.Context(), ids)
	}, ids...)
}

func mustJob(t *testing.T, s *store.Store, id core.JobID) core.Job {
	t.Helper()
	j, is := getJobs(t, s, store.Whole, id)[id]
	if !is {
		t.Fatalf("job %d does not exist", id)
	}
	return j
}

// readRun returns a stored run; false if it does not exist.
func readRun(t *testing.T, s *store.Store, id core.RunID) (core.Run, bool) {
	t.Helper()
	got, is := getRuns(t, s, id)[id]
	if ok(t, got.Err); !is {
		return core.Run{}, false
	}
	return *got.Is, true
}

func mustRun(t *testing.T, s *store.Store, id core.RunID) core.Run {
	t.Helper()
	r, is := readRun(t, s, id)
	if !is {
		t.Fatalf("run %d does not exist", id)
	}
	return r
}

// sameRun checks a stored run.
func sameRun(t *testing.T, s *store.Store, want core.Run) {
	t.Helper()
	same(t, "stored run", mustRun(t, s, want.ID), want)
}

// readDue reads all pages of the due index.
func readDue(t *testing.T, s *store.Store, partition int, upTo core.Instant, page int) []core.DueItem {
	t.Helper()
	var list []core.DueItem
	after := core.DueItem{}
	for {
		items, err := s.Jobs.Due(t.Context(), partition, upTo, after, page)
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
func wantDue(t *testing.T, h Harness, s *store.Store, partition int, upTo core.Instant, page int, want ...core.DueItem) {
	t.Helper()
	eventually(t, h, func() string {
		return cmp.Diff(want, readDue(t, s, partition, upTo, page), cmpopts.EquateEmpty())
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

// readApp returns the app of a name, if it exists.
func readApp(t *testing.T, s *store.Store, name string) (list []core.App) {
	t.Helper()
	for try := 0; ; try++ {
		found, err := s.Apps(t.Context(), name)
		v, is := found[name]
		if errors.Is(v.Err, core.ErrThrottled) && try < 100 {
			continue
		}
		if ok(t, err, v.Err); is {
			list = append(list, v.Is)
		}
		return list
	}
}
