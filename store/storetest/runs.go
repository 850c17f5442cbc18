package storetest

import (
	"errors"
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
	"github.com/tickring/tickring/internal/testkit/fixture"
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

// long is a text that DynamoDB does not store with a run.
var long = strings.Repeat("what it did. ", 200)

// shapes are runs of which some differ in each part.
var shapes = []func(*core.Run){
	func(*core.Run) {},
	unowned,
	func(r *core.Run) {
		unowned(r)
		r.State, r.App, r.SentAt, r.Attempt, r.Retries, r.Journal = core.Queued, "other", time.Time{}, 0, 0, core.JournalKey{}
	},
	func(r *core.Run) { unowned(r); r.Address, r.MaybeSent = "http://kept/", true },
	func(r *core.Run) { *r = fullRun(r.ID) },
	func(r *core.Run) {
		*r = fullRun(r.ID)
		r.State, r.EndedAt, r.Reason, r.Code, r.Message, r.Data, r.Then, r.Owes = core.Running, time.Time{}, "", 0, "", "", 0, nil
	},
	func(r *core.Run) { closed(r); r.Message = strings.Repeat("m", core.MessageMax) },
	func(r *core.Run) {
		r.Params, r.Tries, r.Key = &long, []core.Try{{Address: "http://b/", Code: 1, Message: long}}, "k"
	},
}

// runPuts: each write of a run is made on exactly its condition, and changes exactly its fields: for each part of a run alone, and for
// ends of runs that were read or not. The end of a run that was not read shows the run. A refused write changes nothing, including long
// texts.
func runPuts(t *testing.T, h Harness) {
	const compared = core.RunState | core.RunOwner | core.RunUntil | core.RunAddress | core.RunMaybeSent | core.RunOwes | core.RunKill |
		core.RunLate | core.RunApp | core.RunPlace | core.RunPostRun
	const ofClosed = core.RunLate | core.RunOwes | core.RunPlace | core.RunPostRun
	s := h.Open(t)
	var runs []core.Run
	var puts []core.RunPut
	add := func(from, to int, change func(was, is *core.Run) core.RunPut) {
		id := core.NumberedRun(1, uint32(100+len(runs)))
		if len(runs)%2 == 1 {
			id = core.PlannedRun(1, at(len(runs)))
		}
		was, is := run(id), run(id)
		shapes[from](&was)
		shapes[to](&is)
		p := change(&was, &is)
		p.ID = id
		runs, puts = append(runs, was), append(puts, p)
	}
	for from := range shapes {
		for to := range shapes {
			for part := core.RunState; part <= core.RunPostRun; part <<= 1 {
				if part&compared != 0 {
					add(from, to, func(_, is *core.Run) core.RunPut {
						return core.RunPut{If: part, Was: *is, Set: core.RunKill | core.RunTries,
							To: core.Run{KillBy: "ann", KillAt: base, Tries: []core.Try{{Address: "http://b/", Message: long}}}}
					})
				}
				add(from, to, func(was, is *core.Run) core.RunPut {
					p := core.RunPut{Open: part&ofClosed == 0, Set: part, To: *is}
					switch {
					case part == core.RunApp, part == core.RunEnd, part == core.RunState && !is.State.Open(),
						part == core.RunTries && len(was.Tries) > len(is.Tries), part == core.RunGiven && was.Params != nil && is.Params == nil:
						p.Set = core.RunUntil // no writer sets these alone, or removes long texts
					case part == core.RunJournal:
						p.Set |= core.RunOwner
					}
					return p
				})
			}
			for n := range 4 {
				add(from, to, func(was, is *core.Run) core.RunPut {
					if is.State.Open() {
						is.State, is.EndedAt = core.Failed, base
					}
					p := core.End(is.ID, *is)
					p.Had = n&1 != 0
					if n&2 != 0 {
						p.Seen = was
					}
					return p
				})
			}
		}
	}
	ok(t, s.CreateRuns(t.Context(), runs)...)
	seen := make([]*core.Run, len(puts))
	for i := range puts {
		seen[i] = puts[i].Seen
	}
	var errs []error
	for some := range slices.Chunk(puts, 50) { // long tries may be lost while an engine is throttled
		if h.Wait != nil {
			h.Wait(s, time.Second)
		}
		errs = append(errs, s.ChangeRuns(t.Context(), some)...)
	}
	found := getRuns(t, s, runIDs(runs)...)
	for i := range puts {
		p, was := &puts[i], runs[i]
		if holds := fixture.Holds(p, &was); holds != (errs[i] == nil) || errs[i] != nil && !errors.Is(errs[i], core.ErrRefused) {
			t.Fatalf("run %d, set %b if %b: the condition holds: %t, answered %v", i, p.Set, p.If, holds, errs[i])
		} else if holds {
			p.Apply(&runs[i])
		}
		ok(t, found[p.ID].Err)
		same(t, fmt.Sprintf("run %d, set %b if %b", i, p.Set, p.If), *found[p.ID].Is, runs[i])
		if r := p.Seen; errs[i] == nil && p.Ends() && seen[i] == nil && (r == nil || r.ID != p.ID || r.App != was.App || r.First != was.First ||
			r.Attempt != was.Attempt || r.FixedDelay != was.FixedDelay || r.Key != was.Key || r.KeepLog != was.KeepLog || r.Place != was.Place) {
			t.Errorf("run %d: its end shows %+v", i, r)
		}
	}
}

// closeTexts: one run twice in a batch, and texts and data, short and long, in one batch.
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
}

