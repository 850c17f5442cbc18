package storetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// fullRun has every field set.
func fullRun(id core.RunID) core.Run {
	r := run(id)
	params := ""
	r.State, r.Cause, r.MaybeSent, r.FixedDelay, r.First = core.TimedOut, core.CauseRetry, true, true, core.NumberedRun(id.Job(), 1)
	r.Params, r.Addresses, r.Key, r.By = &params, []string{"a", "b"}, "key", "ann"
	r.RerunOf, r.PauseAfter, r.Notice, r.Parent, r.Place = core.NumberedRun(id.Job(), 3), true, true, core.NumberedRun(4, 2), 7
	r.KillBy, r.KillAt = "bob", base.Add(5*time.Millisecond)
	r.EndedAt, r.Reason, r.Code, r.Message = base.Add(time.Hour), core.ReasonTimeout, 502, "späť \x00 <b>"
	r.Data = "\x00 {\"day\": \"<b>\"}"
	r.Owes = []core.Owed{{Run: core.NumberedRun(id.Job(), 8), Kind: core.CauseRetry, Slot: at(99)}}
	r.Then = core.NumberedRun(id.Job(), 8)
	r.PostRun, r.KeepLog = core.PostRun{Log: true}, core.KeepLogAlways
	r.Late = &core.LateResult{At: base.Add(2 * time.Hour), Code: 200, Message: "done"}
	r.Tries = []core.Try{{Address: "http://a/", Code: 500, Message: "no"},
		{Address: "http://b/", By: core.RouteRandom, Of: 3, From: []string{"http://a/", "http://b/"}}}
	r.Journal.Nonce = "nonce-0"
	return r
}

// judge makes changes and checks the answers. Each run must then equal the result of RunPut.Apply, or be unchanged.
func judge(t *testing.T, s *store.Store, list []core.RunPut, want ...string) {
	t.Helper()
	runs := map[core.RunID]core.Run{}
	for i := range list {
		if r, is := readRun(t, s, list[i].ID); is {
			runs[r.ID] = r
		}
	}
	answers(t, s.ChangeRuns(t.Context(), list), want...)
	for i := range list {
		if r, is := runs[list[i].ID]; is && want[i] == "ok" {
			list[i].Apply(&r)
			runs[r.ID] = r
		}
	}
	for _, r := range runs {
		sameRun(t, s, r)
	}
}

func create(t *testing.T, h Harness) {
	s := h.Open(t)
	plain, full := run(core.PlannedRun(1, at(60))), fullRun(core.NumberedRun(1, 2))
	bare := core.Run{ID: core.NumberedRun(1, 3), App: "other", State: core.Planned, Cause: core.CauseManual}
	answers(t, s.CreateRuns(t.Context(), []core.Run{plain, full, bare}), "ok", "ok", "ok")
	found, err := s.Runs.Get(t.Context(), []core.RunID{plain.ID, full.ID, bare.ID, core.NumberedRun(1, 4)})
	ok(t, err)
	same(t, "runs", found, map[core.RunID]store.Got[*core.Run]{plain.ID: {Is: &plain}, full.ID: {Is: &full}, bare.ID: {Is: &bare}})
	other := plain
	other.Owner, other.Address = "nonce-2", "http://elsewhere/"
	fresh := run(core.PlannedRun(2, at(60)))
	answers(t, s.CreateRuns(t.Context(), []core.Run{other, fresh}), "refused", "ok")
	sameRun(t, s, plain)
	sameRun(t, s, fresh)
	twice := run(core.PlannedRun(3, at(60)))
	second := twice
	second.Owner = "nonce-2"
	if errs := s.CreateRuns(t.Context(), []core.Run{twice, second}); (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("one run twice in a batch: %v", errs)
	}
	skip := run(core.PlannedRun(4, at(60)))
	skip.State, skip.Reason, skip.EndedAt, skip.Owner, skip.Until, skip.Journal = core.Skipped, core.ReasonMisfire, base, "", time.Time{},
		core.JournalKey{}
	list := []core.Run{skip}
	add := func(state core.State, reason core.Reason) {
		r := run(core.NumberedRun(9, uint32(len(list))))
		r.State, r.Reason, r.Cause = state, reason, core.Causes[len(list)%len(core.Causes)]
		list = append(list, r)
	}
	for _, state := range core.States {
		add(state, "")
		for _, reason := range core.Reasons[state] {
			add(state, reason)
		}
	}
	ok(t, s.CreateRuns(t.Context(), list)...)
	for _, r := range list {
		sameRun(t, s, r)
	}
}

// claims: if three owners claim at once, exactly one wins each run.
func claims(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	const n = 40
	var wins [3][]error
	var all sync.WaitGroup
	for owner := range wins {
		all.Go(func() {
			var batch []core.Run
			for i := range n {
				r := run(core.PlannedRun(core.JobID(i+1), at(60)))
				r.Owner = fmt.Sprint("owner-", owner)
				batch = append(batch, r)
			}
			for half := range 2 {
				wins[owner] = append(wins[owner], s.CreateRuns(t.Context(), batch[half*n/2:(half+1)*n/2])...)
			}
		})
	}
	all.Wait()
	for i := range n {
		stored := mustRun(t, s, core.PlannedRun(core.JobID(i+1), at(60)))
		for owner := range wins {
			if (wins[owner][i] == nil) != (stored.Owner == fmt.Sprint("owner-", owner)) {
				t.Fatalf("run %d: %s has it, owner %d was answered %v", stored.ID, stored.Owner, owner, wins[owner][i])
			}
		}
	}
	// The same test with takeovers.
	for owner := range wins {
		wins[owner] = make([]error, n)
	}
	for owner := range wins {
		all.Go(func() {
			for i := range n {
				id := core.PlannedRun(core.JobID(i+1), at(60))
				got, err := s.Runs.Get(ctx, []core.RunID{id})
				if err != nil || got[id].Err != nil || !strings.HasPrefix(got[id].Is.Owner, "owner-") {
					wins[owner][i] = core.ErrRefused
					continue
				}
				r := got[id].Is
				wins[owner][i] = s.ChangeRuns(ctx, []core.RunPut{r.Take(core.Claim{Owner: fmt.Sprint("taker-", owner), Until: base}, "", base,
					nil)})[0]
			}
		})
	}
	all.Wait()
	for i := range n {
		stored := mustRun(t, s, core.PlannedRun(core.JobID(i+1), at(60)))
		for owner := range wins {
			if (wins[owner][i] == nil) != (stored.Owner == fmt.Sprint("taker-", owner)) {
				t.Fatalf("run %d: %s has it, taker %d was answered %v", stored.ID, stored.Owner, owner, wins[owner][i])
			}
		}
	}
}

