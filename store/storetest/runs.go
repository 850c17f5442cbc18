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

// claims: if three owners claim or take over a run at once, exactly one of them has it.
func claims(t *testing.T, h Harness) {
	s, ctx, list := h.Open(t), t.Context(), ids(40)
	race := func(name string, write func(owner string, ids []core.RunID) []error) {
		t.Helper()
		var wins [3][]error
		var all sync.WaitGroup
		for i := range wins {
			all.Go(func() {
				for half := range slices.Chunk(list, len(list)/2) {
					wins[i] = append(wins[i], write(fmt.Sprint(name, i), half)...)
				}
			})
		}
		all.Wait()
		for i, id := range list {
			stored := mustRun(t, s, id)
			for owner := range wins {
				if (wins[owner][i] == nil) != (stored.Owner == fmt.Sprint(name, owner)) {
					t.Fatalf("run %d: %s has it, %s%d got %v", id, stored.Owner, name, owner, wins[owner][i])
				}
			}
		}
	}
	race("owner-", func(owner string, ids []core.RunID) []error {
		batch := make([]core.Run, len(ids))
		for i, id := range ids {
			batch[i] = run(id)
			batch[i].Owner = owner
		}
		return s.CreateRuns(ctx, batch)
	})
	race("taker-", func(owner string, ids []core.RunID) []error {
		errs := slices.Repeat([]error{core.ErrRefused}, len(ids))
		for i, id := range ids {
			if got, err := s.Runs.Get(ctx, ids[i:i+1]); err == nil && got[id].Err == nil && strings.HasPrefix(got[id].Is.Owner, "owner-") {
				errs[i] = s.ChangeRuns(ctx, []core.RunPut{got[id].Is.Take(core.Claim{Owner: owner, Until: base}, "", base, nil)})[0]
			}
		}
		return errs
	})
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

// endRun closes a run.
func endRun(t *testing.T, s *store.Store, id core.RunID, to core.Run) {
	t.Helper()
	ok(t, s.ChangeRuns(t.Context(), []core.RunPut{core.End(id, to)})...)
}

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
	sameRun(t, s, put(t, s, id[6], func(r *core.Run) { r.SentRev = 3 }))

	// The limits that count a run are stored when it is taken, or waits, with its other fields.
	for i, long := range []int{1, 2000} {
		r := put(t, s, core.NumberedRun(9, uint32(i)), func(r *core.Run) {
			params := strings.Repeat("p", long)
			unowned(r)
			r.Params, r.Addresses, r.Key, r.By = &params, []string{"http://10.0.0.1:9999"}, "k", "ann"
		})
		waits := r.Wait().Counted("group/db")
		judge(t, s, []core.RunPut{waits}, "ok")
		waits.Apply(&r)
		take := r.Take(core.Claim{Owner: "nonce-9", Until: base.Add(time.Minute)}, "", base, nil).Counted("group/db+app/orders")
		judge(t, s, []core.RunPut{take}, "ok")
		judge(t, s, []core.RunPut{waits}, "refused")
		if r := mustRun(t, s, r.ID); r.Permit != "group/db+app/orders" || r.Key != "k" {
			t.Errorf("%+v", r)
		}
	}
}

// runChanges: each kind of change is made on its condition. A run without an owner that was never sent waits for an executor, and
// is taken like any other.
func runChanges(t *testing.T, h Harness) {
	s, id := h.Open(t), ids(7)
	maybe := func(r *core.Run) { r.MaybeSent = true }
	lost := func(r *core.Run) {
		r.State, r.Reason, r.EndedAt, r.Then = core.Lost, core.ReasonGone, base, core.NumberedRun(1, 5)
		r.Owes = []core.Owed{{Run: r.Then, Kind: core.CauseRetry, Slot: at(9)}}
	}
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
		{"clear follow-ups", func(r *core.Run) core.RunPut {
			ended := *r
			if r.State.Open() {
				ended.State = core.Succeeded
			}
			return ended.ClearOwed()
		}, []func(*core.RunPut){func(p *core.RunPut) { p.Was.Owes = []core.Owed{{Pause: true}} }},
			[]func(*core.Run){lost, closed, nil}, []string{"ok", "ok", "refused", "refused"}},
		{"late result", func(r *core.Run) core.RunPut {
			ended := *r
			ended.State = core.Lost
			return ended.NoteLate(core.LateResult{At: base.Add(time.Second), Code: 200, Message: "came late"})
		}, nil, []func(*core.Run){lost, nil}, []string{"ok", "refused", "refused"}},
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
}

