package enginetest

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
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/engine"
)

func readApp(t *testing.T, e *engine.Engine, name string) *core.App {
	t.Helper()
	for range 100 {
		found, unread, err := e.Dispatch.Apps(t.Context(), []string{name})
		ok(t, err)
		if len(unread) > 0 {
			continue
		}
		if a, is := found[name]; is {
			return &a
		}
		return nil
	}
	t.Fatal("an app stays unread")
	return nil
}

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

func create(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	plain, full := run(core.PlannedRun(1, at(60))), fullRun(core.NumberedRun(1, 2))
	bare := core.Run{ID: core.NumberedRun(1, 3), App: "other", State: core.Planned, Cause: core.CauseManual}
	answers(t, e.Dispatch.Create(ctx, []core.Run{plain, full, bare}), "ok", "ok", "ok")
	sameRun(t, e, plain)
	sameRun(t, e, full)
	sameRun(t, e, bare)
	if _, is := readRun(t, e, core.NumberedRun(1, 4)); is {
		t.Fatal("a run that was not created")
	}
	other := plain
	other.Owner, other.Address = "nonce-2", "http://elsewhere/"
	fresh := run(core.PlannedRun(2, at(60)))
	answers(t, e.Finish.Create(ctx, []core.Run{other, fresh}), "refused", "ok")
	sameRun(t, e, plain)
	sameRun(t, e, fresh)
	twice := run(core.PlannedRun(3, at(60)))
	second := twice
	second.Owner = "nonce-2"
	errs := e.Dispatch.Create(ctx, []core.Run{twice, second})
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("one run twice in a batch: %v", errs)
	}
	skip := run(core.PlannedRun(4, at(60)))
	skip.State, skip.Reason, skip.EndedAt, skip.Owner, skip.Until, skip.Journal = core.Skipped, core.ReasonMisfire, base, "", time.Time{},
		core.JournalKey{}
	answers(t, e.Dispatch.Create(ctx, []core.Run{skip}), "ok")
	sameRun(t, e, skip)
	for i, state := range core.States {
		r := run(core.NumberedRun(9, uint32(i)))
		r.State = state
		allNil(t, e.Dispatch.Create(ctx, []core.Run{r}))
		sameRun(t, e, r)
	}
	i := uint32(100)
	for state, reasons := range core.Reasons {
		for _, reason := range reasons {
			r := run(core.NumberedRun(9, i))
			r.State, r.Reason, r.Cause = state, reason, core.Causes[int(i)%len(core.Causes)]
			allNil(t, e.Dispatch.Create(ctx, []core.Run{r}))
			sameRun(t, e, r)
			i++
		}
	}
}

