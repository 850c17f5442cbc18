package api

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/operate"
)

// mayRerun asks whether the caller may run again what a request picks, and where.
func (s *server) mayRerun(r *http.Request, q *client.RerunRequest) error {
	deed := access.Operate
	if len(q.Addresses) > 0 {
		deed = access.Direct
	}
	deed = unless(q.DryRun, deed)
	if q.Run != "" {
		return s.mayRun(r.Context(), callerOf(r).Who, deed, q.Run)
	}
	return s.mayThese(r, deed, q.Job, q.App)
}

// Rerun runs again what has ended.
func (s *server) Rerun(w http.ResponseWriter, r *http.Request) {
	var q client.RerunRequest
	if err := decode(w, r, MaxBody, &q); err != nil {
		s.fail(w, r, err)
		return
	}
	if err := s.mayRerun(r, &q); err != nil {
		s.fail(w, r, err)
		return
	}
	filter, err := runFilter(&client.ListRunsParams{Job: q.Job, App: q.App, State: q.State, Cause: q.Cause, Failed: q.Failed,
		Address: q.Address, From: q.From, To: q.To, Longer: q.Longer, Shorter: q.Shorter, Late: q.Late, Text: q.Text, Limit: q.Limit, After: q.After})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	filter.Thorough = true
	again := operate.RerunRequest{Run: q.Run, Filter: filter, Params: q.Params, Addresses: q.Addresses, SameAddress: q.SameAddress,
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
			as := runOf(&x.As, x.Job)
			out.Runs[i].As = &as
		}
	}
	s.reply(w, r, out, err)
}

// RerunsIn are the runs that run another again, as a change says.
func RerunsIn(ch *client.Change, id string) (runs []string) {
	if ch.Verb != core.VerbTriggered || !bytes.Contains(ch.New, []byte(id)) {
		return nil
	}
	var note struct{ Runs, RerunOf []string }
	if json.Unmarshal(ch.New, &note) != nil || len(note.Runs) != len(note.RerunOf) {
		return nil
	}
	for i, of := range note.RerunOf {
		if of == id {
			runs = append(runs, note.Runs[i])
		}
	}
	return runs
}
