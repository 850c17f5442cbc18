package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/must"
	"github.com/tickring/tickring/internal/paging"
)

type runPage struct {
	Run    client.Run
	Job    *client.Job  // the job of the run; nil: the job was deleted
	Of     string       // name of the job, or a description if the job was deleted
	Chain  []client.Run // known attempts of the retry chain
	Around []client.Run
	Last   []client.Run
	// Newest is the last known attempt of the retry chain, if this run was retried. Only the last attempt can be
	// rerun.
	Newest  string
	RerunAs []string
	None    string // the reason why a scheduled time has no run
	Params  string // params in the rerun form, or params of the run
	Other   bool   // whether the rerun has other params than the run
	Live    []client.Executor
	// MoreLive is the number of live executors that the list leaves out.
	MoreLive int
}

// Open reports whether the run can still change.
func (p *runPage) Open() bool { return core.State(p.Run.State).Open() }

func (a *ask) IsOpen(state string) bool { return core.State(state).Open() }

// Logged reports whether the run can have a log.
func (p *runPage) Logged() bool {
	return p.Run.Skip == nil && p.Run.Shards == nil && !p.Run.SentAt.IsZero()
}

// Told reports whether the page shows only a part of the executor's message. For a run that did not succeed, the page
// shows the first line.
func (p *runPage) Told() bool {
	said := strings.TrimSpace(p.Run.Message)
	return said != "" && p.Run.Skip == nil && (p.Run.State == string(core.Succeeded) || strings.Contains(said, "\n") || len(said) > 300)
}

// Deaf reports whether the executor cannot receive a kill request, because it is a function or an endpoint.
func (a *ask) Deaf(r *client.Run) bool {
	scheme, _, _ := core.ParseAddress(r.Address)
	return scheme == core.SchemeLambda || scheme == core.SchemeCall
}

// Held reports whether the run was skipped because other runs used the concurrency limit.
func (p *runPage) Held() bool { return isHeld(&p.Run) }

func (a *ask) runByID() (any, error) {
	r, err := a.GetRun(a.Ctx(), a.Path("run"))
	if status(err) == http.StatusNotFound {
		return nil, core.Errorf(core.CodeNotFound,
			"run %s not found: the number is wrong, or the run was deleted after its retention period; reports still count deleted runs",
			core.Truncate(a.Path("run")))
	}
	return a.runPage(must.Get(r, err)), nil
}

// runAt shows the run of a job at a scheduled time, which may not exist.
func (a *ask) runAt() (any, error) {
	job := must.Get(a.GetJob(a.Ctx(), a.Path("app"), a.Path("name")))
	at := a.Path("instant")
	r, err := a.GetRunAt(a.Ctx(), job.App, job.Name, at)
	if status(err) == http.StatusNotFound {
		p := &runPage{Job: &job, Of: job.App + "/" + job.Name, None: err.Error()}
		p.Run = client.Run{App: job.App, Job: p.Of, JobID: job.ID, Timezone: job.Schedule.Timezone}
		p.Run.ScheduledAt, _, _ = momentOf("", at, locationOf(job.Schedule.Timezone))
		a.around(p)
		return p, nil
	}
	return a.runPage(must.Get(r, err)), nil
}

func (a *ask) runPage(r client.Run) *runPage {
	p := &runPage{Run: r, Of: r.Job, Params: a.SentWith(&r)}
	if p.Of == "" {
		p.Of = a.goneJob(r.JobID)
	}
	if app, name, ok := strings.Cut(r.Job, "/"); ok {
		if job, err := a.GetJob(a.Ctx(), app, name); status(err) != http.StatusNotFound { // else it was deleted a moment ago
			p.Job = new(must.Get(job, err))
		}
	}
	p.Chain = a.chain(&r)
	if p.Newest = p.Final().ID; p.Newest == r.ID {
		p.Newest = r.Then
	}
	a.around(p)
	p.RerunAs = api.Reruns(a.Ctx(), a.Client, &r)
	if a.Panel() != "rerun" {
		return p
	}
	p.Live, p.MoreLive = a.liveOf(r.App)
	if a.rejection != nil {
		if params, other := a.otherParams(); other {
			p.Params, p.Other = params, true
		}
	}
	return p
}