func ids(n int) []core.RunID {
	list := make([]core.RunID, n)
	for i := range list {
		list[i] = core.PlannedRun(core.JobID(i+1), at(60))
	}
	return list
}

// put stores runs that change makes of a claim.
func put(t *testing.T, s *store.Store, id core.RunID, change func(*core.Run)) core.Run {
	t.Helper()
	r := run(id)
	if change != nil {
		change(&r)
	}
	ok(t, s.CreateRuns(t.Context(), []core.Run{r})...)
	return r
}

func unowned(r *core.Run) {
	r.State, r.Owner, r.Until, r.Address = core.Planned, "", time.Time{}, ""
}

func closed(r *core.Run) { r.State, r.EndedAt = core.Succeeded, base }

func takeOver(t *testing.T, h Harness) {
	s := h.Open(t)
	id := ids(8)
	foreign, free, kept, fresh := put(t, s, id[0], nil), put(t, s, id[1], unowned), put(t, s, id[2], func(r *core.Run) {
		unowned(r)
		r.Address, r.MaybeSent = "http://kept/", true
	}), put(t, s, id[3], func(r *core.Run) {
		unowned(r)
		r.State, r.SentAt, r.Attempt, r.Retries, r.Journal = core.Queued, time.Time{}, 0, 0, core.JournalKey{}
	})
	shut := put(t, s, id[4], closed)
	claim := core.Claim{Owner: "nonce-9", Until: base.Add(time.Minute), Journal: core.JournalKey{Minute: 77, Suffix: 15, Nonce: "nonce-9"}}
	take := func(r core.Run) core.RunPut { return r.Take(claim, "http://new/", base.Add(time.Hour), nil) }
	otherOwner, otherUntil, otherAddress, noAddress, anAddress := take(foreign), take(foreign), take(foreign), take(foreign), take(free)
	otherOwner.Was.Owner = "nonce-x"
	otherAddress.Was.Address, noAddress.Was.Address, anAddress.Was.Address = "http://other/", "", "http://new/"
	otherUntil.Was.Until = foreign.Until.Add(time.Millisecond)
	none := take(foreign)
	none.Was.Owner, none.Was.Until = "", time.Time{}
	for _, bad := range []core.RunPut{otherOwner, otherUntil, otherAddress, noAddress, anAddress, none, take(shut), take(run(id[7]))} {
		judge(t, s, []core.RunPut{bad}, "refused")
	}
	tries := []core.Try{{Address: "http://b/", Code: 1, Message: "x"}}
	tried := fresh.Take(claim, "http://new/", base.Add(time.Hour), tries)
	judge(t, s, []core.RunPut{take(foreign), take(free), take(kept), tried, take(shut)}, "ok", "ok", "ok", "ok", "refused")
	judge(t, s, []core.RunPut{take(foreign)}, "refused") // a write that comes late

	// Stored tries stay if a take has none.
	tried.Apply(&fresh)
	judge(t, s, []core.RunPut{fresh.Take(core.Claim{Owner: "nonce-10", Until: base.Add(time.Hour)}, "", base, nil)}, "ok")
	if r := mustRun(t, s, fresh.ID); !r.MaybeSent || r.Owner != "nonce-10" || len(r.Tries) != 1 || !r.Journal.IsZero() {
		t.Fatalf("taken twice: %+v", r)
	}

	// A claim stores the revision, permit and notify flag of its job if they differ from the stored ones.
	under := put(t, s, id[5], unowned)
	for _, c := range []struct {
		rev, want int64
		permit    string
		tells     bool
	}{{7, 7, "", true}, {under.Rev, 0, "job/1", true}, {under.Rev, 0, "job/1", false}, {8, 8, "job/2", false}, {8, 8, "job/2", false},
		{8, 8, "job/3", true}} {
		p := under.Take(claim, "http://new/", base, nil).Under(c.rev, c.tells).Counted(c.permit)
		judge(t, s, []core.RunPut{p}, "ok")
		if p.Apply(&under); under.SentRev != c.want || under.Permit != c.permit || under.Notice != c.tells {
			t.Fatalf("under revision %d: %+v", c.rev, under)
		}
	}
	made := run(id[6])
	made.SentRev = 3
	ok(t, s.CreateRuns(t.Context(), []core.Run{made})...)
	sameRun(t, s, made)
}

