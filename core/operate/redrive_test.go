package operate_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/poller"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/store"
)

// fated creates jobs that run every ten seconds, and whose later fate is in their name. It ends ten minutes later.
func (f *fixture) fated() map[string]core.JobID {
	f.T.Helper()
	ids := map[string]core.JobID{}
	f.Clock = start
	for _, name := range []string{"fine", "late", "paused", "changed", "gone", "mixed", "monthly"} {
		s := spec(name, every(10*time.Second))
		s.Misfire = core.MisfireAll
		switch name {
		case "late":
			s.Misfire = core.MisfireSkip
		case "monthly":
			s.Def.Keep.Days = 1
		}
		ids[name] = f.Create(s).Def.ID
	}
	f.Fires()
	f.Clock = f.Clock.Add(10 * time.Minute)
	f.Pause(manage.Target{Job: "shop/paused"})
	f.Save(spec("changed", every(20*time.Second)))
	f.Delete("shop/gone")
	f.Fires()
	return ids
}

// TestRedrive: only fires that may still be sent are sent again. A message is removed when all
// its fires were sent.
func TestRedrive(t *testing.T) {
	f := newFixture(t)
	ids := f.fated()
	now := core.InstantOf(f.Clock)
	at := now - 300
	fire := func(job core.JobID, at core.Instant) core.Fire {
		return core.Fire{Run: planned(job, at), Rev: start.UnixMilli(), At: at, Slot: at, Cause: core.CauseSchedule, Seq: 1}
	}
	put := func(r core.Run) core.Fire {
		r.App, r.At, r.Slot, r.Attempt, r.First = "shop", at, at, 1, r.ID
		f.Put(r)
		return core.Fire{Run: r.ID, Rev: start.UnixMilli(), At: at, Slot: at, Cause: r.Cause}
	}
	owned := core.Run{ID: planned(ids["mixed"], at), State: core.Running, Cause: core.CauseSchedule, Owner: "o",
		Until: f.Clock.Add(time.Minute), Address: "http://10.0.0.1:9999/"}
	number := numbered(ids["mixed"], 1000)
	whole := core.Run{ID: number + 10, State: core.Running, Cause: core.CauseSchedule, Addresses: []string{"a", "b"},
		Shard: core.Shard{Total: 2, First: number + 11}}
	put(whole)
	shard := func(of core.RunID) core.Fire {
		return core.Fire{Run: number + 11, Of: of, Rev: start.UnixMilli(), At: at, Slot: at, Cause: core.CauseSchedule}
	}
	want := []struct {
		what  string
		fires []core.Fire
		stay  []bool // of each fire: it is not sent
		final bool   // the unsent fires can never be sent
	}{
		{what: "fine", fires: []core.Fire{fire(ids["fine"], at), fire(ids["fine"], at)}, stay: []bool{false}},
		{what: "mixed", fires: []core.Fire{fire(ids["mixed"], at+20), put(owned)}, stay: []bool{false, true}},
		{what: "late", fires: []core.Fire{fire(ids["late"], at)}, stay: []bool{true}, final: true},
		{what: "paused", fires: []core.Fire{{Run: planned(ids["paused"], at), Rev: f.Clock.UnixMilli() + 1, At: at, Slot: at,
			Cause: core.CauseSchedule}}, stay: []bool{true}},
		{what: "changed", fires: []core.Fire{fire(ids["changed"], at)}, stay: []bool{true}, final: true},
		{what: "gone", fires: []core.Fire{fire(ids["gone"], at)}, stay: []bool{true}, final: true},
		{what: "unknown", fires: []core.Fire{fire(999, at)}, stay: []bool{true}},
		{what: "by hand", fires: []core.Fire{put(core.Run{ID: number, State: core.Planned, Cause: core.CauseManual})}, stay: []bool{false}},
		{what: "ended", fires: []core.Fire{put(core.Run{ID: number + 1, State: core.Failed, Reason: core.ReasonHandler,
			Cause: core.CauseManual})}, stay: []bool{true}, final: true},
		{what: "recorded", fires: []core.Fire{put(core.Run{ID: number + 2, State: core.Skipped, Reason: core.ReasonUndeliverable,
			Cause: core.CauseAPI})}, stay: []bool{true}, final: true},
		{what: "without a record", fires: []core.Fire{{Run: number + 3, Rev: 1, At: at, Slot: at, Cause: core.CauseRetry}},
			stay: []bool{true}, final: true},
		{what: "of an open broadcast", fires: []core.Fire{shard(whole.ID)}, stay: []bool{false}},
		{what: "of no broadcast", fires: []core.Fire{shard(number + 20)}, stay: []bool{true}, final: true},
		{what: "of another kind"}, // a check that carries its journal
	}
	for _, w := range want {
		m := ring.Message{Kind: ring.KindFires, Fires: w.fires}
		if len(w.fires) > 0 {
			m.Slot = w.fires[0].Slot
			for i := range m.Fires {
				m.Fires[i].Slot = m.Slot
			}
		} else {
			m = ring.Message{Kind: ring.KindCheck, Slot: now, Check: &ring.Check{Journal: &core.Journal{
				Key: core.JournalKey{Minute: 1, Nonce: "n"}, V: 1, Entries: []core.Entry{{Run: number, Outcome: core.Accepted}}}}}
		}
		must(t, f.E.Queue.Bury(ctx, m, w.what))
	}
	texts := golden.New(t)
	judge := func(r operate.RedriveResult) {
		t.Helper()
		if len(r.Letters) != len(want) || r.Sent != 5 || r.Left != 10 {
			t.Fatalf("%d letters, %d sent, %d left", len(r.Letters), r.Sent, r.Left)
		}
		for _, l := range r.Letters {
			for _, w := range want {
				if w.what != l.Reason {
					continue
				}
				if len(l.Fires) != len(w.stay) {
					t.Errorf("%s: %+v", w.what, l.Fires)
					continue
				}
				reasons := ""
				for i, stays := range w.stay {
					if reasons += l.Fires[i].Why.String(); (l.Fires[i].Why.String() != "") != stays {
						t.Errorf("%s: %q, stays %t", w.what, l.Fires[i].Why, stays)
					}
				}
				if reasons != "" {
					texts.Equal(t, w.what, reasons)
				}
			}
		}
	}
	letters := func() (names []string) {
		t.Helper()
		list, err := f.E.Letters(ctx, "", 100)
		must(t, err)
		for _, l := range list {
			names = append(names, l.Reason)
		}
		return names
	}
	f.Fires()
	res, err := f.M.Redrive(ctx, ann, operate.RedriveRequest{DryRun: true})
	must(t, err)
	judge(res)
	if got := f.Fires(); len(got) > 0 || len(letters()) != len(want) || res.Dropped > 0 {
		t.Fatalf("a dry run sends %v and leaves %v", got, letters())
	}
	// In pages.
	var all operate.RedriveResult
	for after, n := "", 0; n == 0 || after != ""; n++ {
		page, err := f.M.Redrive(ctx, ann, operate.RedriveRequest{After: after, Limit: 5})
		if err != nil || len(page.Letters) > 5 {
			t.Fatalf("%+v, %v", page, err)
		}
		all.Letters, all.Sent, all.Left, all.Dropped = append(all.Letters, page.Letters...), all.Sent+page.Sent, all.Left+page.Left,
			all.Dropped+page.Dropped
		after = page.Next
	}
	judge(all)
	sent := f.sent()
	for _, id := range []core.RunID{planned(ids["fine"], at), planned(ids["mixed"], at+20), number} {
		check.Equal(t, sent[id], 1, "run %d was sent N times", id)
	}
	if left := letters(); len(sent) != 4 || all.Dropped != 4 || len(left) != len(want)-4 || strings.Contains(fmt.Sprint(left), "fine") {
		t.Errorf("%d sent, %d dropped, left are %v", len(sent), all.Dropped, left)
	}
	// Drop removes messages whose fires can never be sent.
	if res, err = f.M.Redrive(ctx, ann, operate.RedriveRequest{Drop: true}); err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		goes := w.final || w.stay == nil || !w.stay[0] && len(w.stay) != 2
		if there := strings.Contains(fmt.Sprint(letters()), w.what); there == goes {
			t.Errorf("%s is there: %t", w.what, there)
		}
	}
	check.Equal(t, res.Dropped, 7, "dropped")
}

