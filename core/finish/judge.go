package finish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// A subject is a run that the watchdog checks.
type subject struct {
	run     core.RunID
	outcome core.Outcome    // of the journal entry that names the run; 0 in a check
	answer  string          // to a send that is unconfirmed, from the same entry
	key     core.JournalKey // of that journal
	idle    bool            // an earlier check found its executor idle
}

func subjectsOf(list []core.Journal) (subjects []subject) {
	for i := range list {
		for _, e := range list[i].Entries {
			if e.Outcome.Watched() {
				subjects = append(subjects, subject{run: e.Run, outcome: e.Outcome, answer: e.Answer, key: list[i].Key})
			}
		}
	}
	return subjects
}

// look is the result of checking the runs of a journal.
type look int

const (
	decided   look = iota // no run is open or has pending follow-ups
	undecided             // a run was left open, or needs an action
	missed                // a run could not be read
)

// findings collects the actions that checked runs need.
type findings struct {
	minute int64 // when they were found, in minutes since 1970
	ends   []ending
	owing  []owing
	frees  []owing             // closed runs that may still have a concurrency slot
	shards map[core.RunID]bool // broadcasts that have a shard in owing
	talks  map[place]*talk
}

// An ending closes a run without asking an executor.
type ending struct {
	result Result
	key    core.JournalKey
}

// owing is a closed run whose follow-ups may be pending.
type owing struct {
	run core.Run
	key core.JournalKey
}

// place is an address of an app.
type place struct{ app, address string }

// A talk lists the questions to one address.
type talk struct {
	app  core.App
	at   place
	beat bool // first check whether the address answers, because an ask needs it
	asks []ask
}

// An ask is a run that the executor is asked about.
type ask struct {
	run      core.RunID
	key      core.JournalKey
	sent     time.Time
	after    time.Duration // the run is lost if its executor is gone this long after the send
	age      time.Duration // since sent
	arrived  time.Time     // no send of it began after this time
	timedOut bool
	idle     bool
	beat     bool   // the run is lost if the address does not answer
	marked   bool   // its timeout or kill is recorded
	replaced bool   // killed because a newer run replaces it
	answer   string // to its send, which is unconfirmed; empty if none is kept
}

// atOnce is the number of runs that are decided together.
const atOnce = 5000

// look decides about runs by claim protocol section 6, from stored data. It uses the entry of the
// journal that named the run, or else of the journal that the run names. read holds runs that
// were just read. It adds actions to found and returns a result for each journal.
func (w *Watchdog) look(ctx context.Context, subjects []subject, read map[core.RunID]*core.Run, found *findings) (map[core.JournalKey]look,
	error) {
	looks := map[core.JournalKey]look{}
	for some := range slices.Chunk(subjects, atOnce) {
		runs, err := w.runs(ctx, some, read)
		if err != nil {
			return nil, fmt.Errorf("read runs: %w", err)
		}
		e, err := w.environment(ctx, some, runs)
		if err != nil {
			return nil, err
		}
		for i := range some {
			s := &some[i]
			got, stored := runs[s.run]
			r := got.Is
			if !stored {
				r = &core.Run{}
			}
			if got.Err != nil || e.unread(r) {
				looks[s.key] = missed
			} else if is := e.judge(s, r, found); is != forget && is != gather && is != free {
				looks[s.key] = max(looks[s.key], undecided)
			}
		}
	}
	return looks, nil
}

// runs returns the runs of subjects, from read or else from the store.
func (w *Watchdog) runs(ctx context.Context, subjects []subject, read map[core.RunID]*core.Run) (
	runs map[core.RunID]store.Got[*core.Run], err error,
) {
	runs = make(map[core.RunID]store.Got[*core.Run], len(subjects))
	var ids []core.RunID
	for i := range subjects {
		if r, is := read[subjects[i].run]; is {
			runs[r.ID] = store.Got[*core.Run]{Is: r}
		} else {
			ids = append(ids, subjects[i].run)
		}
	}
	if len(ids) == 0 {
		return runs, nil
	}
	found, err := w.f.s.Runs.Get(ctx, ids)
	for id, got := range found {
		w.notRead("run", id, got.Err)
	}
	maps.Copy(runs, found)
	return runs, err
}