// closeTexts: one run twice in a batch, texts and data, short and long, in one batch, and many runs at once.
func closeTexts(t *testing.T, h Harness) {
	s := h.Open(t)
	long := put(t, s, ids(1)[0], nil)
	c := core.End(long.ID, core.Run{State: core.Succeeded, Code: 200, Message: strings.Repeat("m", core.MessageMax), EndedAt: base})
	if errs := s.ChangeRuns(t.Context(), []core.RunPut{c, c}); (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("one run twice in a batch: %v", errs)
	}
	c.Apply(&long)
	sameRun(t, s, long)

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
		sameRun(t, s, put(t, s, core.NumberedRun(52, uint32(i)), func(to *core.Run) { r.ID, r.First = to.ID, to.ID; *to = r }))
	}
	runs, ends = nil, nil
	for i := range 2500 {
		r := run(core.NumberedRun(50, uint32(i)))
		runs = append(runs, r)
		ends = append(ends, core.End(r.ID, core.Run{State: core.Succeeded, EndedAt: base}))
	}
	ok(t, s.CreateRuns(t.Context(), runs)...)
	ok(t, s.ChangeRuns(t.Context(), ends)...)
}

// clearOwed records that a run has no follow-ups left.
func clearOwed(t *testing.T, s *store.Store, id core.RunID) {
	t.Helper()
	r := mustRun(t, s, id)
	ok(t, s.ChangeRuns(t.Context(), []core.RunPut{r.ClearOwed()})...)
}

// postRuns: a close writes the follow-ups for the post-run queue, whether the run was read or not. Only a writer that read them
// clears them.
func postRuns(t *testing.T, h Harness) {
	s, owes := h.Open(t), core.PostRun{Log: true}
	var list []core.Run
	for i, keep := range []core.KeepLog{"", core.KeepLogAlways, core.KeepLogAlways, core.KeepLogNever} {
		list = append(list, put(t, s, ids(4)[i], func(r *core.Run) { r.KeepLog = keep }))
	}
	end := core.End(list[1].ID, core.Run{State: core.Failed, Reason: core.ReasonHandler, Code: 500, EndedAt: base, PostRun: owes,
		KeepLog: core.KeepLogAlways})
	end.Set |= core.RunPostRun
	end.Seen = &list[1]
	judge(t, s, []core.RunPut{end}, "ok")
	for i, r := range list {
		if unread := []core.RunPut{core.End(r.ID, core.Run{State: core.Succeeded, Code: 200, EndedAt: base})}; i != 1 {
			judge(t, s, unread, "ok")
			if unread[0].Seen == nil || unread[0].Seen.KeepLog != r.KeepLog {
				t.Errorf("the close of run %d showed %+v", r.ID, unread[0].Seen)
			}
		}
		list[i] = mustRun(t, s, r.ID)
		if r, has := list[i], i == 1 || i == 2; r.Owing() != has || (r.OwesPostRun() == owes) != has {
			t.Errorf("run %d has follow-ups %+v", r.ID, r.OwesPostRun())
		}
	}
	failed, always := list[1], list[2]
	other := failed // as an earlier read returned it
	other.PostRun = core.PostRun{}
	judge(t, s, []core.RunPut{other.ClearPostRun(core.PostRun{})}, "refused")
	judge(t, s, []core.RunPut{failed.ClearPostRun(core.PostRun{}), always.ClearPostRun(core.PostRun{})}, "ok", "ok")
	judge(t, s, []core.RunPut{failed.ClearPostRun(core.PostRun{})}, "refused")
	for _, r := range list {
		if r = mustRun(t, s, r.ID); r.Owing() {
			t.Errorf("run %d has follow-ups %+v", r.ID, r.OwesPostRun())
		}
	}
}