// TestRedriveOfOpenRuns: only its message names an open run without an owner, or a run with
// pending follow-ups. It is sent again, whatever happened to its job, so that dispatch ends it. A
// message stays while the run's owner may still die, or until all its fires are read.
func TestRedriveOfOpenRuns(t *testing.T) {
	f := newFixture(t)
	ids := f.fated()
	at := core.InstantOf(f.Clock) - 300
	number := numbered(ids["gone"], 1000)
	due := func(name string) core.RunID { return planned(ids[name], at) }
	dead := f.Clock.Add(-time.Minute)
	want := []struct {
		what string
		run  core.Run // as stored; not stored without a state
		sent bool
	}{
		{"its owner was killed", core.Run{ID: due("fine"), State: core.Running, Owner: "o", Until: dead,
			Address: "http://10.0.0.1:9999/"}, true},
		{"its owner lives", core.Run{ID: planned(ids["fine"], at+10), State: core.Running, Owner: "o", Until: f.Clock.Add(time.Minute)},
			false},
		{"ended, and owes", core.Run{ID: planned(ids["fine"], at+20), State: core.Failed, Reason: core.ReasonHandler,
			Owes: []core.Owed{{Run: number + 1, Kind: core.CauseRetry}}}, true},
		{"given back, late", core.Run{ID: due("late"), State: core.Planned}, true},
		{"given back, paused", core.Run{ID: due("paused"), State: core.Planned}, true},
		{"given back, changed", core.Run{ID: due("changed"), State: core.Planned}, true},
		{"perhaps sent, changed", core.Run{ID: planned(ids["changed"], at+10), State: core.Planned, MaybeSent: true,
			Address: "http://10.0.0.1:9999/"}, true},
		{"given back, deleted", core.Run{ID: due("gone"), State: core.Planned}, true},
		{"by hand, deleted", core.Run{ID: number, State: core.Planned, Cause: core.CauseManual}, true},
		{"forgotten", core.Run{ID: planned(ids["monthly"], at-86400)},
			false},
	}
	for _, w := range want {
		r := w.run
		if r.Cause == "" {
			r.Cause = core.CauseSchedule
		}
		r.App, r.At, r.Slot, r.Attempt, r.First, r.Rev = "shop", at, at, 1, r.ID, start.UnixMilli()
		if p, ok := r.ID.Planned(); ok {
			r.At, r.Slot = p, p
		}
		if r.State != "" {
			f.Put(r)
		}
		m := ring.Message{Kind: ring.KindFires, Slot: r.Slot, Fires: []core.Fire{{Run: r.ID, Rev: r.Rev, At: r.At, Slot: r.Slot, Cause: r.Cause}}}
		must(t, f.E.Queue.Bury(ctx, m, w.what))
	}
	res, err := f.M.Redrive(ctx, ann, operate.RedriveRequest{Drop: true})
	must(t, err)
	texts, sent := golden.New(t), f.sent()
	for _, l := range res.Letters {
		for _, w := range want {
			if w.what != l.Reason {
				continue
			}
			why := l.Fires[0].Why.String()
			if (why == "") != w.sent || (sent[w.run.ID] > 0) != w.sent || l.Dropped != (w.what != "its owner lives") {
				t.Errorf("%s: %q, sent: %t, removed: %t", w.what, why, sent[w.run.ID] > 0, l.Dropped)
			}
			if !w.sent {
				texts.Equal(t, w.what, why)
			}
		}
	}
}

