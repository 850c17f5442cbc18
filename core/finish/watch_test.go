package finish_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/story"
)

const address = "http://10.0.0.1:9999/"

// probe returns the test's answers for each address.
type probe struct {
	beat, idleErr error
	idle          bool
	beats, idles  int
	kills         int
	killErr       error
	limit         time.Duration // of a function
	limitErr      error
}

func (p *probe) Beat(context.Context, *core.App, string) error { p.beats++; return p.beat }

func (p *probe) Kill(context.Context, *core.App, string, core.JobID) error {
	p.kills++
	return p.killErr
}

func (p *probe) Limit(context.Context, string) (time.Duration, error) { return p.limit, p.limitErr }

func (p *probe) Idle(context.Context, *core.App, string, core.JobID) (bool, error) {
	p.idles++
	return p.idle, p.idleErr
}

type watchRig struct {
	*rig
	w *finish.Watchdog
	p *probe
}

func newWatchRig(t *testing.T) *watchRig {
	r := &watchRig{rig: newRig(t), p: &probe{}}
	r.w = finish.NewWatchdog(r.f, r.p, finish.WatchOptions{})
	return r
}

// registered stores an executor whose last heartbeat is age old.
func (r *watchRig) registered(age time.Duration) {
	r.t.Helper()
	r.Must(r.PutExecutor(r.t.Context(), core.Executor{App: "orders", Address: address, Beat: r.now.Add(-age), Since: begin.Add(-time.Hour)}))
}

func (r *watchRig) fixed(list ...string) {
	r.t.Helper()
	r.SaveApp(core.App{Name: "orders", Rev: 2, Executors: list})
}

var key = core.JournalKey{Minute: begin.Unix() / 60, Suffix: 3, Nonce: "nonce"}

// journal stores the dispatcher's journal entry of the run.
func (r *watchRig) journal(k core.JournalKey, outcome core.Outcome) {
	r.t.Helper()
	r.Must(r.PutJournal(r.t.Context(), core.Journal{Key: k, V: 1, Entries: []core.Entry{{Run: id, Address: address, Outcome: outcome}}}))
}

// sent stores a run whose send was accepted at begin, and its journal.
func (r *watchRig) sent(change func(*core.Run)) {
	r.t.Helper()
	r.run(id, func(x *core.Run) {
		x.SentAt, x.Journal, x.Retries = begin, key, 0
		if change != nil {
			change(x)
		}
	})
	r.journal(key, core.Accepted)
}

func (r *watchRig) pass() {
	r.t.Helper()
	_, err := r.w.Pass(r.t.Context())
	r.Must(err)
}

