package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/internal/testkit/check"
)

var begin = time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)

func compile(t testing.TB, s core.Sched) *schedule.Schedule {
	t.Helper()
	sch, err := schedule.Compile(s.Schedule, s.ID)
	check.OK(t, err)
	return sch
}

func sched(job core.JobID, any ...core.When) core.Sched {
	return core.Sched{ID: job, Rev: 5, RevAt: begin, Misfire: core.MisfireLatest, Grace: time.Minute, Partition: 3,
		Schedule: core.Schedule{Any: any}}
}

func every(d time.Duration) core.When {
	return core.When{Kind: core.KindEvery, Every: d, Aligned: true}
}

func quartz(expr string) core.When { return core.When{Kind: core.KindCron, Expr: expr} }

// someJob draws a job and the options to plan it by.
func someJob(t *rapid.T) (core.Sched, *schedule.Schedule, Options) {
	s := sched(core.JobID(rapid.Int32Range(1, 5000).Draw(t, "job")))
	s.RevAt = begin.Add(time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "revAt")))
	s.Schedule.Any = rapid.SampledFrom([][]core.When{
		{every(time.Second)}, {every(7 * time.Second)}, {every(time.Minute)}, {every(9 * time.Minute)}, {every(10 * time.Minute)},
		{every(11 * time.Minute)}, {every(12 * time.Minute)}, {every(2 * time.Hour)}, {quartz("0 0-3 * * * ?")}, {quartz("*/2 */20 * * * ?")},
		{quartz("0 0 11 * * ?")}, {quartz("0 30 * * * ?"), every(25 * time.Minute)},
		{{Kind: core.KindAt, At: core.InstantOf(begin) + 1500}}, {quartz("0 0 10-12 1 12 ? 2026")},
	}).Draw(t, "rules")
	s.Schedule.Timezone = rapid.SampledFrom([]string{"", "Europe/Berlin", "Asia/Kolkata"}).Draw(t, "zone")
	s.Schedule.Jitter = rapid.SampledFrom([]time.Duration{0, 0, time.Second, time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "jitter")
	if rapid.Bool().Draw(t, "ends") {
		s.Schedule.Until = "2026-12-01T11:40:00Z"
	}
	s.Misfire = rapid.SampledFrom(core.Misfires).Draw(t, "misfire")
	s.Grace = rapid.SampledFrom([]time.Duration{0, 5 * time.Second, time.Minute, time.Hour}).Draw(t, "grace")
	s.Deadline = rapid.SampledFrom([]time.Duration{0, 0, 3 * time.Second, 2 * time.Minute, time.Hour}).Draw(t, "deadline")
	o := rapid.SampledFrom([]Options{AWS(), Local()}).Draw(t, "options")
	o.Groups = rapid.SampledFrom([]int{1, 5, 500}).Draw(t, "groups")
	o.MaxInstants = rapid.SampledFrom([]int{1, 10, 1000}).Draw(t, "maxInstants")
	o.MaxSkips = rapid.SampledFrom([]int{1, 50, 20000}).Draw(t, "maxSkips")
	sch, err := schedule.Compile(s.Schedule, s.ID)
	check.OK(t, err)
	return Start(s, sch, o), sch, o
}

