package query_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
)

// anySchedule returns a random schedule of a random kind.
func anySchedule(r *rand.Rand) core.Schedule {
	one := func(list ...string) string { return list[r.IntN(len(list))] }
	s := core.Schedule{Timezone: one("", "UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe")}
	rule := func() core.When {
		switch r.IntN(4) {
		case 0:
			return core.When{Kind: core.KindCron, Expr: one("0", "0", "*/20", "15,45") + " " + one("0", "30", "*/5", "*", "7-9") + " " +
				one("*", "2", "3", "*/2", "8-18", "0") + " " + one("* * ?", "? * MON-FRI", "1,15 * ?", "L * ?", "? * 3#2")}
		case 1:
			return core.When{Kind: core.KindCrontab, Expr: one("0", "*/15", "*") + " " + one("*", "2", "1,13") + " * * " + one("*", "1-5")}
		case 2:
			return core.When{Kind: core.KindAt, At: core.InstantOf(start) + core.Instant(r.IntN(200_000)) + 1}
		}
		w := core.When{Kind: core.KindEvery, Every: time.Duration(r.IntN(7200)+20) * time.Second}
		if r.IntN(2) == 0 {
			w.Aligned = true
		}
		return w
	}
	switch r.IntN(6) {
	case 0:
		return core.Schedule{Any: []core.When{{Kind: core.KindFixedDelay, Every: time.Hour}}}
	case 1:
		s.Any = []core.When{rule(), rule()}
	default:
		s.Any = []core.When{rule()}
	}
	if r.IntN(5) == 0 {
		s.Until = start.Add(time.Duration(r.IntN(100)+30) * time.Hour).Format(time.RFC3339)
	}
	return s
}

// listed returns the times that Upcoming lists for a job from one time until before another.
func (f *fixture) listed(job core.JobID, from, to core.Instant) (at []core.Instant) {
	f.T.Helper()
	for after := from - 1; after < to-1; {
		res, err := f.M.Upcoming(ctx, query.JobFilter{Job: job}, after.Time(), time.Duration(to-1-after)*time.Second, query.MaxPage)
		check.OK(f.T, err)
		for _, c := range res.Coming {
			if c.Cause == core.CauseSchedule {
				at = append(at, c.At)
			}
		}
		if !res.Partial {
			break
		}
		after = at[len(at)-1]
	}
	return at
}

// TestComingShape checks, for all kinds of schedules and pauses, that buckets, bands and busiest seconds match
// Upcoming.
func TestComingShape(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := newFixture(t)
		if seed%3 == 0 { // a clock change is within it
			f.Clock = time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC)
		}
		f.Must(f.M.SaveApp(ctx, ann, manage.AppSpec{Name: "web", Allow: []string{"10.0.0.0/8"}}))
		var jobs []core.Job
		for i := range 30 {
			s := spec(fmt.Sprintf("j%d", i), anySchedule(r))
			s.Def.App = []string{"shop", "web"}[r.IntN(2)]
			if res := f.Save(s)[0]; res.Err != nil { // nothing remains of the schedule
				continue
			}
			j := f.Job(s.Def.App + "/" + s.Def.Name)
			if r.IntN(5) == 0 {
				var until []time.Time
				if r.IntN(2) == 0 {
					until = append(until, f.Clock.Add(time.Duration(r.IntN(40)+1)*time.Hour))
				}
				f.Pause(manage.Target{Job: j.Name()}, until...)
			}
			jobs = append(jobs, j)
		}
		for _, target := range []manage.Target{{All: true}, {App: "web"}} {
			if r.IntN(2) == 0 {
				f.Pause(target, f.Clock.Add(time.Duration(r.IntN(20)+1)*time.Hour))
			}
		}
		f.Clock = f.Clock.Add(time.Minute)
		from := f.Clock.Add(time.Duration(r.IntN(30)) * time.Hour)
		a := query.ComingAsk{From: from, For: time.Duration(r.IntN(48)+1) * time.Hour, Buckets: r.IntN(query.ComingBuckets + 1)}
		s, err := f.M.ComingShape(ctx, a)
		check.OK(t, err)
		type lane struct {
			jobs, dense, often int
			fires              []int
		}
		want, seconds, fire := map[string]*lane{"shop": {}, "web": {}}, map[core.Instant]int{}, 0
		for _, l := range want {
			l.fires = make([]int, (s.To-s.From+s.Width-1)/s.Width)
		}
		for _, j := range jobs {
			at := f.listed(j.Def.ID, s.From, s.To)
			l := want[j.Def.App]
			if len(at) > 0 {
				l.jobs, fire = l.jobs+1, fire+1
			}
			if len(at) > 100 {
				l.dense, l.often = l.dense+1, l.often+len(at)
				continue
			}
			for _, x := range at {
				l.fires[(x-s.From)/s.Width]++
				seconds[x]++
			}
		}
		if s.Partial || s.Jobs != fire || len(want["shop"].fires) > query.ComingBuckets {
			t.Errorf("seed %d: %d jobs (partial %t), not %d", seed, s.Jobs, s.Partial, fire)
		}
		for _, got := range s.Apps {
			l := want[got.App]
			off := got.Band.Fires - l.often
			if got.Band.About && off*off*9 < l.often*l.often { // it is an estimate
				off = 0
			}
			if got.Jobs != l.jobs || !slices.Equal(got.Fires, l.fires) || got.Band.Jobs != l.dense || off != 0 {
				t.Errorf("seed %d, %s: %+v, not %+v", seed, got.App, got, *l)
			}
		}
		worst := 0
		for _, n := range seconds {
			worst = max(worst, n)
		}
		if worst > 1 && (len(s.Piles) == 0 || s.Piles[0].Jobs != worst) {
			t.Errorf("seed %d: %+v, the worst has %d", seed, s.Piles, worst)
		}
		for i, p := range s.Piles {
			if seconds[p.At] != p.Jobs || len(p.Names) != min(3, p.Jobs) || i > 0 && p.Jobs > s.Piles[i-1].Jobs {
				t.Errorf("seed %d: %+v, listed are %d", seed, p, seconds[p.At])
			}
		}
	}
}

