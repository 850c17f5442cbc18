package api

import (
	"net/http"
	"strings"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/bulk"
	"github.com/tickring/tickring/core/query"
)

func (s *server) Bulk(r *http.Request, body client.BulkRequest) (any, error) {
	sees, err := s.mayBulk(r, &body)
	if err != nil {
		return nil, err
	}
	q := bulk.Request{Verb: bulk.Verb(body.Verb), Jobs: body.Jobs, Undo: body.Undo, Act: body.Operation, Why: body.Reason, Params: body.Params,
		Cause: core.CauseAPI, Labels: body.Labels, After: core.JobID(body.After), DryRun: body.DryRun, Sees: sees, Until: orNil(&body.Until)}
	if body.Cause != "" {
		q.Cause = core.Cause(body.Cause)
	}
	if q.Cause != core.CauseAPI && q.Cause != core.CauseManual {
		return nil, core.Invalid("cause", body.Cause, "allowed values: manual, api")
	}
	if f := body.Filter; f != nil {
		q.Filter = &query.JobsAsk{JobFilter: query.JobFilter{App: f.App, Set: f.Set, Text: f.Text, Labels: labelsOf(f.Label),
			States: as[core.JobState](f.State)}, Is: as[query.Standing](f.Status)}
	}
	res, err := s.m.Act(r.Context(), actor(r), q)
	if err != nil {
		return nil, err
	}
	out := client.BulkResult{Operation: res.Act, Found: res.Found, Sample: res.Sample, Done: res.Done, Same: res.Same, Fail: res.Fail,
		Next: int32(res.Next)}
	for _, f := range res.Failed {
		e := s.errorOf(r, f.Err)
		out.Failed = append(out.Failed, client.BulkFailure{Job: f.Of, Code: e.Code, Message: e.Message})
	}
	return out, nil
}

// mayBulk returns an error unless the caller may do the operation: on each job in the list, or on the app of the
// filter. Without either, sees selects the apps where the caller may do it; nil means all. A dry run needs only the
// permission to see, if it has a list or an app, or if the caller may do the operation nowhere.
func (s *server) mayBulk(r *http.Request, body *client.BulkRequest) (sees func(app string) bool, err error) {
	deed := bulk.Verb(body.Verb).Deed()
	who := callerOf(r).Who
	ofApp := body.Filter != nil && body.Filter.App != ""
	if len(body.Jobs) > 0 || ofApp || !who.MaySome(deed) {
		deed = unless(body.DryRun, deed)
	}
	for _, job := range body.Jobs[:min(len(body.Jobs), bulk.MaxNamed)] {
		if err := s.mayJob(r.Context(), who, deed, job); err != nil {
			return nil, err
		}
	}
	if ofApp {
		return nil, s.mayThese(r, deed, "", body.Filter.App)
	}
	if who.May(deed, "") == nil {
		return nil, nil
	}
	if len(body.Jobs) == 0 && !who.MaySome(deed) {
		return nil, who.May(deed, "")
	}
	return func(app string) bool { return who.May(deed, app) == nil }, nil
}

// labelsOf reads labels as key=value, or as a key alone; nil: there are none.
func labelsOf(list []string) (labels map[string]string) {
	for _, label := range list {
		key, value, _ := strings.Cut(label, "=")
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	return labels
}
