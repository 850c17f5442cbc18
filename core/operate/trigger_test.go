package operate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/store"
)

func (f *fixture) entries(job core.JobID) []core.DueItem {
	f.T.Helper()
	list, err := f.E.Jobs.Entries(ctx, job)
	must(f.T, err)
	return list
}

// TestNotesOfOneMillisecond: all actions on the runs of a job in one millisecond are recorded,
// and a change of the job too.
func TestNotesOfOneMillisecond(t *testing.T) {
	f := newFixture(t)
	f.Create(spec("sweep", core.Schedule{}))
	f.Clock = f.Clock.Add(time.Minute)
	at := f.Clock.Add(24 * time.Hour)
	for _, key := range []string{"a", "b"} {
		check.Call(t)(f.M.Trigger(ctx, ann, operate.TriggerRequest{Job: "shop/sweep", At: &at, Key: key}))
	}
	for _, key := range []string{"a", "b"} {
		check.Call(t)(f.M.Cancel(ctx, ann, "shop/sweep#"+key))
	}
	f.Pause(manage.Target{Job: "shop/sweep"})
	changes, err := f.Changes("", "shop/sweep", 100)
	must(t, err)
	count := map[string]int{}
	for _, c := range changes {
		count[c.Verb]++
	}
	want := map[string]int{core.VerbCreated: 1, core.VerbTriggered: 2, core.VerbCancelled: 2, core.VerbPaused: 1}
	if !maps.Equal(count, want) {
		t.Errorf("recorded are %v, want %v", count, want)
	}
}

func TestTriggerRefuses(t *testing.T) {
	f := newFixture(t)
	f.Create(spec("sweep", core.Schedule{}))
	far, past, big, retries := start.Add(367*24*time.Hour), start.Add(-2*time.Minute), strings.Repeat("x", 64<<10+1), -1
	for name, c := range map[string]struct {
		r    operate.TriggerRequest
		code core.Code
	}{
		"no job":     {operate.TriggerRequest{Job: "shop/none"}, core.CodeNotFound},
		"job":        {operate.TriggerRequest{Job: "-1"}, core.CodeInvalid},
		"far":        {operate.TriggerRequest{At: &far}, core.CodeInvalid},
		"past":       {operate.TriggerRequest{At: &past}, core.CodeInvalid},
		"params":     {operate.TriggerRequest{Params: &big}, core.CodeTooLarge},
		"retries":    {operate.TriggerRequest{Retries: &retries}, core.CodeInvalid},
		"cause":      {operate.TriggerRequest{Cause: core.CauseRetry}, core.CodeInvalid},
		"key":        {operate.TriggerRequest{Key: "a b"}, core.CodeInvalid},
		"address":    {operate.TriggerRequest{Addresses: []string{"10.0.0.1"}}, core.CodeInvalid},
		"queue":      {operate.TriggerRequest{Addresses: []string{"queue:x.fifo"}}, core.CodeInvalid},
		"lambda":     {operate.TriggerRequest{Addresses: []string{"lambda:x"}}, core.CodeRefused},
		"link-local": {operate.TriggerRequest{Addresses: []string{"http://169.254.169.254"}}, core.CodeRefused},
		"handler":    {operate.TriggerRequest{Addresses: []string{"call:https://x"}}, core.CodeInvalid},
	} {
		if c.r.Job == "" {
			c.r.Job = "shop/sweep"
		}
		fails(t, c.code, "%s", name)(f.M.Trigger(ctx, ann, c.r))
	}
	if page, err := f.M.Runs(ctx, query.RunFilter{Job: "shop/sweep"}); err != nil || len(page.Runs) != 0 {
		t.Errorf("runs: %+v %v", page, err)
	}
}

// TestTriggerWithAKeyIsOneRun: after a crash at any step, a repeated request with the key leaves
// one run, on the ring or in the due index.
func TestTriggerWithAKeyIsOneRun(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour} {
		for _, mode := range []faults{{Kill: true}, {Kill: true, After: true}, {}, {After: true}, {Err: core.ErrThrottled},
			{Err: core.ErrRefused, After: true}} {
			for at := 1; ; at++ {
				f := newFixture(t)
				j := f.Create(spec("sweep", core.Schedule{}))
				req := operate.TriggerRequest{Job: "shop/sweep", Key: "order-7", Cause: core.CauseAPI}
				if ahead > 0 {
					when := start.Add(ahead)
					req.At = &when
				}
				w := mode
				w.At = at
				first, err := f.Fresh(&w).Trigger(ctx, ann, req)
				what := fmt.Sprintf("ahead %s, %+v at %s", ahead, mode, w.Last)
				f.M = f.Fresh(&faults{})
				second, err2 := f.M.Trigger(ctx, ann, req)
				if err2 != nil {
					t.Fatalf("%s: %v", what, err2)
				}
				if err == nil && (first.Run.ID != second.Run.ID || !second.Existing) {
					t.Errorf("%s: %d and then %d, existing %t", what, first.Run.ID, second.Run.ID, second.Existing)
				}
				page, err := f.M.Runs(ctx, query.RunFilter{Job: "shop/sweep"})
				if err != nil || len(page.Runs) != 1 || page.Runs[0].ID != second.Run.ID {
					t.Fatalf("%s: runs %+v %v", what, page.Runs, err)
				}
				entries, fires := f.entries(j.Def.ID), f.Fires()
				onRing := slices.ContainsFunc(fires, func(x core.Fire) bool { return x.Run == second.Run.ID })
				if ahead == 0 && !onRing || ahead > 0 && (len(entries) != 1 || onRing) {
					t.Errorf("%s: entries %+v, fires %+v", what, entries, fires)
				}
				if w.Last == "" {
					break
				}
			}
		}
	}
}

