package sim

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/registry"
)

// apps are the apps of every world: with fixed addresses, with registered ones, with endpoints
// whose answer is the result, and with functions.
var apps = []struct {
	name      string
	addresses []string
	fixed     bool
}{
	{"alpha", []string{"http://10.0.1.1:9999", "http://10.0.1.2:9999", "http://10.0.1.3:9999"}, true},
	{"beta", []string{"http://10.0.2.1:9999", "http://10.0.2.2:9999", "http://10.0.2.3:9999"}, false},
	{"gamma", []string{"call:http://10.0.3.1:8080", "call:http://10.0.3.2:8080"}, true},
	{"delta", []string{"lambda:one", "lambda:two"}, true},
}

var god = core.Actor{Name: "god"}

// asked is an acknowledged trigger.
type asked struct {
	run    core.RunID
	key    string
	job    string
	params string // as acknowledged; empty: the job's params
}

// changed is one request to change a trigger that waited.
type changed struct {
	began, acked time.Time // acked is zero where the answer never came, or was no
	refused      bool
	slot         core.Instant // as acknowledged; 0: none requested
	params       string       // empty: none requested
}

// setUp makes apps and jobs before anything runs.
func (w *World) setUp(d *dice) {
	n := cmp.Or(w.cfg.Partitions, 2)
	g := core.Global{Partitions: n, Readable: n, Rev: 1}
	if err := w.store.PutGlobal(bg, 0, g); err != nil {
		panic(err)
	}
	for _, a := range apps {
		spec := manage.AppSpec{Name: a.name, Notify: w.setUpNotices(a.name)}
		if a.fixed {
			spec.Executors = a.addresses
		} else {
			w.appWaits = w.waitForExecutor(d)
			spec.WaitForExecutor = w.appWaits
		}
		if w.cfg.Limits && d.n(3) == 0 {
			spec.Overlap = core.Overlap{Limit: 1 + d.n(3), Full: core.Fulls[d.n(3)]}
			w.appOverlap[a.name] = spec.Overlap
		}
		if limited := w.cfg.Focus != nil && w.cfg.Focus.name == limitsFocus; limited {
			spec.Limits = core.Limits{InFlight: 2, PerSecond: 1}
			w.appLimits[a.name] = spec.Limits
		} else if w.cfg.Limits && d.n(3) == 0 {
			spec.Limits = core.Limits{InFlight: 3 + d.n(10), PerSecond: d.n(2) * (2 + d.n(6))}
			w.appLimits[a.name] = spec.Limits
		}
		if _, err := w.people.SaveApp(bg, god, spec); err != nil {
			panic(err)
		}
		for _, address := range a.addresses {
			w.execs.add(address)
			if !a.fixed {
				if err := w.store.PutExecutor(bg, core.Executor{App: a.name, Address: address, Beat: time.Now(), Since: time.Now()}); err != nil {
					panic(err)
				}
			}
		}
	}
	specs := w.cfg.Jobs
	if specs == nil {
		specs = w.mix(d)
	}
	for _, r := range w.people.Save(bg, god, specs) {
		if r.Err != nil {
			panic(fmt.Sprint(r.App, "/", r.Name, ": ", r.Err))
		}
		w.truth.acknowledged(r.ID, r.Rev)
		w.jobs = append(w.jobs, r.App+"/"+r.Name)
	}
	if w.cfg.Losses && w.deployed.functions {
		r := w.people.Save(bg, god, []manage.JobSpec{jobOf("alpha", "canary", every(3*w.deployed.wake))})[0]
		w.truth.acknowledged(r.ID, r.Rev)
		w.canary = r.ID
	}
}

func every(d time.Duration) core.Schedule {
	return core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: d, Aligned: true}}}
}

func fixedDelay(d time.Duration) core.Schedule {
	return core.Schedule{Any: []core.When{{Kind: core.KindFixedDelay, Every: d}}}
}

func when(kind core.Kind, expr, zone string) core.Schedule {
	return core.Schedule{Any: []core.When{{Kind: kind, Expr: expr}}, Timezone: zone}
}

