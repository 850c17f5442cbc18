package storetest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// unreadableRun: if one of several runs is damaged, Get returns the other runs, and an error for the damaged run.
func unreadableRun(t *testing.T, h Harness) {
	if h.SetOwes == nil {
		return
	}
	s := h.Open(t)
	bad, fine := fullRun(core.NumberedRun(1, 2)), run(core.PlannedRun(1, at(60)))
	other := run(core.PlannedRun(2, at(60)))
	ok(t, s.CreateRuns(t.Context(), []core.Run{fine, bad, other})...)
	h.SetOwes(t, s, bad.ID, "{")
	found := getRuns(t, s, fine.ID, bad.ID, other.ID)
	if len(found) != 3 || found[bad.ID].Err == nil || found[fine.ID].Err != nil || found[other.ID].Err != nil {
		t.Fatalf("of 3 runs one is damaged: %+v", found)
	}
	same(t, "readable run", *found[fine.ID].Is, fine)
	same(t, "readable run", *found[other.ID].Is, other)
	// The damaged run blocks no write of another run.
	end := core.End(fine.ID, core.Run{State: core.Succeeded, Code: 200, EndedAt: base})
	ok(t, s.ChangeRuns(t.Context(), []core.RunPut{end})...)
	if state := mustRun(t, s, fine.ID).State; state != core.Succeeded {
		t.Fatalf("the run beside a damaged run is %s", state)
	}
}

// newerRun: a run with a field that only a newer version knows can be read.
func newerRun(t *testing.T, h Harness) {
	if h.SetOwes == nil {
		return
	}
	s := h.Open(t)
	r := fullRun(core.NumberedRun(1, 2))
	ok(t, s.CreateRuns(t.Context(), []core.Run{r})...)
	text, err := json.Marshal(r.Owes)
	ok(t, err)
	h.SetOwes(t, s, r.ID, strings.Replace(string(text), "{", `{"since":{"next":"version"},`, 1))
	sameRun(t, s, r)
}

// refusedOfMany: in a batch of many writes one is refused, and all other writes are made.
func refusedOfMany(t *testing.T, h Harness) {
	const n, bad = 60, 37
	s := h.Open(t)
	createJobs(t, s, job(1000), with(job(bad), func(j *core.Job) { j.Def.Title = "first" }))
	list := make([]store.JobPut, n)
	for i := range list {
		list[i] = creates(job(core.JobID(i + 1)))
	}
	want := slices.Repeat([]string{"ok"}, n)
	want[bad-1] = "refused"
	answers(t, s.Jobs.Put(t.Context(), list), want...)
	ids := make([]core.JobID, n)
	for i := range ids {
		ids[i] = core.JobID(i + 1)
	}
	found := getJobs(t, s, store.Whole, ids...)
	if len(found) != n || found[bad].Def.Title != "first" || found[bad+1].Def.Title != "a job" {
		t.Fatalf("%d jobs of %d; the refused job is %q", len(found), n, found[bad].Def.Title)
	}

	first := run(core.PlannedRun(bad, at(60)))
	first.Owner = "first"
	ok(t, s.CreateRuns(t.Context(), []core.Run{first})...)
	runs, runIDs := make([]core.Run, n), make([]core.RunID, n)
	for i := range runs {
		runs[i] = run(core.PlannedRun(core.JobID(i+1), at(60)))
		runIDs[i] = runs[i].ID
	}
	answers(t, s.CreateRuns(t.Context(), runs), want...)
	ends := make([]core.RunPut, n)
	for i, id := range runIDs {
		ends[i] = core.End(id, core.Run{State: core.Succeeded, Code: 200, EndedAt: base})
		ends[i].If, ends[i].Was.Owner = ends[i].If|core.RunOwner, "nonce-1"
	}
	answers(t, s.ChangeRuns(t.Context(), ends), want...)
	stored := getRuns(t, s, runIDs...)
	for i, id := range runIDs {
		if got := stored[id]; got.Err != nil || got.Is.State.Open() != (i == bad-1) {
			t.Fatalf("run %d of %d is %s, %v", i, len(stored), got.Is.State, got.Err)
		}
	}
}

// longTexts: a job and a run whose texts are as long as an item of DynamoDB allows (400 KB) are stored and read unchanged.
func longTexts(t *testing.T, h Harness) {
	s := h.Open(t)
	long := strings.Repeat("x", 390<<10)
	j := with(job(1), func(j *core.Job) { j.Def.Params = long })
	createJobs(t, s, j)
	if mustJob(t, s, 1).Def.Params != long {
		t.Fatal("the params of a job have changed")
	}
	r := run(core.PlannedRun(1, at(60)))
	r.Params = &long
	ok(t, s.CreateRuns(t.Context(), []core.Run{r})...)
	got := getRuns(t, s, r.ID)[r.ID]
	if ok(t, got.Err); got.Is.Params == nil || *got.Is.Params != long {
		t.Fatal("the params of a run have changed")
	}
}

// waitingMessages: a large backlog comes completely and, if the queue has an order, in order.
func waitingMessages(t *testing.T, h Harness) {
	const n = 2000
	s, ctx, now := h.Open(t), t.Context(), core.InstantOf(time.Now())
	out := make([]ring.Out, n)
	for i := range out {
		k := (i * 777) % n // not in order
		slot := now + core.Instant(k-2*n)
		out[i] = ring.Out{NotBefore: slot.Time(), Message: message(slot, core.NumberedRun(1, uint32(k)))}
	}
	ok(t, s.Queue.Enqueue(ctx, out)...)
	seen := map[core.RunID]bool{}
	for len(seen) < n {
		got := receive(t, s, 10)
		for _, d := range got {
			id := d.Message.Fires[0].Run
			if number, _ := id.Number(); h.Coarse == 0 && int(number) != len(seen) {
				t.Fatalf("message %d came as number %d", number, len(seen))
			}
			seen[id] = true
		}
		ok(t, s.Queue.Ack(ctx, got)...)
	}
	due, waiting, inFlight, err := s.Queue.Depth(ctx, ring.KindFires)
	if ok(t, err); h.Coarse == 0 && due+waiting+inFlight != 0 {
		t.Fatalf("%d, %d and %d messages are left", due, waiting, inFlight)
	}
}