// TestKeyOfAnotherTrigger: a key returns its run to an equal request or one without values, and
// is rejected for other values.
func TestKeyOfAnotherTrigger(t *testing.T) {
	f, texts := newFixture(t), golden.New(t)
	f.Create(spec("sweep", core.Schedule{}))
	a, b, two, three, later := "a", "b", 2, 3, start.Add(time.Hour)
	here, there := []string{"http://10.0.0.1:9999"}, []string{"http://10.0.0.2:9999"}
	first := operate.TriggerRequest{Job: "shop/sweep", Key: "k", Params: &a, Addresses: here, Retries: &two, At: &later}
	r, err := f.M.Trigger(ctx, ann, first)
	must(t, err)
	for name, c := range map[string]struct {
		ask   operate.TriggerRequest
		other bool
	}{
		"the same":        {first, false},
		"nothing else":    {operate.TriggerRequest{}, false},
		"other params":    {operate.TriggerRequest{Params: &b}, true},
		"other addresses": {operate.TriggerRequest{Params: &a, Addresses: there}, true},
		"other retries":   {operate.TriggerRequest{Retries: &three}, true},
	} {
		c.ask.Job, c.ask.Key = "shop/sweep", "k"
		got, err := f.M.Trigger(ctx, ann, c.ask)
		var e *core.Error
		switch {
		case !c.other && (err != nil || !got.Existing || got.Run.ID != r.Run.ID):
			t.Errorf("%s: %+v, %v", name, got, err)
		case c.other && (!errors.As(err, &e) || e.Code != core.CodeConflict || e.Field != "key"):
			t.Errorf("%s: %+v, %v", name, got, err)
		case c.other:
			texts.Equal(t, name, e.Reason.String(), r.Run.ID.String(), "RUN")
		}
	}
	check.Call(t)(f.M.Trigger(ctx, ann, operate.TriggerRequest{Job: "shop/sweep", Key: "plain"}))
	// A run with the job's params has none of its own.
	if _, err := f.M.Trigger(ctx, ann, operate.TriggerRequest{Job: "shop/sweep", Key: "plain",
		Params: &a}); core.CodeOf(err) != core.CodeConflict {
		t.Errorf("params where the job's are used: %v", err)
	}
}

// running stores a run that was sent to an address.
func running(f *fixture, id core.RunID, address string) core.Run {
	r := newRun(id, core.Running, core.InstantOf(f.Clock))
	r.Cause, r.Owner, r.Until, r.Address, r.SentAt = core.CauseManual, "me", f.Clock.Add(time.Minute), address, f.Clock
	f.Put(r)
	return r
}

// retry stores a run that retries another in half a minute.
func retry(f *fixture, id, first core.RunID) core.Run {
	r := newRun(id, core.Planned, core.InstantOf(f.Clock)+30)
	r.Cause, r.Attempt, r.First = core.CauseRetry, 2, first
	f.Put(r)
	return r
}

