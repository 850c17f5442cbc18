package console

import (
	"slices"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/doctor"
)

const (
	homeRows = 6 // of each kind
	runsLong = "10m"
	soon     = 15 * time.Minute
)

// homePage is what needs somebody now, and what comes.
type homePage struct {
	Counts        client.JobCounts
	Failing, Late []client.Job
	Long          []client.Run
	MoreLong      bool
	Deserted      []client.App // have no executor
	Facts         *client.Facts
	Findings      []finding // of the scheduler, that are not well
	Next          []comingJob
	Fires         int // that come
	MoreFires     bool
	Jobs          int
}

// Calm reports whether nothing needs anybody.
func (p *homePage) Calm() bool {
	return len(p.Failing)+len(p.Late)+len(p.Long)+len(p.Deserted)+len(p.Findings) == 0
}

// comingJob is a job that fires soon, and how often.
type comingJob struct {
	Job, Zone string
	At        time.Time
	Times     int
}

// home is what needs somebody now: each is a link to where it is seen.
func (a *ask) home() (any, error) {
	p := &homePage{}
	for _, of := range []struct {
		is string
		to *[]client.Job
	}{{"failing", &p.Failing}, {"late", &p.Late}} {
		if of.is == "late" && p.Counts.Late == 0 {
			continue // the counts were of all
		}
		page, err := a.ListJobs(a.Ctx(), client.ListJobsParams{Is: []string{of.is}, Counts: true, Last: true, Limit: homeRows})
		if err != nil {
			return nil, err
		}
		if *of.to = page.Jobs; page.Counts != nil {
			p.Counts = *page.Counts
		}
	}
	long, err := a.ListRuns(a.Ctx(), client.ListRunsParams{State: []string{string(core.Running)}, Longer: runsLong, Limit: homeRows})
	if err != nil {
		return nil, err
	}
	p.Long, p.MoreLong = long.Runs, long.Next != ""
	began := time.Now()
	if facts, err := a.GetFacts(a.Ctx()); err == nil {
		p.Facts = &facts
		var o operatingPage
		a.judge(&o, &doctor.Facts{Now: a.Now, Took: time.Since(began), Endpoint: a.address(), Own: &facts})
		p.Findings = o.Findings
		if err := a.deserted(p, facts.Executors); err != nil {
			return nil, err
		}
	}
	return p, a.comes(p)
}

// deserted are the apps that have neither a fixed nor a live executor.
func (a *ask) deserted(p *homePage, executors []client.Executor) error {
	apps, err := a.ListApps(a.Ctx())
	if err != nil {
		return err
	}
	for _, app := range apps.Apps {
		live := func(x client.Executor) bool { return x.App == app.Name && x.Live }
		if len(app.Executors) == 0 && !slices.ContainsFunc(executors, live) {
			p.Deserted = append(p.Deserted, app)
		}
	}
	return nil
}

// comes fills in the jobs that fire soon, the earliest first.
func (a *ask) comes(p *homePage) error {
	page, err := a.ListUpcoming(a.Ctx(), client.ListUpcomingParams{For: "15m", Limit: 1000})
	if err != nil {
		return err
	}
	at := map[string]int{}
	for _, c := range page.Upcoming {
		i, ok := at[c.Job]
		if !ok {
			i = len(p.Next)
			at[c.Job] = i
			p.Next = append(p.Next, comingJob{Job: c.Job, Zone: c.Timezone, At: c.ScheduledAt})
		}
		p.Next[i].Times++
	}
	p.Fires, p.Jobs, p.MoreFires = len(page.Upcoming), len(p.Next), page.Partial || page.Next != 0
	if len(p.Next) > homeRows+2 {
		p.Next = p.Next[:homeRows+2]
	}
	return nil
}