// mix is jobs of all kinds that demand about as many fires as are wanted.
func (w *World) mix(d *dice) []manage.JobSpec {
	if w.cfg.Machine {
		return w.slowMix(d)
	} else if w.cfg.Days {
		return w.daysMix(d)
	} else if w.cfg.Focus != nil {
		return w.cfg.Focus.jobs()
	}
	unit := time.Second // the shortest period
	if w.cfg.Deployed {
		unit = 15 * time.Second
	} else if w.cfg.Long {
		unit = 6 * time.Second
	}
	units := int(w.cfg.For / unit)
	var specs []manage.JobSpec
	var names []string
	left := w.cfg.Fires
	for i := 0; left > 0 || i < 16; i++ {
		var s core.Schedule
		n := 0
		switch i % 16 {
		case 0, 4, 8:
			s, n = every(unit), units
		case 1:
			s, n = core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: 10 * unit}}}, units/10
		case 2:
			s, n = when(core.KindCron, "*/3 * * * * ?", "Europe/Berlin"), int(w.cfg.For/time.Second)/3
			if w.cfg.Deployed || w.cfg.Long {
				s, n = when(core.KindCron, "*/30 * * * * ?", "Europe/Berlin"), units/2
			}
		case 3:
			s, n = when(core.KindCron, "0 * * * * ?", "America/New_York"), int(w.cfg.For/time.Minute)
		case 5:
			s, n = fixedDelay(2*unit), units/6
		case 6:
			s, n = core.Schedule{Any: []core.When{{Kind: core.KindAt, At: core.Ceil(time.Now().Add(d.between(5*time.Second, w.cfg.For)))}}}, 1
		case 7:
			s, n = when(core.KindCrontab, "* * * * *", "Asia/Kolkata"), int(w.cfg.For/time.Minute)
		case 9:
			s, n = core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: 5 * unit}}, Jitter: 3 * unit}, units/5
		case 10:
			s, n = every(2*unit), units/2
		case 11:
			s, n = fixedDelay(7*unit), units/12
		case 12:
			s, n = core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: 15 * unit}, {Kind: core.KindCron, Expr: "5/20 * * * * ?"}}},
				int(w.cfg.For/time.Second)/20+units/15
		case 13:
			s, n = core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Minute}}, Jitter: 20 * time.Second}, int(w.cfg.For/time.Minute)
		case 14:
			s, n = every(4*unit), units/4
		case 15:
			s, n = core.Schedule{}, 0 // by hand only
		}
		left -= n
		spec := w.spec(d, i, s)
		w.parents(d, &spec.Def, names)
		names = append(names, spec.Def.App+"/"+spec.Def.Name)
		specs = append(specs, spec)
	}
	if w.cfg.Line {
		line := jobOf("alpha", lineJob, core.Schedule{})
		line.Def.Timeout, line.Def.Overlap = lineTimeout, core.Overlap{Limit: lineHung, Full: core.FullQueue, Max: core.MaxQueue}
		specs = append(specs, line)
	}
	return specs
}

// slowMix is jobs for a world that lasts for hours.
func (w *World) slowMix(d *dice) []manage.JobSpec {
	var specs []manage.JobSpec
	for i, s := range []core.Schedule{every(10 * time.Second), every(20 * time.Second), every(30 * time.Second), every(45 * time.Second),
		fixedDelay(15 * time.Second), fixedDelay(40 * time.Second),
		when(core.KindCron, "0 * * * * ?", "America/New_York"), {Any: []core.When{{Kind: core.KindEvery, Every: time.Minute}},
			Jitter: 20 * time.Second}, {}} {
		spec := w.spec(d, i, s)
		if i%2 == 0 {
			spec.Def.App, spec.Def.Timeout = "gamma", d.between(time.Minute, 10*time.Minute).Round(time.Second)
		}
		specs = append(specs, spec)
	}
	return specs
}

// spec is a job with policies drawn by the seed.
func (w *World) spec(d *dice, i int, s core.Schedule) manage.JobSpec {
	app, chosen := apps[d.n(len(apps))].name, core.Routes[d.n(len(core.Routes))]
	if chosen == core.RouteBusyover && (app == "gamma" || app == "delta") { // these apps cannot report whether they are busy
		chosen = core.RouteFailover
	}
	spec := manage.JobSpec{
		Def: core.Def{
			App: app, Name: fmt.Sprintf("job-%d", i), Handler: "/work", LostAfter: time.Minute,
			Route: chosen,
			Block: []core.Block{core.BlockSerial, core.BlockSerial, core.BlockDiscardLater, core.BlockCoverEarly}[d.n(4)],
		},
		Schedule: s,
		Misfire:  core.Misfires[d.n(3)],
		Grace:    time.Duration(2+d.n(30)) * time.Second,
	}
	if d.n(4) == 0 {
		spec.Deadline = time.Duration(5+d.n(60)) * time.Second
	}
	if d.n(2) == 0 {
		spec.Def.Retry = core.Retry{Max: 1 + d.n(3), Delay: time.Duration(1+d.n(8)) * time.Second,
			Backoff: core.Backoffs[d.n(2)], On: []core.State{core.Failed, core.TimedOut, core.Lost}[:1+d.n(3)]}
		if d.n(3) == 0 {
			spec.Def.Retry.Delay = w.deployed.plan.MaxAhead + 5*time.Second // waits in the due index
		}
	}
	if d.n(4) == 0 {
		spec.Def.Timeout = time.Duration(1+d.n(5)) * time.Second
	}
	if chosen == core.RouteBroadcast && d.n(2) == 0 {
		spec.Def.BroadcastFail = core.BroadcastFailAll
	}
	spec.Def.WaitForExecutor = w.waitForExecutor(d)
	w.overlap(d, &spec.Def, s.Timezone == "")
	if chosen == core.RouteBroadcast && spec.Def.Overlap.Full == core.FullReplace {
		spec.Def.Overlap.Full = core.FullSkip
	}
	pauseAfter(d, &spec.Def)
	keepLog(d, &spec.Def)
	return spec
}