// TestEveryInstantOnce checks that every expected time is handled once, by a run or a skip. Passes come at
// times in any order, with lost advances and a changing number of groups.
func TestEveryInstantOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, sch, o := someJob(t)
		start := s
		handled := map[core.Instant]int{}
		ids := map[core.RunID]bool{}
		now := s.RevAt
		for range rapid.IntRange(1, 40).Draw(t, "passes") {
			now = now.Add(time.Duration(rapid.OneOf(rapid.Int64Range(0, 3e9), rapid.Int64Range(-60e9, 900e9), rapid.Int64Range(0, 3000e9)).Draw(t,
				"step")))
			o.Groups = rapid.SampledFrom([]int{o.Groups, o.Groups, 1, 2, 7, 660}).Draw(t, "groups now")
			r := Job(s, sch, now, o)
			checkResult(t, s, sch, now, o, r)
			checkRepeat(t, s, sch, now, o, r)
			if rapid.IntRange(0, 3).Draw(t, "lost") == 0 {
				continue
			}
			for _, f := range r.Fires {
				handled[f.At]++
				if ids[f.Run] {
					t.Fatalf("run %d twice", f.Run)
				}
				ids[f.Run] = true
			}
			for _, k := range r.Skips {
				n := int64(0)
				for at := k.First; at <= k.Last && at != 0; at, _ = sch.Next(at) {
					handled[at]++
					n++
				}
				if n != k.Count {
					t.Fatalf("%+v covers %d instants", k, n)
				}
			}
			s = apply(s, r.Advance)
		}
		demanded := 0
		for at, ok := sch.Next(core.InstantOf(start.RevAt)); ok && (s.Next == 0 || at < s.Next); at, ok = sch.Next(at) {
			if handled[at] != 1 {
				t.Fatalf("%s was handled %d times", at, handled[at])
			}
			demanded++
		}
		if demanded != len(handled) || int64(demanded) != s.Seq {
			t.Fatalf("%d instants demanded, %d handled, the number is %d", demanded, len(handled), s.Seq)
		}
		if (s.State == core.Ended) != (s.Next == 0) || (s.Next == 0) != (s.PlanAt == 0) {
			t.Fatalf("state %s, next %s, planAt %s", s.State, s.Next, s.PlanAt)
		}
	})
}

// checkResult checks the guarantees of every pass.
func checkResult(t *rapid.T, s core.Sched, sch *schedule.Schedule, now time.Time, o Options, r Result) {
	a := r.Advance
	for i, f := range r.Fires {
		if f.Slot.Time().After(now.Add(o.MaxAhead)) {
			t.Fatalf("slot %s is too far ahead of %s", f.Slot, now)
		}
		if f.Run != core.PlannedRun(s.ID, f.At) || f.Rev != s.Rev || f.Slot < f.At || i > 0 &&
			(f.At <= r.Fires[i-1].At || f.Slot <= r.Fires[i-1].Slot) {
			t.Fatalf("fire %d is %+v", i, f)
		}
		if wantLate := now.After(f.Slot.Time().Add(s.Grace)); wantLate != (f.Cause == core.CauseMisfire) {
			t.Fatalf("cause %s of slot %s at %s", f.Cause, f.Slot, now)
		}
	}
	if len(r.Fires) > o.MaxInstants || a.NewSeq-s.Seq > int64(o.MaxSkips) {
		t.Fatalf("%d fires, %d instants", len(r.Fires), a.NewSeq-s.Seq)
	}
	if s.State != core.Started {
		return
	}
	if due := PlanAt(s, sch, s.Next, o) <= core.InstantOf(now); due != (a.NewSeq > s.Seq) {
		t.Fatalf("planAt %s at %s: %d instants", PlanAt(s, sch, s.Next, o), now, a.NewSeq-s.Seq)
	}
	// Later times are not needed before PlanAhead is over.
	if a.NewNext != 0 && a.NewPlanAt > core.InstantOf(now) {
		next, _ := sch.Next(a.NewNext)
		slot := sch.Slot(s.ID, a.NewNext, next, next != 0 && next-a.NewNext < seconds(o.Window))
		if slot.Time().Before(now.Add(o.PlanAhead)) {
			t.Fatalf("at %s slot %s is left until %s", now, slot, a.NewPlanAt)
		}
	}
}

// checkRepeat plans the same job again, at the same time and later.
func checkRepeat(t *rapid.T, s core.Sched, sch *schedule.Schedule, now time.Time, o Options, r Result) {
	if again := Job(s, sch, now, o); fmt.Sprint(again) != fmt.Sprint(r) {
		t.Fatalf("a repeat gives %+v, not %+v", again, r)
	}
	later := Job(s, sch, now.Add(time.Duration(rapid.Int64Range(0, 4000e9).Draw(t, "later"))), o)
	seq := map[core.RunID]int64{}
	for _, f := range r.Fires {
		seq[f.Run] = f.Seq
	}
	for _, f := range later.Fires {
		if n, ok := seq[f.Run]; ok && n != f.Seq {
			t.Fatalf("run %d had the number %d and has %d", f.Run, n, f.Seq)
		}
	}
	for _, k := range r.Skips {
		i := slices.IndexFunc(later.Skips, func(l core.Skip) bool { return l.First == k.First && l.Reason == k.Reason })
		if i < 0 || later.Skips[i].Last < k.Last || later.Skips[i].Count < k.Count {
			t.Fatalf("%+v was not lengthened: %+v", k, later.Skips)
		}
	}
}