// claims: if three owners claim at once, exactly one wins each run.
func claims(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
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
				wins[owner] = append(wins[owner], e.Dispatch.Create(ctx, batch[half*n/2:(half+1)*n/2])...)
			}
		})
	}
	all.Wait()
	for i := range n {
		stored := mustRun(t, e, core.PlannedRun(core.JobID(i+1), at(60)))
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
				found, _, err := e.Dispatch.Runs(ctx, []core.RunID{id})
				if err != nil || !strings.HasPrefix(found[id].Owner, "owner-") {
					wins[owner][i] = core.ErrRefused
					continue
				}
				r := found[id]
				wins[owner][i] = e.Dispatch.PutRuns(ctx, []core.RunPut{r.Take(core.Claim{Owner: fmt.Sprint("taker-", owner), Until: base}, "", base,
					nil)})[0]
			}
		})
	}
	all.Wait()
	for i := range n {
		stored := mustRun(t, e, core.PlannedRun(core.JobID(i+1), at(60)))
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
func put(t *testing.T, e *engine.Engine, id core.RunID, change func(*core.Run)) core.Run {
	t.Helper()
	r := run(id)
	if change != nil {
		change(&r)
	}
	allNil(t, e.Dispatch.Create(t.Context(), []core.Run{r}))
	return r
}

func unowned(r *core.Run) {
	r.State, r.Owner, r.Until, r.Address = core.Planned, "", time.Time{}, ""
}

func closed(r *core.Run) { r.State, r.EndedAt = core.Succeeded, base }

func takeOver(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	id := ids(8)
	foreign, free, kept, fresh := put(t, e, id[0], nil), put(t, e, id[1], unowned), put(t, e, id[2], func(r *core.Run) {
		unowned(r)
		r.Address, r.MaybeSent = "http://kept/", true
	}), put(t, e, id[3], func(r *core.Run) {
		unowned(r)
		r.State, r.SentAt, r.Attempt, r.Retries, r.Journal = core.Queued, time.Time{}, 0, 0, core.JournalKey{}
	})
	shut := put(t, e, id[4], closed)
	claim := core.Claim{Owner: "nonce-9", Until: base.Add(time.Minute), Journal: core.JournalKey{Minute: 77, Suffix: 15, Nonce: "nonce-9"}}
	take := func(r core.Run) core.RunPut { return r.Take(claim, "http://new/", base.Add(time.Hour), nil) }
	otherOwner, otherUntil, otherAddress, noAddress, anAddress := take(foreign), take(foreign), take(foreign), take(foreign), take(free)
	otherOwner.Was.Owner = "nonce-x"
	otherAddress.Was.Address, noAddress.Was.Address, anAddress.Was.Address = "http://other/", "", "http://new/"
	otherUntil.Was.Until = foreign.Until.Add(time.Millisecond)
	none := take(foreign)
	none.Was.Owner, none.Was.Until = "", time.Time{}
	for _, bad := range []core.RunPut{otherOwner, otherUntil, otherAddress, noAddress, anAddress, none, take(shut), take(run(id[7]))} {
		refused(t, e.Dispatch.PutRuns(ctx, []core.RunPut{bad})[0])
	}
	sameRun(t, e, foreign)
	sameRun(t, e, free)
	sameRun(t, e, shut)

	tries := []core.Try{{Address: "http://b/", Code: 1, Message: "x"}}
	tried := fresh.Take(claim, "http://new/", base.Add(time.Hour), tries)
	answers(t, e.Dispatch.PutRuns(ctx, []core.RunPut{take(foreign), take(free), take(kept), tried, take(shut)}), "ok", "ok", "ok", "ok",
		"refused")
	for _, r := range []core.Run{foreign, free, kept, fresh} {
		r.MaybeSent = r.MaybeSent || r.Owner != ""
		r.State, r.Owner, r.Until, r.Journal = core.Running, claim.Owner, claim.Until, claim.Journal
		if r.Address == "" {
			r.Address = "http://new/"
		}
		if r.SentAt.IsZero() {
			r.SentAt, r.Tries = base.Add(time.Hour), tries
		}
		sameRun(t, e, r)
	}
	refused(t, e.Dispatch.PutRuns(ctx, []core.RunPut{take(foreign)})[0]) // a write that comes late

	// Stored tries stay if a take has none.
	tried.Apply(&fresh)
	answers(t, e.Dispatch.PutRuns(ctx, []core.RunPut{fresh.Take(core.Claim{Owner: "nonce-10", Until: base.Add(time.Hour)}, "", base, nil)}),
		"ok")
	if r := mustRun(t, e, fresh.ID); !r.MaybeSent || r.Owner != "nonce-10" || len(r.Tries) != 1 || !r.Journal.IsZero() {
		t.Fatalf("taken twice: %+v", r)
	}

	// A claim stores the revision, permit and notify flag of its job if they differ from the stored ones.
	under := put(t, e, id[5], unowned)
	for _, c := range []struct {
		rev, want int64
		permit    string
		tells     bool
	}{{7, 7, "", true}, {under.Rev, 0, "job/1", true}, {under.Rev, 0, "job/1", false}, {8, 8, "job/2", false}, {8, 8, "job/2", false},
		{8, 8, "job/3", true}} {
		p := under.Take(claim, "http://new/", base, nil).Under(c.rev, c.tells).Counted(c.permit)
		answers(t, e.Dispatch.PutRuns(ctx, []core.RunPut{p}), "ok")
		if p.Apply(&under); under.SentRev != c.want || under.Permit != c.permit || under.Notice != c.tells {
			t.Fatalf("under revision %d: %+v", c.rev, under)
		}
		sameRun(t, e, under)
	}
	made := run(id[6])
	made.SentRev = 3
	allNil(t, e.Dispatch.Create(ctx, []core.Run{made}))
	sameRun(t, e, made)
}

func readdress(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	id := ids(3)
	r, shut := put(t, e, id[0], nil), put(t, e, id[1], closed)
	m := r.Readdress("http://next/", []core.Try{{Address: r.Address, Code: 500}})
	wrongOwner, wrongAddress, ofShut, none := m, m, m, m
	wrongOwner.Was.Owner, wrongAddress.Was.Address, ofShut.ID, none.ID = "nonce-x", "http://x/", shut.ID, id[2]
	refuses := func(list ...core.RunPut) {
		answers(t, e.Dispatch.PutRuns(ctx, list), slices.Repeat([]string{"refused"}, len(list))...)
	}
	refuses(wrongOwner, wrongAddress, ofShut, none)
	sameRun(t, e, r)
	sameRun(t, e, shut)
	allNil(t, e.Dispatch.PutRuns(ctx, []core.RunPut{m}))
	r.Address, r.Tries = "http://next/", m.To.Tries
	sameRun(t, e, r)
	refuses(m)
}

func giveBack(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	id := ids(5)
	a, b := put(t, e, id[0], nil), put(t, e, id[1], func(r *core.Run) { r.MaybeSent = true })
	c, shut := put(t, e, id[2], nil), put(t, e, id[3], closed)
	foreign, none := c, a
	foreign.Owner, none.ID = "nonce-x", id[4]
	give := []core.RunPut{a.GiveBack(), b.GiveBack(), foreign.GiveBack(), shut.GiveBack(), none.GiveBack()}
	answers(t, e.Dispatch.PutRuns(ctx, give), "ok", "ok", "refused", "refused", "refused")
	a.State, a.Owner, a.Address = core.Planned, "", ""
	b.State, b.Owner = core.Planned, ""
	for _, r := range []core.Run{a, b, c, shut} { // the journal of the claim stays named, and so does its until
		sameRun(t, e, r)
	}
	refused(t, e.Dispatch.PutRuns(ctx, give[:1])[0])
}

// wait: a run without an owner that was never sent waits for an executor, and is taken like any other.
func wait(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	id := ids(6)
	free, owned, maybe, shut, changed := put(t, e, id[0], unowned), put(t, e, id[1], nil), put(t, e, id[2], func(r *core.Run) {
		unowned(r)
		r.MaybeSent = true
	}), put(t, e, id[3], closed), put(t, e, id[4], unowned)
	none, seen := free, changed
	none.ID, seen.Until = id[5], changed.Until.Add(time.Second)
	puts := []core.RunPut{free.Wait(), owned.Wait(), maybe.Wait(), shut.Wait(), seen.Wait(), none.Wait()}
	for i := range puts {
		puts[i].Was.Owner, puts[i].Was.MaybeSent = "", false
	}
	answers(t, e.Dispatch.PutRuns(ctx, puts), "ok", "refused", "refused", "refused", "refused", "refused")
	free.State = core.Queued
	for _, r := range []core.Run{free, owned, maybe, shut, changed} {
		sameRun(t, e, r)
	}
	fresh := put(t, e, core.PlannedRun(1, at(77)), func(r *core.Run) {
		unowned(r)
		r.State, r.SentAt, r.Journal = core.Queued, time.Time{}, core.JournalKey{}
	})
	take := free.Take(core.Claim{Owner: "nonce-9", Until: base.Add(time.Minute)}, "http://new/", base.Add(time.Hour), nil)
	allNil(t, e.Dispatch.PutRuns(ctx, []core.RunPut{take, fresh.SkipUnsent(core.ReasonDeadline, base)}))
	take.Apply(&free)
	fresh.State, fresh.Reason, fresh.EndedAt = core.Skipped, core.ReasonDeadline, base
	sameRun(t, e, free)
	sameRun(t, e, fresh)
}

func skipUnsent(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	id := ids(5)
	free, owned, maybe, shut := put(t, e, id[0], unowned), put(t, e, id[1], nil), put(t, e, id[2], func(r *core.Run) {
		r.Owner, r.Until, r.State, r.MaybeSent = "", time.Time{}, core.Planned, true
	}), put(t, e, id[3], closed)
	var list []core.RunPut
	for _, i := range id {
		r := core.Run{ID: i}
		list = append(list, r.SkipUnsent(core.ReasonChanged, base.Add(time.Second)))
	}
	answers(t, e.Dispatch.PutRuns(ctx, list), "ok", "refused", "refused", "refused", "refused")
	free.State, free.Reason, free.EndedAt = core.Skipped, core.ReasonChanged, base.Add(time.Second)
	for _, r := range []core.Run{free, owned, maybe, shut} {
		sameRun(t, e, r)
	}
}

// Unread and read runs: an engine may write the two in different ways.
func closeUnread(t *testing.T, h Harness) { closeRuns(t, h, false) }
func closeRead(t *testing.T, h Harness)   { closeRuns(t, h, true) }

func closeRuns(t *testing.T, h Harness, read bool) {
	e, ctx := h.Open(t), t.Context()
	id := ids(18)
	maybe := func(r *core.Run) { r.MaybeSent = true }
	killed := func(r *core.Run) { r.KillBy, r.KillAt = "ann", base }
	freed := func(r *core.Run) { r.Owner, r.Until, r.State, r.MaybeSent = "", time.Time{}, core.Planned, true }
	for i, change := range []func(*core.Run){nil, nil, nil, maybe, maybe, nil, unowned, freed, closed, unowned} {
		put(t, e, id[i], change)
	}
	put(t, e, id[12], killed)
	put(t, e, id[13], killed)
	end := func(i int) core.RunPut {
		return core.End(id[i], core.Run{State: core.Failed, Reason: core.ReasonHandler, Code: 500, Message: "boom", Data: "day",
			EndedAt: base.Add(time.Minute),
			Owes:    []core.Owed{{Run: core.NumberedRun(1, 5), Kind: core.CauseRetry, Slot: at(90)}}, Then: core.NumberedRun(1, 5)})
	}
	owned, foreign, notMaybe, isMaybe, notOwned, free, freedMaybe, queuedDone := end(1), end(2), end(3), end(4), end(5), end(6), end(7), end(9)
	on := func(fields core.RunFields, of ...*core.RunPut) {
		for _, p := range of {
			p.If |= fields
		}
	}
	unkilled, unkilledLong := end(12), end(13)
	on(core.RunOwner, &owned, &foreign)
	on(core.RunMaybeSent, &notMaybe, &queuedDone)
	on(core.RunOwner|core.RunMaybeSent, &notOwned, &free, &freedMaybe)
	on(core.RunKill, &unkilled, &unkilledLong, &owned)
	owned.Was.Owner, foreign.Was.Owner = "nonce-1", "nonce-x"
	unkilledLong.To.Message = strings.Repeat("m", core.MessageMax)
	put(t, e, id[14], nil)
	put(t, e, id[15], nil)
	put(t, e, id[16], unowned)
	put(t, e, id[17], freed)
	ofApp, ofAnother := end(14), end(15)
	hasOwner, nobodys, freedHad := end(0), end(16), end(17)
	for _, p := range []*core.RunPut{&hasOwner, &nobodys, &freedHad} {
		p.Had = true
	}
	on(core.RunApp, &ofApp, &ofAnother)
	ofApp.Was.App, ofAnother.Was.App = "orders", "billing"
	list := []core.RunPut{nobodys, hasOwner, owned, foreign, notMaybe, isMaybe, notOwned, free, freedMaybe, end(8), end(10), queuedDone,
		unkilled,
		unkilledLong,
		ofApp, ofAnother, freedHad}
	want := []string{"refused", "ok", "ok", "refused", "refused", "ok", "refused", "ok", "refused", "refused", "refused", "ok", "refused",
		"refused",
		"ok", "refused", "ok"}
	before := map[core.RunID]core.Run{}
	for i := range list {
		if r, is := readRun(t, e, list[i].ID); is {
			before[r.ID] = r
			if read {
				list[i].Seen = &r
			}
		}
	}
	answers(t, e.Finish.PutRuns(ctx, list), want...)
	for i, c := range list {
		r, is := before[c.ID]
		if !is {
			continue
		}
		if want[i] == "ok" {
			if s := c.Seen; s == nil || s.ID != c.ID || s.App != r.App || s.First != r.First || s.Attempt != r.Attempt ||
				s.FixedDelay != r.FixedDelay || s.Key != r.Key {
				t.Errorf("run %d that was closed is shown as %+v", c.ID, s)
			}
			c.Apply(&r)
		}
		sameRun(t, e, r)
	}
	errs := e.Finish.PutRuns(ctx, list[:1])
	refused(t, errs[0])

	// One run twice in a batch, and many at once.
	long := put(t, e, id[11], nil)
	c := core.End(long.ID, core.Run{State: core.Succeeded, Code: 200, Message: strings.Repeat("m", core.MessageMax), EndedAt: base})
	errs = e.Finish.PutRuns(ctx, []core.RunPut{c, c})
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("one run twice in a batch: %v", errs)
	}
	c.Apply(&long)
	sameRun(t, e, long)

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
	allNil(t, e.Dispatch.Create(ctx, runs))
	allNil(t, e.Finish.PutRuns(ctx, ends))
	for i, r := range runs {
		r.State, r.Code, r.Message, r.Data, r.EndedAt = core.Succeeded, 200, texts[i][0], texts[i][1], base
		sameRun(t, e, r)
		r.ID = core.NumberedRun(52, uint32(i))
		r.First = r.ID
		allNil(t, e.Dispatch.Create(ctx, []core.Run{r}))
		sameRun(t, e, r)
	}

	runs = nil
	var closes []core.RunPut
	for i := range 2500 {
		r := run(core.NumberedRun(50, uint32(i)))
		runs = append(runs, r)
		closes = append(closes, core.End(r.ID, core.Run{State: core.Succeeded, EndedAt: base}))
	}
	allNil(t, e.Dispatch.Create(ctx, runs))
	allNil(t, e.Finish.PutRuns(ctx, closes))
}

