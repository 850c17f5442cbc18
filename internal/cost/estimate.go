package cost

import (
	"time"

	"github.com/tickring/tickring/core/plan"
)

// Estimate is the bill of a month, as tickring cost -o json prints it.
type Estimate struct {
	FiresPerMonth     float64 `json:"firesPerMonth"`
	Idle              []Line  `json:"idle"`
	Jobs              []Line  `json:"jobs,omitempty"`
	IdlePerMonth      float64 `json:"idlePerMonth"`
	JobsPerMonth      float64 `json:"jobsPerMonth"`
	DollarsPerMonth   float64 `json:"dollarsPerMonth"`
	DollarsPerMillion float64 `json:"dollarsPerMillionFires,omitempty"`
	BehindURL         float64 `json:"dollarsPerMillionFiresBehindFunctionURL,omitempty"`

	// Of provisioned tables.
	Capacity    []Capacity `json:"capacity,omitempty"`
	Provisioned string     `json:"provisioned,omitempty"`                    // for the stack
	OnDemand    float64    `json:"dollarsPerMillionFiresOnDemand,omitempty"` // as they are, not spread
}

// Of is what a deployment and its jobs cost in the month that begins; with the canary
// job, if that is there. Where tables are provisioned, jobs come spread over the minute.
func (p Prices) Of(jobs []Job, begin time.Time, d Deployment, canary bool) (est Estimate, err error) {
	idle := Idle(d)
	if canary {
		watch, err := Canary(d)
		if err != nil {
			return est, err
		}
		idle = idle.Plus(watch)
	}
	counts, err := PlayMonth(jobs, begin, plan.AWS())
	if err != nil {
		return est, err
	}
	if d.Keep, err = Keep(jobs, begin); err != nil {
		return est, err
	}
	million := func(u, least Usage) float64 {
		if u.Fires == 0 {
			return 0
		}
		return Sum(p.Bill(u.Plus(least))) / u.Fires * 1e6
	}
	var least Usage
	if d.Provisioned {
		onDemand := d
		onDemand.Provisioned = false
		est.OnDemand = million(Jobs(counts, onDemand), least)
		if counts, err = PlayMonth(Spread(jobs), begin, plan.AWS()); err != nil {
			return est, err
		}
		est.Capacity, est.Provisioned, least = Provision(counts, d)
	}
	used := Jobs(counts, d)
	est.FiresPerMonth, est.Idle, est.Jobs = used.Fires, p.Bill(idle), p.Bill(used.Plus(least))
	est.IdlePerMonth, est.JobsPerMonth = Sum(est.Idle), Sum(est.Jobs)
	est.DollarsPerMonth = est.IdlePerMonth + est.JobsPerMonth
	est.DollarsPerMillion, est.BehindURL = million(used, least), million(Jobs(counts, d.FunctionURL()), least)
	return est, nil
}