// runChanges: each kind of change is made on its condition. A run without an owner that was never sent waits for an executor, and
// is taken like any other.
func runChanges(t *testing.T, h Harness) {
	s := h.Open(t)
	id := ids(7)
	maybe := func(r *core.Run) { r.MaybeSent = true }
	for _, c := range []struct {
		name   string
		make   func(r *core.Run) core.RunPut
		refuse []func(*core.RunPut) // of the first run
		of     []func(*core.Run)
		want   []string // the last one is of no run
	}{
		{"readdress", func(r *core.Run) core.RunPut {
			return r.Readdress("http://next/", []core.Try{{Address: r.Address, Code: 500}})
		}, []func(*core.RunPut){func(p *core.RunPut) { p.Was.Owner = "nonce-x" }, func(p *core.RunPut) { p.Was.Address = "http://x/" }},
			[]func(*core.Run){nil, closed}, []string{"ok", "refused", "refused"}},
		{"release", (*core.Run).GiveBack, []func(*core.RunPut){func(p *core.RunPut) { p.Was.Owner = "nonce-x" }},
			[]func(*core.Run){nil, maybe, closed}, []string{"ok", "ok", "refused", "refused"}},
		{"wait", func(r *core.Run) core.RunPut {
			p := r.Wait()
			p.Was.Owner, p.Was.MaybeSent = "", false
			return p
		}, []func(*core.RunPut){func(p *core.RunPut) { p.Was.Until = base.Add(time.Hour) }},
			[]func(*core.Run){unowned, nil, func(r *core.Run) { unowned(r); maybe(r) }, closed},
			[]string{"ok", "refused", "refused", "refused", "refused"}},
		{"skip", func(r *core.Run) core.RunPut {
			return (&core.Run{ID: r.ID}).SkipUnsent(core.ReasonChanged, base.Add(time.Second))
		}, nil, []func(*core.Run){unowned, nil, func(r *core.Run) { unowned(r); maybe(r) }, closed},
			[]string{"ok", "refused", "refused", "refused", "refused"}},
		{"skip for a limit", func(r *core.Run) core.RunPut {
			return (&core.Run{ID: r.ID}).SkipUnsent(core.ReasonQueueFull, base.Add(time.Second)).Counted("job/1").Under(3, true)
		}, nil, []func(*core.Run){func(r *core.Run) {
			unowned(r)
			r.By, r.Key, r.Params, r.RerunOf, r.PauseAfter = "ann", "k", new(string), 5, true
		}, closed}, []string{"ok", "refused", "refused"}},
		{"kill", func(r *core.Run) core.RunPut { return r.Kill("ann", base.Add(time.Second)) }, nil,
			[]func(*core.Run){nil, closed}, []string{"ok", "refused", "refused"}},
	} {
		s := h.Open(t)
		t.Log(c.name)
		var list []core.RunPut
		for i, change := range c.of {
			r := put(t, s, id[i], change)
			list = append(list, c.make(&r))
		}
		none := run(id[len(c.of)])
		list = append(list, c.make(&none))
		for _, spoil := range c.refuse {
			p := list[0]
			spoil(&p)
			judge(t, s, []core.RunPut{p}, "refused")
		}
		judge(t, s, list, c.want...)
		if c.name != "kill" && c.name != "wait" {
			judge(t, s, list[:1], "refused") // again
		}
	}
	waits, fresh := put(t, s, id[0], func(r *core.Run) { unowned(r); r.State = core.Queued }), put(t, s, id[1], func(r *core.Run) {
		unowned(r)
		r.State, r.SentAt, r.Journal = core.Queued, time.Time{}, core.JournalKey{}
	})
	take := waits.Take(core.Claim{Owner: "nonce-9", Until: base.Add(time.Minute)}, "http://new/", base.Add(time.Hour), nil)
	judge(t, s, []core.RunPut{take, fresh.SkipUnsent(core.ReasonDeadline, base)}, "ok", "ok")
}

// Unread and read runs: an engine may write the two in different ways.
func closeUnread(t *testing.T, h Harness) { closeRuns(t, h, false) }
func closeRead(t *testing.T, h Harness)   { closeRuns(t, h, true) }

