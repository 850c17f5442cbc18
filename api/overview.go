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
		out := client.OverviewJobs{Count: count, Jobs: []client.OverviewJob{}}
		for i := range list {
			j := client.OverviewJob{Job: list[i].Job.Name(), JobID: int32(list[i].Job.Def.ID), Title: list[i].Job.Def.Title}
			if list[i].Last != nil {
				last := runOf(list[i].Last, &list[i].Job)
				j.Last = &last
			}
			if list[i].Due != 0 {
				j.ScheduledAt = list[i].Due.Time()
			}
			out.Jobs = append(out.Jobs, j)
		}
		return out
	}
	out := client.Overview{Now: s.m.Now().UTC(), Failing: jobs(h.Fail, h.Failing), Late: jobs(h.Delayed, h.Late), Partial: h.Partial,
		Unread: h.Unread, Unchecked: h.Unchecked, Long: client.OverviewRuns{Count: h.Linger, Runs: []client.OverviewRun{}},
		Coming: client.OverviewComing{Jobs: h.Soon, First: []client.Coming{}}, AppsWithoutExecutor: []client.AppWithoutExecutor{},
		AppsWithoutExecutorCount: h.Alone}
	for _, l := range h.Long {
		out.Long.Runs = append(out.Long.Runs, client.OverviewRun{Run: l.Run.String(), Job: l.Job.Name(), Title: l.Job.Def.Title, SentAt: l.Since,
			UsualMs: l.Usual.Milliseconds()})
	}
	for _, c := range h.Coming {
		out.Coming.First = append(out.Coming.First, comingOf(c))
	}
	for _, d := range h.Deserted {
		out.AppsWithoutExecutor = append(out.AppsWithoutExecutor, client.AppWithoutExecutor{App: d.App, Jobs: d.Jobs, Job: d.First})
	}
	if out.Scheduler = s.facts(r); out.Scheduler != nil {
		out.Scheduler.Executors = nil // the answer has its own list of them
		out.Scheduler.Failing = &client.FailingCount{Jobs: h.Fail, Partial: h.Partial || h.Unchecked > 0}
	}
	return out, nil
}