// places tests the writes of the children that a close owes.
func places(t *testing.T, h Harness) {
	s, id := h.Open(t), ids(3)
	parent := put(t, s, id[0], func(r *core.Run) { r.Place, r.Parent = 1, id[1] })
	puts := []core.RunPut{core.End(parent.ID, core.Run{State: core.Succeeded, EndedAt: base, Code: 200})} // unread
	if judge(t, s, puts, "ok"); puts[0].Seen == nil || puts[0].Seen.Place != 1 {
		t.Fatalf("its end returned %+v", puts[0].Seen)
	}
	puts[0].Apply(&parent)
	owes := []core.Owed{{Run: core.NumberedRun(9, 5), Kind: core.CauseParent, Slot: at(9)}}
	other := []core.Owed{{Run: core.NumberedRun(9, 6), Kind: core.CauseParent, Slot: at(9)}}
	elsewhere := parent
	elsewhere.Place = core.PlaceAfter(3)
	open := put(t, s, id[1], func(r *core.Run) { r.Place = 1 })
	asClosed := open
	asClosed.State = core.Succeeded
	judge(t, s, []core.RunPut{elsewhere.Draw(owes), asClosed.Draw(owes)}, "refused", "refused")
	judge(t, s, []core.RunPut{parent.Draw(owes), parent.Draw(other)}, "ok", "refused")
	drawn := parent
	drawn.Owes = owes
	sameRun(t, s, drawn)
	noted := drawn.NoteChildren(core.PlaceAfter(9), nil)
	judge(t, s, []core.RunPut{elsewhere.NoteChildren(0, nil), noted, noted}, "refused", "ok", "refused")
	drawn.Owes, drawn.Place = nil, core.PlaceAfter(9)
	sameRun(t, s, drawn)
	judge(t, s, []core.RunPut{parent.NoteChildren(0, nil), drawn.NoteChildren(0, nil)}, "refused", "ok")
	drawn.Place = 0
	sameRun(t, s, drawn)
}

// broadcasts: the fields of a broadcast and its shards are stored, even with a thousand
// addresses. If two writers spread one run, one succeeds, and a cancel by an earlier read fails.
func broadcasts(t *testing.T, h Harness) {
	s, id := h.Open(t), ids(4)
	many := make([]string, core.MaxShards)
	for i := range many {
		many[i] = fmt.Sprintf("http://executor-%d.example:9999/", i)
	}
	whole := run(id[0])
	whole.Spread(core.NumberedRun(whole.ID.Job(), 5), many, true)
	shard := run(id[1])
	shard.Shard = core.Shard{Of: whole.ID, Index: 7, Total: core.MaxShards}
	ok(t, s.CreateRuns(t.Context(), []core.Run{whole, shard})...)
	sameRun(t, s, whole)
	sameRun(t, s, shard)

	waits := put(t, s, id[2], unowned)
	spread := func(n uint32) core.RunPut {
		p := waits.Take(core.Claim{Owner: "nonce-9", Until: base.Add(time.Minute)}, "", base, nil)
		p.To.Spread(core.NumberedRun(waits.ID.Job(), n), many[:2], false)
		p.Set |= core.RunGiven
		return p
	}
	first := spread(5)
	judge(t, s, []core.RunPut{first}, "ok")
	cancel := core.End(waits.ID, core.Run{State: core.Skipped, Reason: core.ReasonCancelled, EndedAt: base})
	cancel.If, cancel.Was = core.RunOwner|core.RunMaybeSent|core.RunState, waits
	judge(t, s, []core.RunPut{spread(9), waits.SkipUnsent(core.ReasonChanged, base), cancel}, "refused", "refused", "refused")
}