// TestPassesEnd checks that passes at one time end with nothing due.
func TestPassesEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, sch, o := someJob(t)
		o.MaxInstants, o.MaxSkips = 1000, 20000
		now := s.RevAt.Add(time.Duration(rapid.Int64Range(0, 8*3600e9).Draw(t, "later")))
		for passes := 0; s.PlanAt != 0 && s.PlanAt <= core.InstantOf(now); passes++ {
			if passes > 40 {
				t.Fatalf("still due at %s: %+v", now, s)
			}
			s = apply(s, Job(s, sch, now, o).Advance)
		}
	})
}

// TestJudgeIsMonotone: a result changes at most once, from send to skip, and never its reason; of two times
// the older is skipped first.
func TestJudgeIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secs := func(name string, to int64) time.Duration {
			return time.Duration(rapid.Int64Range(0, to).Draw(t, name)) * time.Second
		}
		p := Policy{rapid.SampledFrom(core.Misfires).Draw(t, "misfire"), secs("grace", 100), secs("deadline", 200)}
		slot := core.InstantOf(begin)
		next := slot.Add(secs("next", 150) + time.Second)
		after := next.Add(secs("after", 150) + time.Second)
		if rapid.Bool().Draw(t, "last") {
			after = 0
		}
		was := true
		var why core.Reason
		for n := time.Duration(0); n < 400*time.Second; n += 500 * time.Millisecond {
			now := begin.Add(n)
			send, isLate, reason := Judge(p, slot, slot, next, now)
			if send != (reason == "") || isLate != (n > p.Grace) {
				t.Fatalf("%+v: %t %t %s", p, send, isLate, reason)
			}
			if send && !was || !was && reason != why {
				t.Fatalf("%+v at %s: %t %s, was %t %s", p, n, send, reason, was, why)
			}
			was, why = send, reason
			if younger, _, _ := Judge(p, next, next, after, now); send && !younger {
				t.Fatalf("%+v at %s: the younger falls first", p, n)
			}
			if p.Deadline > 0 && n > p.Deadline && send {
				t.Fatalf("%+v sends at %s", p, n)
			}
		}
	})
}

func TestPlanAt(t *testing.T) {
	ten := core.InstantOf(begin)
	zero := ten + 180 // the windows of group 0 start at multiples of 660 s
	if zero%660 != 0 {
		t.Fatal(zero)
	}
	grouped := AWS()
	grouped.Groups = 10
	for _, c := range []struct {
		name string
		job  core.JobID
		when core.When
		next core.Instant
		o    Options
		want core.Instant
	}{
		{"frequent, group 0 of 2: start of its window less lead", 8, every(time.Minute), ten + 300, AWS(), zero - 210},
		{"frequent, group 1 of 2, in the window before", 9, every(time.Minute), ten + 300, AWS(), zero - 330 - 210},
		{"frequent, group 3 of 10, in the window before", 3, every(time.Minute), ten + 300, grouped, zero - 660 + 198 - 210},
		{"frequent, group 1 of 10", 1, every(time.Minute), ten + 300, grouped, zero + 66 - 210},
		{"a window apart is single", 100, every(11 * time.Minute), zero, AWS(), zero - 340},
		{"the spread begins again", 641 + 100, every(time.Hour), ten, AWS(), ten - 340},
		{"the earliest", 640, every(time.Hour), ten, AWS(), ten - 880},
		{"the last of all is single", 641, core.When{Kind: core.KindAt, At: ten}, ten, AWS(), ten - 240},
		{"fixed delay", 641, core.When{Kind: core.KindFixedDelay, Every: time.Second}, ten, AWS(), ten - 240},
		{"local", 5, every(time.Second), ten + 4, Local(), ten - 2},
		{"local, group 2", 2, every(time.Second), ten + 4, Local(), ten + 2 - 2},
		{"local, lonely", 9, every(time.Hour), ten, Local(), ten - 5},
		{"none", 9, every(time.Hour), 0, Local(), 0},
	} {
		s := sched(c.job, c.when)
		check.Equal(t, PlanAt(s, compile(t, s), c.next, c.o), c.want, "%s", c.name)
	}
}

