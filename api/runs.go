package api

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/postrun"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/words"
)

// runs shows a page of runs.
func (s *server) runs(page *query.RunPage) client.RunPage {
	out := client.RunPage{Runs: make([]client.Run, len(page.Runs)), Next: page.Next, ScannedTo: page.LookedTo, NoWaiting: page.NoWaiting,
		Skips: each(page.Skips, skipOf)}
	for i := range page.Runs {
		r := &page.Runs[i]
		out.Runs[i] = runOf(r, page.Jobs[r.ID.Job()])
		out.Runs[i].ThenAt = page.ThenAt[r.Then].Time()
		out.Runs[i].WaitsUntil = page.Waits[r.ID]
	}
	return out
}

// runFilter returns the filter that the parameters describe.
func runFilter(p *client.ListRunsParams) (query.RunFilter, error) {
	f := query.RunFilter{Job: p.Job, App: p.App, Failed: p.Failed, Address: p.Address, Text: p.Text, From: p.From, To: p.To,
		Limit: p.Limit, After: p.After, States: as[core.State](p.State), Causes: as[core.Cause](p.Cause)}
	return f, parseDurations([]durationField{{"longer", p.Longer, &f.Longer}, {"shorter", p.Shorter, &f.Shorter}, {"late", p.Late, &f.Late}})
}

func (s *server) ListRuns(r *http.Request, params client.ListRunsParams) (any, error) {
	f, err := runFilter(&params)
	if err == nil {
		f.Sees, err = s.sift(r, params.Job, params.App)
	}
	if err != nil {
		return nil, err
	}
	page, err := s.m.Runs(r.Context(), f)
	return s.runs(&page), err
}

func (s *server) ListWaiting(r *http.Request, app, name string, params client.ListWaitingParams) (any, error) {
	page, err := s.m.Waiting(r.Context(), app+"/"+name, params.After)
	return s.runs(&page), err
}

func (s *server) run(r *http.Request, ref query.RunRef) (any, error) {
	v, err := s.m.Run(r.Context(), ref)
	if err != nil {
		return nil, err
	}
	out := runOf(&v.Run, v.Job)
	out.ThenAt, out.Answer = v.ThenAt.Time(), v.Answer
	children, err := s.m.Children(r.Context(), &v)
	if err != nil {
		return nil, err
	}
	shards, err := s.m.Shards(r.Context(), &v.Run)
	if err != nil {
		return nil, err
	}
	if v.Skip == nil {
		with, err := s.m.SentWith(r.Context(), &v.Run, v.Job)
		if err != nil {
			return nil, err
		}
		out.With = ranWithOf(with)
	}
	out.Shards = each(shards, shardOf)
	sees := callerOf(r).Filter()
	for i := range children {
		if sees != nil && !sees(children[i].Run.App) {
			continue
		}
		c := runOf(&children[i].Run, children[i].Job)
		out.Children = append(out.Children, client.ChildRun{ID: c.ID, Job: cmp.Or(c.Job, c.App), State: c.State})
	}
	out.WaitsUntil, out.Permit, out.Missing = v.Waits, permitOf(v.Permits, v.Run.First), v.Missing
	if sees != nil && out.Permit != nil {
		if out.Permit.HeldBy, err = s.ofSeen(r.Context(), sees, v.Permits.Holders); err != nil {
			return nil, err
		}
	}
	if out.Permit == nil && !v.Run.State.Open() && v.Run.Permit != "" {
		out.Permit = countedBy(&v.Run)
	}
	if v.Skip != nil {
		out.Skip, out.Message = new(skipOf(v.Skip)), words.Say(language(r), v.Away)
	}
	if out.Notification, err = noticeOf(r.Context(), s.o.Store, &v.Run); err != nil {
		return nil, err
	}
	return out, nil
}

// ofSeen returns the first runs of the holders whose apps the caller sees. A group can span several apps.
func (s *server) ofSeen(ctx context.Context, sees func(app string) bool, holders []core.Holder) ([]string, error) {
	jobs := make([]core.JobID, len(holders))
	for i := range holders {
		jobs[i] = holders[i].First.Job()
	}
	slices.Sort(jobs)
	names, err := s.m.Names(ctx, slices.Compact(jobs))
	list := []string{}
	for i := range holders {
		if app, _, _ := strings.Cut(names[holders[i].First.Job()], "/"); sees(app) {
			list = append(list, holders[i].First.String())
		}
	}
	return list, err
}

func (s *server) GetRun(r *http.Request, run string) (any, error) {
	return s.run(r, run)
}

func (s *server) GetRunAt(r *http.Request, app, name, at string) (any, error) {
	return s.run(r, app+"/"+name+"@"+at)
}

func (s *server) GetRunByKey(r *http.Request, app, name, key string) (any, error) {
	return s.run(r, app+"/"+name+"#"+key)
}

