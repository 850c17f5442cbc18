package api

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/internal/rejectlog"
)

// nextShown is the number of next scheduled times in the answer for a single job.
const nextShown = 5

func (s *server) ListJobs(r *http.Request, params client.ListJobsParams) (any, error) {
	sees, err := s.sift(r, "", params.App)
	if err != nil {
		return nil, err
	}
	f := query.JobFilter{Sees: sees, App: params.App, Set: params.Set, Text: params.Text, After: core.JobID(params.After), Limit: params.Limit,
		Last: params.Last, States: as[core.JobState](params.State), Labels: labelsOf(params.Label)}
	if len(params.Status) > 0 || params.Sort != "" || params.Reverse || params.Runs != 0 || params.Counts || params.Cursor != "" {
		return s.jobsNow(r, &params, f)
	}
	page, err := s.m.Jobs(r.Context(), f)
	if err != nil {
		return nil, err
	}
	held, err := s.pauses(r)
	if err != nil {
		return nil, err
	}
	out := client.JobPage{Jobs: make([]client.Job, len(page.Jobs)), Next: int32(page.Next)}
	for i := range page.Jobs {
		j := &page.Jobs[i]
		out.Jobs[i] = held.show(s, j, 1)
		if params.Last {
			out.Jobs[i].Last = held.last(page.Last[i], j)
		}
	}
	out.Failed = failedJobs(page.Jobs, page.Failed)
	return out, nil
}

// failedJobs names the jobs that cannot be read, and the jobs whose secrets cannot be decrypted.
func failedJobs(jobs []core.Job, failed map[core.JobID]error) (list []client.UnreadableJob) {
	for id, why := range failed {
		list = append(list, client.UnreadableJob{Number: int32(id), Message: why.Error()})
	}
	for i := range jobs {
		if why := jobs[i].LockedSecrets(); why != nil {
			list = append(list, client.UnreadableJob{Number: int32(jobs[i].Def.ID), Message: why.Error()})
		}
	}
	slices.SortFunc(list, func(a, b client.UnreadableJob) int { return cmp.Compare(a.Number, b.Number) })
	return list
}

// last converts the last run of a job; nil if it has none.
func (p *pauses) last(r *core.Run, j *core.Job) *client.Run {
	if r == nil {
		return nil
	}
	run := runOf(r, j)
	if app := p.apps[j.Def.App]; r.State == core.Queued && r.Permit == "" {
		run.WaitsUntil = j.WaitsUntil(&app, r.Slot)
	}
	return &run
}

func (s *server) job(r *http.Request, ref string) (any, error) {
	j, err := s.m.Job(r.Context(), ref)
	if err != nil {
		return nil, err
	}
	held, err := s.pauses(r)
	if err != nil {
		return nil, err
	}
	out := held.show(s, &j, nextShown)
	if c, err := schedule.Compile(j.Sched.Schedule, j.Def.ID); err == nil {
		out.Warnings = allSaid(held.l, c.Traps(core.InstantOf(time.Now())))
	}
	following, err := s.m.Following(r.Context(), &j)
	if err != nil {
		return nil, err
	}
	if sees := callerOf(r).Filter(); sees != nil {
		following = slices.DeleteFunc(following, func(p core.Parent) bool {
			app, _, _ := strings.Cut(p.Job, "/")
			return !sees(app)
		})
	}
	out.Children = parentsOf(following)
	if out.Notifications, err = noticesOf(r.Context(), s.o.Store, j.Def.ID); err != nil {
		return nil, err
	}
	last, err := s.m.Last(r.Context(), j.Def.ID)
	out.Last = held.last(last, &j)
	return out, err
}

func (s *server) GetJob(r *http.Request, app, name string) (any, error) {
	return s.job(r, app+"/"+name)
}

func (s *server) GetJobByNumber(r *http.Request, id string) (any, error) {
	if n, err := strconv.ParseInt(id, 10, 32); err != nil || n <= 0 {
		return nil, core.Invalid("id", id, "a job number is 1 to 2147483647; to name the job, use /v1/jobs/APP/NAME")
	}
	return s.job(r, id)
}