// TestAdvanceCoversAWindow checks that a minutely job has eleven runs to an advance, and that a queue can delay each of them.
func TestAdvanceCoversAWindow(t *testing.T) {
	s := sched(77, every(time.Minute))
	sch, o := compile(t, s), AWS()
	s = Start(s, sch, o)
	s = apply(s, Job(s, sch, begin, o).Advance)
	for range 5 {
		now := s.PlanAt.Time()
		r := Job(s, sch, now, o)
		if len(r.Fires) != 11 || r.Fires[10].Slot.Time().Sub(now) > o.MaxAhead {
			t.Errorf("%d fires at %s, up to %s", len(r.Fires), now, r.Fires[len(r.Fires)-1].Slot)
		}
		s = apply(s, r.Advance)
		check.Equal(t, s.PlanAt.Time().Sub(now), o.Window, "the next pass N later")
	}
}

func TestFixedDelay(t *testing.T) {
	s := sched(9, core.When{Kind: core.KindFixedDelay, Every: 5 * time.Minute})
	s.RevAt = begin.Add(300 * time.Millisecond)
	s.Schedule.Until = "2026-12-01T12:00:00Z"
	sch, o := compile(t, s), AWS()
	s = Start(s, sch, o)
	first := core.InstantOf(begin) + 301
	if s.Next != first || s.State != core.Started || s.PlanAt != first-249 {
		t.Fatalf("%+v", s)
	}

	early := Job(s, sch, begin.Add(10*time.Second), o)
	if len(early.Fires) != 0 || apply(s, early.Advance).PlanAt != s.PlanAt {
		t.Errorf("planned too early: %+v", early)
	}

	now := begin.Add(60 * time.Second)
	r := Job(s, sch, now, o)
	run := core.PlannedRun(9, first)
	if len(r.Fires) != 1 || r.Fires[0] != (core.Fire{Run: run, Rev: 5, At: first, Slot: first, Cause: core.CauseSchedule}) {
		t.Errorf("%+v", r.Fires)
	}
	s = apply(s, r.Advance)
	if s.Next != first || s.Tail != run || s.Seq != 1 || s.PlanAt != core.InstantOf(now)+600 {
		t.Errorf("%+v", s)
	}

	// While the chain is open the tick only rechecks.
	open := Job(s, sch, s.PlanAt.Time(), o)
	if len(open.Fires)+len(open.Skips) != 0 || open.Advance.NewPlanAt != s.PlanAt+600 || open.Advance.NewTail != run {
		t.Errorf("%+v", open)
	}
	// An edit keeps the tail and its ID, and is due at once.
	edited := s
	edited.Rev, edited.RevAt = 6, begin.Add(2*time.Minute)
	if got := Start(edited, sch, o); got.Tail != run || got.Next != first || got.PlanAt != core.InstantOf(edited.RevAt) {
		t.Errorf("%+v", got)
	}
	// An edit to another kind drops it.
	if got := Start(edited, compile(t, sched(9, every(time.Hour))), o); got.Tail != 0 || got.Next != core.InstantOf(begin)+3600 {
		t.Errorf("%+v", got)
	}

	end := first.Time().Add(1500 * time.Millisecond)
	next := apply(s, NextAfterEnd(s, 5*time.Minute, end, o))
	if next.Next != first+2+300 || next.Tail != 0 || next.State != core.Started || next.PlanAt != next.Next-249 || next.Seq != 1 {
		t.Errorf("%+v", next)
	}
	// A clock that was set back never reuses a time.
	if got := NextAfterEnd(s, 5*time.Minute, begin.Add(-time.Hour), o); got.NewNext != first+1 {
		t.Errorf("%+v", got)
	}
	// Paused in between: it loses the tail and stays in place in the due index.
	paused := s
	paused.State, paused.PlanAt = core.Paused, 0
	if got := NextAfterEnd(paused, 5*time.Minute, end, o); got.NewTail != 0 || got.NewPlanAt != 0 || got.NewState != core.Paused {
		t.Errorf("%+v", got)
	}
	// Past its window the job has ended.
	if got := NextAfterEnd(s, 5*time.Minute, begin.Add(2*time.Hour), o); got.NewState != core.Ended || got.NewNext != 0 || got.NewPlanAt != 0 {
		t.Errorf("%+v", got)
	}

	// Late.
	now = first.Time().Add(10 * time.Minute)
	for _, c := range []struct {
		misfire  core.Misfire
		deadline time.Duration
		reason   core.Reason
	}{{core.MisfireLatest, 0, ""}, {core.MisfireAll, 0, ""}, {core.MisfireSkip, 0, core.ReasonMisfire},
		{core.MisfireAll, time.Minute, core.ReasonDeadline}, {core.MisfireLatest, time.Hour, ""}} {
		l := Start(sched(9, s.Schedule.Any...), sch, o)
		l.Next = first
		l.Misfire, l.Deadline = c.misfire, c.deadline
		r := Job(l, sch, now, o)
		if c.reason == "" {
			if len(r.Fires) != 1 || r.Fires[0].Cause != core.CauseMisfire || len(r.Skips) != 0 {
				t.Errorf("%s: %+v", c.misfire, r)
			}
			continue
		}
		if len(r.Fires) != 0 || len(r.Skips) != 1 || r.Skips[0].Reason != c.reason || r.Skips[0].First != first || r.Skips[0].Count != 1 {
			t.Errorf("%s: %+v", c.misfire, r)
		}
		if r.Advance.NewNext != core.InstantOf(now)+300 || r.Advance.NewTail != 0 {
			t.Errorf("%s: %+v", c.misfire, r.Advance)
		}
	}
}

