package query

import (
	"context"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/schedule"
)

// whyNone returns why a scheduled time of a job has neither a run nor a record.
func (q *Queries) whyNone(ctx context.Context, job *core.Job, at core.Instant) (core.Text, error) {
	s, in := &job.Sched, zoneOf(job)
	if at.Time().Before(job.Def.Created) {
		return core.Say("the job was created later, at %s", text(job.Def.Created, in)), nil
	}
	h, err := q.history(ctx, job.Def.ID, job.Def.App, job, firstInstant-1, at)
	if err != nil {
		return core.Text{}, err
	}
	i := slices.IndexFunc(h.revs, func(r revision) bool { return r.at < at && at <= r.end })
	if i < 0 {
		return core.Say("the schedule or state was changed later, at %s, and the earlier value was not stored", text(s.RevAt, in)), nil
	}
	r := &h.revs[i]
	switch names, err := r.names(s, at); {
	case err != nil:
		return core.Text{}, err
	case !names:
		return q.unnamed(ctx, job, h.revs, i)
	}
	if r.State == core.Paused && (r.PauseUntil == 0 || at <= r.PauseUntil) {
		return core.Say("the job %s", q.describePause(pauseAt(h.revs, i), in)), nil
	}
	if why, err := q.fell(ctx, job.Def.App, at, in); err != nil || why.String() != "" {
		return why, err
	}
	away, err := q.outage(ctx, at, in)
	if err != nil || away.Code() == "" {
		return q.unplanned(job, at), err
	}
	return core.Say("%s; %s", away, q.unplanned(job, at)), nil
}

// unplanned returns the status of a valid scheduled time without a run.
func (q *Queries) unplanned(job *core.Job, at core.Instant) core.Text {
	s, now := &job.Sched, q.o.Now()
	switch {
	case at > core.InstantOf(now):
		return core.Say("the scheduled time is in the future")
	case now.Sub(at.Time()) < patience:
		return core.Say("the run is pending")
	case s.State == core.Started && s.Next != 0 && at >= s.Next && s.PlanError != "":
		return core.Say("the job could not be planned: %s", s.PlanError)
	case s.State == core.Started && s.Next != 0 && at >= s.Next:
		return core.Say("the run is late, because the job is not planned yet: `tickring doctor` shows the reason")
	}
	return core.Say("the record of the run was deleted, or the run was lost: tickring audit %s shows which of both happened", job.Name())
}

// unnamed returns the text that the schedule of revision i does not include a time. It names the author of the next
// schedule change or, if there is none, of the last one.
func (q *Queries) unnamed(ctx context.Context, job *core.Job, revs []revision, i int) (core.Text, error) {
	code := core.Say("the schedule in effect at that time did not include this time")
	k := i + 1
	for k < len(revs) && revs[k].Schedule.Equal(revs[i].Schedule) {
		k++
	}
	if k == len(revs) {
		code = core.Say("the current schedule does not include this time")
		for k = i; k > 0 && revs[k-1].Schedule.Equal(revs[i].Schedule); {
			k--
		}
		if k == 0 {
			return code, nil
		}
	}
	by, in := core.Say("a user"), zoneOf(job)
	changes, err := q.store.Changes(ctx, "", job.Def.ID, revs[k].Rev, 1)
	if err != nil {
		return core.Text{}, core.Retryable(err)
	}
	if len(changes) > 0 && changes[0].ID == revs[k].Rev {
		by = core.Say("%s", changes[0].By)
	}
	return core.Say("%s; %s changed the schedule at %s; to see the change: tickring changes %s", code, by,
		text(core.FromMillis(revs[k].RevAt), in), job.Name()), nil
}

// outage returns the text about a server outage at a time. It knows only the last outage; empty: none.
func (q *Queries) outage(ctx context.Context, at core.Instant, in *time.Location) (core.Text, error) {
	g, err := q.Global(ctx)
	if t := at.Time(); err != nil || t.Before(g.DownAt) || !t.Before(g.UpSince) {
		return core.Text{}, err
	}
	return core.Say("the server was down from %s to %s", text(g.DownAt, in), text(g.UpSince, in)), nil
}