func clearOwedAndLate(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	id := ids(4)
	owes := []core.Owed{{Run: core.NumberedRun(1, 5), Kind: core.CauseRetry, Slot: at(9)}}
	open := put(t, e, id[0], nil)
	lost := put(t, e, id[1], func(r *core.Run) {
		r.State, r.Reason, r.EndedAt, r.Owes, r.Then = core.Lost, core.ReasonGone, base, owes, owes[0].Run
	})
	done := put(t, e, id[2], closed)
	closing, none := open, done // unread, as usual
	closing.State, none.ID = core.Succeeded, id[3]
	other := lost // as another writer read it earlier
	other.Owes = []core.Owed{{Pause: true}}
	refused(t, e.Finish.PutRuns(ctx, []core.RunPut{other.ClearOwed()})[0])
	answers(t, e.Finish.PutRuns(ctx, []core.RunPut{closing.ClearOwed(), lost.ClearOwed(), done.ClearOwed(), none.ClearOwed()}), "refused",
		"ok", "ok", "refused")
	refused(t, e.Finish.PutRuns(ctx, []core.RunPut{lost.ClearOwed()})[0])
	lost.Owes = nil
	for _, r := range []core.Run{open, lost, done} {
		sameRun(t, e, r)
	}
	late := core.LateResult{At: base.Add(time.Second), Code: 200, Message: "came late"}
	open2, none2 := open, lost // as lost
	open2.State, none2.ID = core.Lost, id[3]
	answers(t, e.Finish.PutRuns(ctx, []core.RunPut{open2.NoteLate(late), none2.NoteLate(late), lost.NoteLate(late)}), "refused", "refused",
		"ok")
	refused(t, e.Finish.PutRuns(ctx, []core.RunPut{lost.NoteLate(core.LateResult{At: base, Code: 500})})[0])
	lost.Late = &late
	for _, r := range []core.Run{open, lost, done} {
		sameRun(t, e, r)
	}
}