// beats keeps the registered executors registered.
func (w *World) beats(in *incarnation) {
	a := in.assembly()
	r := a.Registry(registry.Options{BeatWrite: 15 * time.Second, Came: a.Finish.WakeApp})
	for !w.closing() && !in.dead.Load() {
		for _, a := range apps {
			for _, address := range a.addresses {
				if !a.fixed && !w.away(address) {
					_ = r.Register(in.ctx, registry.Registration{App: a.name, Address: address})
				}
			}
		}
		w.sleep(in.ctx, 20*time.Second)
	}
}

func (w *World) away(address string) bool {
	w.execs.mu.Lock()
	defer w.execs.mu.Unlock()
	return time.Now().Before(w.execs.at[address].down)
}

// ask makes one request of a user to the user-facing process; false if its answer never came.
func (w *World) ask(p *process, do func(ctx context.Context, m *people.People)) bool {
	in := p.living()
	if in == nil {
		return false
	}
	answer := make(chan struct{})
	in.spawn(func() {
		ctx, cancel := context.WithTimeout(in.ctx, 20*time.Second)
		defer cancel()
		do(ctx, in.assembly().People(sender{in}, people.Options{}))
		close(answer)
	})
	select {
	case <-answer:
		return true
	case <-time.After(25 * time.Second):
		return false
	}
}

func (w *World) someJob(d *dice) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.jobs) == 0 {
		return ""
	}
	return w.jobs[d.n(len(w.jobs))]
}

// person changes things while users act.
func (w *World) person(p *process, n int) {
	me := core.Actor{Name: fmt.Sprintf("person-%d", n)}
	d := w.dice(me.Name)
	for w.busy.Load() {
		w.sleep(bg, d.between(300*time.Millisecond, 4*time.Second))
		if !w.busy.Load() {
			return
		}
		ref := w.someJob(d)
		what := d.n(20)
		if w.cfg.Machine && (what == 6 || what == 7) {
			// A clock that is ahead drops fires that lie in such a pause; its end by a clock
			// that was set back then lies before them.
			continue
		}
		switch what {
		case 0, 1, 2, 3:
			w.edit(d, p, me, ref)
		case 4, 5:
			w.setState(d, p, me, manage.Target{Job: ref})
		case 6:
			w.setState(d, p, me, manage.Target{App: apps[d.n(len(apps))].name})
		case 7:
			if d.n(3) == 0 {
				w.setState(d, p, me, manage.Target{All: true})
			}
		case 8:
			w.remove(p, me, ref)
		case 9, 10:
			w.trigger(d, p, me, ref)
		case 11:
			w.ask(p, func(ctx context.Context, m *people.People) {
				w.count("kill of a job by a person", 1)
				_, _ = m.KillJob(ctx, me, ref, "")
			})
		case 12:
			w.mu.Lock()
			w.serial++
			name := 1000 + w.serial
			w.mu.Unlock()
			often := time.Duration(2+d.n(6)) * time.Second
			if w.cfg.Machine {
				often *= 10
			}
			spec := w.spec(d, name, every(often))
			w.parents(d, &spec.Def, []string{ref})
			w.save(p, me, spec)
		case 13:
			w.killAsked(d, p, me, math.MaxInt)
		case 14, 15, 16:
			w.change(d, p, me)
		case 17, 18, 19:
			for range 1 + d.n(4) {
				w.rerun(d, p, me)
			}
		}
	}
}