// pauseAt returns the pause to which a revision of a job belongs, across edits of the paused job.
func pauseAt(revs []revision, i int) core.Pause {
	first, last := i, i
	for first > 0 && revs[first-1].State == core.Paused {
		first--
	}
	for last+1 < len(revs) && revs[last+1].State == core.Paused {
		last++
	}
	p := core.Pause{From: core.FromMillis(revs[first].RevAt), By: revs[i].PauseBy, Why: revs[i].PauseWhy}
	if last+1 < len(revs) {
		p.To = core.FromMillis(revs[last+1].RevAt)
	} else if revs[last].PauseUntil != 0 {
		p.To = revs[last].PauseUntil.Time()
	}
	return p
}

func text(t time.Time, in *time.Location) string { return t.In(in).Format(time.RFC3339) }

// zoneOf returns the zone of a job's schedule; UTC if this system does not know it.
func zoneOf(j *core.Job) *time.Location {
	in, err := time.LoadLocation(j.Sched.Schedule.Timezone) // empty means UTC
	if err != nil {
		return time.UTC
	}
	return in
}

// names reports whether the schedule of a revision includes a scheduled time. The times of a fixed delay depend on
// its runs: only the next is known, and a pause hides it.
func (r *revision) names(s *core.Sched, at core.Instant) (bool, error) {
	if _, fixed := r.Schedule.FixedDelay(); fixed {
		return r.State == core.Paused || r.last && len(nextOf(s, at-1, at, 1)) > 0, nil
	}
	sch, err := schedule.Compile(r.Schedule, s.ID)
	if err != nil {
		return false, core.Errorf(core.CodeInternal, "the schedule of revision %d of job %d: %v", r.Rev, s.ID, err)
	}
	next, ok := sch.Next(at - 1)
	return ok && next == at, nil
}

// fell returns the text about the pause of an app or of everything at a time; empty: none.
func (q *Queries) fell(ctx context.Context, name string, at core.Instant, in *time.Location) (core.Text, error) {
	app, err := q.App(ctx, name)
	if err != nil {
		return core.Text{}, err
	}
	g, err := q.Global(ctx)
	if err != nil {
		return core.Text{}, err
	}
	for _, of := range []struct {
		what core.Text
		app  string
		last core.Pause
		past core.PauseHistory
	}{{core.Say("everything"), "", g.Pause, g.Past}, {core.Say("app %s", name), name, app.Pause, app.Past}} {
		if of.last.Covers(at.Time()) {
			return core.Say("%s %s", of.what, q.describePause(of.last, in)), nil
		}
		if !of.past.Covers(at.Time()) && !of.past.From.After(at.Time()) && !of.last.From.After(at.Time()) {
			continue
		}
		list, _, err := q.recorded(ctx, of.app) // these have By and Why
		if err != nil {
			return core.Text{}, err
		}
		for _, p := range append(list, of.past.Pauses...) {
			if p.Covers(at.Time()) {
				return core.Say("%s %s", of.what, q.describePause(p, in)), nil
			}
		}
	}
	return core.Text{}, nil
}

// describePause returns the text about a past or current pause: by whom, when and why.
func (q *Queries) describePause(p core.Pause, in *time.Location) core.Text {
	said := core.Say("is paused")
	if !p.To.IsZero() && !p.To.After(q.o.Now()) {
		said = core.Say("was paused")
	}
	if p.By != "" {
		said = core.Say("%s by %s", said, p.By)
	}
	if p.To.IsZero() {
		said = core.Say("%s, from %s", said, text(p.From, in))
	} else {
		said = core.Say("%s, from %s to %s", said, text(p.From, in), text(p.To, in))
	}
	if p.Why != "" {
		said = core.Say("%s: %s", said, p.Why)
	}
	return said
}