// TestLost checks each rule of DESIGN 11 just before and at its bound.
func TestLost(t *testing.T) {
	sent := func(run, after, then string) string {
		return "job 1; run 1@-1s " + run + " listed=accepted; +" + after + "; " + then + "; check 1@-1s"
	}
	timed := func(timeout, run, after, then string) string {
		return "job 1 timeout=" + timeout + "; run 1@-1s " + run + " listed=accepted; +" + after + "; " + then + "; check 1@-1s"
	}
	const away = "global downat=now-99s upsince=now-10s"
	const fixed, pulled = "app executors=" + address, "app executors=queue:q"
	story.Play(t, map[string]string{
		"young":                                sent("", "9m59.999s", ""),
		"registered address gone":              sent("", "10m", ""),
		"expired":                              sent("", "10m", "beat now-91s"),
		"last beat just in time":               sent("", "10m", "beat now-90s"),
		"we were away ourselves":               sent("", "10m", "beat now-100s; "+away),
		"lostAfter of the job":                 "job 1 lostafter=1h; run 1@-1s listed=accepted; +59m59.999s; check 1@-1s",
		"lostAfter of the job over":            "job 1 lostafter=1h; run 1@-1s listed=accepted; +1h; check 1@-1s",
		"busy is merely long":                  sent("", "20h", "beat now"),
		"status unknown":                       sent("", "20h", "beat now; executor idle=unknown"),
		"idle once":                            sent("", "10m", "beat now; executor idle"),
		"fixed and silent":                     sent("", "10m", fixed+"; executor beat=unknown"),
		"fixed and could not be asked":         sent("", "20h", fixed+"; executor beat=unasked"),
		"could not be asked":                   sent("", "20h", "beat now; executor idle=unasked"),
		"fixed and there":                      sent("", "10m", fixed),
		"given by the trigger and there":       sent("addresses="+address, "10m", ""),
		"timeout to come":                      timed("30s", "", "34.999s", "beat now; executor idle"),
		"timeout over, idle once":              timed("30s", "", "35s", "beat now; executor idle"),
		"timeout over, busy":                   timed("30s", "", "35s", "beat now"),
		"timeout over, gone only now":          timed("30s", "", "35s", ""),
		"timeout over, fixed and silent now":   timed("30s", "", "35s", fixed+"; executor beat=unknown"),
		"call unreported":                      sent("address=call:https://h", "10m", ""),
		"call within its timeout":              timed("1h", "address=call:https://h", "1h", ""),
		"call over its timeout":                timed("1h", "address=call:https://h", "1h0m5s", ""),
		"function within its timeout":          sent("address=lambda:f", "14m59s", "executor limit=14m"),
		"function over its timeout":            sent("address=lambda:f", "15m", "executor limit=14m"),
		"function of a moment":                 sent("address=lambda:f", "9m59.999s", "executor limit=3s"),
		"function of a moment, lost":           sent("address=lambda:f", "10m", "executor limit=3s"),
		"function of unknown timeout":          sent("address=lambda:f", "20h", "executor limit=unknown"),
		"function over the job's timeout only": timed("30s", "address=lambda:f", "35s", "executor limit=1m"),
		"function over both timeouts":          timed("30s", "address=lambda:f", "2m", "executor limit=1m"),
		"queue that is polled":                 sent("address=queue:q", "20h", pulled+"; beat now-90s queue:q"),
		"queue without consumers":              sent("address=queue:q", "10m", pulled+"; beat now-91s queue:q"),
		"queue without consumers, young":       timed("30s", "address=queue:q", "35s", pulled+"; beat now-91s queue:q"),
		"queue polled before our outage":       sent("address=queue:q", "10m", pulled+"; beat now-100s queue:q; "+away),
		"queue of which nothing is known":      sent("address=queue:q", "20h", pulled),
		"queue that was never polled":          sent("address=queue:q", "10m", pulled+"; executor beat=unknown"),
		"queue without the run, once":          sent("address=queue:q", "10m", pulled+"; beat now queue:q; executor idle"),
		"command that waits or works":          timed("1h", "address="+core.LocalAddress, "20h", ""),
		"command of a server that runs none":   sent("address="+core.LocalAddress, "10m", "executor beat=unknown"),
		"command unknown to executors, once":   sent("address="+core.LocalAddress, "10m", "executor idle"),
		"idle twice":                           sent("", "11m", "beat now; executor idle") + " idle",
		"idle twice, past its timeout":         timed("30s", "", "11m", "beat now; executor idle") + " idle",
		"idle, then busy":                      sent("", "11m", "beat now") + " idle",
		// A run that was given a registered executor's address follows the rules of a fixed address. The executor's other
		// runs do not: while its heartbeats come, it is not gone, even if its port does not answer.
		"given address of a registered executor": `job 1; run 1@-1s listed=accepted; run 1#7 addresses=http://10.0.0.1:9999/ listed=accepted
			+20m; beat now; executor idle beat=unknown; check 1@-1s 1#7`,
		// The run is checked until the job's lostAfter, and ends soon after the executor is gone.
		"lostAfter before the scan": `job 1 lostafter=1m; run 1@-1s listed=accepted; +65s; beat now; check 1@-1s; +55s
			executor idle=unknown; check 1@-1s; +2m; beat now-91s; check 1@-1s`,
		"lostAfter, and it lasts": "job 1 lostafter=1m; run 1@-1s listed=accepted; +10m; beat now; check 1@-1s",
	}, newStage)
}