// goneJob describes a deleted job, by its name while its changes are kept.
func (a *ask) goneJob(id int32) string {
	of := a.Say("a deleted job")
	list, err := a.ListChanges(a.Ctx(), client.ListChangesParams{Job: fmt.Sprint(id), Limit: 1})
	if err == nil && len(list.Changes) == 1 && list.Changes[0].Job != "" {
		of = a.Say("%s (deleted job)", list.Changes[0].Job)
	}
	return of
}

// SentWith returns the params that a run was sent with.
func (a *ask) SentWith(r *client.Run) string {
	switch {
	case r.Params != nil:
		return *r.Params
	case r.With != nil:
		return r.With.Params
	}
	return ""
}

func (a *ask) chain(r *client.Run) []client.Run {
	list := []client.Run{}
	if r.First != "" {
		if first, err := a.GetRun(a.Ctx(), r.First); status(err) != http.StatusNotFound {
			list = append(list, must.Get(first, err))
		}
	}
	if len(list) == 0 {
		list = append(list, *r)
	}
	for at := &list[0]; at.Then != "" && len(list) < shownAttempts; at = &list[len(list)-1] {
		next, err := a.GetRun(a.Ctx(), at.Then)
		if status(err) == http.StatusNotFound {
			break
		}
		list = append(list, must.Get(next, err))
	}
	if !slices.ContainsFunc(list, func(one client.Run) bool { return one.ID == r.ID }) {
		list = append(list, *r) // the retry chain is longer
	}
	return list
}

const aroundEach = 4

func (a *ask) around(p *runPage) {
	if p.Run.JobID == 0 {
		return
	}
	job := fmt.Sprint(p.Run.JobID)
	page, err := a.ListRuns(a.Ctx(), client.ListRunsParams{Job: job, Limit: 30})
	if status(err) == http.StatusNotFound {
		return
	}
	last := must.Get(page, err).Runs
	p.Last = last
	at := slices.IndexFunc(last, func(r client.Run) bool {
		return r.ID == p.Run.ID || p.Run.ID == "" && !r.ScheduledAt.After(p.Run.ScheduledAt)
	})
	if at >= 0 && (at+aroundEach < len(last) || page.Next == "") {
		p.Around = last[max(0, at-aroundEach):min(len(last), at+aroundEach+1)]
		return
	}
	if at < 0 && page.Next == "" || p.Run.ScheduledAt.IsZero() {
		return
	}
	// The run is older: show the runs before it and the next runs after it, by how far apart they are.
	older := must.Get(a.ListRuns(a.Ctx(), client.ListRunsParams{Job: job, To: p.Run.ScheduledAt, Limit: aroundEach + 1}))
	if len(older.Runs) == 0 {
		return
	}
	gap := p.Run.ScheduledAt.Sub(older.Runs[len(older.Runs)-1].ScheduledAt)
	newer := must.Get(a.ListRuns(a.Ctx(), client.ListRunsParams{Job: job, From: p.Run.ScheduledAt.Add(time.Second),
		To: p.Run.ScheduledAt.Add(max(gap, time.Minute) * 2), Limit: 100}))
	p.Around = append(newer.Runs[max(0, len(newer.Runs)-aroundEach):], older.Runs...)
}

func (a *ask) barOf(r *client.Run) Bar {
	b := Bar{Shape: a.Shape(r.State)}
	if isLate(r) {
		b.Shape = "late"
	}
	if !r.SentAt.IsZero() {
		end := r.EndedAt
		if end.IsZero() {
			end = a.Now
		}
		b.Took = end.Sub(r.SentAt)
	}
	return b
}

const liveShown = 50

// liveOf returns the known live executors of an app, and how many more there are.
func (a *ask) liveOf(app string) (live []client.Executor, more int) {
	list, err := a.ListExecutors(a.Ctx(), app)
	if err != nil {
		return nil, 0 // a rerun needs no choice of executor
	}
	for _, e := range list.Executors {
		if e.Live && e.Used {
			live = append(live, e)
		}
	}
	shown := live[:min(len(live), liveShown)]
	return shown, len(live) - len(shown)
}

// stop kills runs part by part, at most n parts; more reports whether runs remain.
func stop(n int, kill func(after string) (client.StopResult, error)) (sum client.StopResult, more bool) {
	for after := ""; n > 0; n-- {
		res := must.Get(kill(after))
		if after = paging.AddStop(&sum, &res); after == "" {
			return sum, false
		}
	}
	return sum, true
}

