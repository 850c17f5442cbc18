package sim

import (
	"fmt"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/restore"
	"github.com/tickring/tickring/internal/wiring"
)

// In a world with Days runs execute for days, and others wait as long for a permit or for an executor. The deployment is stopped
// for most of the time, and some of that time ends with a restore, which finds no message on any queue.

// daysFor is how long such a world lasts: its shards may be removed before it ends.
const (
	day     = 24 * time.Hour
	daysFor = 19 * day
)

// days makes it such a world.
func (c *Config) days() {
	*c = Config{Seed: c.Seed, AWS: c.AWS, SDK: c.SDK, Far: true, Deployed: true, Rate: 0.1, For: daysFor, Partitions: c.Partitions, Days: true,
		Waits: true, Behave: worksForDays, Act: (*World).liveForDays}
}

// daysMix is jobs that are triggered by hand, or planned for a few times.
func (w *World) daysMix(d *dice) (specs []manage.JobSpec) {
	for i := range 8 {
		s := core.Schedule{}
		if i%2 == 0 {
			for range 1 + d.n(5) {
				s.Any = append(s.Any, core.When{Kind: core.KindAt, At: core.Ceil(time.Now().Add(d.between(time.Hour, daysFor-6*day)))})
			}
		}
		spec := jobOf("alpha", fmt.Sprint("days-", i), s)
		spec.Misfire, spec.Def.Route = core.MisfireAll, core.RouteRound
		switch i {
		case 0, 1, 2, 3:
			spec.Def.Overlap = core.Overlap{Limit: 1, Group: group, Full: core.FullQueue, Max: 100}
		case 4, 5:
			spec.Def.App, spec.Def.WaitForExecutor = come, d.between(time.Hour, core.MaxWait).Round(time.Second)
		case 6:
			spec.Schedule, spec.Def.Route = core.Schedule{}, core.RouteBroadcast
			if w.cfg.AWS { // ended runs are kept for 15 days at least, because callbacks may be repeated
				spec.Def.Keep.Days = 7
			}
		}
		specs = append(specs, spec)
	}
	return specs
}

// worksForDays is an executor whose runs take hours, or days.
func worksForDays(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
	d := w.dice(sh.Run.ID.String())
	takes := d.between(time.Minute, 12*time.Hour)
	if d.n(4) == 0 {
		takes = d.between(time.Hour, 4*day)
	}
	if sh.Run.Shard.Of != 0 { // all have been removed that may be, when the last one ends
		takes = []time.Duration{time.Hour, 2 * time.Hour, daysFor - day}[sh.Run.Shard.Index%3]
	}
	return w.execs.works(sh, max(min(takes, time.Until(w.began.Add(daysFor-12*time.Hour))), time.Minute))
}

// liveForDays triggers jobs, has executors go, and lets time pass.
func (w *World) liveForDays() {
	d := w.dice("days")
	w.triggers(w.jobs[6], nil) // the broadcast, which runs all the time
	end := w.began.Add(daysFor)
	for time.Until(end) > 2*day {
		for range d.n(3) {
			if i := d.n(8); i != 6 && time.Until(end) > 6*day {
				w.triggers(w.jobs[i], nil)
			}
		}
		if d.n(6) == 0 {
			w.allGo(d.between(time.Hour, day), d.n(2) == 0)
		}
		w.sleep(bg, d.between(5*time.Minute, 15*time.Minute))
		stands := d.between(time.Hour, 4*time.Hour)
		if d.n(5) == 0 {
			stands = min(d.between(12*time.Hour, 3*day), time.Until(end)-day)
		}
		if d.n(3) == 0 {
			w.after(stands/2, func() { w.restore(stands - stands/2) })
		}
		w.stands(stands)
	}
	for w.busy.Load() {
		w.sleep(bg, 15*time.Minute)
		if left := time.Until(end); left > 0 {
			w.stands(min(4*time.Hour, left))
		}
	}
}

// restore makes the store a restored one: no message is on any queue. The messages come back soon after the deployment runs.
func (w *World) restore(stands time.Duration) {
	w.truth.purge(stands + w.heals())
	w.count("restore", 1)
	r := w.assembly(wiring.Options{}, w.store).Restorer(restore.Options{})
	for req := (restore.Request{By: god.Name, From: time.Now(), Again: true}); ; {
		res, err := r.Do(bg, req)
		if err != nil {
			w.fail(0, "restore: %v", err)
			return
		}
		w.count("restored: waits", res.Waiting)
		if req.After = res.Next; req.After == 0 {
			return
		}
	}
}