// torn are records with dead-letter messages whose first fires, and whose checks, are unreadable.
type torn struct{ store.Records }

func (r torn) List(ctx context.Context, kind, after, before string, limit int) ([]store.Record, error) {
	list, err := r.Records.List(ctx, kind, after, before, limit)
	for i := range list {
		list[i].Body = bytes.Replace(list[i].Body, []byte(`"kind":"check"`), []byte(`"kind":"boredom"`), 1)
		list[i].Body = bytes.Replace(list[i].Body, []byte(`"fires":[{`), []byte(`"fires":[{"run":5,"cause":"boredom"},{`), 1)
	}
	return list, err
}

// TestRedriveKeepsWhatIsUnread: the readable fires of a message are sent. The message stays, as
// the only trace of the unreadable ones.
func TestRedriveKeepsWhatIsUnread(t *testing.T) {
	f := newFixture(t)
	f.Clock = start
	s := spec("one", every(10*time.Second))
	s.Misfire = core.MisfireAll
	job := f.Create(s).Def.ID
	f.Fires()
	f.Clock = f.Clock.Add(time.Minute)
	at := core.InstantOf(f.Clock)
	m := ring.Message{Kind: ring.KindFires, Slot: at,
		Fires: []core.Fire{{Run: planned(job, at), Rev: start.UnixMilli(), At: at, Slot: at, Cause: core.CauseSchedule}}}
	must(t, f.E.Queue.Bury(ctx, m, "fire 0: a cause that is none"))
	check := ring.Message{Kind: ring.KindCheck, Slot: at, Check: &ring.Check{Runs: []core.RunID{numbered(job, 1)}}}
	must(t, f.E.Queue.Bury(ctx, check, "no fire at all"))
	left := func() int {
		t.Helper()
		list, err := f.E.Letters(ctx, "", 10)
		must(t, err)
		return len(list)
	}
	with := *f.E
	with.Records = torn{with.Records}
	reads := f.Fresh(&faults{Store: &with})
	redrive := func(q operate.RedriveRequest) operate.RedriveResult {
		t.Helper()
		res, err := reads.Redrive(ctx, ann, q)
		must(t, err)
		return res
	}
	if res := redrive(operate.RedriveRequest{}); res.Sent != 1 || res.Left != 1 || res.Dropped != 0 || left() != 2 {
		t.Errorf("%+v, %d letters are left", res, left())
	}
	// It also stays if its readable fires can never be sent.
	f.Clock = f.Clock.Add(40 * 24 * time.Hour)
	if res := redrive(operate.RedriveRequest{Drop: true}); res.Sent != 0 || res.Dropped != 0 || left() != 2 {
		t.Errorf("%+v, %d letters are left", res, left())
	}
	if res := redrive(operate.RedriveRequest{Unread: true, DryRun: true}); res.Dropped != 0 || left() != 2 {
		t.Errorf("a dry run: %+v, %d letters are left", res, left())
	}
	// Unread removes them.
	if res := redrive(operate.RedriveRequest{Unread: true}); res.Dropped != 2 || left() != 0 {
		t.Errorf("%+v, %d letters are left", res, left())
	}
}

