package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/operate"
)

// mayRerun checks the caller's permission for the runs that a request names. For a request that names
// none of a run, a job and an app, it returns the check of each run's app.
func (s *server) mayRerun(r *http.Request, q *client.RerunRequest) (each func(app string) error, err error) {
	deed := access.Operate
	if len(q.Addresses) > 0 {
		deed = access.Direct
	}
	switch named := unless(q.DryRun, deed); {
	case q.Run != "":
		return nil, s.mayRun(r.Context(), callerOf(r).Who, named, q.Run)
	case q.Job != "" || q.App != "":
		return nil, s.mayThese(r, named, q.Job, q.App)
	}
	if !q.DryRun && !callerOf(r).MaySome(deed) {
		return nil, may(r, deed, "")
	}
	return func(app string) error { return may(r, deed, app) }, nil
}

func (s *server) Rerun(r *http.Request, q client.RerunRequest) (any, error) {
	each, err := s.mayRerun(r, &q)
	if err != nil {
		return nil, err
	}
	filter, err := runFilter(&client.ListRunsParams{Job: q.Job, App: q.App, State: q.State, Cause: q.Cause, Failed: q.Failed,
		Address: q.Address, From: q.From, To: q.To, Longer: q.Longer, Shorter: q.Shorter, Late: q.Late, Text: q.Text,
		Limit: q.Limit, After: q.After})
	if err != nil {
		return nil, err
	}
	filter.Thorough, filter.Sees = true, callerOf(r).Filter()
	again := operate.RerunRequest{Run: q.Run, Filter: filter, May: each, Params: q.Params, Addresses: q.Addresses, SameAddress: q.SameAddress,
		Direct: func(app string) error { return may(r, access.Direct, app) }, Retries: q.Retries, Cause: core.CauseAPI, Key: q.Key,
		DryRun: q.DryRun}
	if q.As != "" {
		again.Cause = core.Cause(q.As)
	}
	res, err := s.m.Rerun(r.Context(), actor(r), again)
	out := client.RerunResult{Runs: make([]client.Rerun, len(res.Runs)), Next: res.Next}
	for i := range res.Runs {
		x := &res.Runs[i]
		out.Runs[i] = client.Rerun{Of: runOf(&x.Of, x.Job), Existing: x.Existing}
		if x.Why != nil {
			out.Runs[i].Why = s.errorOf(r, x.Why).Message
		} else if x.As.ID != 0 {
			out.Runs[i].As = new(runOf(&x.As, x.Job))
		}
	}
	return out, err
}

// Reruns returns the reruns of a run. It finds only reruns in the last 100 changes of the run's job.
func Reruns(ctx context.Context, c *client.Client, r *client.Run) (runs []string) {
	if r.JobID == 0 || r.Skip != nil || core.State(r.State).Open() {
		return nil
	}
	list, err := c.ListChanges(ctx, client.ListChangesParams{Job: fmt.Sprint(r.JobID), Verb: core.VerbTriggered, Limit: 100})
	if err != nil {
		return nil // the run is shown without its reruns
	}
	for i := range list.Changes {
		var note struct{ Runs, RerunOf []string }
		if json.Unmarshal(list.Changes[i].New, &note) != nil || len(note.Runs) != len(note.RerunOf) {
			continue
		}
		for k, of := range note.RerunOf {
			if of == r.ID {
				runs = append(runs, note.Runs[k])
			}
		}
	}
	return runs
}