// environment holds the data that a decision needs, except the runs.
type environment struct {
	o        *WatchOptions
	jobs     map[core.JobID]store.Got[*core.Job]
	apps     map[string]store.Value[core.App]
	live     map[string][]core.Executor
	journals map[core.JournalKey]core.Journal // that runs name, except the journals that named them
	global   core.Global
	oldest   ring.Oldest
	now      time.Time
}

func (w *Watchdog) environment(ctx context.Context, subjects []subject, runs map[core.RunID]store.Got[*core.Run]) (
	*environment, error,
) {
	e := &environment{o: &w.o, now: w.f.o.Now(), live: map[string][]core.Executor{}}
	var jobs []core.JobID
	var apps []string
	var named []core.JournalKey
	for i := range subjects {
		got, ok := runs[subjects[i].run]
		r := got.Is
		if !ok || got.Err != nil || !r.State.Open() {
			continue
		}
		jobs, apps = append(jobs, r.ID.Job()), append(apps, r.App)
		if !r.Journal.IsZero() && r.Journal != subjects[i].key {
			named = append(named, r.Journal)
		}
	}
	if len(jobs) == 0 {
		return e, nil
	}
	var err error
	if len(named) > 0 {
		if e.journals, err = w.f.s.Journals(ctx, distinct(named)); err != nil {
			return nil, fmt.Errorf("read journals: %w", err)
		}
	}
	if e.jobs, err = w.f.s.Jobs.Get(ctx, store.Whole, distinct(jobs)); err != nil {
		return nil, fmt.Errorf("read jobs: %w", err)
	}
	for id, got := range e.jobs {
		w.notRead("job", id, got.Err)
	}
	apps = distinct(apps)
	if e.apps, err = w.f.s.Apps(ctx, apps...); err != nil {
		return nil, fmt.Errorf("read apps: %w", err)
	}
	for name, got := range e.apps {
		w.notRead("app", name, got.Err)
	}
	executors, err := w.f.s.Executors(ctx, apps)
	if err != nil {
		return nil, fmt.Errorf("read executors: %w", err)
	}
	if e.global, err = w.f.s.Global(ctx); err != nil {
		return nil, fmt.Errorf("read the global item: %w", err)
	}
	for _, name := range apps {
		app := e.apps[name].Is
		e.live[name] = app.Candidates(executors[name], e.global, e.now, w.o.Expiry)
	}
	if e.oldest, err = w.f.s.Queue.Oldest(ctx); err != nil {
		return nil, fmt.Errorf("read age of the oldest message: %w", err)
	}
	return e, nil
}

// notRead logs why a run, a job or an app cannot be used.
func (w *Watchdog) notRead(what string, id any, err error) {
	if err != nil && !errors.Is(err, core.ErrThrottled) {
		w.f.o.Log.Error(what+" not read: checked again later", what, id, "err", err)
	}
}

// unread reports whether r is open and its job or app could not be read. A job that could not be read does not count as deleted.
func (e *environment) unread(r *core.Run) bool {
	return r.State.Open() && (e.jobs[r.ID.Job()].Err != nil || e.apps[r.App].Err != nil)
}

// job returns the job of a run, nil if it is deleted.
func (e *environment) job(r *core.Run) *core.Job { return e.jobs[r.ID.Job()].Is }

// distinct returns each element once, in order.
func distinct[T comparable](list []T) []T {
	seen := make(map[T]bool, len(list))
	return slices.DeleteFunc(list, func(x T) bool {
		again := seen[x]
		seen[x] = true
		return again
	})
}

// fate is the action that a checked run needs.
type fate uint8