// clearOwed records that a run has no follow-ups left.
func clearOwed(t *testing.T, s *store.Store, id core.RunID) {
	t.Helper()
	r := mustRun(t, s, id)
	ok(t, s.ChangeRuns(t.Context(), []core.RunPut{r.ClearOwed()})...)
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

// triggered: a waiting run and its entry are created together, and changed together with a change record, or not at all.
func triggered(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	short, text, longer := "p", strings.Repeat("long ", 400), strings.Repeat("longer ", 400)
	id := core.NumberedRun(1, 1)
	r := core.Run{ID: id, App: "orders", State: core.Planned, Cause: core.CauseManual, Rev: 3, At: at(10), Slot: at(10), Attempt: 1, First: id,
		Retries: 2, Params: &short, Addresses: []string{"http://10.0.0.1:9999"}, Key: "k", By: "ann", Permit: "job/1"}
	due, changes := []core.DueItem{{PlanAt: at(5), Job: 1, Run: id}}, 0
	holds := func() {
		t.Helper()
		sameRun(t, s, r)
		wantDue(t, h, s, 0, at(100), 10, due...)
		list, err := s.Changes(ctx, "", 1, math.MaxInt64, 100)
		if ok(t, err); len(list) != changes {
			t.Fatalf("%d change records, want %d: %+v", len(list), changes, list)
		}
	}
	ok(t, s.Runs.Put(ctx, []store.RunPut{{Create: &r, Enter: &due[0]}})...)
	other := r
	other.By = "bob"
	refused(t, s.Runs.Put(ctx, []store.RunPut{{Create: &other, Enter: &core.DueItem{PlanAt: at(6), Job: 1, Run: id}}})...)
	holds()
	for i, params := range []*string{&text, &longer, &short, &text, &short, &short, &short} {
		to, enter := r, due[0]
		to.At = at([]int{20, 21, 22, 23, 24, 24, 26}[i])
		to.Slot, to.Params, enter.PlanAt = to.At, params, to.At-5
		to.Addresses = [][]string{nil, {"http://10.0.0.2:9999", "http://10.0.0.3:9999"}}[i%2]
		p := r.Retime(to, base.Add(time.Duration(i)*time.Second))
		put := store.RunPut{Change: &p, Leave: due, Enter: &enter, Changes: []core.Change{
			{ID: int64(i + 1), At: base, By: "bob", Verb: core.VerbChanged, App: "orders", Job: 1, Old: "{}", New: "{}"}}}
		if due = []core.DueItem{enter}; i == 6 { // an entry that is not named stays
			due, put.Leave = append(put.Leave, enter), nil
		}
		ok(t, s.Runs.Put(ctx, []store.RunPut{put})...)
		refused(t, s.Runs.Put(ctx, []store.RunPut{put})...) // as seen before
		r, changes = p.To, changes+1
		holds()
	}
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

// recentRuns: all runs of an app and of each requested state come, newest first, even if they changed since. Other runs may come
// too.
func recentRuns(t *testing.T, h Harness) {
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
	older := len(list) - 7
	journaled(t, s, 0, list[:older])
	<-time.After(3 * time.Millisecond)
	journaled(t, s, 1, list[older:])
	eventually(t, h, func() string {
		runs, _, err := s.Runs.Recent(t.Context(), store.Recent{}, store.RunPlace{}, 5)
		ok(t, err)
		for _, r := range runs {
			if int(r.ID.Job()) <= older {
				return fmt.Sprintf("run of job %d among the newest", r.ID.Job())
			}
		}
		return ""
	})
	ends := &list[slices.IndexFunc(list, func(r core.Run) bool { return r.State == core.Running })]
	endRun(t, s, ends.ID, core.Run{State: core.Lost, Reason: core.ReasonGone, EndedAt: base.Add(63 * time.Second)})
	ends.State = core.Lost
	asked := [][]core.State{nil, {core.Failed, core.Lost}, {core.Running, core.Queued}, {core.Running, core.Lost},
		{core.Succeeded, core.Skipped}}
	for _, state := range core.States {
		asked = append(asked, []core.State{state})
	}
	for _, of := range asked {
		for _, app := range []string{"", "other", "none"} {
			fits := func(r core.Run) bool {
				return (app == "" || r.App == app) && (of == nil || slices.Contains(of, r.State))
			}
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
