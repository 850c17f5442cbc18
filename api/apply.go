package api

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/schedule"
)

// applying is one apply in progress.
type applying struct {
	s        *server
	r        *http.Request
	set      string
	notify   *core.Notify // the default notification settings; nil leaves them unchanged
	channels []manage.ChannelSpec
	apps     []manage.AppSpec
	jobs     []manage.JobSpec
	beside   manage.After
	out      client.ApplyResult
	refused  bool
}

func (s *server) Apply(r *http.Request, body client.ApplyRequest) (any, error) {
	if err := mayApply(r, &body); err != nil {
		return nil, err
	}
	if body.Prune && body.Set == "" {
		return nil, core.Invalid("set", "", "required for `prune`, which deletes only jobs that a set created")
	}
	a := &applying{s: s, r: r, set: body.Set, out: client.ApplyResult{Apps: make([]client.AppResult, len(body.Apps)),
		Jobs: make([]client.JobResult, len(body.Jobs)), Channels: make([]client.ChannelResult, len(body.Channels))}}
	err := a.read(&body)
	if err == nil {
		err = a.permit(body.DryRun)
	}
	if err == nil {
		err = a.check()
	}
	if err == nil && body.Prune && (body.DryRun || a.refused) {
		err = a.prune(true, body.After)
	}
	if err == nil && !body.DryRun && !a.refused {
		a.write()
		if body.Prune && !a.refused {
			err = a.prune(false, body.After)
		}
	}
	return a.out, err
}

// read converts the body. An item that cannot be converted gets an error.
func (a *applying) read(body *client.ApplyRequest) error {
	a.beside = manage.After{}
	for _, b := range body.Beside {
		a.beside[b.Job] = coreParents(b.After)
	}
	seen := make(map[string]bool, len(body.Apps))
	for i, app := range body.Apps {
		app.Set = cmp.Or(app.Set, body.Set)
		a.out.Apps[i] = client.AppResult{Name: app.Name, Change: manage.Unchanged}
		spec, err := ManageApp(app)
		a.apps = append(a.apps, spec)
		if err != nil {
			a.refuseApp(i, err)
		}
		if seen[app.Name] {
			a.refuseApp(i, core.Invalid("name", app.Name, "named twice"))
		}
		seen[app.Name] = true
	}
	if body.Notify != nil {
		a.out.Notify = &client.NotifyResult{Change: manage.Unchanged}
		n, err := coreNotify(*body.Notify)
		if a.notify = &n; err != nil {
			a.refuseNotify(err)
		}
	}
	named := make(map[string]bool, len(body.Channels))
	for i, ch := range body.Channels {
		ch.Set = cmp.Or(ch.Set, body.Set)
		a.out.Channels[i] = client.ChannelResult{Name: ch.Name, Change: manage.Unchanged}
		spec, err := ManageChannel(ch)
		a.channels = append(a.channels, spec)
		if err != nil {
			a.refuseChannel(i, err)
		}
		if named[ch.Name] {
			a.refuseChannel(i, core.Invalid("name", ch.Name, "named twice"))
		}
		named[ch.Name] = true
	}
	for i, job := range body.Jobs {
		job.Set = cmp.Or(job.Set, body.Set)
		spec, err := ManageJob(job)
		a.jobs = append(a.jobs, spec)
		a.out.Jobs[i] = client.JobResult{App: job.App, Name: job.Name, Change: manage.Unchanged}
		if err != nil {
			a.refuseJob(i, err)
		}
	}
	return a.r.Context().Err()
}

// refuse records that nothing is to be changed, because an item was rejected.
func (a *applying) refuse(err error) (change string, e *client.Error) {
	a.refused = true
	return manage.Refused, new(a.s.errorOf(a.r, err))
}

func (a *applying) refuseNotify(err error) {
	a.out.Notify.Change, a.out.Notify.Error = a.refuse(err)
}

func (a *applying) refuseChannel(i int, err error) {
	a.out.Channels[i].Change, a.out.Channels[i].Error = a.refuse(err)
}