func TestStart(t *testing.T) {
	for _, c := range []struct {
		name  string
		s     core.Sched
		next  core.Instant
		state core.JobState
	}{
		{"by hand", sched(9), 0, core.Started},
		{"the instant of the change is not demanded", sched(9, every(time.Hour)), core.InstantOf(begin) + 3600, core.Started},
		{"past", sched(9, core.When{Kind: core.KindAt, At: core.InstantOf(begin)}), 0, core.Ended},
	} {
		got := Start(c.s, compile(t, c.s), AWS())
		if got.Next != c.next || got.State != c.state || (got.PlanAt == 0) != (c.next == 0) {
			t.Errorf("%s: %+v", c.name, got)
		}
		r := Job(got, compile(t, c.s), begin, AWS())
		if len(r.Fires) != 0 || apply(got, r.Advance).Next != got.Next {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

func TestPack(t *testing.T) {
	if Pack(nil, 50, nil) != nil {
		t.Error("messages of nothing")
	}
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(-1, 60).Draw(t, "limit")
		wide := rapid.SampledFrom([]int64{1, 5, 600, 1e6}).Draw(t, "span")
		var fires []core.Fire
		for i := range rapid.IntRange(1, 300).Draw(t, "fires") {
			slot := core.InstantOf(begin) + core.Instant(rapid.Int64Range(0, wide).Draw(t, "slot"))
			fires = append(fires, core.Fire{Run: core.NumberedRun(1, uint32(i)), Slot: slot, Seq: int64(i)})
		}
		given := slices.Clone(fires)
		of := map[core.Instant]int{}
		for _, f := range fires {
			of[f.Slot]++
		}
		lead := func(n int) time.Duration { return time.Duration(n) * 1500 * time.Millisecond }
		out := Pack(fires, limit, func(slot core.Instant, n int) time.Duration {
			if n != of[slot] {
				t.Fatalf("slot %s has %d fires, the lead time is asked for %d", slot, of[slot], n)
			}
			return lead(n)
		})
		if !slices.Equal(given, fires) {
			t.Fatal("changed its input")
		}
		var got []core.Fire
		for i, m := range out {
			if m.Message.Kind != ring.KindFires || len(m.Message.Fires) == 0 || len(m.Message.Fires) > ring.MaxFires || limit > 0 &&
				len(m.Message.Fires) > limit {
				t.Fatalf("message %d has %d fires", i, len(m.Message.Fires))
			}
			if want := m.Message.Slot.Time().Add(-lead(of[m.Message.Slot])); !m.NotBefore.Equal(want) {
				t.Fatalf("visible %s, want %s", m.NotBefore, want)
			}
			for _, f := range m.Message.Fires {
				if f.Slot != m.Message.Slot {
					t.Fatalf("slot %s in a message of %s", f.Slot, m.Message.Slot)
				}
			}
			if i > 0 && out[i-1].Message.Slot == m.Message.Slot && limit <= 0 && len(out[i-1].Message.Fires) < ring.MaxFires {
				t.Fatalf("message %d is not full", i-1)
			}
			got = append(got, m.Message.Fires...)
		}
		slices.SortStableFunc(given, func(a, b core.Fire) int { return int(a.Slot - b.Slot) })
		if !slices.Equal(got, given) {
			t.Fatal("fires were lost, doubled or moved")
		}
	})
}

func BenchmarkJobWindow(b *testing.B) {
	for _, c := range []struct {
		name string
		when core.When
	}{{"secondly", every(time.Second)}, {"secondly-cron", quartz("* * * * * ?")}, {"minutely", every(time.Minute)}} {
		b.Run(c.name, func(b *testing.B) {
			s := sched(77, c.when)
			sch, o := compile(b, s), AWS()
			s = Start(s, sch, o)
			s = apply(s, Job(s, sch, begin, o).Advance)
			now := s.PlanAt.Time()
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n = len(Job(s, sch, now, o).Fires)
			}
			b.ReportMetric(float64(n), "fires")
		})
	}
}

