package query_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/story"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
)

// stage is the queries over a store whose content the story sets. Its golden file has the answers.
type stage struct{ *usecasetest.Stage }

func newStage(t *testing.T) *story.Stage {
	s := &stage{usecasetest.NewStage(t)}
	s.F.Commands = true
	s.Add(map[string]func(string){"sweep": s.sweep, "early": func(string) { s.F.Faults.Early = true },
		"waits": s.waits, "outage": s.outage, "restart": func(string) { s.F.M = s.F.Fresh(s.F.Faults) }, "delete-app": s.deleteApp})
	maps.Copy(s.Do, map[string]func(string){"audit": s.audit, "replan": s.replan, "show": s.shows, "at": s.at, "home": s.home,
		"jobs": s.jobs, "trouble": s.trouble, "upcoming": s.upcoming})
	s.See = func() map[string][]string { return nil } // queries change nothing
	return s.Data.Stage
}

// ---- verbs that prepare a story

// sweep removes data past its retention.
func (s *stage) sweep(string) {
	check.Call(s.T)(s.F.E.Sweep(ctx, s.F.Clock, 0, 20*24*time.Hour, 100_000))
}

// waits puts the message of a stored run on the delay queue, after many tries.
func (s *stage) waits(name string) {
	r := s.Store.Run(s.Run(name))
	s.Store.Enqueue(r.Slot.Time(), ring.Message{Kind: ring.KindFires, Slot: r.At, Try: 60, Fires: []core.Fire{r.Fire()}})
}

// outage notes that no server ran: "1h 3h".
func (s *stage) outage(args string) {
	from, to, _ := strings.Cut(args, " ")
	check.OK(s.T, registry.NoteOutage(ctx, s.F.E, s.Time(from), s.Time(to), time.Minute))
}

func (s *stage) deleteApp(name string) { check.OK(s.T, s.F.M.DeleteApp(ctx, ann, name)) }

// ---- questions

// audit reports the audit of all jobs.
func (s *stage) audit(args string) {
	from, to, _ := strings.Cut(args, " ")
	all, err := s.F.M.AuditAll(ctx, core.InstantOf(s.Time(from)), core.InstantOf(s.Time(to)))
	if s.Failed(err) {
		return
	}
	s.Say("%s, well: %t, not sent %d", sum(all.AuditCount), all.Well(), all.NotSent())
	if !all.Behind.IsZero() {
		s.Say("behind %s", story.Since(all.Behind))
	}
	for i := range all.Missing {
		m := &all.Missing[i]
		s.Say("job %s: %s", m.Job, strings.Join(append(times("missing", m.Missing), times("waiting", m.Waiting)...), ", "))
	}
	if len(s.Jobs) == 1 {
		one, err := s.F.Audit("1", core.InstantOf(s.Time(from)), core.InstantOf(s.Time(to)))
		check.OK(s.T, err)
		check.Equal(s.T, sum(one.AuditCount), sum(all.AuditCount), "of the job alone")
	}
}

// times returns the first times of a list, and their number.
func times(what string, list []core.Instant) (text []string) {
	for i, at := range list {
		if i < 5 {
			text = append(text, what+" "+story.Since(at.Time()))
		}
	}
	if len(list) > 5 {
		text = append(text, fmt.Sprintf("%d %s", len(list), what))
	}
	return text
}

func (s *stage) replan(args string) {
	from, to, _ := strings.Cut(args, " ")
	r, err := s.F.M.Replan(ctx, ann, "", core.InstantOf(s.Time(from)), core.InstantOf(s.Time(to)))
	s.Result(r, err, "from", "to")
}