func (a *ask) killRun() (string, core.Text, error) {
	id, to := a.Path("run"), a.RunPath(a.Path("run"))
	res, _ := stop(100, func(after string) (client.StopResult, error) {
		return a.KillRun(a.Ctx(), id, client.KillRunParams{After: after})
	})
	switch problem := untold(res.Sent); {
	case problem != "":
		return to, killedUntold(len(res.Killed), problem), nil
	case len(res.Killed) == 1:
		return to, core.Say("kill recorded and sent: the run ends when its executor confirms"), nil
	case len(res.Killed) > 0:
		return to, core.Say("kill recorded and sent for %d runs", len(res.Killed)), nil
	case len(res.Cancelled) > 0:
		return to, core.Say("the run was cancelled before it was sent"), nil
	}
	return to, core.Say("the run had already ended"), nil
}

// untold returns the problem of the last executor that did not get a kill; empty if there is none.
func untold(sent []client.KillAnswer) (problem string) {
	for _, s := range sent {
		if s.Problem != "" {
			problem = s.Address + ": " + s.Problem
		}
	}
	return problem
}

// killedUntold returns the message for a kill that some executor did not get.
func killedUntold(killed int, problem string) core.Text {
	return core.Say("kills recorded: %d, but an executor reported: %s", killed, core.Truncate(problem))
}

// cancelRun cancels a run that is not sent yet.
func (a *ask) cancelRun() (string, core.Text, error) {
	res := must.Get(a.CancelRun(a.Ctx(), a.Path("run")))
	if len(res.Cancelled) == 0 {
		return a.RunPath(a.Path("run")), core.Say("nothing was cancelled: the run was already sent, or had ended"), nil
	}
	return a.RunPath(a.Path("run")), core.Say("the run was cancelled before it was sent"), nil
}

// rerun reruns a run and shows the new one.
func (a *ask) rerun() (string, core.Text, error) {
	body := client.RerunRequest{Run: a.Path("run"), As: string(core.CauseManual), Key: a.Form("key")}
	if params, other := a.otherParams(); other {
		body.Params = &params
	}
	switch where := a.Form("where"); where {
	case "":
	case "same":
		body.SameAddress = true
	default:
		body.Addresses = []string{where}
	}
	body.Addresses = append(body.Addresses, strings.Fields(a.Form("other"))...)
	res := must.Get(a.Rerun(a.Ctx(), body))
	if len(res.Runs) == 1 && res.Runs[0].Why != "" {
		return "", core.Text{}, &client.Error{Status: http.StatusConflict, Message: res.Runs[0].Why}
	}
	if len(res.Runs) == 0 || res.Runs[0].As == nil {
		return a.RunPath(a.Path("run")), core.Text{}, nil
	}
	return a.RunPath(res.Runs[0].As.ID), core.Say("this is a rerun of run %s", a.Path("run")), nil
}

// otherParams returns the params in the form, and whether they replace the params of the run: because the form
// requests it, or because they were changed.
func (a *ask) otherParams() (string, bool) {
	was := a.Form("was")
	params := keptText(a.Form("params"), was)
	if params != was {
		return params, a.Form("with") == "other" || a.r.PostForm.Has("was")
	}
	r, _ := a.GetRun(a.Ctx(), a.Path("run")) // if that fails, so does the rerun
	return keptText(a.Form("params"), a.SentWith(&r)), a.Form("with") == "other"
}

// onRun returns the function of a form with an action on the run in the path. If the action is rejected, its panel shows
// the error and the input.
func onRun(panel string, do formFunc) formFunc {
	return onPage("run", func(a *ask) (any, error) {
		a.panel = panel
		return a.runByID()
	}, do)
}

func (a *ask) AtPath(job string, at time.Time) string {
	return a.JobPath(job) + "/at/" + url.PathEscape(at.UTC().Format(time.RFC3339))
}

// SkipPath returns the path of the page for a scheduled time that was skipped and has no run. If the job was deleted,
// the path has the job's number, and the ID that the run would have had.
func (a *ask) SkipPath(job string, at time.Time) string {
	if n, err := strconv.ParseInt(job, 10, 32); err == nil {
		return a.RunPath(core.PlannedRun(core.JobID(n), core.InstantOf(at)).String())
	}
	return a.AtPath(job, at)
}