// clearOwed records that a run has no follow-ups left.
func clearOwed(t *testing.T, e *engine.Engine, id core.RunID) {
	t.Helper()
	r := mustRun(t, e, id)
	allNil(t, e.Finish.PutRuns(t.Context(), []core.RunPut{r.ClearOwed()}))
}

func triggered(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	params := "p"
	r := core.Run{ID: core.NumberedRun(1, 1), App: "orders", State: core.Planned, Cause: core.CauseManual, At: at(10), Slot: at(10),
		First: core.NumberedRun(1, 1), Params: &params, By: "ann"}
	entry := core.DueItem{PlanAt: at(5), Job: 1, Run: r.ID}
	ok(t, e.Manage.PutTriggered(ctx, r, entry))
	sameRun(t, e, r)
	wantDue(t, h, e, 0, at(10), 10, entry)
	other, second := r, entry
	other.By, second.PlanAt = "bob", at(6)
	refused(t, e.Manage.PutTriggered(ctx, other, second))
	sameRun(t, e, r)
	wantDue(t, h, e, 0, at(10), 10, entry)
}

func changed(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	short, long, longer := "p", strings.Repeat("long ", 400), strings.Repeat("longer ", 400)
	waits := func(n uint32, params *string) (core.Run, core.DueItem) {
		id := core.NumberedRun(1, n)
		r := core.Run{ID: id, App: "orders", State: core.Planned, Cause: core.CauseManual, Rev: 3, At: at(10), Slot: at(10), Attempt: 1,
			First: id, Retries: 2,
			Params: params, Addresses: []string{"http://10.0.0.1:9999"}, Key: "k", By: "ann", Permit: "job/1"}
		d := core.DueItem{PlanAt: at(5), Job: 1, Run: id}
		ok(t, e.Manage.PutTriggered(ctx, r, d))
		return r, d
	}
	n := int64(0)
	// become is r with another time, put in place of the entry d.
	become := func(r core.Run, d core.DueItem, slot int, params *string, addresses ...string) (operate.Triggered, core.DueItem) {
		n++
		to := r
		to.At, to.Slot, to.Params, to.Addresses = at(slot), at(slot), params, addresses
		c := operate.Triggered{Put: r.Retime(to, base.Add(time.Duration(n)*time.Second)), Drop: []core.DueItem{d}, Entry: d,
			Change: core.Change{ID: 1000 + n, At: base, By: "bob", Verb: core.VerbChanged, App: "orders", Job: 1, Old: "{}", New: "{}"}}
		c.Entry.PlanAt = at(slot - 5)
		return c, c.Entry
	}
	changes := func(want int) {
		t.Helper()
		list, err := e.Manage.Changes(ctx, "", 1, math.MaxInt64, 100)
		ok(t, err)
		if len(list) != want {
			t.Fatalf("%d change records, want %d: %+v", len(list), want, list)
		}
	}

	r, d := waits(1, &short)
	for i, params := range []*string{&long, &longer, &short, &long, &short} {
		c, to := become(r, d, 20+i, params, [][]string{nil, {"http://10.0.0.2:9999", "http://10.0.0.3:9999"}}[i%2]...)
		ok(t, e.Manage.ChangeTriggered(ctx, c))
		refused(t, e.Manage.ChangeTriggered(ctx, c)) // as seen before
		r, d = c.Put.To, to
		sameRun(t, e, r)
		wantDue(t, h, e, 0, at(100), 10, d)
		changes(i + 1)
	}
	// The entry may be the same, and there may be none to drop.
	c, _ := become(r, d, 24, &short)
	ok(t, e.Manage.ChangeTriggered(ctx, c))
	r = c.Put.To
	c, _ = become(r, d, 26, &short)
	c.Drop = nil
	ok(t, e.Manage.ChangeTriggered(ctx, c))
	r = c.Put.To
	wantDue(t, h, e, 0, at(100), 10, d, c.Entry)
	ok(t, e.Manage.RemoveEntries(ctx, []core.DueItem{d, c.Entry})[0])
	d = c.Entry
	changes(7)

	// A read from before a change neither claims nor skips; a later read does.
	claim := core.Claim{Owner: "me", Until: base.Add(time.Minute), Journal: core.JournalKey{Minute: 1, Suffix: 2, Nonce: "me"}}
	take := r.Take(claim, "http://10.0.0.1:9999", base, nil)
	dispatched := func(p core.RunPut) error { return e.Dispatch.PutRuns(ctx, []core.RunPut{p})[0] }
	stale := r
	for _, stale.Until = range []time.Time{r.Until.Add(-time.Millisecond), {}} {
		refused(t, dispatched(stale.Take(claim, "", base, nil)))
	}
	refused(t, dispatched(stale.SkipUnsent(core.ReasonPaused, base)))
	sameRun(t, e, r)
	ok(t, dispatched(take))
	// A claimed run cannot be changed. A run that was released unsent can, and counts as
	// unsent.
	c, _ = become(r, d, 30, &short)
	refused(t, e.Manage.ChangeTriggered(ctx, c))
	c.Put.Was.Until = take.To.Until
	refused(t, e.Manage.ChangeTriggered(ctx, c))
	ok(t, dispatched(take.To.GiveBack()))
	// until stays, so that a dispatcher with an earlier read cannot take the changed run.
	for _, seen := range []time.Time{{}, r.Until} {
		c.Put.Was.Until = seen
		refused(t, e.Manage.ChangeTriggered(ctx, c))
	}
	c.Put.Was.Until = take.To.Until
	ok(t, e.Manage.ChangeTriggered(ctx, c))
	r = c.Put.To
	r.Journal = claim.Journal
	sameRun(t, e, r)
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
		refused(t, e.Manage.ChangeTriggered(ctx, c))
		c.Put.Was.Until = r.Until
		refused(t, e.Manage.ChangeTriggered(ctx, c))
	}
	changes(8)
	wantDue(t, h, e, 0, at(100), 10, d2, core.DueItem{PlanAt: at(25), Job: 1, Run: r.ID})
}

