package console

import (
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/internal/doctor"
)

// homeRows are shown of each kind.
const homeRows = 6

// homePage is what needs somebody now, and what comes.
type homePage struct {
	client.Home
	Findings []finding // of the scheduler, that are not well
	Empty    bool      // there is no job
}

// Calm reports whether nothing needs anybody.
func (p *homePage) Calm() bool {
	return p.Failing.Count+p.Late.Count+p.Long.Count+len(p.Deserted)+len(p.Findings) == 0
}

// home is what needs somebody now: each is a link to where it is seen.
func (a *ask) home() (any, error) {
	began := time.Now()
	home, err := a.GetHome(a.Ctx())
	if err != nil {
		return nil, err
	}
	p := &homePage{Home: home}
	p.Failing.Jobs, p.Late.Jobs, p.Long.Runs = first(p.Failing.Jobs), first(p.Late.Jobs), first(p.Long.Runs)
	p.Coming.First = first(p.Coming.First)
	if p.Scheduler != nil {
		var o operatingPage
		a.judge(&o, &doctor.Facts{Now: a.Now, Took: time.Since(began), Endpoint: a.address(), Own: p.Scheduler})
		p.Findings = o.Findings
	}
	if p.Calm() && p.Coming.Jobs == 0 {
		jobs, err := a.ListJobs(a.Ctx(), client.ListJobsParams{Limit: 1})
		if err != nil {
			return nil, err
		}
		p.Empty = len(jobs.Jobs) == 0
	}
	return p, nil
}

// first are as many of a list as home shows.
func first[T any](list []T) []T { return list[:min(len(list), homeRows)] }
