package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/restore"
	"github.com/tickring/tickring/words"
)

// Restore starts a new generation of the data, or fences the current generation.
type Restore interface {
	Do(ctx context.Context, req restore.Request) (restore.Result, error)
	Fence(ctx context.Context, by string) (core.Global, error)
}

// unfenced are the paths that may change data while a fence blocks all other changes.
var unfenced = map[string]bool{"/v1/fence": true, "/v1/restore": true}

// open rejects changes while the data is fenced.
func (s *server) open(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || unfenced[r.URL.Path] {
		return nil
	}
	_, err := s.m.Global(r.Context())
	return err
}

var errOneMachine = core.Errorf(core.CodeRefused,
	"a single server has no fence: stop the server, replace its data with the copy, and start the server once with: "+
		"tickring serve --restored --start-now")

func (s *server) Fence(r *http.Request) (any, error) {
	if s.o.Restore == nil {
		return nil, errOneMachine
	}
	g, err := s.o.Restore.Fence(r.Context(), actor(r).Name)
	return client.Generation{Generation: g.Generation, Holder: g.Holder}, err
}

func (s *server) Restore(r *http.Request, q client.RestoreRequest) (any, error) {
	if s.o.Restore == nil {
		return nil, errOneMachine
	}
	res, err := s.o.Restore.Do(r.Context(), restore.Request{By: actor(r).Name, From: q.From, LiftJobs: q.AdvanceJobIds,
		LiftRuns: q.AdvanceRunIds, RunsLost: q.RunsLost, After: core.JobID(q.After), Again: q.Again})
	out := client.RestoreResult{Generation: res.Generation, From: res.From, AdvanceJobIds: res.LiftJobs, AdvanceRunIds: res.LiftRuns,
		Jobs: res.Jobs, Leases: res.Leases, Waiting: res.Waiting, Watched: res.Watched, Owing: res.Owing, Next: int32(res.Next),
		Full: each(res.Full, func(id *core.JobID) int32 { return int32(*id) })}
	return out, err
}

func (s *server) GetFacts(r *http.Request) (any, error) {
	f := s.facts(r)
	if f == nil {
		return nil, core.Errorf(core.CodeRefused, "this server has no information about the deployment")
	}
	f.Failing = CountFailing(r.Context(), s.m, callerOf(r).Filter())
	return f, nil
}

// CountFailing counts the failing jobs in the apps that the function `sees` allows. It returns nil if the jobs could
// not be counted.
func CountFailing(ctx context.Context, m *people.People, sees func(app string) bool) *client.FailingCount {
	n, partial, err := m.CountFailing(ctx, sees)
	if err != nil {
		return nil
	}
	return &client.FailingCount{Jobs: n, Partial: partial}
}

// facts returns the facts that the caller may see; nil means unknown.
func (s *server) facts(r *http.Request) *client.Facts {
	if s.o.Facts == nil {
		return nil
	}
	f := s.o.Facts(r.Context(), language(r))
	if sees := callerOf(r).Filter(); sees != nil {
		f.Executors = slices.DeleteFunc(f.Executors, func(e client.Executor) bool { return !sees(e.App) })
		f.Refused = slices.DeleteFunc(f.Refused, func(e client.RefusedExecutor) bool { return !sees(e.App) })
		f.UnreadableApps = slices.DeleteFunc(f.UnreadableApps, func(a client.UnreadableApp) bool { return !sees(a.Name) })
		f.KnownTokens = slices.DeleteFunc(f.KnownTokens, func(app string) bool { return !sees(app) })
	}
	return &f
}

func (s *server) GetJobFacts(r *http.Request) (any, error) {
	t, err := s.m.Trouble(r.Context(), callerOf(r).Filter())
	out := client.JobFacts{Looked: t.Looked, More: t.More, FailingJobs: t.Fail, AppsWithoutExecutor: each(t.Deserted, desertedOf)}
	for _, u := range t.Untold {
		out.MissingChannels = append(out.MissingChannels, client.MissingChannel{Subject: u.Subject, Channel: u.Channel})
	}
	for _, l := range t.Locked {
		out.Locked = append(out.Locked, client.UnreadableApp{Name: l.Job, Message: words.Error(language(r), l.Why)})
	}
	for i := range t.Failing {
		last := &t.Failing[i].Last
		j := t.Named[last.ID.Job()]
		out.Failing = append(out.Failing, client.FailingJob{Job: j.Name(), Times: t.Failing[i].Times, Last: runOf(last, j)})
	}
	if t.Pending != nil {
		out.Pending = new(runOf(t.Pending, t.Named[t.Pending.ID.Job()]))
	}
	return out, err
}

func desertedOf(d *query.AppWithoutExecutor) client.AppWithoutExecutor {
	return client.AppWithoutExecutor{App: d.App, Jobs: d.Jobs, Job: d.First}
}