// shows shows runs: "shop/sweep@02:30 1@10s".
func (s *stage) shows(refs string) {
	for i, ref := range strings.Fields(refs) {
		v, err := s.F.M.Run(ctx, ref)
		line := fmt.Sprintf("%d: %s: %v", i+1, core.CodeOf(err), err)
		if err == nil {
			line = fmt.Sprintf("%d: %s %s %s", i+1, story.Name(v.Run.ID), v.Run.State, v.Run.Reason)
		}
		if v.Skip != nil {
			line += fmt.Sprintf(", recorded from %s", story.Since(v.Skip.First.Time()))
		}
		if away := v.Away.String(); away != "" {
			line += ", " + away
		}
		if v.Missing != nil {
			line += fmt.Sprintf(", awaits %v", v.Missing)
		}
		s.Say("%s", line)
	}
}

// at shows the runs of a job at times: "shop/sweep 10m 20m".
func (s *stage) at(args string) {
	words := strings.Fields(args)
	for i, at := range words[1:] {
		words[i+1] = words[0] + "@" + s.Time(at).Format(time.RFC3339)
	}
	s.shows(strings.Join(words[1:], " "))
}

// home shows the home page, as a user sees it, or as a user who sees no app.
func (s *stage) home(who string) {
	var sees func(string) bool
	if who == "nobody" {
		sees = func(string) bool { return false }
	}
	h, err := s.F.M.Home(ctx, sees)
	if s.Failed(err) {
		return
	}
	s.Say("%d failing, %d late, %d long, %d soon, %d apps without executors", h.Fail, h.Delayed, h.Linger, h.Soon, len(h.Deserted))
	for what, list := range map[string][]query.HomeJob{"failing": h.Failing, "late": h.Late} {
		for i := range list {
			j := &list[i]
			line := what + " " + j.Job.Def.Name
			if j.Last != nil {
				line += ", its run " + story.Name(j.Last.ID)
			}
			if j.Due != 0 {
				line += ", not planned for " + story.Since(j.Due.Time())
			}
			s.Say("%s", line)
		}
	}
	for i := range h.Long {
		s.Say("long %s, usually %s", story.Name(h.Long[i].Run), h.Long[i].Usual)
	}
	for i, c := range h.Coming {
		s.Say("soon %d: %s at %s", i+1, c.Name, story.Since(c.At.Time()))
	}
}

// jobs lists the jobs of each status, and with a text the jobs that it finds.
func (s *stage) jobs(text string) {
	if text != "" {
		names, page := s.stand(query.JobsAsk{JobFilter: query.JobFilter{Text: text}, Recent: 2})
		s.Say("%v of %d, last runs %d", names, page.All, len(page.Recent[0]))
		return
	}
	for _, is := range []query.Standing{query.IsFailing, query.IsLate, query.IsHeld, query.IsStarted, query.IsNeverRan, query.IsOver} {
		names, page := s.stand(query.JobsAsk{Is: []query.Standing{is}, By: query.ByName})
		slices.Sort(names)
		s.Say("%s: %s, %d of %d", is, strings.Join(names, " "), page.Of[is], page.All)
	}
}

func (s *stage) stand(a query.JobsAsk) ([]string, query.JobsNow) { return (&fixture{s.F}).stand(a) }

func (s *stage) trouble(string) {
	p, err := s.F.M.Trouble(context.Background(), nil)
	if s.Failed(err) {
		return
	}
	s.Say("%d failing of %d jobs", p.Fail, p.Looked)
	for _, a := range p.Deserted {
		s.Say("app %s has no executor for %d jobs, such as %s", a.App, a.Jobs, a.First)
	}
}

// upcoming lists the runs of the next hour, at most 100.
func (s *stage) upcoming(string) {
	up, err := s.F.M.Upcoming(ctx, query.JobFilter{}, time.Time{}, time.Hour, 100)
	if s.Failed(err) {
		return
	}
	s.Say("%d runs, more: %t", len(up.Coming), up.Partial)
	if n := len(up.Coming); n > 0 {
		s.Say("from %s to %s", story.Since(up.Coming[0].At.Time()), story.Since(up.Coming[n-1].At.Time()))
	}
}
