// Package callback accepts the results that executors report. It translates the codes and texts of the xxl-job protocol into
// results of runs, and checks that the caller may report each run. Package finish stores the results.
package callback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/store"
)

// A Finisher ends runs. *finish.Finish implements it.
type Finisher interface {
	Close(ctx context.Context, results []finish.Result) ([]error, *finish.AfterClose)
}

type Options struct {
	// Now returns the current time. nil: time.Now.
	Now func() time.Time
	// AllowNoToken reports whether the caller may report runs of an app that has no token. nil: never.
	AllowNoToken func(ctx context.Context) bool
	// TokenFor is how long the token of an app is cached. A revoked token is accepted during this time. 0: each callback reads
	// the token. If a token differs from the cached one, it is compared with the stored token.
	TokenFor time.Duration
}

type Callback struct {
	s      *store.Store
	finish Finisher
	o      Options
	known  known
}

func New(s *store.Store, f Finisher, o Options) *Callback {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Callback{s: s, finish: f, o: o, known: known{apps: map[core.JobID]string{}, tokens: map[string]token{}}}
}

// A Caller is the sender of results. Its token must belong to the app of each run.
type Caller struct {
	App    string // app that the caller names; empty if its dialect sends none
	Token  string
	Proven bool // whether the caller was authenticated in another way, by a signature
}

// Result codes of the xxl-job protocol. Every other code means that the run failed.
const (
	CodeSuccess  = 200
	CodeTimedOut = 502
)

// Batch is the number of results that are handled together.
const Batch = 500

// Callback stores results and returns an error for each result. core.CodeNotFound means that the run does not exist, and that
// the caller must not report it again. A run that is already closed is not an error.
//
// Results are handled in batches. If one batch shows that a caller may not report the runs of a job, results for this
// job in later batches are rejected without a read.
func (c *Callback) Callback(ctx context.Context, from Caller, results []finish.Result) []error {
	errs := make([]error, len(results))
	refused := map[core.JobID]error{}
	for start := 0; start < len(results); start += Batch {
		end := min(start+Batch, len(results))
		c.batch(ctx, from, results[start:end], errs[start:end], refused)
		for i, r := range results[start:end] {
			if err := errs[start+i]; core.CodeOf(err) == core.CodeUnauthorized {
				refused[r.Run.Job()] = err
			}
		}
		for i, r := range results[start:end] {
			if core.CodeOf(errs[start+i]) != core.CodeUnauthorized {
				delete(refused, r.Run.Job())
			}
		}
	}
	return errs
}

func (c *Callback) batch(ctx context.Context, from Caller, results []finish.Result, errs []error,
	refused map[core.JobID]error) {
	ids := make([]core.RunID, 0, len(results))
	first := make(map[core.RunID]int, len(results)) // a run named twice is ended by the first
	for i, r := range results {
		if !r.Run.Valid() {
			errs[i] = core.Errorf(core.CodeNotFound, "run %d does not exist", r.Run)
			continue
		}
		if why, is := refused[r.Run.Job()]; is {
			errs[i] = why
			continue
		}
		if _, again := first[r.Run]; !again {
			first[r.Run] = i
			ids = append(ids, r.Run)
		}
	}
	ids, blind := c.blind(ctx, from, results, ids, first, errs)
	c.judge(ctx, from, results, ids, first, errs)
	blind()
	for i, r := range results {
		if k, ok := first[r.Run]; ok && k != i {
			errs[i] = errs[k]
		}
	}
}

// blind ends runs without reading them: successes of jobs whose app is known, if the caller has the app's
// token. It returns the other runs, and the ones that were refused, so that judge can find the reason. The
// write requires that the run belongs to the app, because the job may have moved. rest makes the
// follow-ups.
func (c *Callback) blind(ctx context.Context, from Caller, results []finish.Result, ids []core.RunID, first map[core.RunID]int,
	errs []error) (others []core.RunID, rest func()) {
	may := c.proves(ctx, from, ids, c.o.Now())
	var ends []finish.Result
	for _, id := range ids {
		app, ok := may[id.Job()]
		end := results[first[id]]
		if end.App = app; !ok || end.State != core.Succeeded {
			others = append(others, id)
			continue
		}
		ends = append(ends, end)
	}
	if len(ends) == 0 {
		return others, func() {}
	}
	answers, follow := c.finish.Close(ctx, ends)
	judged := make([]bool, len(ends))
	for k, err := range answers {
		if judged[k] = errors.Is(err, core.ErrRefused); judged[k] {
			others = append(others, ends[k].Run)
		}
	}
	return others, func() {
		follow.Make(ctx)
		for k, err := range answers {
			if !judged[k] {
				errs[first[ends[k].Run]] = err
			}
		}
	}
}