func closeRuns(t *testing.T, h Harness, read bool) {
	s := h.Open(t)
	id := ids(18)
	maybe := func(r *core.Run) { r.MaybeSent = true }
	killed := func(r *core.Run) { r.KillBy, r.KillAt = "ann", base }
	freed := func(r *core.Run) { r.Owner, r.Until, r.State, r.MaybeSent = "", time.Time{}, core.Planned, true }
	had := func(p *core.RunPut) { p.Had = true }
	on := func(fields core.RunFields, was core.Run) func(*core.RunPut) {
		return func(p *core.RunPut) { p.If, p.Was = fields, was }
	}
	ownerAndSent := on(core.RunOwner|core.RunMaybeSent, core.Run{})
	var list []core.RunPut
	var want []string
	before := map[core.RunID]core.Run{}
	for i, c := range []struct {
		run  func(*core.Run)
		on   func(*core.RunPut)
		want string
	}{
		{unowned, had, "refused"}, {nil, had, "ok"}, {nil, on(core.RunOwner|core.RunKill, core.Run{Owner: "nonce-1"}), "ok"},
		{nil, on(core.RunOwner, core.Run{Owner: "nonce-x"}), "refused"},
		{maybe, on(core.RunMaybeSent, core.Run{}), "refused"}, {maybe, nil, "ok"},
		{nil, ownerAndSent, "refused"}, {unowned, ownerAndSent, "ok"}, {freed, ownerAndSent, "refused"}, {closed, nil, "refused"},
		{func(r *core.Run) { r.ID = 0 }, nil, "refused"}, {unowned, on(core.RunMaybeSent, core.Run{}), "ok"},
		{killed, on(core.RunKill, core.Run{}), "refused"},
		{killed, func(p *core.RunPut) { p.If, p.To.Message = core.RunKill, strings.Repeat("m", core.MessageMax) }, "refused"},
		{nil, on(core.RunApp, core.Run{App: "orders"}), "ok"}, {nil, on(core.RunApp, core.Run{App: "billing"}), "refused"}, {freed, had, "ok"},
	} {
		p := core.End(id[i], core.Run{State: core.Failed, Reason: core.ReasonHandler, Code: 500, Message: "boom", Data: "day",
			EndedAt: base.Add(time.Minute),
			Owes:    []core.Owed{{Run: core.NumberedRun(1, 5), Kind: core.CauseRetry, Slot: at(90)}}, Then: core.NumberedRun(1, 5)})
		if c.on != nil {
			c.on(&p)
		}
		if r := run(id[i]); c.run != nil {
			if c.run(&r); r.ID == 0 {
				list, want = append(list, p), append(want, c.want)
				continue // of no run
			}
		}
		r := put(t, s, id[i], c.run)
		if before[r.ID] = r; read {
			p.Seen = &r
		}
		list, want = append(list, p), append(want, c.want)
	}
	judge(t, s, list, want...)
	judge(t, s, list[:1], "refused")
	for i, c := range list {
		r, is := before[c.ID]
		if s := c.Seen; is && want[i] == "ok" && (s == nil || s.ID != c.ID || s.App != r.App || s.First != r.First ||
			s.Attempt != r.Attempt || s.FixedDelay != r.FixedDelay || s.Key != r.Key) {
			t.Errorf("run %d that was closed is shown as %+v", c.ID, s)
		}
	}

	// One run twice in a batch, and many at once.
	long := put(t, s, id[17], nil)
	c := core.End(long.ID, core.Run{State: core.Succeeded, Code: 200, Message: strings.Repeat("m", core.MessageMax), EndedAt: base})
	if errs := s.ChangeRuns(t.Context(), []core.RunPut{c, c}); (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("one run twice in a batch: %v", errs)
	}
	c.Apply(&long)
	sameRun(t, s, long)

	// Text and data, short and long, in one batch.
	short, most := "m", strings.Repeat("é", core.DataMax/2)
	texts := [][2]string{{"", ""}, {short, ""}, {"", short}, {short, most}, {"", most}, {strings.Repeat("m", 1000), short},
		{strings.Repeat("m", 200), strings.Repeat("d", 200)}}
	var runs []core.Run
	var ends []core.RunPut
	for i, text := range texts {
		r := run(core.NumberedRun(51, uint32(i)))
		runs = append(runs, r)
		ends = append(ends, core.End(r.ID, core.Run{State: core.Succeeded, Code: 200, Message: text[0], Data: text[1], EndedAt: base}))
	}
	ok(t, s.CreateRuns(t.Context(), runs)...)
	judge(t, s, ends, slices.Repeat([]string{"ok"}, len(ends))...)
	for i, r := range runs {
		ends[i].Apply(&r)
		r.ID = core.NumberedRun(52, uint32(i))
		r.First = r.ID
		ok(t, s.CreateRuns(t.Context(), []core.Run{r})...)
		sameRun(t, s, r)
	}

	runs = nil
	var closes []core.RunPut
	for i := range 2500 {
		r := run(core.NumberedRun(50, uint32(i)))
		runs = append(runs, r)
		closes = append(closes, core.End(r.ID, core.Run{State: core.Succeeded, EndedAt: base}))
	}
	ok(t, s.CreateRuns(t.Context(), runs)...)
	ok(t, s.ChangeRuns(t.Context(), closes)...)
}

func clearOwedAndLate(t *testing.T, h Harness) {
	s := h.Open(t)
	id := ids(4)
	owes := []core.Owed{{Run: core.NumberedRun(1, 5), Kind: core.CauseRetry, Slot: at(9)}}
	open := put(t, s, id[0], nil)
	lost := put(t, s, id[1], func(r *core.Run) {
		r.State, r.Reason, r.EndedAt, r.Owes, r.Then = core.Lost, core.ReasonGone, base, owes, owes[0].Run
	})
	done := put(t, s, id[2], closed)
	closing, none, other := open, done, lost // unread, as usual; other as another writer read it earlier
	closing.State, none.ID, other.Owes = core.Succeeded, id[3], []core.Owed{{Pause: true}}
	judge(t, s, []core.RunPut{other.ClearOwed()}, "refused")
	judge(t, s, []core.RunPut{closing.ClearOwed(), lost.ClearOwed(), done.ClearOwed(), none.ClearOwed()}, "refused", "ok", "ok", "refused")
	judge(t, s, []core.RunPut{lost.ClearOwed()}, "refused")
	late := core.LateResult{At: base.Add(time.Second), Code: 200, Message: "came late"}
	open2, none2 := open, lost // as lost
	open2.State, none2.ID = core.Lost, id[3]
	judge(t, s, []core.RunPut{open2.NoteLate(late), none2.NoteLate(late), lost.NoteLate(late)}, "refused", "refused", "ok")
	judge(t, s, []core.RunPut{lost.NoteLate(core.LateResult{At: base, Code: 500})}, "refused")
}

// clearOwed records that a run has no follow-ups left.
func clearOwed(t *testing.T, s *store.Store, id core.RunID) {
	t.Helper()
	r := mustRun(t, s, id)
	ok(t, s.ChangeRuns(t.Context(), []core.RunPut{r.ClearOwed()})...)
}

func triggered(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	params := "p"
	r := core.Run{ID: core.NumberedRun(1, 1), App: "orders", State: core.Planned, Cause: core.CauseManual, At: at(10), Slot: at(10),
		First: core.NumberedRun(1, 1), Params: &params, By: "ann"}
	entry := core.DueItem{PlanAt: at(5), Job: 1, Run: r.ID}
	trigger := func(r core.Run, d core.DueItem) error {
		return s.Runs.Put(ctx, []store.RunPut{{Create: &r, Enter: &d}})[0]
	}
	ok(t, trigger(r, entry))
	sameRun(t, s, r)
	wantDue(t, h, s, 0, at(10), 10, entry)
	other, second := r, entry
	other.By, second.PlanAt = "bob", at(6)
	refused(t, trigger(other, second))
	sameRun(t, s, r)
	wantDue(t, h, s, 0, at(10), 10, entry)
}