// TestLeft: a run that a dispatcher left is closed only when no dispatcher can still take it.
func TestLeft(t *testing.T) {
	const left = "run 1@-1s state=planned owner= address= until= listed=left; +12m; cursor -1m; "
	story.Play(t, map[string]string{
		"changed":                     "job 1; " + left + "pass",
		"paused":                      "job 1 state=paused; " + left + "pass",
		"in a pause of its app, over": "job 1; app pause.from=-1s pause.to=+1s; " + left + "pass",
		"in a pause of everything":    "job 1; global pause.from=-1s; " + left + "pass",
		"deleted":                     left + "pass",
		"younger messages":            "job 1; " + left + "ring +61s +61s; pass",
		"an older message":            "job 1; " + left + "ring +1m +1m; pass",
		"others are requeued":         "job 1; " + left + "ring now+1m -7201s 9; ring now+1m -2s 9; ring now+1m 0s 9; pass",
		"its due time is requeued":    "job 1; " + left + "ring now+1m -7201s 9; ring now+1m -1s 9; pass",
		"a possible due time":         "job 1 schedule.jitter=1m; " + left + "ring now+1m +59s 9; pass",
		"an impossible due time":      "job 1 schedule.jitter=1m; " + left + "ring now+1m +60s 9; pass",
		"the job plans it again":      "job 1 next=-1s; " + left + "pass",
		"the job is past it":          "job 1 next=0s; " + left + "pass",
		"given back after a send":     "job 1; run 1@-1s state=planned owner= until= maybesent listed=left; +12m; beat now; cursor -1m; pass",
		"owned":                       "job 1; run 1@-1s until=+1h listed=left; +12m; cursor -1m; pass",
		"owned once, executor gone":   "job 1; run 1@-1s listed=left; +12m; cursor -1m; pass",
		"owned once, idle twice":      "job 1; run 1@-1s listed=left; +12m; beat now; executor idle; cursor -1m; pass; +1m; check 1@-1s idle",
		"its job was not read":        "job 1; " + left + "fault jobs throttled done; pass; pass 25",
		"its app was not read":        "job 1; " + left + "fault apps throttled done; pass; pass 25",
		"its journal was not reread":  "job 1; " + left + "fault jobs throttled done; fault reread throttled done; pass; pass 25; pass 45",
		"it was not read":             "job 1; " + left + "fault runs throttled done x2; pass; pass 25",
	}, newStage)
}

// TestLaterRuns: an executor that is busy with a job may be busy with another run of it. Only a run that came later and ended
// there proves that it has lost the earlier one. The later run was sent just late enough for that, and it ended 10 minutes
// before the pass. A check reads no later runs.
func TestLaterRuns(t *testing.T) {
	later := func(run, set string) string {
		return "job 1; job 2; run 1@-1s until=+30s listed=accepted; run " + strings.Replace(run, " ", " state=succeeded endedat=+20m code=200 "+
			"sentat=+1m30.001s ", 1) + "; +30m; beat now; " + set + "; check 1@-1s idle; calls span; cursor -1m; pass"
	}
	story.Play(t, map[string]string{
		"it ended":                 later("1@2m ", ""),
		"triggered by hand":        later("1#7 ", ""),
		"its handler failed":       later("1@2m state=failed reason=handler", ""),
		"it crashed":               later("1@2m state=failed reason=crashed", ""),
		"it reports a timeout":     later("1@2m state=timed-out reason=timeout", ""),
		"it reports a replacement": later("1@2m state=killed reason=replaced", ""),
		"our own timeout":          later("1@2m state=timed-out reason=timeout code=0", ""),
		"it was lost":              later("1@2m state=lost reason=forgotten code=0", ""),
		"it was refused":           later("1@2m state=failed reason=not-accepted", ""),
		"it was skipped":           later("1@2m state=skipped reason=overlap", ""),
		"it runs":                  later("1@2m state=running endedat= code=0", ""),
		"it ended only now":        later("1@2m endedat=+21m", ""),
		"elsewhere":                later("1@2m address=http://10.0.0.2:9999/", ""),
		"it came with it":          later("1@2m sentat=+1m30s", ""),
		"another job's":            later("2@2m ", ""),
		"they cannot be read":      later("1@2m ", "fault span unknown"),
		"at a fixed address":       later("1@2m ", "app executors="+address),
		"its status is unknown":    later("1@2m ", "executor idle=unknown"),
		// Consumers differ in speed.
		"at a queue": `job 1; run 1@-1s until=+30s address=queue:q listed=accepted
			run 1@2m address=queue:q state=succeeded endedat=+20m code=200 sentat=+1m31s; +30m; app executors=queue:q; check 1@-1s idle
			cursor -1m; pass`,
	}, newStage)
}