func (a *applying) refuseApp(i int, err error) {
	a.out.Apps[i].Change, a.out.Apps[i].Error = a.refuse(err)
}

func (a *applying) refuseJob(i int, err error) {
	a.out.Jobs[i].Change, a.out.Jobs[i].Error = a.refuse(err)
}

// check fills in the change that each item would make.
func (a *applying) check() error {
	ctx := a.r.Context()
	a.checkChannels()
	a.checkNotify()
	if err := a.checkTold(); err != nil {
		return err
	}
	for i := range a.apps {
		out := &a.out.Apps[i]
		if out.Error != nil {
			continue
		}
		res, err := a.s.m.CheckApp(ctx, a.apps[i])
		if err != nil {
			a.refuseApp(i, err)
			continue
		}
		if out.Change, out.Rev = res.Change, res.Rev; res.Change == manage.Updated {
			out.Old, out.New = new(AppOf(&res.Old)), new(AppOf(&res.New))
		}
	}
	l := language(a.r)
	for i, res := range a.s.m.Check(ctx, a.jobs, a.beside, a.apps...) {
		spec, out := &a.jobs[i], &a.out.Jobs[i]
		if out.Error != nil {
			continue
		}
		if res.Err != nil {
			a.refuseJob(i, res.Err)
			continue
		}
		out.ID, out.Rev, out.Change = int32(res.ID), res.Rev, res.Change
		if res.Change == manage.Unchanged {
			continue
		}
		if c, err := schedule.Compile(spec.Schedule, res.ID); err == nil {
			out.Warnings = allSaid(l, c.Traps(core.InstantOf(time.Now())))
		}
		if res.Change != manage.Updated {
			continue
		}
		wanted := Wanted(spec, res.Old)
		out.Old, out.New = new(jobIn(l, res.Old)), new(jobIn(l, &wanted))
		out.New.Next = timesOf(a.s.m.NextOf(&core.Job{Def: res.Old.Def, Sched: wanted.Sched}, 1))
	}
	return nil
}

// made returns the names of the channels in this apply.
func (a *applying) made() []string {
	names := make([]string, len(a.channels))
	for i := range a.channels {
		names[i] = a.channels[i].Channel.Name
	}
	return names
}

// checkTold rejects apps and jobs that name a channel which neither exists nor is in this apply.
func (a *applying) checkTold() error {
	var list []core.Notify
	for i := range a.apps {
		list = append(list, a.apps[i].Notify)
	}
	for i := range a.jobs {
		list = append(list, a.jobs[i].Def.Notify)
	}
	errs, err := a.s.m.CheckTold(a.r.Context(), list, a.made())
	if err != nil {
		return err
	}
	for i := range a.apps {
		if errs[i] != nil && a.out.Apps[i].Error == nil {
			a.refuseApp(i, errs[i])
		}
	}
	for i := range a.jobs {
		if errs[len(a.apps)+i] != nil && a.out.Jobs[i].Error == nil {
			a.refuseJob(i, errs[len(a.apps)+i])
		}
	}
	return nil
}

func (a *applying) checkNotify() {
	if a.notify == nil || a.out.Notify.Error != nil {
		return
	}
	res, err := a.s.m.CheckNotify(a.r.Context(), *a.notify, a.made())
	if err != nil {
		a.refuseNotify(err)
		return
	}
	a.notified(res)
}

func (a *applying) notified(res manage.NotifyResult) {
	out := a.out.Notify
	if out.Change, out.Rev = res.Change, res.Rev; res.Change == manage.Updated {
		out.Old, out.New = new(NotifyOf(res.Old)), new(NotifyOf(a.notify.Normal()))
	}
}

func (a *applying) checkChannels() {
	for i, spec := range a.channels {
		out := &a.out.Channels[i]
		if out.Error != nil {
			continue
		}
		res, err := a.s.m.CheckChannel(a.r.Context(), spec)
		if err != nil {
			a.refuseChannel(i, err)
			continue
		}
		if out.Change, out.Rev = res.Change, res.Rev; res.Change == manage.Updated {
			out.Old, out.New = new(ChannelOf(&res.Old)), new(ChannelOf(&res.New))
		}
	}
}