func changed(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	short, long, longer := "p", strings.Repeat("long ", 400), strings.Repeat("longer ", 400)
	waits := func(n uint32, params *string) (core.Run, core.DueItem) {
		id := core.NumberedRun(1, n)
		r := core.Run{ID: id, App: "orders", State: core.Planned, Cause: core.CauseManual, Rev: 3, At: at(10), Slot: at(10), Attempt: 1,
			First: id, Retries: 2,
			Params: params, Addresses: []string{"http://10.0.0.1:9999"}, Key: "k", By: "ann", Permit: "job/1"}
		d := core.DueItem{PlanAt: at(5), Job: 1, Run: id}
		ok(t, s.Runs.Put(ctx, []store.RunPut{{Create: &r, Enter: &d}})[0])
		return r, d
	}
	n := int64(0)
	// become is r with another time, put in place of the entry d.
	become := func(r core.Run, d core.DueItem, slot int, params *string, addresses ...string) (store.RunPut, core.DueItem) {
		n++
		to := r
		to.At, to.Slot, to.Params, to.Addresses = at(slot), at(slot), params, addresses
		p, enter := r.Retime(to, base.Add(time.Duration(n)*time.Second)), d
		enter.PlanAt = at(slot - 5)
		return store.RunPut{Change: &p, Leave: []core.DueItem{d}, Enter: &enter, Changes: []core.Change{
			{ID: 1000 + n, At: base, By: "bob", Verb: core.VerbChanged, App: "orders", Job: 1, Old: "{}", New: "{}"}}}, enter
	}
	changes := func(want int) {
		t.Helper()
		list, err := s.Changes(ctx, "", 1, math.MaxInt64, 100)
		ok(t, err)
		if len(list) != want {
			t.Fatalf("%d change records, want %d: %+v", len(list), want, list)
		}
	}

	r, d := waits(1, &short)
	for i, params := range []*string{&long, &longer, &short, &long, &short} {
		c, to := become(r, d, 20+i, params, [][]string{nil, {"http://10.0.0.2:9999", "http://10.0.0.3:9999"}}[i%2]...)
		ok(t, s.Runs.Put(ctx, []store.RunPut{c})[0])
		refused(t, s.Runs.Put(ctx, []store.RunPut{c})[0]) // as seen before
		r, d = c.Change.To, to
		sameRun(t, s, r)
		wantDue(t, h, s, 0, at(100), 10, d)
		changes(i + 1)
	}
	// The entry may be the same, and there may be none to drop.
	c, _ := become(r, d, 24, &short)
	ok(t, s.Runs.Put(ctx, []store.RunPut{c})[0])
	r = c.Change.To
	c, _ = become(r, d, 26, &short)
	c.Leave = nil
	ok(t, s.Runs.Put(ctx, []store.RunPut{c})[0])
	r = c.Change.To
	wantDue(t, h, s, 0, at(100), 10, d, *c.Enter)
	ok(t, s.Leave(ctx, []core.DueItem{d, *c.Enter})[0])
	d = *c.Enter
	changes(7)

	// A read from before a change neither claims nor skips; a later read does.
	claim := core.Claim{Owner: "me", Until: base.Add(time.Minute), Journal: core.JournalKey{Minute: 1, Suffix: 2, Nonce: "me"}}
	take := r.Take(claim, "http://10.0.0.1:9999", base, nil)
	dispatched := func(p core.RunPut) error { return s.ChangeRuns(t.Context(), []core.RunPut{p})[0] }
	stale := r
	for _, stale.Until = range []time.Time{r.Until.Add(-time.Millisecond), {}} {
		refused(t, dispatched(stale.Take(claim, "", base, nil)))
	}
	refused(t, dispatched(stale.SkipUnsent(core.ReasonPaused, base)))
	sameRun(t, s, r)
	ok(t, dispatched(take))
	// A claimed run cannot be changed. A run that was released unsent can, and counts as
	// unsent.
	c, _ = become(r, d, 30, &short)
	refused(t, s.Runs.Put(ctx, []store.RunPut{c})[0])
	c.Change.Was.Until = take.To.Until
	refused(t, s.Runs.Put(ctx, []store.RunPut{c})[0])
	ok(t, dispatched(take.To.GiveBack()))
	// until stays, so that a dispatcher with an earlier read cannot take the changed run.
	for _, seen := range []time.Time{{}, r.Until} {
		c.Change.Was.Until = seen
		refused(t, s.Runs.Put(ctx, []store.RunPut{c})[0])
	}
	c.Change.Was.Until = take.To.Until
	ok(t, s.Runs.Put(ctx, []store.RunPut{c})[0])
	r = c.Change.To
	r.Journal = claim.Journal
	sameRun(t, s, r)
	changes(8)
	ok(t, dispatched(r.SkipUnsent(core.ReasonPaused, base)))

	maybe, d2 := waits(2, nil)
	for _, owner := range []string{"a", "b"} {
		taken := maybe
		p := taken.Take(core.Claim{Owner: owner, Until: base.Add(time.Minute)}, "http://10.0.0.1:9999", base, nil)
		ok(t, dispatched(p))
		maybe = p.To
	}
	ok(t, dispatched(maybe.GiveBack()))
	gone := maybe
	gone.ID = core.NumberedRun(1, 9)
	for _, x := range []core.Run{r, maybe, gone} { // closed; perhaps sent; none
		x.Until = time.Time{}
		c, _ := become(x, d2, 40, nil)
		refused(t, s.Runs.Put(ctx, []store.RunPut{c})[0])
		c.Change.Was.Until = r.Until
		refused(t, s.Runs.Put(ctx, []store.RunPut{c})[0])
	}
	changes(8)
	wantDue(t, h, s, 0, at(100), 10, d2, core.DueItem{PlanAt: at(25), Job: 1, Run: r.ID})
}