// TestComingShapeEdges checks that a job with exactly comingDense runs is in buckets, and that a run at the end of a
// pause is left out.
func TestComingShapeEdges(t *testing.T) {
	f := newFixture(t)
	f.Clock = start.Truncate(time.Hour)
	dots := f.Create(spec("dots", every(time.Minute)))
	for fires, dense := range map[int]int{100: 0, 101: 1} {
		s, err := f.M.ComingShape(ctx, query.ComingAsk{For: time.Duration(fires) * time.Minute})
		if err != nil || s.Apps[0].Jobs != 1 || s.Apps[0].Band.Jobs != dense {
			t.Errorf("%d fires: %+v, %v", fires, s.Apps, err)
		}
	}
	f.Pause(manage.Target{Job: "shop/dots"}, f.Clock.Add(time.Hour))
	s, err := f.M.ComingShape(ctx, query.ComingAsk{From: f.Clock.Add(time.Hour), For: time.Minute, Buckets: 1})
	if err != nil || s.Jobs != len(f.listed(dots.Def.ID, s.From, s.To)) {
		t.Errorf("at the end of its pause: %+v, %v", s, err)
	}
}

// TestComingShapeBounds checks that values out of bounds are rejected, and that hidden apps are left out.
func TestComingShapeBounds(t *testing.T) {
	f := newFixture(t)
	f.Create(spec("a", every(time.Hour)))
	for field, a := range map[string]query.ComingAsk{"for": {For: 8 * 24 * time.Hour}, "for ": {}, "buckets": {For: time.Hour, Buckets: 289},
		"from": {For: time.Hour, From: f.Clock.Add(400 * 24 * time.Hour)}} {
		fails(t, core.CodeInvalid, "%s", field)(f.M.ComingShape(ctx, a))
	}
	s, err := f.M.ComingShape(ctx, query.ComingAsk{For: time.Hour, JobFilter: query.JobFilter{Sees: func(string) bool { return false }}})
	if err != nil || s.Jobs != 0 || len(s.Apps) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestWhatHasEndedIsStillToCome checks that the last time of a schedule is listed until it is due, even though it is
// planned and the job has ended.
func TestWhatHasEndedIsStillToCome(t *testing.T) {
	f := newFixture(t)
	due := core.InstantOf(start) + 600
	job := f.Create(spec("payroll", core.Schedule{Any: []core.When{{Kind: core.KindAt, At: due}}}))
	a := job.Sched.Stay()
	a.NewNext, a.NewPlanAt, a.NewState = 0, 0, core.Ended
	check.OK(t, f.E.Advance(ctx, []core.Advance{a})[0])
	for _, want := range []int{1, 0} {
		job := f.Job("shop/payroll")
		h, err1 := f.M.Home(ctx, nil)
		list, err2 := f.M.Upcoming(ctx, query.JobFilter{}, f.Clock, time.Hour, 10)
		shape, err3 := f.M.ComingShape(ctx, query.ComingAsk{For: time.Hour})
		check.OK(t, errors.Join(err1, err2, err3))
		next := f.M.NextOf(&job, 2)
		if job.Sched.State != core.Ended || h.Soon != want || len(list.Coming) != want || shape.Jobs != want || len(next) != want {
			t.Errorf("%s: home %d, list %+v, shape %d, next %v", f.Clock, h.Soon, list.Coming, shape.Jobs, next)
		}
		f.Clock = due.Time()
	}
}