// lastAsked returns one of the last n triggers; false if there is none.
func (w *World) lastAsked(d *dice, n int) (asked, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	some := w.asked[max(len(w.asked)-n, 0):]
	if len(some) == 0 {
		return asked{}, false
	}
	return some[d.n(len(some))], true
}

// killAsked kills one of the last n triggers.
func (w *World) killAsked(d *dice, p *process, me core.Actor, n int) {
	if some, is := w.lastAsked(d, n); is {
		w.ask(p, func(ctx context.Context, m *people.People) {
			_, _ = m.KillRun(ctx, me, some.run.String(), "")
		})
	}
}

// change gives one of the last triggers another time, other params, or both; often a moment before it is due.
func (w *World) change(d *dice, p *process, me core.Actor) {
	a, is := w.lastAsked(d, 8)
	if !is {
		return
	}
	ref := a.run.String()
	if a.key != "" && d.n(2) == 0 {
		ref = a.job + "#" + a.key
	}
	var c operate.TriggerChange
	if d.n(3) > 0 {
		at := time.Now().Add(d.between(0, 45*time.Second))
		c.At = &at
	}
	params := ""
	if c.At == nil || d.n(3) == 0 {
		params = strings.Repeat(fmt.Sprint("c", d.n(1000)), 1+d.n(200))
		if w.keyed(a.job) {
			params = d.tenant()
		}
		c.Params = &params
	}
	of := &changed{began: time.Now(), params: params}
	w.mu.Lock()
	w.changes[a.run] = append(w.changes[a.run], of)
	w.mu.Unlock()
	w.ask(p, func(ctx context.Context, m *people.People) {
		res, err := m.ChangeTrigger(ctx, me, ref, c)
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case err == nil && res.Run.ID != a.run: // the key is another's by now
			of.refused = true
			w.changes[res.Run.ID] = append(w.changes[res.Run.ID], &changed{began: of.began})
		case err == nil:
			of.acked = time.Now()
			if c.At != nil {
				of.slot = res.Run.Slot
			}
		case core.CodeOf(err) == core.CodeRefused || core.CodeOf(err) == core.CodeNotFound:
			of.refused = true
		}
	})
}

func (w *World) save(p *process, me core.Actor, spec manage.JobSpec) {
	w.ask(p, func(ctx context.Context, m *people.People) {
		r := m.Save(ctx, me, []manage.JobSpec{spec})[0]
		if r.Err == nil {
			w.truth.acknowledged(r.ID, r.Rev)
			w.count("edit", 1)
			if r.Change == manage.Created {
				w.mu.Lock()
				w.jobs = append(w.jobs, r.App+"/"+r.Name)
				w.mu.Unlock()
			}
		}
	})
}

// edit gives a job another schedule of its kind, or other params.
func (w *World) edit(d *dice, p *process, me core.Actor, ref string) {
	job, err := w.people.Job(bg, ref)
	if err != nil {
		return
	}
	spec := manage.JobSpec{Def: job.Def, Schedule: job.Sched.Schedule, Misfire: job.Sched.Misfire, Grace: job.Sched.Grace,
		Deadline: job.Sched.Deadline}
	if !spec.Def.Template {
		spec.Def.Params = fmt.Sprint("v", d.n(1000))
	}
	w.parents(d, &spec.Def, []string{w.someJob(d)})
	if len(spec.Schedule.Any) == 1 && d.n(2) == 0 {
		when := spec.Schedule.Any[0]
		switch when.Kind {
		case core.KindEvery:
			when = core.When{Kind: core.KindEvery, Every: time.Duration(1+d.n(5)) * time.Second, Aligned: true}
		case core.KindFixedDelay:
			when.Every = time.Duration(1+d.n(6)) * time.Second
		case core.KindCron:
			when.Expr = fmt.Sprintf("*/%d * * * * ?", 2+d.n(8))
		}
		spec.Schedule.Any = []core.When{when}
	}
	w.save(p, me, spec)
}

