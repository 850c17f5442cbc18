package story

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fixture"
)

// Data is the store of a stage, with the verbs that prepare its content.
type Data struct {
	*Stage
	Store  *fixture.Store
	App    string                   // of jobs without another
	Beats  string                   // the address of heartbeats without another
	Base   func(*core.Job)          // changes a new job before the story does; nil: no change
	Jobs   map[core.JobID]bool      // whose runs, entries, skips and changes can be seen
	Limits []string                 // whose slots can be seen
	Extra  func(*core.Run) []string // more fields of a run; nil: none
}

// NewData returns a stage over a store, and adds verbs to it.
func NewData(s *Stage, of *fixture.Store, app string) *Data {
	d := &Data{Stage: s, Store: of, App: app, Jobs: map[core.JobID]bool{}}
	s.See = d.see
	s.Given = map[string]func(string){"app": d.app, "global": d.global, "job": d.job, "edit": d.edit, "delete": d.remove, "beat": d.beat,
		"permits": d.permits, "drop": d.drop, "moves": d.moves}
	return d
}

func (d *Data) see() map[string][]string {
	d.T.Helper()
	ctx, all := d.T.Context(), map[string][]string{}
	for id := range d.Jobs {
		if j := d.Store.JobOf(id); j.Def.ID != 0 {
			all["job "+id.String()] = Fields(j.Sched, "id", "app", "schedule", "revat", "misfire", "grace", "deadline")
		}
		first, last := core.RunRange(id, 0, core.Horizon)
		planned, err := d.Store.Runs.Span(ctx, first, last, 1000)
		check.OK(d.T, err)
		for _, run := range slices.Concat(planned, d.Store.Numbered(id)) {
			fields := Fields(run, usual(&run)...)
			if d.Extra != nil {
				fields = append(fields, d.Extra(&run)...)
			}
			all[Name(run.ID)] = fields
		}
		entries, err := d.Store.Jobs.Entries(ctx, id)
		check.OK(d.T, err)
		for _, e := range entries {
			if e.Run != 0 {
				all["entry of "+Name(e.Run)] = Fields(e, "run", "job")
			}
		}
		skips, err := d.Store.Skips(ctx, id, 0, core.Horizon)
		check.OK(d.T, err)
		for _, skip := range skips {
			all[fmt.Sprintf("skip of job %d from %s", id, Since(skip.First.Time()))] = Fields(skip, "job", "first", "made")
		}
		changes, err := d.Store.Changes(ctx, "", id, math.MaxInt64, 100)
		check.OK(d.T, err)
		for i, c := range changes {
			all[fmt.Sprintf("change %d of job %d", len(changes)-i, id)] = Fields(c, "at", "app", "job", "name", "old", "new")
		}
	}
	for _, name := range d.Limits {
		all["permits "+name] = Fields(d.Store.PermitsOf(name), "name")
	}
	if at, err := d.Store.Cursor(ctx); err == nil && at != 0 {
		all["cursor"] = []string{"minute=" + Since(time.Unix(at*60, 0))}
	}
	return all
}

// usual returns the fields of a run that have their usual values.
func usual(r *core.Run) []string {
	names := []string{"id", "app"}
	at, planned := r.ID.Planned()
	for name, is := range map[string]bool{"first": r.First == r.ID, "attempt": r.Attempt == 1, "rev": r.Rev == 1, "slot": r.Slot == r.At,
		"at": planned && at == r.At, "cause": planned && r.Cause == core.CauseSchedule} {
		if is {
			names = append(names, name)
		}
	}
	return names
}

// app changes an app, which a name before the fields may select.
func (d *Data) app(args string) {
	name, rest := d.App, args
	if first, after, _ := strings.Cut(args, " "); !strings.Contains(first, "=") {
		name, rest = first, after
	}
	found, err := d.Store.Apps(d.T.Context(), name)
	check.OK(d.T, err)
	a := found[name].Is
	a.Name = name
	a.Rev++
	d.Set(rest, &a)
	a.Overlap = a.Overlap.Normal()
	d.Store.SaveApp(a)
}