const (
	forget fate = iota
	mend        // create its pending follow-ups
	later       // check again later
	skip        // close as skipped
	free        // free its concurrency slots
	lose        // apply the rules for lost and timed out
	gather      // close its broadcast if all shards ended, or forget the failures in a row
	again       // a broadcast: like gather, and send shards without a run again
)

// fateOf is the table of claim protocol section 6. Its parameters are the run (zero if none is
// stored), the outcome of the journal, and whether a dispatcher may still take the run.
func fateOf(r *core.Run, says core.Outcome, awaited bool) fate {
	switch {
	case r.Owing():
		return mend
	case r.ShardEnded(), r.EndsRow():
		return gather
	case r.FreesSlots():
		return free
	case !r.State.Open():
		return forget
	case r.IsBroadcast():
		return again
	case says == core.Accepted, says == core.Unconfirmed:
		return lose
	case awaited:
		return later
	case says == core.Left && r.Owner == "" && !r.MaybeSent:
		return skip
	}
	return lose
}

// judge adds to found the action that a run needs.
func (e *environment) judge(s *subject, r *core.Run, found *findings) fate {
	says := s.outcome
	if r.State.Open() && r.Journal != s.key {
		j := e.journals[r.Journal]
		if entry, ok := j.Find(r.ID); ok && (entry.Outcome == core.Accepted || entry.Outcome == core.Unconfirmed || says == 0) {
			says, s.answer = entry.Outcome, entry.Answer
		}
	}
	is := fateOf(r, says, r.State.Open() && e.awaited(s, r, says))
	var end *Result
	switch is {
	case gather:
		if found.shards == nil {
			found.shards = map[core.RunID]bool{}
		}
		if r.Shard.Of == 0 || !found.shards[r.Shard.Of] { // one shard is enough
			found.shards[r.Shard.Of] = true
			found.owing = append(found.owing, owing{*r, s.key})
		}
	case mend, again:
		found.owing = append(found.owing, owing{*r, s.key})
	case free:
		found.frees = append(found.frees, owing{*r, s.key})
	case skip:
		end = &Result{Run: r.ID, State: core.Skipped, Reason: e.whyLeft(r), Unowned: true}
	case lose:
		end = e.lost(s, r, found)
	}
	if end != nil {
		found.ends = append(found.ends, ending{*end, s.key})
	}
	return is
}

// awaited reports whether a dispatcher may still take a run that was begun or left.
func (e *environment) awaited(s *subject, r *core.Run, says core.Outcome) bool {
	if r.Owner != "" && !r.Expired(e.now) {
		return true
	}
	if says != core.Left {
		// An unacked message may still carry it. This is ruled out by a second check with no
		// message as old as the claim.
		return !s.idle || e.onRing(r, r.SentAt)
	}
	// A message of the new revision may still take it.
	claimed := e.now
	if !s.key.IsZero() {
		claimed = time.Unix(s.key.Minute*60+60, 0)
	}
	job := e.job(r)
	return e.onRing(r, claimed) || job != nil && job.Sched.Next != 0 && job.Sched.Next <= r.At && job.Sched.State == core.Started
}

// onRing reports whether the ring may still hold a message of the run from before a time: an
// equally old message, or a requeued one. An edit may have moved its due time within the jitter.
func (e *environment) onRing(r *core.Run, since time.Time) bool {
	if !e.oldest.Due.IsZero() && !e.oldest.Due.After(since) {
		return true
	}
	var jitter time.Duration
	if job := e.job(r); job != nil {
		jitter = job.Sched.Schedule.Jitter
	}
	return e.oldest.PutBack(min(r.At, r.Slot), max(r.At.Add(jitter), r.Slot))
}

func (e *environment) whyLeft(r *core.Run) core.Reason {
	job := e.job(r)
	app, at := e.apps[r.App].Is, r.At.Time()
	switch {
	case job == nil:
		return core.ReasonDeleted
	case job.Sched.State == core.Paused, app.Pause.Covers(at), app.Past.Covers(at), e.global.Pause.Covers(at), e.global.Past.Covers(at):
		return core.ReasonPaused
	}
	return core.ReasonChanged
}