func (s *server) GetLog(r *http.Request, run string, params client.GetLogParams) (any, error) {
	if params.From < 0 || params.From > math.MaxInt32 { // executors use 32 bits
		return nil, core.Invalid("from", r.URL.Query().Get("from"), "line numbers from 1 to %d are allowed", math.MaxInt32)
	}
	if tail := params.Tail; r.URL.Query().Has("tail") && (tail < 1 || tail > postrun.MaxTail || params.From > 1) {
		return nil, core.Invalid("tail", r.URL.Query().Get("tail"), "allowed values: 1 to %d; set only one of 'tail' and 'from'", postrun.MaxTail)
	}
	who, room := callerOf(r).App+"/"+callerOf(r).Name, s.reads // an answer of an executor can have 4 MB
	if params.Tail != 0 {                                      // a tail holds several answers at once
		room = s.tails
	}
	if !room.Acquire(r.Context(), who, waitFor) {
		return nil, errNoPlace
	}
	defer room.Release(who)
	v, err := s.m.Run(r.Context(), run)
	if err != nil {
		return nil, err
	}
	if v.Skip != nil || s.logs == nil {
		return nil, core.Errorf(core.CodeNotFound, "run %s has no log", run)
	}
	app, err := s.m.App(r.Context(), v.Run.App)
	if err != nil { // without its app the executor is asked without a token
		app = core.App{Name: v.Run.App}
	}
	from := max(params.From, 1)
	log := client.Log{From: from}
	found := false
	if tail := params.Tail; tail != 0 {
		from = 1
		log.Text, log.From, log.Next, log.End, err = postrun.Tail(r.Context(), s.logs, &app, &v.Run, tail)
		found = core.CodeOf(err) != core.CodeNotFound // else the text is an error message, or empty
	}
	if !found {
		log.Text, log.Next, log.End, err = s.logs.Log(r.Context(), &app, &v.Run, from)
	}
	if log.Text != "" && core.CodeOf(err) == core.CodeTooLarge {
		err = nil // the last line of the text already reports it
	}
	if kept, is := s.kept(r, &v.Run, &log, from, err); is && (kept.Text != "" || log.Text == "") {
		log, err = kept, nil
	} else if err == nil || found && log.Text != "" { // if a tail broke off, the next piece has the error
		log.Kept, err = messageKept(language(r), &v.Run, &log), noLog(&v.Run, &log)
	}
	if params.Tail != 0 {
		var cut int
		log.Text, cut = postrun.LastLines(log.Text, params.Tail)
		log.From += cut
	}
	return log, err
}

// noLog returns an error if an xxl-job executor has no log of a run that ended. Such an executor sends a message in
// place of log lines, such as "readLog fail, logFile not exists".
func noLog(run *core.Run, log *client.Log) error {
	scheme, _, _ := core.ParseAddress(run.Address)
	if scheme != core.SchemeWire || run.State.Open() || log.Text == "" || !log.End || log.Next > 1 {
		return nil
	}
	return core.Errorf(core.CodeNotFound, "the executor at %s has no log of run %d: the executor answered %q; to see the "+
		"reported result: tickring run %d",
		run.Address, run.ID, core.Truncate(strings.TrimSpace(log.Text)), run.ID)
}

// messageKept describes a text that is the message of a run in place of its log; nil means that the text is a log.
func messageKept(l words.Language, run *core.Run, log *client.Log) *client.KeptLog {
	if run.State.Open() || log.Text == "" {
		return nil
	}
	scheme, _, _ := core.ParseAddress(run.Address)
	var why core.Text
	switch {
	case scheme == core.SchemeCall:
		why = core.Say("HTTP endpoints have no logs; the message of the run contains at most the last 4 KB of the response")
	case scheme == core.SchemeQueue:
		why = core.Say("the server cannot read logs of executors that receive runs from a queue; the message of the run has " +
			"the end of the log")
	case run.Address == core.LocalAddress && log.Next <= 1: // the executor returned an error message in place of the log
		why = core.Say("the log file is missing in the server's data directory; the message has at most the last 4 KB of the output")
	default:
		return nil
	}
	return &client.KeptLog{Message: true, At: run.EndedAt, From: 1, More: utf8.RuneCountInString(run.Message) >= core.MessageMax,
		Live: words.Say(l, why)}
}