func (s *server) PutJob(r *http.Request, app, name string, body client.JobSpec) (any, error) {
	if err := cmp.Or(asInPath("app", &body.App, app), asInPath("name", &body.Name, name)); err != nil {
		return nil, err
	}
	c := callerOf(r)
	if c.Kind == access.Code {
		deed := access.Edit
		switch {
		case body.Script != client.ScriptSpec{}:
			deed = access.Script
		case body.Declared:
			deed = access.Declare
		}
		if err := c.May(deed, app); err != nil {
			return nil, err
		}
	}
	spec, err := ManageJob(body)
	if err != nil {
		return nil, err
	}
	if err := s.maySave(r, &spec); err != nil {
		return nil, err
	}
	if c.Kind == access.Code {
		if group := spec.Def.Overlap.Group; group != "" { // a group can be another app's, whose jobs would then wait
			return nil, core.Errorf(core.CodeForbidden, "the group %q: only the admin token can set a limit for a group, "+
				"because jobs of other apps can be in the group; code can limit a single job", group)
		}
		for _, p := range spec.Def.After {
			if of, _, _ := strings.Cut(p.Job, "/"); of != app { // the job would get data from their runs, and they could not be deleted
				return nil, core.Errorf(core.CodeForbidden, "after %s: only the admin token can make a job follow jobs of another app; "+
					"code can name jobs of its own app", p.Job)
			}
		}
		spec.MostDeclared = DeclaredJobs
		if err := s.quota.take(app, time.Now()); err != nil {
			s.over(r)
			return nil, err
		}
	}
	res := s.m.Save(r.Context(), actor(r), []manage.JobSpec{spec})[0]
	switch {
	case c.Kind != access.Code:
	case res.Change == manage.Unchanged:
		s.quota.settle(app, 0)
	case res.Err == nil:
		s.quota.settle(app, weight(&body))
	case core.CodeOf(res.Err) == core.CodeTooLarge:
		s.over(r)
	}
	return jobResult(res), res.Err
}

// over records that code exceeded its quota.
func (s *server) over(r *http.Request) {
	s.o.Refused.Note(r.Context(), rejectlog.Refusal{Door: rejectlog.API, Reason: rejectlog.Quota, Remote: r.RemoteAddr})
}

func jobResult(r manage.SaveResult) client.JobResult {
	return client.JobResult{App: r.App, Name: r.Name, ID: int32(r.ID), Rev: r.Rev, Change: r.Change, Withheld: r.Withheld}
}

func (s *server) DeleteJob(r *http.Request, app, name string, params client.DeleteJobParams) (any, error) {
	res, err := s.m.Delete(r.Context(), actor(r), app+"/"+name, params.IfRev)
	return jobResult(res), err
}

func (s *server) ReturnJobToCode(r *http.Request, app, name string) (any, error) {
	res, err := s.m.GiveBack(r.Context(), actor(r), app, name)
	return jobResult(res), err
}

func (s *server) pause(r *http.Request, t manage.Target, body client.PauseRequest) (any, error) {
	res, err := s.m.Pause(r.Context(), actor(r), t, manage.PauseRequest{Why: body.Reason, IfRev: body.IfRev, Until: orNil(&body.Until)})
	return stateResult(res), err
}

func (s *server) resume(r *http.Request, t manage.Target, body client.ResumeRequest) (any, error) {
	res, err := s.m.Resume(r.Context(), actor(r), t, body.Reason)
	return stateResult(res), err
}

func stateResult(r manage.StateResult) client.StateResult {
	return client.StateResult{Changed: r.Changed, State: string(r.State), Rev: r.Rev, Until: r.Until}
}

func (s *server) PauseJob(r *http.Request, app, name string, body client.PauseRequest) (any, error) {
	return s.pause(r, manage.Target{Job: app + "/" + name}, body)
}

func (s *server) ResumeJob(r *http.Request, app, name string, body client.ResumeRequest) (any, error) {
	return s.resume(r, manage.Target{Job: app + "/" + name}, body)
}

func (s *server) PauseApp(r *http.Request, app string, body client.PauseRequest) (any, error) {
	return s.pause(r, manage.Target{App: app}, body)
}

func (s *server) ResumeApp(r *http.Request, app string, body client.ResumeRequest) (any, error) {
	return s.resume(r, manage.Target{App: app}, body)
}