func runsByID(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	var want []core.RunID
	for i := range 30 {
		want = append(want, core.PlannedRun(2, at(i*10)))
	}
	numbered := []core.RunID{core.NumberedRun(2, 1), core.NumberedRun(2, 2)}
	others := []core.RunID{core.PlannedRun(1, at(50)), core.PlannedRun(3, at(50))}
	for _, id := range slices.Concat(numbered, others, want[15:], want[:15]) {
		put(t, s, id, nil)
	}
	read := func(first, last core.RunID, page int) (got []core.RunID) {
		t.Helper()
		for {
			runs, err := s.Runs.Span(ctx, first, last, page)
			ok(t, err)
			if len(runs) == 0 {
				return got
			}
			if len(runs) > page {
				t.Fatalf("%d runs, %d were asked for", len(runs), page)
			}
			for _, r := range runs {
				got = append(got, r.ID)
			}
			end := got[len(got)-1]
			if end == last {
				return got
			}
			if first = end + 1; last < end {
				first = end - 1
			}
			if first == last { // a span of one has no direction
				r, is := readRun(t, s, first)
				if is {
					got = append(got, r.ID)
				}
				return got
			}
		}
	}
	first, last := core.RunRange(2, at(0), core.Horizon)
	down := slices.Clone(want)
	slices.Reverse(down)
	for _, page := range []int{1, 7, 100} {
		same(t, "upwards", read(first, last, page), want)
		same(t, "downwards", read(last, first, page), down)
	}
	a, b := core.RunRange(2, at(100), at(120))
	same(t, "both ends included", read(a, b, 10), want[10:13])
	same(t, "downwards, both ends included", read(b, a, 10), []core.RunID{want[12], want[11], want[10]})
	a, b = core.NumberedRange(2)
	same(t, "numbered", read(a, b, 10), numbered)
	a, b = core.RunRange(2, at(101), at(109))
	same(t, "between two", read(a, b, 10), nil)
	a, b = core.RunRange(9, at(0), core.Horizon)
	same(t, "of no job", read(a, b, 10), nil)
}

func recentRuns(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	all := map[core.RunID]bool{}
	orders := map[core.RunID]bool{}
	for batch := range 4 {
		var list []core.Run
		of := core.Journal{Key: core.JournalKey{Minute: time.Now().Unix() / 60, Suffix: batch, Nonce: "nonce-1"}, V: 1}
		for i := range 10 {
			r := run(core.PlannedRun(core.JobID(batch*10+i+1), at(60)))
			if i%2 == 0 {
				r.App = "other"
			} else {
				orders[r.ID] = true
			}
			all[r.ID] = true
			r.Journal = of.Key
			list = append(list, r)
			of.Entries = append(of.Entries, core.Entry{Run: r.ID, Address: r.Address, Outcome: core.Accepted})
		}
		ok(t, s.CreateRuns(t.Context(), list)...)
		ok(t, s.PutJournal(ctx, of))
		<-time.After(3 * time.Millisecond)
	}
	for app, want := range map[string]map[core.RunID]bool{"": all, "orders": orders, "none": {}} {
		eventually(t, h, func() string {
			got := map[core.RunID]bool{}
			from, pages := store.RunPlace{}, 0
			for {
				runs, next, err := s.Runs.Recent(ctx, store.Recent{App: app}, from, 6)
				ok(t, err)
				for _, r := range runs {
					if got[r.ID] {
						t.Fatalf("run %d came twice", r.ID)
					}
					got[r.ID] = true
				}
				if len(runs) > 6 {
					t.Fatalf("%d runs of one moment in a page of 6", len(runs))
				}
				if next == (store.RunPlace{}) {
					break
				}
				if pages++; pages > 1000 || from.Before != 0 && next.Before > from.Before {
					t.Fatalf("it goes on from %v after %v", next, from)
				}
				from = next
			}
			return cmp.Diff(want, got, cmpopts.EquateEmpty())
		})
	}
	eventually(t, h, func() string { // the last batch comes first
		runs, _, err := s.Runs.Recent(ctx, store.Recent{}, store.RunPlace{}, 5)
		ok(t, err)
		for _, r := range runs {
			if r.ID.Job() <= 30 {
				return fmt.Sprintf("run of job %d among the newest", r.ID.Job())
			}
		}
		return ""
	})
}

// recentRunsOfStates: all runs of each requested state come, in the order of their creation,
// even if they changed since; other runs may come too.
func recentRunsOfStates(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	of := core.Journal{Key: core.JournalKey{Minute: time.Now().Unix() / 60, Nonce: "nonce-1"}, V: 1}
	var list []core.Run
	for i := range 3 * len(core.States) {
		r := run(core.PlannedRun(core.JobID(i+1), at(60)))
		if r.State = core.States[i%len(core.States)]; i%2 == 0 {
			r.App = "other"
		}
		if !r.State.Open() {
			r.EndedAt, r.Reason = base.Add(62*time.Second), append(core.Reasons[r.State], "")[0]
		}
		r.Journal = of.Key
		list = append(list, r)
		of.Entries = append(of.Entries, core.Entry{Run: r.ID, Address: r.Address, Outcome: core.Accepted})
	}
	for i := range list {
		ok(t, s.CreateRuns(t.Context(), list[i:i+1])...)
	}
	ok(t, s.PutJournal(ctx, of))
	ends := list[slices.IndexFunc(list, func(r core.Run) bool { return r.State == core.Running })]
	ok(t, s.ChangeRuns(ctx, []core.RunPut{core.End(ends.ID, core.Run{State: core.Lost, Reason: core.ReasonGone,
		EndedAt: base.Add(63 * time.Second)})})...)
	for i := range list {
		if list[i].ID == ends.ID {
			list[i].State = core.Lost
		}
	}
	asked := [][]core.State{{core.Failed, core.Lost}, {core.Running, core.Queued}, {core.Running, core.Lost}, {core.Succeeded, core.Skipped}}
	for _, s := range core.States {
		asked = append(asked, []core.State{s})
	}
	for _, app := range []string{"", "other"} {
		for _, states := range asked {
			fits := func(r *core.Run) bool { return (app == "" || r.App == app) && slices.Contains(states, r.State) }
			want := map[core.RunID]bool{}
			for i := range list {
				if fits(&list[i]) {
					want[list[i].ID] = true
				}
			}
			eventually(t, h, func() string {
				got := map[core.RunID]bool{}
				for from := (store.RunPlace{}); ; {
					runs, next, err := s.Runs.Recent(ctx, store.Recent{App: app, States: states}, from, 2)
					ok(t, err)
					for i := range runs {
						if fits(&runs[i]) {
							got[runs[i].ID] = true
						} else if app != "" && runs[i].App != app {
							t.Fatalf("of %s came a run of %s", app, runs[i].App)
						}
					}
					if from = next; next == (store.RunPlace{}) {
						return cmp.Diff(want, got, cmpopts.EquateEmpty())
					}
				}
			})
		}
	}
}