func kill(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	id := ids(3)
	open, shut := put(t, e, id[0], nil), put(t, e, id[1], closed)
	none := open
	none.ID = id[2]
	var kills []core.RunPut
	for _, r := range []core.Run{open, shut, none} {
		kills = append(kills, r.Kill("ann", base.Add(time.Second)))
	}
	answers(t, e.Manage.PutRuns(ctx, kills), "ok", "refused", "refused")
	open.KillBy, open.KillAt = "ann", base.Add(time.Second)
	sameRun(t, e, open)
	sameRun(t, e, shut)
}

func runsByID(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	var want []core.RunID
	for i := range 30 {
		want = append(want, core.PlannedRun(2, at(i*10)))
	}
	numbered := []core.RunID{core.NumberedRun(2, 1), core.NumberedRun(2, 2)}
	others := []core.RunID{core.PlannedRun(1, at(50)), core.PlannedRun(3, at(50))}
	for _, id := range slices.Concat(numbered, others, want[15:], want[:15]) {
		put(t, e, id, nil)
	}
	read := func(first, last core.RunID, page int) (got []core.RunID) {
		t.Helper()
		for {
			runs, err := e.Manage.RunsByID(ctx, first, last, page)
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
				r, is := readRun(t, e, first)
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
	e, ctx := h.Open(t), t.Context()
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
		allNil(t, e.Dispatch.Create(ctx, list))
		ok(t, e.Dispatch.PutJournal(ctx, of))
		<-time.After(3 * time.Millisecond)
	}
	for app, want := range map[string]map[core.RunID]bool{"": all, "orders": orders, "none": {}} {
		eventually(t, h, func() string {
			got := map[core.RunID]bool{}
			from, pages := query.RunPlace{}, 0
			for {
				runs, next, err := e.Manage.RecentRuns(ctx, query.Recent{App: app}, from, 6)
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
				if next == (query.RunPlace{}) {
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
		runs, _, err := e.Manage.RecentRuns(ctx, query.Recent{}, query.RunPlace{}, 5)
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
	e, ctx := h.Open(t), t.Context()
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
		allNil(t, e.Dispatch.Create(ctx, list[i:i+1]))
	}
	ok(t, e.Dispatch.PutJournal(ctx, of))
	ends := list[slices.IndexFunc(list, func(r core.Run) bool { return r.State == core.Running })]
	allNil(t, e.Finish.PutRuns(ctx, []core.RunPut{core.End(ends.ID, core.Run{State: core.Lost, Reason: core.ReasonGone,
		EndedAt: base.Add(63 * time.Second)})}))
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
				for from := (query.RunPlace{}); ; {
					runs, next, err := e.Manage.RecentRuns(ctx, query.Recent{App: app, States: states}, from, 2)
					ok(t, err)
					for i := range runs {
						if fits(&runs[i]) {
							got[runs[i].ID] = true
						} else if app != "" && runs[i].App != app {
							t.Fatalf("of %s came a run of %s", app, runs[i].App)
						}
					}
					if from = next; next == (query.RunPlace{}) {
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
	e, ctx := h.Open(t), t.Context()
	put := func(id core.RunID, slot int) core.Run {
		r := run(id)
		r.At, r.Slot = at(slot), at(slot)
		allNil(t, e.Dispatch.Create(ctx, []core.Run{r}))
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
	got, err := e.Manage.LastRuns(ctx, []core.JobID{1, 2, 3}, at(600), 2)
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
	e, ctx := h.Open(t), t.Context()
	a, b, c := core.PlannedRun(1, at(100)), core.NumberedRun(1, 1), core.PlannedRun(1, at(50))
	put(t, e, a, nil)
	put(t, e, b, nil)
	put(t, e, c, nil)
	put(t, e, core.PlannedRun(1, at(20)), closed)
	put(t, e, core.PlannedRun(2, at(20)), nil)
	waits, queued := core.NumberedRun(1, 9), core.NumberedRun(1, 10)
	put(t, e, waits, func(r *core.Run) { unowned(r); r.SentAt = time.Time{} })
	put(t, e, queued, func(r *core.Run) { unowned(r); r.State, r.SentAt = core.Queued, time.Time{} })
	read := func(first, last core.RunID, limit int, want ...core.RunID) {
		t.Helper()
		var got []core.RunID
		for next := first; next != 0; {
			var runs []core.Run
			var err error
			runs, next, err = e.Manage.OpenRuns(ctx, next, last, limit)
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
	allNil(t, e.Finish.PutRuns(ctx, []core.RunPut{core.End(c, core.Run{State: core.Succeeded, EndedAt: base})}))
	read(high, low, 10, a)
}

// waiting: the queued and the released runs of a job are listed from an ID downwards, until a
// process takes them or they end.
func waiting(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	queued := func(r *core.Run) { unowned(r); r.State, r.SentAt = core.Queued, time.Time{} }
	a, b, c, d := core.PlannedRun(1, at(20)), core.PlannedRun(1, at(50)), core.PlannedRun(1, at(100)), core.NumberedRun(1, 7)
	first := put(t, e, a, queued)
	given := put(t, e, b, nil)
	later := put(t, e, c, func(r *core.Run) { unowned(r); r.SentAt = time.Time{} })
	numbered := put(t, e, d, queued)
	put(t, e, core.PlannedRun(1, at(70)), nil)
	put(t, e, core.PlannedRun(1, at(80)), closed)
	put(t, e, core.PlannedRun(2, at(20)), queued)
	allNil(t, e.Dispatch.PutRuns(ctx, []core.RunPut{given.GiveBack(), later.Wait()}))
	read := func(limit int, want ...core.RunID) {
		t.Helper()
		var got []core.RunID
		for below := core.NumberedRun(1, core.MaxNumber); ; below = got[len(got)-1] {
			page, err := e.Manage.Waiting(ctx, 1, below, limit)
			ok(t, err)
			for i := range page {
				got = append(got, page[i].ID)
			}
			if len(page) < limit {
				break
			}
		}
		same(t, "the runs that wait", got, want)
	}
	for _, limit := range []int{1, 2, 10} {
		read(limit, d, c, b, a)
	}
	claim := core.Claim{Owner: "second", Until: base.Add(time.Minute), Journal: core.JournalKey{Minute: 5, Nonce: "second"}}
	allNil(t, e.Dispatch.PutRuns(ctx, []core.RunPut{numbered.Take(claim, "http://second/", base, nil),
		first.SkipUnsent(core.ReasonCancelled, base)}))
	read(1, c, b)
	found, _, err := e.Dispatch.Runs(ctx, []core.RunID{d})
	ok(t, err)
	taken := found[d]
	allNil(t, e.Dispatch.PutRuns(ctx, []core.RunPut{taken.GiveBack()}))
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
	e, ctx := h.Open(t), t.Context()
	one := journal(1000, "n1", 1, 50)
	ok(t, e.Dispatch.PutJournal(ctx, one))
	read := func(want core.Journal) {
		t.Helper()
		got, err := e.Dispatch.Journals(ctx, []core.JournalKey{want.Key, {Minute: 1, Nonce: "none"}})
		ok(t, err)
		same(t, "journal", got, map[core.JournalKey]core.Journal{want.Key: want})
	}
	read(one)
	refused(t, e.Dispatch.PutJournal(ctx, journal(1000, "n1", 1, 3)))
	refused(t, e.Watch.PutJournal(ctx, journal(1000, "n1", 0, 3)))
	read(one)
	five := journal(1000, "n1", 5, 4)
	five.Entries[1].Answer, five.Entries[3].Answer = "HTTP 500: out of memory", "closed the connection"
	ok(t, e.Watch.PutJournal(ctx, five))
	refused(t, e.Dispatch.PutJournal(ctx, journal(1000, "n1", 4, 9)))
	read(five)
	ok(t, e.Dispatch.PutJournal(ctx, journal(1000, "n2", 1, 0)))
	ok(t, e.Dispatch.PutJournal(ctx, journal(1001, "n1", 1, 2)))
	other := journal(1000, "n1", 2, 1)
	other.Key.Suffix = 4
	ok(t, e.Dispatch.PutJournal(ctx, other))
	list, err := e.Watch.JournalsAt(ctx, 1000, core.JournalKey{}, 1000)
	ok(t, err)
	got := map[core.JournalKey]core.Journal{}
	for _, j := range list {
		got[j.Key] = j
	}
	same(t, "journals of a minute", got, map[core.JournalKey]core.Journal{five.Key: five, other.Key: other,
		{Minute: 1000, Suffix: 3, Nonce: "n2"}: journal(1000, "n2", 1, 0)})
	list, err = e.Watch.JournalsAt(ctx, 999, core.JournalKey{}, 1000)
	ok(t, err)
	same(t, "journals of another minute", list, nil)
}

func watch(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	k := func(nonce string) core.JournalKey { return core.JournalKey{Minute: 90, Suffix: 2, Nonce: nonce} }
	ok(t, e.Watch.PutRevisits(ctx, 110, []core.JournalKey{k("a"), k("b")}))
	ok(t, e.Watch.PutRevisits(ctx, 110, []core.JournalKey{k("b"), k("c")}))
	ok(t, e.Watch.PutRevisits(ctx, 120, []core.JournalKey{k("d")}))
	revisits := func(minute int64, want ...string) {
		t.Helper()
		got, err := e.Watch.Revisits(ctx, minute, core.JournalKey{}, 1000)
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
	ok(t, e.Watch.DropRevisits(ctx, 110))
	ok(t, e.Watch.DropRevisits(ctx, 110))
	revisits(110)
	revisits(120, "d")
}

// watchPages: journals, and journals to read again, come in pages, each once, in an order that
// later writes keep; none of another minute comes.
func watchPages(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	want := map[core.JournalKey]bool{}
	var keys []core.JournalKey
	for i := range 23 {
		j := journal(1000, fmt.Sprintf("n%d", i), 1, 1)
		j.Key.Suffix = i % 16
		ok(t, e.Dispatch.PutJournal(ctx, j))
		keys = append(keys, j.Key)
		want[j.Key] = true
	}
	ok(t, e.Dispatch.PutJournal(ctx, journal(999, "before", 1, 1)))
	ok(t, e.Dispatch.PutJournal(ctx, journal(1001, "after", 1, 1)))
	ok(t, e.Watch.PutRevisits(ctx, 1010, keys))
	ok(t, e.Watch.PutRevisits(ctx, 1011, keys[:1]))
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
		list, err := e.Watch.JournalsAt(ctx, 1000, after, limit)
		ok(t, err)
		for _, j := range list {
			page = append(page, j.Key)
		}
		return page
	})
	pages("revisits", func(after core.JournalKey, limit int) []core.JournalKey {
		page, err := e.Watch.Revisits(ctx, 1010, after, limit)
		ok(t, err)
		return page
	})
}