// TestTimeouts: an executor is busy with a run that is past its timeout.
func TestTimeouts(t *testing.T) {
	lasting := func(run string) string {
		return "job 1 timeout=30s; run 1@-1s retries=1 " + run + " listed=accepted; +40s; beat now; "
	}
	refused := func(end string) string { return lasting("") + "executor kill=unknown; check 1@-1s; end 1@-1s " + end }
	story.Play(t, map[string]string{
		// A run of a deleted job ends after the longest timeout that a job can have.
		"of a deleted job": "job 1 timeout=30s; run 1@-1s retries=1 listed=accepted; delete 1; +168h; beat now; check 1@-1s; +5s; check 1@-1s",
		// A kill would end other runs of the job there, so the run stays open and is checked again until it is alone. Runs
		// elsewhere, and runs without an executor, do not matter.
		"one of several": lasting("") + `run 1@20s; run 1@21s address=http://10.0.0.2:9999/; run 1@22s state=queued owner=; check 1@-1s
			check 1@-1s; end 1@20s succeeded code=200 reported; run 1@23s killat=0s; check 1@-1s`,
		"next check refused":      lasting("") + "run 1@20s; fault enqueue throttled; check 1@-1s",
		"kill refused, killed":    refused("killed:person code=500 killed reported"),
		"kill refused, failed":    refused("failed:handler code=500 reported"),
		"kill refused, lost":      refused("lost:gone"),
		"kill refused, succeeded": refused("succeeded code=200 reported"),
		"a user killed it before": lasting("killby=ann killat=+1s") + "check 1@-1s",
		"a user kills it as it ends": lasting("") + `executor kill=unknown; check 1@-1s; before close kills 1@-1s
			end 1@-1s failed:handler code=500`,
		"at a queue": lasting("address=queue:slow") + "app executors=queue:slow; check 1@-1s",
	}, newStage)
}

// TestClockSetBack: runs that are claimed after the clock was set back lie behind the cursor, and
// are still scanned. After a small step no minute is scanned twice.
func TestClockSetBack(t *testing.T) {
	for back, want := range map[time.Duration]bool{4 * time.Minute: false, 15 * time.Minute: true, 3 * time.Hour: true} {
		r := newWatchRig(t)
		r.job(1, nil)
		ahead := key.Minute + int64(back/time.Minute) - 11
		r.Must(r.MoveCursor(t.Context(), 0, ahead))
		r.sent(nil)
		r.pass()
		if at, err := r.Cursor(t.Context()); err != nil || at < ahead != want {
			t.Errorf("clock set back by %s: the cursor went from %d to %d", back, ahead-key.Minute, at-key.Minute)
		}
		for range 15 {
			r.now = r.now.Add(time.Minute)
			r.pass()
		}
		if got := r.Run(id); got.State != core.Lost || got.Reason != core.ReasonGone {
			t.Errorf("clock set back by %s: it is %s", back, got.State)
		}
	}
}

// TestRevisitsOfAClockThatWasAhead: a watchdog with a fast clock scheduled revisits hours ahead.
// They are copied to the minutes of a right clock, even if the way back takes several passes. The
// originals stay, because the clock may be set right before the cursor is back.
func TestRevisitsOfAClockThatWasAhead(t *testing.T) {
	for ahead, long := range map[time.Duration]time.Duration{90 * time.Minute: time.Minute, 30 * time.Hour: time.Minute,
		31 * time.Hour: time.Nanosecond} {
		r := newWatchRig(t)
		r.w = finish.NewWatchdog(r.f, r.p, finish.WatchOptions{WalkFor: long, PageJournals: 1})
		r.job(1, nil)
		r.sent(nil)
		end := r.now.Add(-10*time.Minute).Unix()/60 - 1 // the right position of the cursor
		cursor := end + int64(ahead/time.Minute)
		r.Must(r.MoveCursor(t.Context(), 0, cursor))
		other := key
		other.Suffix++
		for _, k := range []core.JournalKey{key, other} { // two pages
			r.Must(r.PutRevisits(t.Context(), cursor+200, []core.JournalKey{k}))
		}
		passes := 0
		for at := cursor; at > end+5; passes++ {
			r.pass()
			var err error
			if at, err = r.Cursor(t.Context()); err != nil {
				t.Fatal(err)
			}
			if passes > 3000 {
				t.Fatalf("%s ahead: after %d passes the cursor is %d minutes from its place", ahead, passes, at-end)
			}
		}
		found := map[int64]int{}
		for m := end; m < cursor+300; m++ {
			keys, err := r.Revisits(t.Context(), m, core.JournalKey{}, 10)
			r.Must(err)
			if len(keys) > 0 {
				found[m-end] = len(keys)
			}
		}
		if len(found) != 2 || found[10] != 2 || found[cursor+200-end] != 2 {
			t.Errorf("%s ahead, in %d passes: minutes read again behind the cursor: %v", ahead, passes, found)
		}
	}
}