// setState pauses or resumes; a user who pauses an app or everything resumes it soon.
func (w *World) setState(d *dice, p *process, me core.Actor, t manage.Target) {
	// A request whose answer never came may still run: the data that it shares with us is
	// guarded, and the dice are thrown before it.
	var done atomic.Bool
	resume := func() {
		w.ask(p, func(ctx context.Context, m *people.People) {
			if r, err := m.Resume(ctx, me, t, ""); err == nil {
				w.stateAcknowledged(t, r)
				done.Store(true)
			}
		})
	}
	if t.Job != "" && d.n(2) == 0 {
		resume()
		return
	}
	var lasts time.Duration
	if d.n(3) == 0 {
		lasts = d.between(2*time.Second, 20*time.Second)
	}
	w.ask(p, func(ctx context.Context, m *people.People) {
		var r manage.PauseRequest
		if lasts != 0 {
			until := time.Now().Add(lasts)
			r.Until = &until
		}
		if s, err := m.Pause(ctx, me, t, r); err == nil {
			w.stateAcknowledged(t, s)
		}
	})
	if t.Job != "" {
		return
	}
	w.sleep(bg, d.between(time.Second, 12*time.Second))
	for try := 0; !done.Load() && try < 5; try++ {
		resume()
	}
}

func (w *World) stateAcknowledged(t manage.Target, r manage.StateResult) {
	w.count("pause or resume", 1)
	if t.Job == "" {
		w.truth.pauseAcknowledged(t.App)
		return
	}
	if job, err := w.people.Job(bg, t.Job); err == nil {
		w.truth.acknowledged(job.Def.ID, r.Rev)
	}
}

func (w *World) remove(p *process, me core.Actor, ref string) {
	if ref == "alpha/"+lineJob { // the line is made of its runs
		return
	}
	w.ask(p, func(ctx context.Context, m *people.People) {
		r, err := m.Delete(ctx, me, ref, nil)
		if err == nil {
			w.truth.acknowledged(r.ID, r.Rev)
			w.count("delete", 1)
			w.mu.Lock()
			for i, name := range w.jobs {
				if name == ref {
					w.jobs = append(w.jobs[:i:i], w.jobs[i+1:]...)
					break
				}
			}
			w.mu.Unlock()
		}
	})
}

// triggers demands a run of a job without faults, as soon as may be or at a moment.
func (w *World) triggers(ref string, at *time.Time) {
	if _, err := w.people.Trigger(bg, god, operate.TriggerRequest{Job: ref, At: at}); err != nil {
		w.fail(0, "trigger: %v", err)
	}
}

// pauses pauses a job, an app or everything without faults, resumes ends the pause.
func (w *World) pauses(t manage.Target, until *time.Time) {
	s, err := w.people.Pause(bg, god, t, manage.PauseRequest{Until: until})
	if err != nil {
		w.fail(0, "pause %+v: %v", t, err)
	}
	w.stateAcknowledged(t, s)
}

func (w *World) resumes(t manage.Target) {
	s, err := w.people.Resume(bg, god, t, "")
	if err != nil {
		w.fail(0, "resume %+v: %v", t, err)
	}
	w.stateAcknowledged(t, s)
}

// saves stores a job without faults.
func (w *World) saves(spec manage.JobSpec) {
	r := w.people.Save(bg, god, []manage.JobSpec{spec})[0]
	if r.Err != nil {
		w.fail(0, "save: %v", r.Err)
	}
	w.truth.acknowledged(r.ID, r.Rev)
}

func (w *World) trigger(d *dice, p *process, me core.Actor, ref string) {
	var r operate.TriggerRequest
	r.Job = ref
	if d.n(2) == 0 {
		r.Cause = core.CauseAPI
	}
	if d.n(3) == 0 {
		at := time.Now().Add(d.between(time.Second, 40*time.Second))
		r.At = &at
	}
	if d.n(2) == 0 {
		r.Key = fmt.Sprintf("key-%d", d.n(20))
	}
	params := ""
	if r.Key == "" && d.n(2) == 0 {
		params = strings.Repeat(fmt.Sprint("p", d.n(1000)), 1+d.n(200)) // short, or as long as an engine may keep elsewhere
		if w.keyed(ref) {
			params = d.tenant()
		}
		r.Params = &params
	}
	w.ask(p, func(ctx context.Context, m *people.People) {
		res, err := m.Trigger(ctx, me, r)
		if err == nil {
			w.count("trigger", 1)
			w.mu.Lock()
			w.asked = append(w.asked, asked{res.Run.ID, r.Key, ref, params})
			w.mu.Unlock()
		}
	})
}

// The hard cases, one at a time. Each world has no fault but its own; the assertions of every world apply too.

// jobOf is a job of an app with fixed addresses and no retry.
func jobOf(app, name string, s core.Schedule) manage.JobSpec {
	return manage.JobSpec{Def: core.Def{App: app, Name: name, Handler: "/work", Route: core.RouteFirst, LostAfter: time.Minute}, Schedule: s}
}

// byHand is such a job that only users trigger.
func byHand(app, name string) manage.JobSpec { return jobOf(app, name, core.Schedule{}) }