// lost applies the rules of DESIGN 11 that need no question. An executor that can be asked never
// loses a run by the time since the send alone. Its run is added to the questions of found.
func (e *environment) lost(s *subject, r *core.Run, found *findings) *Result {
	job := e.job(r)
	known := job != nil
	a := ask{run: r.ID, key: s.key, sent: r.SentAt, after: e.o.LostAfter, age: e.now.Sub(r.SentAt), arrived: r.SentAt, idle: s.idle,
		marked: !r.KillAt.IsZero(), replaced: r.Replaced(), answer: s.answer}
	if known && job.Def.LostAfter > 0 {
		a.after = job.Def.LostAfter
	}
	if r.Until.After(a.arrived) {
		a.arrived = r.Until
	}
	timeout := core.MaxTimeout // for a deleted job
	if known {
		timeout = job.Def.Timeout
	}
	a.timedOut = timeout > 0 && a.age >= timeout+e.o.TimeoutGrace
	if !s.idle && a.age < a.after && !a.timedOut && (!a.replaced || !killable(r.Address)) {
		return nil
	}
	if strings.HasPrefix(r.Address, "call:") {
		// After a 202 there is no executor to ask: the run ends at the job's timeout, else at
		// lostAfter.
		if known && job.Def.Timeout > 0 && !a.timedOut {
			return nil
		}
		return &Result{Run: r.ID, State: core.Lost, Reason: core.ReasonNoReport, Message: a.says("no result was reported after the call")}
	}
	app := e.apps[r.App].Is
	app.Name = r.App
	fixed := slices.Contains(app.Executors, r.Address) || slices.Contains(r.Addresses, r.Address)
	i := slices.IndexFunc(e.live[r.App], func(x core.Executor) bool { return x.Address == r.Address })
	switch {
	case strings.HasPrefix(r.Address, "lambda:"):
	case core.IsQueue(r.Address):
		// If an executor polls the queue, a waiting run is only late.
		if a.beat = i < 0 || e.live[r.App][i].Beat.IsZero(); !a.beat && e.live[r.App][i].Silent(e.global, e.now, e.o.Expiry) {
			return a.gone("no executor polls " + r.Address)
		}
	case fixed:
		a.beat = true
	case i < 0:
		return a.gone("the executor is no longer registered")
	}
	found.ask(&app, r.Address, a)
	return nil
}

// killable reports whether an executor can be asked to end a run.
func killable(address string) bool {
	return strings.HasPrefix(address, "http") || address == core.LocalAddress
}

// gone returns the end of a run whose executor is gone, or nil before its time.
func (a *ask) gone(message string) *Result {
	if a.age < a.after {
		return nil
	}
	return &Result{Run: a.run, State: core.Lost, Reason: core.ReasonGone, Message: a.says(message)}
}

// says returns the message, preceded by the answer to an unconfirmed send of the run.
func (a *ask) says(message string) string {
	if a.answer == "" {
		return message
	}
	return core.NotConfirmed + " (" + a.answer + "): " + message
}

// forgotten returns the end of a run that its executor does not have.
func (a *ask) forgotten(message string) *Result {
	if a.timedOut {
		return &Result{Run: a.run, State: core.TimedOut, Reason: core.ReasonTimeout, Message: a.says(message)}
	}
	return &Result{Run: a.run, State: core.Lost, Reason: core.ReasonForgotten, Message: a.says(message)}
}

func (f *findings) ask(app *core.App, address string, a ask) {
	at := place{app.Name, address}
	if f.talks == nil {
		f.talks = map[place]*talk{}
	}
	t := f.talks[at]
	if t == nil {
		t = &talk{app: *app, at: at}
		f.talks[at] = t
	}
	t.beat = t.beat || a.beat
	t.asks = append(t.asks, a)
}