// lastRuns: the newest of each job by their slots, planned and numbered alike, without runs
// that wait for a later slot.
func lastRuns(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	put := func(id core.RunID, slot int) core.Run {
		r := run(id)
		r.At, r.Slot = at(slot), at(slot)
		ok(t, s.CreateRuns(t.Context(), []core.Run{r})...)
		return r
	}
	for i := range 5 {
		put(core.PlannedRun(1, at(60*i)), 60*i)
	}
	planned := put(core.PlannedRun(1, at(300)), 300)
	put(core.PlannedRun(1, at(900)), 900)
	byHand := put(core.NumberedRun(1, 1), 270)
	put(core.NumberedRun(1, 2), 5000)
	put(core.NumberedRun(2, 1), 10)
	put(core.NumberedRun(4, 1), 10)
	got, err := s.Runs.Last(ctx, []core.JobID{1, 2, 3}, at(600), 2)
	ok(t, err)
	ids := map[core.JobID][]core.RunID{}
	for job, runs := range got {
		for _, r := range runs {
			ids[job] = append(ids[job], r.ID)
		}
	}
	same(t, "the last runs", ids, map[core.JobID][]core.RunID{1: {planned.ID, byHand.ID}, 2: {core.NumberedRun(2, 1)}})
	same(t, "a run", got[1][0], planned)
}

// openRuns: the open runs of a span, even without an owner, the highest IDs first and page by
// page. Runs that ended and other jobs' runs are not among them.
func openRuns(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	a, b, c := core.PlannedRun(1, at(100)), core.NumberedRun(1, 1), core.PlannedRun(1, at(50))
	put(t, s, a, nil)
	put(t, s, b, nil)
	put(t, s, c, nil)
	put(t, s, core.PlannedRun(1, at(20)), closed)
	put(t, s, core.PlannedRun(2, at(20)), nil)
	waits, queued := core.NumberedRun(1, 9), core.NumberedRun(1, 10)
	put(t, s, waits, func(r *core.Run) { unowned(r); r.SentAt = time.Time{} })
	put(t, s, queued, func(r *core.Run) { unowned(r); r.State, r.SentAt = core.Queued, time.Time{} })
	read := func(first, last core.RunID, limit int, want ...core.RunID) {
		t.Helper()
		var got []core.RunID
		for next := first; next != 0; {
			var runs []core.Run
			var err error
			runs, next, err = s.Runs.Open(ctx, next, last, false, limit)
			ok(t, err)
			for _, r := range runs {
				got = append(got, r.ID)
			}
			if len(runs) > limit {
				t.Fatalf("%d open runs, want %d at most", len(runs), limit)
			}
		}
		same(t, "open runs", got, want)
	}
	low, high := core.RunRange(1, 0, core.Horizon)
	nlow, nhigh := core.NumberedRange(1)
	for _, limit := range []int{1, 2, 3, 10} {
		read(nhigh, nlow, limit, queued, waits, b)
		read(high, low, limit, a, c)
		read(nhigh, low, limit, queued, waits, b, a, c)
		read(waits, a, limit, waits, b, a)
	}
	ok(t, s.ChangeRuns(ctx, []core.RunPut{core.End(c, core.Run{State: core.Succeeded, EndedAt: base})})...)
	read(high, low, 10, a)
}

// waiting: the queued and the released runs of a job are listed from an ID downwards, until a
// process takes them or they end.
func waiting(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	queued := func(r *core.Run) { unowned(r); r.State, r.SentAt = core.Queued, time.Time{} }
	a, b, c, d := core.PlannedRun(1, at(20)), core.PlannedRun(1, at(50)), core.PlannedRun(1, at(100)), core.NumberedRun(1, 7)
	first := put(t, s, a, queued)
	given := put(t, s, b, nil)
	later := put(t, s, c, func(r *core.Run) { unowned(r); r.SentAt = time.Time{} })
	numbered := put(t, s, d, queued)
	put(t, s, core.PlannedRun(1, at(70)), nil)
	put(t, s, core.PlannedRun(1, at(80)), closed)
	put(t, s, core.PlannedRun(2, at(20)), queued)
	ok(t, s.ChangeRuns(ctx, []core.RunPut{given.GiveBack(), later.Wait()})...)
	low, _ := core.RunRange(1, 0, 0)
	read := func(limit int, want ...core.RunID) {
		t.Helper()
		var got []core.RunID
		for next := core.NumberedRun(1, core.MaxNumber); next != 0; {
			var page []core.Run
			var err error
			page, next, err = s.Runs.Open(ctx, next, low, true, limit)
			ok(t, err)
			for i := range page {
				got = append(got, page[i].ID)
			}
		}
		same(t, "the runs that wait", got, want)
	}
	for _, limit := range []int{1, 2, 10} {
		read(limit, d, c, b, a)
	}
	claim := core.Claim{Owner: "second", Until: base.Add(time.Minute), Journal: core.JournalKey{Minute: 5, Nonce: "second"}}
	ok(t, s.ChangeRuns(ctx, []core.RunPut{numbered.Take(claim, "http://second/", base, nil),
		first.SkipUnsent(core.ReasonCancelled, base)})...)
	read(1, c, b)
	taken := mustRun(t, s, d)
	ok(t, s.ChangeRuns(ctx, []core.RunPut{taken.GiveBack()})...)
	read(10, d, c, b)
}