// TestRedriveOfThePostRunLane: a message for notifications or a log is sent again as new.
func TestRedriveOfThePostRunLane(t *testing.T) {
	f := newFixture(t)
	f.Clock = start
	run := numbered(7, 3)
	for i, a := range []ring.PostRun{{Run: run, PostRun: core.PostRun{Notice: true}},
		{Run: run, PostRun: core.PostRun{Notice: true, Log: true}},
		{Run: run, PostRun: core.PostRun{Log: true}},
		{Notes: []ring.Note{{Job: 7, Event: core.EventLate, Run: run, At: core.InstantOf(start), When: start}}}} {
		m := ring.Message{Kind: ring.KindPostRun, Slot: core.InstantOf(start), Try: 3, PostRun: &a}
		must(t, f.E.Queue.Bury(ctx, m, fmt.Sprintf("it was received too often: %d", i)))
	}
	f.Clock = f.Clock.Add(3 * time.Hour)
	depth := func() int {
		due, _, _, err := f.E.Queue.Depth(ctx, ring.KindPostRun)
		must(t, err)
		return due
	}
	res, err := f.M.Redrive(ctx, ann, operate.RedriveRequest{DryRun: true})
	if err != nil || res.Sent != 4 || res.Dropped != 0 || depth() != 0 {
		t.Fatalf("a dry run: %+v, %v, %d on the lane", res, err, depth())
	}
	res, err = f.M.Redrive(ctx, ann, operate.RedriveRequest{})
	if err != nil || res.Sent != 4 || res.Dropped != 4 || res.Left != 0 || depth() != 4 {
		t.Fatalf("%+v, %v, %d on the lane", res, err, depth())
	}
	var asks []string
	for _, l := range res.Letters {
		asks = append(asks, l.Asks.String())
	}
	slices.Sort(asks)
	golden.New(t).Equal(t, "messages", strings.Join(asks, "\n"))
	got, err := f.E.Queue.Receive(ctx, ring.KindPostRun, 10)
	if err != nil || len(got) != 4 {
		t.Fatal(got, err)
	}
	for _, m := range poller.Messages(got) { // else the post-run queue would drop it as too old
		if m.Try != 0 || m.Slot != core.InstantOf(f.Clock) {
			t.Errorf("it is as old as it was: %+v", m)
		}
	}
	if list, err := f.E.Letters(ctx, "", 10); err != nil || len(list) != 0 {
		t.Errorf("%d letters are left, %v", len(list), err)
	}
}

// TestRedriveOfMany: any number of messages is sent again, page by page.
func TestRedriveOfMany(t *testing.T) {
	for _, n := range []int{budget.Redriven, budget.Redriven + 1, 5 * budget.Redriven} {
		f := newFixture(t)
		for i := range n {
			owed := ring.PostRun{Run: numbered(1, uint32(i+1)), PostRun: core.PostRun{Notice: true}}
			m := ring.Message{Kind: ring.KindPostRun, Slot: core.InstantOf(start), PostRun: &owed}
			must(t, f.E.Queue.Bury(ctx, m, "it was received too often"))
		}
		sent, calls := 0, 0
		for q := (operate.RedriveRequest{}); ; calls++ {
			res, err := f.M.Redrive(ctx, ann, q)
			if err != nil || res.Sent > budget.Redriven {
				t.Fatalf("%d sent in one call: %v", res.Sent, err)
			}
			sent += res.Sent
			if q.After = res.Next; res.Next == "" {
				break
			}
		}
		if sent != n {
			t.Errorf("%d of %d letters sent, in %d calls", sent, n, calls+1)
		}
	}
}

func TestRedriveRefusals(t *testing.T) {
	f := newFixture(t)
	for _, q := range []operate.RedriveRequest{{Limit: -1}, {Limit: budget.Redriven + 1}} {
		fails(t, core.CodeInvalid, "%+v", q)(f.M.Redrive(ctx, ann, q))
	}
	if _, err := f.M.Redrive(ctx, core.Actor{}, operate.RedriveRequest{}); core.CodeOf(err) != core.CodeInvalid {
		t.Error(err)
	}
}