func TestKill(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", core.Schedule{}))
	n := func(i int) core.RunID { return numbered(j.Def.ID, uint32(1000+i)) }
	a, b, c := running(f, n(1), "http://a"), running(f, n(2), "http://a"), running(f, n(3), "http://deaf")
	res, err := f.M.KillRun(ctx, ann, a.ID.String(), "")
	if err != nil || !res.Changed || !slices.Equal(res.Killed, []core.RunID{a.ID, b.ID}) || len(res.Sent) != 1 ||
		res.Sent[0].Address != "http://a" {
		t.Fatalf("%+v %v", res, err)
	}
	for _, id := range []core.RunID{a.ID, b.ID, c.ID} {
		v, err := f.M.Run(ctx, id.String())
		if err != nil || !v.Run.State.Open() || (v.Run.KillBy == "ann") != (id != c.ID) {
			t.Errorf("%+v %v", v.Run, err)
		}
	}
	// A pending retry and a waiting trigger.
	again := retry(f, n(4), a.ID)
	at := start.Add(time.Hour)
	waits, err := f.M.Trigger(ctx, ann, operate.TriggerRequest{Job: "shop/sweep", At: &at})
	must(t, err)
	res, err = f.M.KillJob(ctx, ann, "shop/sweep", "")
	if err != nil || len(res.Killed) != 3 || !slices.Equal(res.Cancelled, []core.RunID{again.ID}) || len(res.Sent) != 2 {
		t.Fatalf("%+v %v", res, err)
	}
	for _, s := range res.Sent {
		if (s.Err != nil) != (s.Address == "http://deaf") {
			t.Errorf("%+v", s)
		}
	}
	if v, err := f.M.Run(ctx, waits.Run.ID.String()); err != nil || v.Run.State != core.Planned {
		t.Errorf("a trigger that waits: %+v %v", v.Run, err)
	}
	if res, err = f.M.KillRun(ctx, ann, waits.Run.ID.String(), ""); err != nil || len(res.Cancelled) != 1 || len(res.Sent) != 0 {
		t.Errorf("of a run not sent yet: %+v %v", res, err)
	}
	if res, err = f.M.KillRun(ctx, ann, waits.Run.ID.String(), ""); err != nil || res.Changed {
		t.Errorf("of a run that has ended: %+v %v", res, err)
	}
	fails(t, core.CodeRefused, "cancel of a run that was sent")(f.M.Cancel(ctx, ann, a.ID.String()))
	fails(t, core.CodeInvalid)(f.M.KillRun(ctx, ann, "12", ""))
}

// TestKillIsRecordedFirst: a kill that could not be recorded is not sent.
func TestKillIsRecordedFirst(t *testing.T) {
	for _, mode := range []faults{{Err: core.ErrThrottled}, {Kill: true}} {
		f := newFixture(t)
		j := f.Create(spec("sweep", core.Schedule{}))
		r := running(f, numbered(j.Def.ID, 9), "http://a")
		w := mode
		w.At = 1
		if _, err := f.Fresh(&w).KillRun(ctx, ann, r.ID.String(), ""); code(err) != core.CodeUnavailable || w.Last != "put run" {
			t.Errorf("%s: %v", w.Last, err)
		}
		check.Equal(t, len(f.Killer.Sent), 0, "sent: %v", f.Killer.Sent)
	}
}

// TestKillInPartIsRecorded: the kills before a failure are recorded.
func TestKillInPartIsRecorded(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", core.Schedule{}))
	a := running(f, numbered(j.Def.ID, 9), "http://a")
	b := running(f, numbered(j.Def.ID, 10), "http://b")
	again := retry(f, numbered(j.Def.ID, 11), a.ID)
	for _, c := range []struct {
		fails core.RunID // the run that cannot be written; 0: open runs cannot be read
		names core.RunID
	}{{0, again.ID}, {b.ID, a.ID}} {
		s := *f.E
		s.Runs = &broken{Runs: s.Runs, fails: c.fails}
		f.M = f.Fresh(&faults{Store: &s})
		if _, err := f.M.KillJob(ctx, ann, "shop/sweep", ""); code(err) != core.CodeUnavailable {
			t.Fatalf("%v", err)
		}
		list, err := f.Changes("", "shop/sweep", 10)
		if err != nil || !slices.ContainsFunc(list, func(x core.Change) bool { return strings.Contains(x.New, c.names.String()) }) {
			t.Errorf("%+v %v", list, err)
		}
	}
}

// broken fails to write a run, or with 0 to read the open runs again.
type broken struct {
	store.Runs
	fails core.RunID
	reads int
}

func (b *broken) Open(ctx context.Context, first, last core.RunID, waiting bool, limit int) ([]core.Run, core.RunID, error) {
	if b.reads++; b.fails == 0 && b.reads > 2 { // the waiting runs take two reads
		return nil, 0, core.ErrThrottled
	}
	return b.Runs.Open(ctx, first, last, waiting, limit)
}

func (b *broken) Put(ctx context.Context, puts []store.RunPut) []error {
	if puts[0].Change.ID == b.fails {
		return []error{core.ErrThrottled}
	}
	return b.Runs.Put(ctx, puts)
}