// TestCheckOfAClockThatWasAhead: the journal of a claimer with a fast clock is read again soon.
func TestCheckOfAClockThatWasAhead(t *testing.T) {
	r := newWatchRig(t)
	r.job(1, nil)
	r.sent(nil)
	now := r.now.Unix() / 60
	r.Must(r.MoveCursor(t.Context(), 0, now-11))
	ahead := core.JournalKey{Minute: now + 1800, Suffix: 3, Nonce: "nonce"}
	j := core.Journal{Key: ahead, V: 1, Entries: []core.Entry{{Run: id, Address: address, Outcome: core.Unconfirmed}}}
	r.Must(r.w.Check(t.Context(), &ring.Check{Runs: []core.RunID{id}, Journal: &j}))
	for m := now - 11; m < now+20; m++ {
		keys, err := r.Revisits(t.Context(), m, core.JournalKey{}, 10)
		r.Must(err)
		if len(keys) == 1 {
			return
		}
	}
	t.Error("it is not read again within 20 minutes")
}

// TestPasses: passes catch up, and the cursor moves once.
func TestPasses(t *testing.T) {
	story.Play(t, map[string]string{
		"the store fails at the first": "fault cursor throttled; pass",
		"another one was first":        "fault cursor refused; pass",
		"after a long time":            "job 1; run 1@-1s listed=accepted; cursor -1m; +5h; pass; pass; pass; pass",
		// Runs of an unreadable app are decided later, other runs in this pass.
		"unreadable app": `app ledger title=x; job 1; job 2 app=ledger; run 1@-1s state=planned owner= address= until= listed=left
			run 2@-1s app=ledger state=planned owner= address= until= listed=left; cursor -1m; damage app ledger; +1m; pass 30`,
		"another one moves the cursor": "cursor -1m; +20m; before cursor cursor +3m; pass; calls cursor",
	}, newStage)
}

// TestCheckWhileTheWalkCatchesUp: if the scan passes the minute while a journal is put there, the
// journal is put further ahead.
func TestCheckWhileTheWalkCatchesUp(t *testing.T) {
	r := newWatchRig(t)
	r.job(1, nil)
	r.run(id, func(x *core.Run) { x.SentAt, x.Journal, x.Retries = begin, key, 0 })
	r.now = begin.Add(3 * time.Minute)
	r.registered(0)
	r.Must(r.MoveCursor(t.Context(), 0, key.Minute+5))
	r.faults.faults["revisits"] = []fault{{between: func() { r.Must(r.MoveCursor(t.Context(), key.Minute+5, key.Minute+8)) }}}
	j := core.Journal{Key: key, V: 4, Entries: []core.Entry{{Run: id, Address: address, Outcome: core.Unconfirmed}}}
	r.Must(r.w.Check(t.Context(), &ring.Check{Runs: []core.RunID{id}, Journal: &j}))
	r.now = begin.Add(30 * time.Minute) // its executor is gone
	for range 3 {
		r.pass()
	}
	if got := r.Run(id); got.State != core.Lost {
		t.Errorf("it is %s: the journal was stored in the wrong place", got.State)
	}
}

// TestBusyReadsTheNewestLaterRuns: the proof that a run is lost is looked for in the job's newest
// runs. If it is not among them, the run stays open.
func TestBusyReadsTheNewestLaterRuns(t *testing.T) {
	const most = budget.LaterRuns
	for newer, want := range map[int]core.State{most - 1: core.Lost, most: core.Running, 10 * most: core.Running} {
		r := newWatchRig(t)
		r.job(1, nil)
		r.sent(func(x *core.Run) { x.Until = begin.Add(time.Second) })
		for i := range newer + 1 {
			r.run(core.PlannedRun(1, core.InstantOf(begin)+core.Instant(120+i)), func(x *core.Run) {
				x.State, x.SentAt, x.EndedAt, x.Code = core.Succeeded, begin.Add(2*time.Minute), begin.Add(3*time.Minute), 200
				if i > 0 {
					x.Address = "http://10.0.0.2:9999/"
				}
			})
		}
		r.now = begin.Add(2 * time.Hour)
		r.registered(0)
		r.Must(r.MoveCursor(t.Context(), 0, key.Minute-1))
		r.pass()
		if got := r.Run(id); got.State != want {
			t.Errorf("%d runs are newer than the proof: %s, want %s", newer, got.State, want)
		}
	}
}