func journal(minute int64, nonce string, v int, n int) core.Journal {
	j := core.Journal{Key: core.JournalKey{Minute: minute, Suffix: 3, Nonce: nonce}, V: v}
	for i := range n {
		j.Entries = append(j.Entries, core.Entry{Run: core.PlannedRun(core.JobID(n-i), at(i)), Address: fmt.Sprint("http://", i%3),
			Outcome: core.Outcome(i%4 + 1)})
	}
	if n > 2 {
		j.Entries[1].Address = ""
	}
	return j
}

func journals(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	one := journal(1000, "n1", 1, 50)
	ok(t, s.PutJournal(ctx, one))
	read := func(want core.Journal) {
		t.Helper()
		got, err := s.Journals(ctx, []core.JournalKey{want.Key, {Minute: 1, Nonce: "none"}})
		ok(t, err)
		same(t, "journal", got, map[core.JournalKey]core.Journal{want.Key: want})
	}
	read(one)
	refused(t, s.PutJournal(ctx, journal(1000, "n1", 1, 3)))
	refused(t, s.PutJournal(ctx, journal(1000, "n1", 0, 3)))
	read(one)
	five := journal(1000, "n1", 5, 4)
	five.Entries[1].Answer, five.Entries[3].Answer = "HTTP 500: out of memory", "closed the connection"
	ok(t, s.PutJournal(ctx, five))
	refused(t, s.PutJournal(ctx, journal(1000, "n1", 4, 9)))
	read(five)
	ok(t, s.PutJournal(ctx, journal(1000, "n2", 1, 0)))
	ok(t, s.PutJournal(ctx, journal(1001, "n1", 1, 2)))
	other := journal(1000, "n1", 2, 1)
	other.Key.Suffix = 4
	ok(t, s.PutJournal(ctx, other))
	list, err := s.JournalsAt(ctx, 1000, core.JournalKey{}, 1000)
	ok(t, err)
	got := map[core.JournalKey]core.Journal{}
	for _, j := range list {
		got[j.Key] = j
	}
	same(t, "journals of a minute", got, map[core.JournalKey]core.Journal{five.Key: five, other.Key: other,
		{Minute: 1000, Suffix: 3, Nonce: "n2"}: journal(1000, "n2", 1, 0)})
	list, err = s.JournalsAt(ctx, 999, core.JournalKey{}, 1000)
	ok(t, err)
	same(t, "journals of another minute", list, nil)
}

func watch(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	k := func(nonce string) core.JournalKey { return core.JournalKey{Minute: 90, Suffix: 2, Nonce: nonce} }
	ok(t, s.PutRevisits(ctx, 110, []core.JournalKey{k("a"), k("b")}))
	ok(t, s.PutRevisits(ctx, 110, []core.JournalKey{k("b"), k("c")}))
	ok(t, s.PutRevisits(ctx, 120, []core.JournalKey{k("d")}))
	revisits := func(minute int64, want ...string) {
		t.Helper()
		got, err := s.Revisits(ctx, minute, core.JournalKey{}, 1000)
		ok(t, err)
		var nonces []string
		for _, key := range got {
			if key.Minute != 90 || key.Suffix != 2 {
				t.Fatalf("key %v", key)
			}
			nonces = append(nonces, key.Nonce)
		}
		slices.Sort(nonces)
		same(t, "revisits", slices.Compact(nonces), want)
	}
	revisits(110, "a", "b", "c")
	revisits(120, "d")
	revisits(130)
	ok(t, s.DropRevisits(ctx, 110))
	ok(t, s.DropRevisits(ctx, 110))
	revisits(110)
	revisits(120, "d")
}

// watchPages: journals, and journals to read again, come in pages, each once, in an order that
// later writes keep; none of another minute comes.
func watchPages(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	want := map[core.JournalKey]bool{}
	var keys []core.JournalKey
	for i := range 23 {
		j := journal(1000, fmt.Sprintf("n%d", i), 1, 1)
		j.Key.Suffix = i % 16
		ok(t, s.PutJournal(ctx, j))
		keys = append(keys, j.Key)
		want[j.Key] = true
	}
	ok(t, s.PutJournal(ctx, journal(999, "before", 1, 1)))
	ok(t, s.PutJournal(ctx, journal(1001, "after", 1, 1)))
	ok(t, s.PutRevisits(ctx, 1010, keys))
	ok(t, s.PutRevisits(ctx, 1011, keys[:1]))
	pages := func(what string, read func(after core.JournalKey, limit int) []core.JournalKey) {
		t.Helper()
		for _, limit := range []int{1, 7, 23, 24} {
			seen, after := map[core.JournalKey]bool{}, core.JournalKey{}
			for {
				page := read(after, limit)
				for _, k := range page {
					if seen[k] || !want[k] {
						t.Fatalf("%s by %d: %s came twice, or is another's", what, limit, k)
					}
					seen[k] = true
				}
				if len(page) < limit {
					break
				}
				if len(page) > limit {
					t.Fatalf("%s by %d: %d came", what, limit, len(page))
				}
				after = page[len(page)-1]
			}
			if len(seen) != len(want) {
				t.Fatalf("%s by %d: %d of %d came", what, limit, len(seen), len(want))
			}
		}
	}
	pages("journals", func(after core.JournalKey, limit int) (page []core.JournalKey) {
		list, err := s.JournalsAt(ctx, 1000, after, limit)
		ok(t, err)
		for _, j := range list {
			page = append(page, j.Key)
		}
		return page
	})
	pages("revisits", func(after core.JournalKey, limit int) []core.JournalKey {
		page, err := s.Revisits(ctx, 1010, after, limit)
		ok(t, err)
		return page
	})
}