// Wanted returns the job that results when the settings spec replace the settings of the stored job old. If old is nil,
// Wanted returns a new job.
func Wanted(spec *manage.JobSpec, old *core.Job) core.Job {
	j := core.Job{Def: spec.Def}
	if old != nil {
		j.Sched = old.Sched
		j.Def.ID, j.Def.Created, j.Def.Declared = old.Def.ID, old.Def.Created, old.Def.Declared
		if old.Def.Declared != "" && !spec.Declared {
			j.Def.Declared = core.DeclaredTaken
		}
		if j.Def.Set == "" {
			j.Def.Set = old.Def.Set
		}
	}
	s := &j.Sched
	s.Schedule, s.Misfire, s.Grace, s.Deadline = spec.Schedule, spec.Misfire, spec.Grace, spec.Deadline
	if spec.Paused != nil {
		s.State = core.Started
		if *spec.Paused {
			s.State = core.Paused
		}
	}
	if s.State == core.Ended {
		s.State = core.Started
	}
	j.Normalize()
	return j
}

// write stores the channels, the apps, then the jobs.
func (a *applying) write() {
	ctx, by := a.r.Context(), actor(a.r)
	a.out.Applied = true
	for i, spec := range a.channels {
		res, err := a.s.m.SaveChannel(ctx, by, spec)
		if err != nil {
			a.refuseChannel(i, err)
			continue
		}
		a.out.Channels[i].Rev, a.out.Channels[i].Change = res.Rev, res.Change
	}
	if a.notify != nil {
		if res, err := a.s.m.SaveNotify(ctx, by, *a.notify); err != nil {
			a.refuseNotify(err)
		} else {
			a.notified(res)
		}
	}
	for i, spec := range a.apps {
		res, err := a.s.m.SaveApp(ctx, by, spec)
		if err != nil {
			a.refuseApp(i, err)
			continue
		}
		a.out.Apps[i].Rev, a.out.Apps[i].Change = res.Rev, res.Change
	}
	for i, res := range a.s.m.Save(ctx, by, a.jobs) {
		if res.Err != nil {
			a.refuseJob(i, res.Err)
			continue
		}
		out := &a.out.Jobs[i]
		out.ID, out.Rev, out.Change = int32(res.ID), res.Rev, res.Change
	}
}

// prune deletes, or only lists if dryRun is set, the objects of the set that the body does not name.
func (a *applying) prune(dryRun bool, after int32) error {
	p := manage.PruneRequest{Set: a.set, DryRun: dryRun, After: core.JobID(after), Stay: map[string]core.Notify{}}
	for i := range a.jobs {
		p.Stay[a.jobs[i].Def.App+"/"+a.jobs[i].Def.Name] = a.jobs[i].Def.Notify
	}
	for i := range a.apps {
		p.Stay[a.apps[i].Name] = a.apps[i].Notify
	}
	if a.notify != nil {
		p.Stay[""] = *a.notify
	}
	for i := range a.channels {
		p.Channels = append(p.Channels, a.channels[i].Channel.Name)
	}
	res, err := a.s.m.Prune(context.WithoutCancel(a.r.Context()), actor(a.r), p)
	if err != nil {
		return err
	}
	a.out.Next = int32(res.Next)
	for _, j := range res.Jobs {
		a.out.Jobs = append(a.out.Jobs, jobResult(j))
		if j.Err != nil {
			a.refuseJob(len(a.out.Jobs)-1, j.Err)
		}
	}
	for _, c := range res.Channels {
		a.out.Channels = append(a.out.Channels, client.ChannelResult{Name: c.Name, Change: c.Change})
		if c.Err != nil {
			a.refuseChannel(len(a.out.Channels)-1, c.Err)
		}
	}
	for _, app := range res.Apps {
		a.out.Apps = append(a.out.Apps, client.AppResult{Name: app.Name, Change: app.Change})
		if app.Err != nil {
			a.refuseApp(len(a.out.Apps)-1, app.Err)
		}
	}
	return nil
}
