package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
)

// In a world with a Focus all jobs have one mechanism, so that its rare races occur often.
type focus struct {
	name    string
	failing float64 // as in Config
	jobs    func() []manage.JobSpec
	act     func(w *World, d *dice, p *process, me core.Actor) // a user's actions, which repeat; nil: none
}

const limitsFocus = "limits"

var focuses = []focus{
	{"broadcasts", 0.3, func() []manage.JobSpec {
		return append(alike("alpha", 2, 4*time.Second, broadcasts), alike("beta", 2, 0, broadcasts)...)
	}, (*World).triggerAndKill},
	{"replacements", 0.3, func() []manage.JobSpec {
		return alike("alpha", 3, time.Second, func(_ int, d *core.Def) {
			d.Overlap, d.Retry.Delay = core.Overlap{Limit: 1, Full: core.FullReplace}, time.Second
		})
	}, (*World).triggerAndKill},
	{limitsFocus, 0.1, func() []manage.JobSpec {
		return alike("alpha", 4, 2*time.Second, func(i int, d *core.Def) {
			d.Overlap = []core.Overlap{{Limit: 1, Full: core.FullQueue, Max: 3}, {Limit: groupLimit, Group: group, Full: core.FullQueue, Max: 9},
				{Limit: groupLimit, Group: group, Full: core.FullSkip}, {}}[i]
		})
	}, (*World).triggerAndKill},
	{"joins", 0.3, func() []manage.JobSpec {
		list := append(alike("alpha", 2, 2*time.Second, func(int, *core.Def) {}), alike("beta", 1, 3*time.Second, func(int, *core.Def) {})...)
		parents := []core.Parent{{Job: "alpha/job-0", When: core.UponClose}, {Job: "alpha/job-1", When: core.UponSuccess},
			{Job: "beta/job-0", When: core.UponClose}}
		return append(list, alike("delta", 3, 0, func(i int, d *core.Def) {
			d.After, d.Within = parents[i%2:], time.Duration(1+2*i)*time.Second
		})...)
	}, nil},
	{"pauses", 0.6, func() []manage.JobSpec {
		return alike("alpha", 3, time.Second, func(i int, d *core.Def) { d.PauseAfter, d.Retry.Max = 1+i, 0 })
	}, (*World).resumeOrEdit},
	{"reruns", 0.3, func() []manage.JobSpec {
		return append(alike("alpha", 2, 0, func(int, *core.Def) {}), alike("beta", 1, 0, broadcasts)...)
	}, (*World).triggerAndRerun},
}

// focus makes it a world with that focus.
func (c *Config) focus(f *focus) {
	c.Focus, c.Failing, c.Rate, c.Users = f, f.failing, 2, min(c.Users, 1)
	c.Limits = c.Limits || f.name == limitsFocus
}

// alike are jobs of an app that fire each period, or are triggered by hand.
func alike(app string, n int, period time.Duration, change func(i int, d *core.Def)) (list []manage.JobSpec) {
	for i := range n {
		s := byHand(app, fmt.Sprint("job-", i))
		if period > 0 {
			s.Schedule = every(period)
		}
		s.Def.Route, s.Def.Retry = core.RouteRound, core.Retry{Max: 1, Delay: 2 * time.Second}
		change(i, &s.Def)
		list = append(list, s)
	}
	return list
}

func broadcasts(i int, d *core.Def) {
	d.Route = core.RouteBroadcast
	if i > 0 {
		d.BroadcastFail = core.BroadcastFailAll
	}
}

func (w *World) triggerAndKill(d *dice, p *process, me core.Actor) {
	w.trigger(d, p, me, w.someJob(d))
	w.sleep(bg, d.between(0, []time.Duration{50 * time.Millisecond, 3 * time.Second}[d.n(2)])) // often as it is dispatched
	w.killAsked(d, p, me, 2)
}

func (w *World) triggerAndRerun(d *dice, p *process, me core.Actor) {
	w.trigger(d, p, me, w.someJob(d))
	for range 3 {
		w.rerun(d, p, me)
	}
}

func (w *World) resumeOrEdit(d *dice, p *process, me core.Actor) {
	if ref := w.someJob(d); d.n(4) == 0 {
		w.edit(d, p, me, ref)
	} else {
		w.ask(p, func(ctx context.Context, m *people.People) {
			if r, err := m.Resume(ctx, me, manage.Target{Job: ref}, ""); err == nil {
				w.stateAcknowledged(manage.Target{Job: ref}, r)
			}
		})
	}
}

// focused has a user act again and again.
func (w *World) focused(d *dice, p *process) {
	for w.busy.Load() {
		w.cfg.Focus.act(w, d, p, core.Actor{Name: "focused"})
		w.sleep(bg, d.between(100*time.Millisecond, time.Second))
	}
}