// kept returns the stored log of a run from a line on, if its executor does not return one; false means that none is
// stored.
func (s *server) kept(r *http.Request, run *core.Run, live *client.Log, from int, err error) (client.Log, bool) {
	ctx := r.Context()
	// A restarted executor has no log of the run, and returns only an error message that ends it.
	empty := live.End && live.Next <= from && from == 1
	if run.State.Open() || err == nil && !empty || ctx.Err() != nil {
		return client.Log{}, false
	}
	k, is, kerr := s.m.KeptLog(ctx, run.ID)
	var text string
	if kerr == nil {
		text, kerr = postrun.Text(&k)
	}
	if kerr != nil {
		s.o.Log.WarnContext(ctx, "stored log of a run not read", "run", run.ID, "job", run.ID.Job(), "err", kerr)
		return client.Log{}, false
	}
	if !is || text == "" && empty {
		return client.Log{}, false
	}
	why := strings.TrimSpace(live.Text)
	switch {
	case err != nil:
		why = s.errorOf(r, err).Message
	case run.Address == core.LocalAddress:
		why = words.Say(language(r), core.Say("the log file is missing in the server's data directory"))
	}
	log := client.Log{End: true, Kept: &client.KeptLog{At: k.At, From: k.From, Cut: k.Cut, More: k.More, Why: k.Why, Live: why}}
	lines := strings.SplitAfter(text, "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	}
	log.Text, log.From = strings.Join(lines[min(max(from-k.From, 0), len(lines)):], ""), max(from, k.From)
	log.Next = max(k.From+len(lines), from)
	return log, true
}

func (s *server) TriggerJob(r *http.Request, app, name string, body client.TriggerRequest) (any, error) {
	if len(body.Addresses) > 0 {
		if err := may(r, access.Direct, app); err != nil {
			return nil, err
		}
	}
	t := operate.TriggerRequest{Job: app + "/" + name, Cause: core.CauseAPI, Params: body.Params, Addresses: body.Addresses,
		Key: body.Key, Retries: body.Retries, At: orNil(&body.At)}
	if body.Cause != "" {
		t.Cause = core.Cause(body.Cause)
	}
	if t.Cause != core.CauseAPI && t.Cause != core.CauseManual {
		return nil, core.Invalid("cause", body.Cause, "allowed values: manual, api")
	}
	res, err := s.m.Trigger(r.Context(), actor(r), t)
	return s.triggered(r, res, err)
}

func (s *server) ChangeRun(r *http.Request, run string, body client.TriggerChange) (any, error) {
	return s.change(r, run, body)
}

func (s *server) ChangeByKey(r *http.Request, app, name, key string, body client.TriggerChange) (any, error) {
	return s.change(r, app+"/"+name+"#"+key, body)
}

func (s *server) change(r *http.Request, ref query.RunRef, body client.TriggerChange) (any, error) {
	if body.Addresses != nil {
		if err := s.mayRun(r.Context(), callerOf(r).Who, access.Direct, ref); err != nil {
			return nil, err
		}
	}
	c := operate.TriggerChange{Params: body.Params, Addresses: body.Addresses, At: orNil(&body.At),
		Direct: func(app string) error { return may(r, access.Direct, app) }}
	res, err := s.m.ChangeTrigger(r.Context(), actor(r), ref, c)
	return s.triggered(r, res, err)
}

func (s *server) triggered(r *http.Request, res operate.TriggerResult, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	job, err := s.jobOrNone(r.Context(), res.Run.ID.Job())
	return client.TriggerResult{Run: runOf(&res.Run, job), Existing: res.Existing, Waiting: res.Waiting}, err
}

// jobOrNone returns a job, or nil if it was deleted.
func (s *server) jobOrNone(ctx context.Context, id core.JobID) (*core.Job, error) {
	j, err := s.m.Job(ctx, id.String())
	if core.CodeOf(err) == core.CodeNotFound {
		return nil, nil
	}
	return &j, err
}

func (s *server) stop(r *http.Request, res operate.StopResult, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	out := client.StopResult{Changed: res.Changed, Cancelled: runIDs(res.Cancelled), Killed: runIDs(res.Killed), Partial: res.Partial,
		Next: res.Next}
	if j, err := s.jobOrNone(r.Context(), res.Job); err == nil && j != nil {
		out.Job = j.Name()
	}
	for _, a := range res.Sent {
		k := client.KillAnswer{Address: a.Address}
		if a.Err != nil {
			k.Problem = s.errorOf(r, a.Err).Message
		}
		out.Sent = append(out.Sent, k)
	}
	return out, nil
}

func (s *server) KillJob(r *http.Request, app, name string, params client.KillJobParams) (any, error) {
	res, err := s.m.KillJob(r.Context(), actor(r), app+"/"+name, params.After)
	return s.stop(r, res, err)
}

func (s *server) KillRun(r *http.Request, run string, params client.KillRunParams) (any, error) {
	res, err := s.m.KillRun(r.Context(), actor(r), run, params.After)
	return s.stop(r, res, err)
}

func (s *server) CancelRun(r *http.Request, run string) (any, error) {
	res, err := s.m.Cancel(r.Context(), actor(r), run)
	return s.stop(r, res, err)
}

func (s *server) CancelByKey(r *http.Request, app, name, key string) (any, error) {
	res, err := s.m.Cancel(r.Context(), actor(r), app+"/"+name+"#"+key)
	return s.stop(r, res, err)
}