// judge reads the runs of results, and ends the runs that their caller may end.
func (c *Callback) judge(ctx context.Context, from Caller, results []finish.Result, ids []core.RunID, first map[core.RunID]int,
	errs []error) {
	if len(ids) == 0 {
		return
	}
	runs, err := c.s.Runs.Get(ctx, ids)
	apps, appsErr := c.apps(ctx, from, runs)
	ends := make([]finish.Result, 0, len(ids))
	for _, id := range ids {
		i := first[id]
		run, ok := runs[id]
		switch why := cmp.Or(err, run.Err); {
		case why != nil:
			errs[i] = passing(why)
		case !ok:
			errs[i] = core.Errorf(core.CodeNotFound, "run %d does not exist", id)
		default:
			if errs[i] = c.permit(ctx, from, run.Is, apps, appsErr); errs[i] == nil {
				end := results[i]
				end.Seen = run.Is
				ends = append(ends, end)
			}
		}
	}
	if len(ends) > 0 {
		answers, follow := c.finish.Close(ctx, ends)
		follow.Make(ctx)
		for k, e := range ends {
			errs[first[e.Run]] = answers[k]
		}
	}
}

// apps reads the apps of runs.
func (c *Callback) apps(ctx context.Context, from Caller, runs map[core.RunID]store.Got[*core.Run]) (
	found map[string]store.Value[core.App], err error,
) {
	var names []string
	for _, r := range runs {
		if r.Err == nil && !slices.Contains(names, r.Is.App) {
			names = append(names, r.Is.App)
		}
	}
	if from.Proven || len(names) == 0 {
		return nil, nil
	}
	now := c.o.Now()
	if found, err = c.s.Apps(ctx, names...); err == nil {
		c.known.note(found, now)
		for id, r := range runs {
			if r.Err == nil {
				c.known.job(id.Job(), r.Is.App)
			}
		}
	}
	return found, err
}

// permit rejects a result of a caller that is not an executor of the run's app.
func (c *Callback) permit(ctx context.Context, from Caller, run *core.Run, apps map[string]store.Value[core.App],
	appsErr error) error {
	if from.App != "" && from.App != run.App {
		return core.Errorf(core.CodeUnauthorized, "run %d does not belong to app %s", run.ID, from.App)
	}
	if from.Proven {
		return nil
	}
	app, ok := apps[run.App]
	switch {
	case appsErr != nil:
		return passing(appsErr)
	case app.Err != nil:
		return passing(core.UnreadableApp(run.App, app.Err))
	case !ok:
		return core.Errorf(core.CodeNotFound, "the app of run %d was deleted", run.ID)
	}
	if !c.opens(ctx, app.Is.Token, from.Token) {
		return core.Errorf(core.CodeUnauthorized, "the token does not belong to the app of run %d", run.ID)
	}
	return nil
}

// opens reports whether the caller's token may end runs of an app with this token.
func (c *Callback) opens(ctx context.Context, app, caller string) bool {
	if app == "" {
		return c.o.AllowNoToken != nil && c.o.AllowNoToken(ctx)
	}
	return core.SameToken(app, caller)
}

// Translate returns the result of a run that an executor reported at the time now. The parameter data is the run's data for
// child runs.
func Translate(run core.RunID, code int, message, data string, now time.Time) finish.Result {
	message = core.TruncateMessage(message)
	end := finish.Result{Run: run, Reported: true, Code: code, Message: message, Data: data, At: now}
	if len(data) > core.DataMax {
		// The run has ended all the same, and part of it might mean another thing.
		end.Data = ""
		end.Message = core.TruncateMessage(fmt.Sprintf("(%d bytes of data for the runs that follow were dropped: at most %d are kept)\n%s",
			len(data),
			core.DataMax, message))
	}
	switch code {
	case CodeSuccess:
		end.State = core.Succeeded // also after a kill: it had ended before
		return end
	case CodeTimedOut:
		end.State, end.Reason = core.TimedOut, core.ReasonTimeout
		return end
	}
	end.State, end.Reason = core.Failed, core.ReasonHandler
	text := strings.ToLower(message)
	if !killedText(text) {
		return end
	}
	switch {
	case strings.Contains(text, "block strategy effect"), strings.Contains(text, "terminate the old job thread"):
		// For a newer run of the job, or for our own re-send of this one.
		end.State, end.Reason, end.Killed = core.Killed, core.ReasonReplaced, true
	case strings.Contains(text, "container destroy"), strings.Contains(text, "idel times over limit"):
		end.Reason = core.ReasonCrashed // the executor stopped
	default:
		end.State, end.Reason, end.Killed = core.Killed, core.ReasonPerson, true
	}
	return end
}

// killedText reports whether a text is the one of xxl-job executors for a killed run, which follows their
// reason:
//
//	… [job running, killed]
//	… [job not executed, in the job queue, killed.]
func killedText(lower string) bool {
	return strings.Contains(lower, "[job running, killed]") || strings.Contains(lower, "[job not executed, in the job queue, killed.]")
}

func passing(err error) error {
	if e, is := errors.AsType[*core.Error](err); is { // an app cannot be read
		return &core.Error{Code: core.CodeUnavailable, Reason: core.Say("%v", e), Err: err}
	}
	return core.Retryable(err)
}