// TestTriggerAddresses: a trigger may name executors of the app and addresses in its allow. No
// other address gets the app's token, and no other function or queue gets its runs.
func TestTriggerAddresses(t *testing.T) {
	f := newFixture(t)
	f.Create(spec("sweep", core.Schedule{}))
	token := "shop-executors"
	f.Must(f.M.SaveApp(ctx, ann, manage.AppSpec{Name: "shop", Token: &token, Executors: []string{"http://fixed.example:9999/", "queue:own"},
		Allow: []string{"10.0.0.0/24", "fd00::/8"}}))
	must(t, f.E.PutExecutor(ctx, core.Executor{App: "shop", Address: "http://198.51.100.7:9999", Beat: f.Clock, Since: f.Clock}))
	waits, err := f.M.Trigger(ctx, ann, operate.TriggerRequest{Job: "shop/sweep", At: new(start.Add(time.Hour))})
	must(t, err)
	for address, own := range map[string]bool{
		"http://fixed.example:9999/": true, "http://fixed.example:9999": true, "http://198.51.100.7:9999/": true, "http://10.0.0.7:80": true,
		"https://[fd00::1]:443/x": true, "queue:own": true, "queue:other": false, "queue:arn:aws:sqs:eu-central-1:123456789012:own": false,
		"http://10.0.1.7:80": false, "http://198.51.100.8:9999/": false, "http://fixed.example:9998": false,
		"http://fixed.example.evil.example:9999": false, "https://fixed.example:9999": false, "http://evil.example": false,
		"http://[::ffff:10.0.1.7]": false,
	} {
		_, first := f.M.Trigger(ctx, ann, operate.TriggerRequest{Job: "shop/sweep", Addresses: []string{"http://10.0.0.1", address}})
		_, later := f.M.ChangeTrigger(ctx, ann, waits.Run.ID.String(), operate.TriggerChange{Addresses: &[]string{"http://10.0.0.1", address}})
		for _, err := range []error{first, later} {
			var e *core.Error
			if own != (err == nil) || !own && (!errors.As(err, &e) || e.Code != core.CodeRefused || e.Field != "addresses[1]") {
				t.Errorf("%s: %v", address, err)
			}
		}
	}
}

// TestKillReachesEachRun: a kill of a job ends its pending retries, and its waiting and running
// runs, with any number of newer runs. A kill that misses some is partial.
func TestKillReachesEachRun(t *testing.T) {
	for name, c := range map[string]struct {
		newer   core.State
		n       uint32
		partial bool
	}{
		"ended": {core.Succeeded, 3 * budget.Killed, false}, "waiting": {core.Queued, 3 * budget.Killed, false},
		"running": {core.Running, budget.Killed - 1, false}, "one more running": {core.Running, budget.Killed, true},
		"many more running": {core.Running, 2 * budget.Killed, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			j := f.Create(spec("sweep", core.Schedule{}))
			again := retry(f, numbered(j.Def.ID, 1), planned(j.Def.ID, core.InstantOf(f.Clock)))
			list := make([]core.Run, c.n)
			for i := range list {
				r := newRun(numbered(j.Def.ID, 10+uint32(i)), c.newer, core.InstantOf(f.Clock))
				if c.newer != core.Queued {
					r.SentAt, r.Address = f.Clock.Add(time.Minute), "http://b"
				}
				if c.newer == core.Running {
					r.Owner, r.Until = "o", f.Clock.Add(time.Hour)
				}
				list[i] = r
			}
			f.Put(list...)
			sent := running(f, numbered(j.Def.ID, 2), "http://a")
			killed, partial := map[core.RunID]bool{}, false
			for next := ""; ; {
				res, err := f.M.KillJob(ctx, ann, "shop/sweep", next)
				must(t, err)
				for _, id := range res.Killed {
					killed[id] = true
				}
				if partial, next = res.Partial, res.Next; next == "" {
					break
				}
			}
			if got := f.Runs(again.ID)[again.ID]; got.Reason != core.ReasonCancelled || partial != c.partial || killed[sent.ID] == c.partial {
				t.Errorf("its retry is %s, the older running one was killed: %t, and it is partial: %t", got.State, killed[sent.ID], partial)
			}
		})
	}
}

// TestKillQueued: a kill of a run that waits for an executor ends it at once. A kill of its job
// does too, and kills the job's other runs.
func TestKillQueued(t *testing.T) {
	for _, all := range []bool{true, false} {
		f := newFixture(t)
		j := f.Create(spec("sweep", core.Schedule{}))
		sent := running(f, numbered(j.Def.ID, 9), "http://a")
		queued := newRun(numbered(j.Def.ID, 10), core.Queued, core.InstantOf(f.Clock))
		f.Put(queued)
		var err error
		if all {
			_, err = f.M.KillJob(ctx, ann, "shop/sweep", "")
		} else {
			_, err = f.M.KillRun(ctx, ann, queued.ID.String(), "")
		}
		must(t, err)
		found := f.Runs(sent.ID, queued.ID)
		if q, s := found[queued.ID], found[sent.ID]; q.State != core.Skipped || q.Reason != core.ReasonCancelled || s.KillAt.IsZero() == all {
			t.Errorf("all %t: %s %s, and the sent run was killed: %t", all, q.State, q.Reason, !s.KillAt.IsZero())
		}
	}
}