func BenchmarkJobSkips(b *testing.B) {
	s := sched(77, quartz("* * * * * ?"))
	sch, o := compile(b, s), AWS()
	s = Start(s, sch, o)
	for b.Loop() {
		if r := Job(s, sch, begin.Add(24*time.Hour), o); r.Skips[0].Count != 20000 {
			b.Fatal(r.Skips)
		}
	}
}

func BenchmarkPack10000(b *testing.B) {
	for _, sorted := range []bool{true, false} {
		fires := make([]core.Fire, 10000)
		for i := range fires {
			slot := i * 600 / len(fires)
			if !sorted {
				slot = i % 600
			}
			fires[i] = core.Fire{Run: core.RunID(i), Slot: core.InstantOf(begin) + core.Instant(slot)}
		}
		b.Run(fmt.Sprintf("sorted=%t", sorted), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Pack(fires, 50, AWS().LeadTime.Of)
			}
		})
	}
}

const ms = time.Millisecond

func TestCut(t *testing.T) {
	aws := AWS().LeadTime
	for n, want := range map[int]time.Duration{
		0: 0, 1: 50 * ms, 50: 50 * ms, 51: time.Second, 2500: time.Second, 2501: 2 * time.Second, 5000: 2 * time.Second, 25_000: 10 * time.Second,
		50_000: 10 * time.Second, 1_000_000: 10 * time.Second,
	} {
		check.Equal(t, aws.Of(0, n), want, "%d fires", n)
		check.Equal(t, Local().LeadTime.Of(0, n), 0, "on one machine %d fires have a lead of", n)
	}
}

// TestLonelyLeadTimeIsMadeByPhase checks a single message that reaches a queue of whole seconds 30 to 130 ms
// after the start of a pass. It becomes visible 50 to 150 ms before its slot.
func TestLonelyLeadTimeIsMadeByPhase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lead := AWS().LeadTime
		phase := lead.Phase()
		slot := core.InstantOf(begin) + core.Instant(rapid.Int64Range(240, 880).Draw(t, "ahead"))
		way := lead.Way + time.Duration(rapid.Int64Range(0, int64((lead.Lonely-lead.LonelyMin)/ms)).Draw(t, "way"))*ms
		sent := begin.Add(phase + way)
		held := slot.Time().Add(-lead.Of(slot, 1)).Sub(sent).Truncate(time.Second)
		if early := slot.Time().Sub(sent.Add(held)); early < lead.LonelyMin || early > lead.Lonely {
			t.Fatalf("sent %s after the second it is visible %s before its slot; want %s to %s", phase+way, early, lead.LonelyMin, lead.Lonely)
		}
	})
	check.Equal(t, AWS().LeadTime.Phase(), 820*ms, "the phase")
	check.Equal(t, Local().LeadTime.Phase(), 0, "one machine has the phase")
}