func (s *server) PauseAll(r *http.Request, body client.PauseRequest) (any, error) {
	return s.pause(r, manage.Target{All: true}, body)
}

func (s *server) ResumeAll(r *http.Request, body client.ResumeRequest) (any, error) {
	return s.resume(r, manage.Target{All: true}, body)
}

func (s *server) ListApps(r *http.Request) (any, error) {
	apps, bad, err := s.m.Apps(r.Context())
	if sees := callerOf(r).Filter(); sees != nil {
		apps = slices.DeleteFunc(apps, func(a core.App) bool { return !sees(a.Name) })
		maps.DeleteFunc(bad, func(name string, _ error) bool { return !sees(name) })
	}
	out := client.AppList{Apps: each(apps, AppOf)}
	for _, name := range slices.Sorted(maps.Keys(bad)) {
		out.Failed = append(out.Failed, client.UnreadableApp{Name: name, Message: bad[name].Error()})
	}
	return out, err
}

func (s *server) GetApp(r *http.Request, name string) (any, error) {
	app, err := s.m.App(r.Context(), name)
	return AppOf(&app), err
}

func (s *server) PutApp(r *http.Request, name string, body client.AppSpec) (any, error) {
	if err := asInPath("name", &body.Name, name); err != nil {
		return nil, err
	}
	spec, err := ManageApp(body)
	if err != nil {
		return nil, err
	}
	if err := s.maySaveApp(r, &spec); err != nil {
		return nil, err
	}
	res, err := s.m.SaveApp(r.Context(), actor(r), spec)
	return client.AppResult{Name: res.Name, Rev: res.Rev, Change: res.Change}, err
}

func (s *server) DeleteApp(r *http.Request, name string) (any, error) {
	err := s.mayDeleteApp(r, name)
	if err == nil {
		err = s.m.DeleteApp(r.Context(), actor(r), name)
	}
	return client.AppResult{Name: name, Change: manage.Deleted}, err
}

// RefusedExecutors lists the executors of an app that were recently rejected because of their token, address or app.
// If app is empty, it lists the rejected executors of all apps.
func RefusedExecutors(t *rejectlog.Trace, app string) []client.RefusedExecutor {
	var list []client.RefusedExecutor
	for _, r := range t.Executors(app) {
		x := client.RefusedExecutor{App: r.App, Address: r.Address, From: r.Remote, At: r.At, Times: r.Count}
		if r.Reason != rejectlog.Token && r.Reason != rejectlog.App {
			x.Why = r.Why
		}
		list = append(list, x)
	}
	return list
}

// ExecutorOf converts an executor from package core to the form in the API. If answer is not nil, the result includes
// the last response of the executor's address.
func ExecutorOf(app string, v *query.ExecutorView, answer Answer) client.Executor {
	x := client.Executor{App: app, Address: v.Address, Fixed: v.Fixed, Live: v.Live, Used: v.Used, BeatAt: v.Beat, Since: v.Since,
		Dialect: v.Dialect, ClockAheadMs: aheadOf(v.Clock), Replaced: v.Replaced}
	if answer == nil {
		return x
	}
	if a, known := answer(app, v.Address); known {
		x.CheckedAt, x.Answers, x.Problem = a.At, new(a.Problem == ""), a.Problem
		if v.Fixed || a.Clock.Known {
			x.ClockAheadMs = aheadOf(a.Clock)
		}
		if a.Problem == "" && a.Took > 0 {
			x.AnswerMs = new(a.Took.Milliseconds())
		}
	}
	return x
}

func (s *server) RemoveExecutor(r *http.Request, app string, body client.ExecutorTestRequest) (any, error) {
	body.Address = core.NormalAddress(body.Address)
	return body, s.m.RemoveExecutor(r.Context(), actor(r), app, body.Address)
}

func (s *server) ListExecutors(r *http.Request, app string) (any, error) {
	views, err := s.m.Executors(r.Context(), app)
	list := each(views, func(v *query.ExecutorView) client.Executor { return ExecutorOf(app, v, s.o.Answer) })
	return client.ExecutorList{Executors: list, Refused: RefusedExecutors(s.o.Refused, app)}, err
}