func (d *Data) global(args string) {
	g, err := d.Store.Global(d.T.Context())
	check.OK(d.T, err)
	seen := g.Rev
	g.Rev++
	d.Set(args, &g)
	check.OK(d.T, d.Store.PutGlobal(d.T.Context(), seen, g))
}

// ID returns the job of the first word, and the other words.
func (d *Data) ID(args string) (core.JobID, string) {
	d.T.Helper()
	first, rest, _ := strings.Cut(args, " ")
	n, err := strconv.Atoi(first)
	check.OK(d.T, err)
	d.Jobs[core.JobID(n)] = true
	return core.JobID(n), rest
}

// SetJob sets fields of a job. The field delay makes its schedule a fixed delay, every an interval, and cron an expression.
func (d *Data) SetJob(text string, schedule *core.Schedule, to ...any) {
	d.T.Helper()
	kinds := struct {
		Delay, Every time.Duration
		Cron         string
	}{}
	switch d.Set(text, append([]any{&kinds}, to...)...); {
	case kinds.Delay > 0:
		schedule.Any = []core.When{{Kind: core.KindFixedDelay, Every: kinds.Delay}}
	case kinds.Cron != "":
		schedule.Any = []core.When{{Kind: core.KindCron, Expr: kinds.Cron}}
	case kinds.Every > 0:
		schedule.Any = []core.When{{Kind: core.KindEvery, Every: kinds.Every, Aligned: true}}
	}
}

// job creates a job.
func (d *Data) job(args string) {
	id, rest := d.ID(args)
	j := core.Job{Def: core.Def{ID: id, App: d.App, Name: "job-" + id.String(), Handler: "h"}}
	j.Sched.Rev, j.Sched.RevAt = 1, Begin.Add(-time.Hour)
	if d.Base != nil {
		d.Base(&j)
	}
	d.SetJob(rest, &j.Sched.Schedule, &j.Def, &j.Sched)
	d.Store.Job(j)
}

// edit changes a job, and its revision unless the story sets another.
func (d *Data) edit(args string) {
	id, rest := d.ID(args)
	d.Store.Edit(id, func(j *core.Job) {
		j.Sched.Rev++
		d.Set(rest, &j.Def, &j.Sched)
		j.Normalize()
	})
}

func (d *Data) remove(args string) {
	id, _ := d.ID(args)
	d.Store.Delete(id, d.Now())
}

// beat stores the heartbeat of an executor: "now-90s http://a:1 dialect=D".
func (d *Data) beat(args string) {
	at, rest, _ := strings.Cut(args, " ")
	address, fields, _ := strings.Cut(rest, " ")
	e := core.Executor{App: d.App, Address: cmp.Or(address, d.Beats), Beat: d.Time(at), Since: Begin.Add(-time.Hour)}
	d.Set(fields, &e)
	check.OK(d.T, d.Store.PutExecutor(d.T.Context(), e))
}

// permits stores the slots of a limit. Without fields, the story only looks at them.
func (d *Data) permits(args string) {
	name, rest, _ := strings.Cut(args, " ")
	p := d.Store.PermitsOf(name)
	p.Name = name
	p.V++
	if d.Set(rest, &p); rest != "" {
		d.Store.SavePermits(p)
	}
	if !slices.Contains(d.Limits, name) {
		d.Limits = append(d.Limits, name)
	}
}

func (d *Data) drop(args string) { d.Store.Drop(d.Store.Run(d.Run(args))) }

// moves changes the planning fields of a job as another process does.
func (d *Data) moves(args string) {
	id, rest := d.ID(args)
	move := d.Store.JobOf(id).Sched.Stay()
	d.Set(rest, &move)
	check.OK(d.T, d.Store.Advance(d.T.Context(), []core.Advance{move})[0])
}

// Add adds verbs that prepare a story.
func (d *Data) Add(given map[string]func(string)) { maps.Copy(d.Given, given) }
