package api

import (
	"net/http"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core/query"
)

func (s *server) GetOverview(r *http.Request) (any, error) {
	h, err := s.m.Home(r.Context(), callerOf(r).Filter())
	if err != nil {
		return nil, err
	}
	jobs := func(count int, list []query.HomeJob) client.OverviewJobs {
		return client.OverviewJobs{Count: count, Jobs: each(list, func(of *query.HomeJob) client.OverviewJob {
			j := client.OverviewJob{Job: of.Job.Name(), JobID: int32(of.Job.Def.ID), Title: of.Job.Def.Title, ScheduledAt: of.Due.Time()}
			if of.Last != nil {
				j.Last = new(runOf(of.Last, &of.Job))
			}
			return j
		})}
	}
	out := client.Overview{Now: s.m.Now().UTC(), Failing: jobs(h.Fail, h.Failing), Late: jobs(h.Delayed, h.Late), Partial: h.Partial,
		Unread: h.Unread, Unchecked: h.Unchecked, Long: client.OverviewRuns{Count: h.Linger},
		Coming: client.OverviewComing{Jobs: h.Soon, First: each(h.Coming, comingOf)}, AppsWithoutExecutor: each(h.Deserted, desertedOf),
		AppsWithoutExecutorCount: h.Alone}
	out.Long.Runs = each(h.Long, func(l *query.LongRun) client.OverviewRun {
		return client.OverviewRun{Run: l.Run.String(), Job: l.Job.Name(), Title: l.Job.Def.Title, SentAt: l.Since,
			UsualMs: l.Usual.Milliseconds()}
	})
	if out.Scheduler = s.facts(r); out.Scheduler != nil {
		out.Scheduler.Executors = nil // the answer has its own list of them
		out.Scheduler.Failing = &client.FailingCount{Jobs: h.Fail, Partial: h.Partial || h.Unchecked > 0}
	}
	return out, nil
}