// copies: a repeated write is rejected and changes nothing of the stored run, including its
// long texts.
func copies(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	createJobs(t, s, job(1))
	text := strings.Repeat("what it did. ", 100)
	tries := func(say string) (list []core.Try) {
		for range 20 {
			list = append(list, core.Try{Address: "http://10.0.0.1:9999/", Message: "connect: connection refused, " + say})
		}
		return list
	}
	for i, end := range []core.Run{
		{State: core.Succeeded, Code: 200, Message: text, Data: "of use", EndedAt: base},
		{State: core.Failed, Reason: core.ReasonHandler, Code: 500, Message: "short", EndedAt: base, Then: core.NumberedRun(1, 99)},
	} {
		params := text + "params"
		id := core.NumberedRun(1, uint32(i+1))
		claim := put(t, s, id, func(r *core.Run) { r.Tries, r.Params = tries("at first"), &params })
		unchanged := func() {
			t.Helper()
			again := claim
			other := "other"
			again.Tries, again.Params = tries("by a copy"), &other
			refused(t, s.CreateRuns(ctx, []core.Run{again})[0])
			again.Params = &params
			refused(t, s.CreateRuns(ctx, []core.Run{again})[0])
			of := claim
			of.Owner = "nobody"
			take := of.Take(core.Claim{Owner: "me", Until: base.Add(time.Hour)}, "", base, tries("by a copy"))
			answers(t, s.ChangeRuns(ctx, []core.RunPut{take, of.Readdress("http://10.0.0.2:9999/", tries("by a copy"))}), "refused", "refused")
			sameRun(t, s, claim)
		}
		unchanged()
		ok(t, s.ChangeRuns(ctx, []core.RunPut{core.End(id, end)})...)
		put := core.End(id, end)
		put.Apply(&claim)
		unchanged()
	}
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

// retimes changes runs that wait for their time.
type retimes struct {
	t *testing.T
	s *store.Store
	n int64
}

func (x *retimes) waits(n uint32, params *string) (core.Run, core.DueItem) {
	x.t.Helper()
	id := core.NumberedRun(1, n)
	r := core.Run{ID: id, App: "orders", State: core.Planned, Cause: core.CauseManual, Rev: 3, At: at(10), Slot: at(10), Attempt: 1,
		First: id, Retries: 2, Params: params, Addresses: []string{"http://10.0.0.1:9999"}, Key: "k", By: "ann", Permit: "job/1"}
	d := core.DueItem{PlanAt: at(5), Job: 1, Run: id}
	ok(x.t, x.s.Runs.Put(x.t.Context(), []store.RunPut{{Create: &r, Enter: &d}})...)
	return r, d
}

// become returns the write that changes r, and replaces its entry d.
func (x *retimes) become(r core.Run, d core.DueItem, slot int, params *string, addresses ...string) store.RunPut {
	x.n++
	to, enter := r, d
	to.At, to.Slot, to.Params, to.Addresses = at(slot), at(slot), params, addresses
	p := r.Retime(to, base.Add(time.Duration(x.n)*time.Second))
	enter.PlanAt = at(slot - 5)
	return store.RunPut{Change: &p, Leave: []core.DueItem{d}, Enter: &enter, Changes: []core.Change{
		{ID: 1000 + x.n, At: base, By: "bob", Verb: core.VerbChanged, App: "orders", Job: 1, Old: "{}", New: "{}"}}}
}

func (x *retimes) write(p store.RunPut) core.Run {
	x.t.Helper()
	ok(x.t, x.s.Runs.Put(x.t.Context(), []store.RunPut{p})...)
	return p.Change.To
}

func (x *retimes) refused(p store.RunPut) {
	x.t.Helper()
	refused(x.t, x.s.Runs.Put(x.t.Context(), []store.RunPut{p})...)
}

// changes counts the change records.
func (x *retimes) changes(want int) {
	x.t.Helper()
	list, err := x.s.Changes(x.t.Context(), "", 1, math.MaxInt64, 100)
	if ok(x.t, err); len(list) != want {
		x.t.Fatalf("%d change records, want %d: %+v", len(list), want, list)
	}
}

// retimed: a waiting run, its entry and the change record are written together, or not at all.
func retimed(t *testing.T, h Harness) {
	x := &retimes{t: t, s: h.Open(t)}
	short, long, longer := "p", strings.Repeat("long ", 400), strings.Repeat("longer ", 400)
	r, d := x.waits(1, &short)
	for i, params := range []*string{&long, &longer, &short, &long, &short} {
		p := x.become(r, d, 20+i, params, [][]string{nil, {"http://10.0.0.2:9999", "http://10.0.0.3:9999"}}[i%2]...)
		r, d = x.write(p), *p.Enter
		x.refused(p) // as seen before
		sameRun(t, x.s, r)
		wantDue(t, h, x.s, 0, at(100), 10, d)
		x.changes(i + 1)
	}
	r = x.write(x.become(r, d, 24, &short)) // the entry may be the same
	p := x.become(r, d, 26, &short)
	p.Leave = nil
	r = x.write(p)
	wantDue(t, h, x.s, 0, at(100), 10, d, *p.Enter)
	x.changes(7)
	sameRun(t, x.s, r)
}

// retimedUnread: a read from before a change neither claims nor skips a run, and a claimed, closed or missing run is not changed.
func retimedUnread(t *testing.T, h Harness) {
	x := &retimes{t: t, s: h.Open(t)}
	r, d := x.waits(1, nil)
	p := x.become(r, d, 26, nil)
	r, d = x.write(p), *p.Enter
	claim := core.Claim{Owner: "me", Until: base.Add(time.Minute), Journal: core.JournalKey{Minute: 1, Suffix: 2, Nonce: "me"}}
	take := r.Take(claim, "http://10.0.0.1:9999", base, nil)
	stale := r
	for _, stale.Until = range []time.Time{r.Until.Add(-time.Millisecond), {}} {
		judge(t, x.s, []core.RunPut{stale.Take(claim, "", base, nil)}, "refused")
	}
	judge(t, x.s, []core.RunPut{stale.SkipUnsent(core.ReasonPaused, base)}, "refused")
	judge(t, x.s, []core.RunPut{take}, "ok")
	// A run that was released unsent can be changed, and counts as unsent.
	p = x.become(r, d, 30, nil)
	x.refused(p)
	p.Change.Was.Until = take.To.Until
	x.refused(p)
	judge(t, x.s, []core.RunPut{take.To.GiveBack()}, "ok")
	for _, p.Change.Was.Until = range []time.Time{{}, r.Until} { // so that a dispatcher with an earlier read cannot take the run
		x.refused(p)
	}
	p.Change.Was.Until = take.To.Until
	r = x.write(p)
	r.Journal = claim.Journal
	sameRun(t, x.s, r)
	x.changes(2)
	judge(t, x.s, []core.RunPut{r.SkipUnsent(core.ReasonPaused, base)}, "ok")

	maybe, d2 := x.waits(2, nil)
	for _, owner := range []string{"a", "b"} {
		take := maybe.Take(core.Claim{Owner: owner, Until: base.Add(time.Minute)}, "http://10.0.0.1:9999", base, nil)
		ok(t, x.s.ChangeRuns(t.Context(), []core.RunPut{take})...)
		maybe = take.To
	}
	ok(t, x.s.ChangeRuns(t.Context(), []core.RunPut{maybe.GiveBack()})...)
	gone := maybe
	gone.ID = core.NumberedRun(1, 9)
	for _, c := range []core.Run{r, maybe, gone} { // closed; perhaps sent; none
		c.Until = time.Time{}
		p := x.become(c, d2, 40, nil)
		x.refused(p)
		p.Change.Was.Until = r.Until
		x.refused(p)
	}
	x.changes(2)
	wantDue(t, h, x.s, 0, at(100), 10, d2, core.DueItem{PlanAt: at(25), Job: 1, Run: r.ID})
}

func runIDs(list []core.Run) []core.RunID {
	ids := make([]core.RunID, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	return ids
}

func spans(t *testing.T, h Harness) {
	s := h.Open(t)
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
		step := core.RunID(1)
		for up := first <= last; ; {
			runs, err := s.Runs.Span(t.Context(), first, last, page)
			if ok(t, err); len(runs) > page {
				t.Fatalf("%d runs, %d were asked for", len(runs), page)
			}
			got = append(got, runIDs(runs)...)
			if len(runs) == 0 || got[len(got)-1] == last || first == last {
				return got
			}
			if first = got[len(got)-1] + step; !up {
				first = got[len(got)-1] - step
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

// readOpen reads open runs page by page.
func readOpen(t *testing.T, s *store.Store, first, last core.RunID, waiting bool, limit int) (got []core.RunID) {
	t.Helper()
	for next := first; next != 0; {
		var page []core.Run
		var err error
		page, next, err = s.Runs.Open(t.Context(), next, last, waiting, limit)
		if ok(t, err); len(page) > limit {
			t.Fatalf("%d open runs, want %d at most", len(page), limit)
		}
		got = append(got, runIDs(page)...)
	}
	return got
}

// openRuns: the open runs of a span, or only those without an owner, come with the highest IDs first, until a process takes them
// or they end.
func openRuns(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	queued := func(r *core.Run) { unowned(r); r.State, r.SentAt = core.Queued, time.Time{} }
	waits := func(r *core.Run) { unowned(r); r.SentAt = time.Time{} }
	planned := func(second int, change func(*core.Run)) core.Run {
		return put(t, s, core.PlannedRun(1, at(second)), change)
	}
	numbered := func(n uint32, change func(*core.Run)) core.Run { return put(t, s, core.NumberedRun(1, n), change) }
	a, b, c, d := planned(20, queued), planned(50, nil), planned(100, waits), planned(110, nil)
	e, f, g := numbered(1, nil), numbered(9, waits), numbered(10, queued)
	planned(30, closed)
	put(t, s, core.PlannedRun(2, at(20)), nil)
	put(t, s, core.PlannedRun(2, at(30)), queued)
	low, high := core.RunRange(1, 0, core.Horizon)
	nlow, nhigh := core.NumberedRange(1)
	read := func(waiting bool, first, last core.RunID, want ...core.Run) {
		t.Helper()
		for _, limit := range []int{1, 2, 3, 10} {
			same(t, "open runs", readOpen(t, s, first, last, waiting, limit), runIDs(want))
		}
	}
	read(false, nhigh, nlow, g, f, e)
	read(false, high, low, d, c, b, a)
	read(false, nhigh, low, g, f, e, d, c, b, a)
	read(false, f.ID, c.ID, f, e, d, c)
	ok(t, s.ChangeRuns(ctx, []core.RunPut{b.GiveBack(), c.Wait(), f.Wait()})...)
	read(true, nhigh, low, g, f, c, b, a)
	claim := core.Claim{Owner: "second", Until: base.Add(time.Minute), Journal: core.JournalKey{Minute: 5, Nonce: "second"}}
	ok(t, s.ChangeRuns(ctx, []core.RunPut{g.Take(claim, "http://second/", base, nil), a.SkipUnsent(core.ReasonCancelled, base),
		core.End(d.ID, core.Run{State: core.Succeeded, EndedAt: base})})...)
	read(false, high, low, c, b)
	read(true, nhigh, low, f, c, b)
	taken := mustRun(t, s, g.ID)
	ok(t, s.ChangeRuns(ctx, []core.RunPut{taken.GiveBack()})...)
	read(true, nhigh, low, g, f, c, b)
	list, err := s.WaitingRuns(ctx, 1, g.ID, 2)
	ok(t, err)
	same(t, "waiting runs", runIDs(list), []core.RunID{f.ID, c.ID})
}

// readRecent reads recent runs page by page. No run comes twice.
func readRecent(t *testing.T, s *store.Store, of store.Recent, limit int) map[core.RunID]core.Run {
	t.Helper()
	got := map[core.RunID]core.Run{}
	for from, pages := (store.RunPlace{}), 0; ; pages++ {
		runs, next, err := s.Runs.Recent(t.Context(), of, from, limit)
		if ok(t, err); len(runs) > limit {
			t.Fatalf("%d runs of one moment in a page of %d", len(runs), limit)
		}
		for _, r := range runs {
			if _, twice := got[r.ID]; twice || of.App != "" && r.App != of.App {
				t.Fatalf("run %d came twice, or is of app %s", r.ID, r.App)
			}
			got[r.ID] = r
		}
		if next == (store.RunPlace{}) {
			return got
		}
		if pages > 1000 || from.Before != 0 && next.Before > from.Before {
			t.Fatalf("it goes on from %v after %v", next, from)
		}
		from = next
	}
}

// journaled stores runs, and a journal that names them.
func journaled(t *testing.T, s *store.Store, suffix int, list []core.Run) {
	t.Helper()
	of := core.Journal{Key: core.JournalKey{Minute: time.Now().Unix() / 60, Suffix: suffix, Nonce: "nonce-1"}, V: 1}
	for i := range list {
		list[i].Journal = of.Key
		of.Entries = append(of.Entries, core.Entry{Run: list[i].ID, Address: list[i].Address, Outcome: core.Accepted})
	}
	ok(t, s.CreateRuns(t.Context(), list)...)
	ok(t, s.PutJournal(t.Context(), of))
}

func recentRuns(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	all, orders := map[core.RunID]bool{}, map[core.RunID]bool{}
	for batch := range 4 {
		var list []core.Run
		for i := range 10 {
			r := run(core.PlannedRun(core.JobID(batch*10+i+1), at(60)))
			if all[r.ID] = true; i%2 == 0 {
				r.App = "other"
			} else {
				orders[r.ID] = true
			}
			list = append(list, r)
		}
		journaled(t, s, batch, list)
		<-time.After(3 * time.Millisecond)
	}
	for app, want := range map[string]map[core.RunID]bool{"": all, "orders": orders, "none": {}} {
		eventually(t, h, func() string {
			got := map[core.RunID]bool{}
			for id := range readRecent(t, s, store.Recent{App: app}, 6) {
				got[id] = true
			}
			return cmp.Diff(want, got)
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

// recentRunsOfStates: all runs of each requested state come, even if they changed since; other runs may come too.
func recentRunsOfStates(t *testing.T, h Harness) {
	s := h.Open(t)
	var list []core.Run
	for i := range 3 * len(core.States) {
		r := run(core.PlannedRun(core.JobID(i+1), at(60)))
		if r.State = core.States[i%len(core.States)]; i%2 == 0 {
			r.App = "other"
		}
		if !r.State.Open() {
			r.EndedAt, r.Reason = base.Add(62*time.Second), append(core.Reasons[r.State], "")[0]
		}
		list = append(list, r)
	}
	journaled(t, s, 0, list)
	ends := &list[slices.IndexFunc(list, func(r core.Run) bool { return r.State == core.Running })]
	endRun(t, s, ends.ID, core.Run{State: core.Lost, Reason: core.ReasonGone, EndedAt: base.Add(63 * time.Second)})
	ends.State = core.Lost
	asked := [][]core.State{{core.Failed, core.Lost}, {core.Running, core.Queued}, {core.Running, core.Lost}, {core.Succeeded, core.Skipped}}
	for _, state := range core.States {
		asked = append(asked, []core.State{state})
	}
	for _, of := range asked {
		for _, app := range []string{"", "other"} {
			fits := func(r core.Run) bool { return (app == "" || r.App == app) && slices.Contains(of, r.State) }
			want := map[core.RunID]bool{}
			for _, r := range list {
				if fits(r) {
					want[r.ID] = true
				}
			}
			eventually(t, h, func() string {
				got := map[core.RunID]bool{}
				for id, r := range readRecent(t, s, store.Recent{App: app, States: of}, 2) {
					if fits(r) {
						got[id] = true
					}
				}
				return cmp.Diff(want, got, cmpopts.EquateEmpty())
			})
		}
	}
}

// lastRuns: the newest runs of each job by their due times, planned and numbered alike, without runs that wait for a later time.
func lastRuns(t *testing.T, h Harness) {
	s := h.Open(t)
	put := func(id core.RunID, slot int) core.Run {
		return put(t, s, id, func(r *core.Run) { r.At, r.Slot = at(slot), at(slot) })
	}
	for i := range 5 {
		put(core.PlannedRun(1, at(60*i)), 60*i)
	}
	planned, byHand := put(core.PlannedRun(1, at(300)), 300), put(core.NumberedRun(1, 1), 270)
	put(core.PlannedRun(1, at(900)), 900)
	put(core.NumberedRun(1, 2), 5000)
	alone := put(core.NumberedRun(2, 1), 10)
	put(core.NumberedRun(4, 1), 10)
	reads(t, "the last runs", map[core.JobID][]core.Run{1: {planned, byHand}, 2: {alone}})(s.Runs.Last(t.Context(), []core.JobID{1, 2, 3},
		at(600), 2))
}

// began: a run is found in the minute of its claim, or of its end if it had none, even if it
// was made long before; each once, and no run that has not begun.
func began(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	now := time.Now()
	minute := now.Unix() / 60
	instant := func(minutes, seconds int64) core.Instant { return core.Instant((minute+minutes)*60 + seconds) }
	claimed := func(id core.RunID, in int64) core.RunID {
		put(t, s, id, func(r *core.Run) { r.Journal.Minute, r.SentAt = minute+in, time.Unix((minute+in)*60+1, 0).UTC() })
		return id
	}
	skipped := func(id core.RunID, in int64) core.RunID {
		put(t, s, id, func(r *core.Run) {
			r.State, r.Reason, r.Journal, r.Owner, r.Until, r.Address = core.Skipped, core.ReasonPaused, core.JournalKey{}, "", time.Time{}, ""
			r.SentAt, r.EndedAt = time.Time{}, time.Unix((minute+in)*60+2, 0).UTC()
		})
		return id
	}
	var here, later []core.RunID
	for i := range int64(5) {
		here = append(here, claimed(core.PlannedRun(1, instant(0, i)), 0))
		later = append(later, claimed(core.PlannedRun(1, instant(30, i)), 30), claimed(core.NumberedRun(4, uint32(10+i)), 30))
	}
	here = append(here, skipped(core.PlannedRun(1, instant(0, 9)), 0), claimed(core.NumberedRun(2, 7), 0),
		claimed(core.PlannedRun(3, instant(-600, 0)), 0))
	later = append(later, skipped(core.PlannedRun(1, instant(30, 9)), 30), claimed(core.NumberedRun(5, 1), 30),
		claimed(core.NumberedRun(5, 100), 30))
	put(t, s, core.NumberedRun(1, 1), func(r *core.Run) {
		r.State, r.Journal, r.Owner, r.Until, r.Address, r.SentAt = core.Planned, core.JournalKey{}, "", time.Time{}, "", time.Time{}
	})
	// The journals that name them.
	for i, of := range []struct {
		at   int64
		runs []core.RunID
	}{{0, here}, {30, later}} {
		j := core.Journal{Key: core.JournalKey{Minute: minute + of.at, Suffix: i, Nonce: "n"}, V: 1}
		for _, id := range of.runs {
			if mustRun(t, s, id).State != core.Skipped {
				j.Entries = append(j.Entries, core.Entry{Run: id, Outcome: core.Accepted})
			}
		}
		j.Entries = append(j.Entries, j.Entries[0]) // once more
		ok(t, s.PutJournal(ctx, j))
	}
	for _, c := range []struct {
		name     string
		from, to core.Instant
		behind   core.JobID
		want     []core.RunID
	}{
		{"now", instant(-10, 0), instant(10, 0), 0, here}, {"later", instant(30, 0), instant(31, 0), 0, later},
		{"before", instant(-70, 0), instant(-10, 0), 0, nil}, {"between", instant(10, 0), instant(30, 0), 0, nil},
		{"all, behind the first", instant(-60, 0), instant(60, 0), 1, slices.Concat(here, later)},
	} {
		eventually(t, h, func() string {
			var got []core.RunID
			until, err := s.Runs.Began(ctx, c.from, c.to, c.behind, func(runs []core.Run) {
				for i := range runs {
					if runs[i].ID.Job() > c.behind {
						got = append(got, runs[i].ID)
					}
				}
			})
			ok(t, err)
			want := slices.DeleteFunc(slices.Clone(c.want), func(id core.RunID) bool { return id.Job() <= c.behind })
			slices.Sort(got)
			slices.Sort(want)
			if until != 0 || !slices.Equal(got, want) {
				return fmt.Sprintf("%s: until %d, got %v, want %v", c.name, until, got, want)
			}
			return ""
		})
	}
}

// drops: ended runs without follow-ups are removed with their long texts; other runs are not.
func drops(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	drop := func(list ...core.Run) []error {
		puts := make([]store.RunPut, len(list))
		for i := range list {
			puts[i].Drop = &list[i]
		}
		return s.Runs.Put(ctx, puts)
	}
	long := strings.Repeat("long ", 200)
	ended, open, owing, parent, other := core.PlannedRun(1, at(0)), core.PlannedRun(1, at(1)), core.NumberedRun(1, 1), core.NumberedRun(1, 2),
		core.NumberedRun(2, 1)
	put(t, s, ended, func(r *core.Run) { closed(r); r.Params, r.Message = &long, long })
	put(t, s, open, nil)
	put(t, s, owing, func(r *core.Run) {
		closed(r)
		r.State, r.Reason, r.Then = core.Failed, core.ReasonHandler, core.NumberedRun(1, 9)
		r.Owes = []core.Owed{{Run: r.Then, Kind: core.CauseRetry, Slot: at(9)}}
	})
	put(t, s, parent, func(r *core.Run) { closed(r); r.Place = 1 })
	put(t, s, other, closed)
	postRun := core.NumberedRun(1, 3)
	put(t, s, postRun, func(r *core.Run) { closed(r); r.PostRun = core.PostRun{Log: true} })
	read := func(id core.RunID) core.Run { t.Helper(); return mustRun(t, s, id) }
	gone := core.Run{ID: core.NumberedRun(1, 77), State: core.Succeeded}
	answers(t, drop(read(ended), read(open), read(owing), read(parent), read(postRun), gone),
		"ok", "refused", "refused", "refused", "refused", "ok")
	if _, is := readRun(t, s, ended); is {
		t.Error("it is still there")
	}
	for _, id := range []core.RunID{open, owing, parent, other} {
		read(id)
	}
	// One run got a follow-up since the read, the other is read before its end.
	was := read(owing)
	was.Owes = nil
	still := read(open)
	still.State = core.Succeeded
	answers(t, drop(was, still), "refused", "refused")
	read(owing)
	read(open)
	list, err := s.Runs.Span(ctx, core.PlannedRun(1, at(0)), core.PlannedRun(1, at(100)), 10)
	ok(t, err)
	if len(list) != 1 || list[0].ID != open {
		t.Errorf("planned runs: %v", list)
	}
}
