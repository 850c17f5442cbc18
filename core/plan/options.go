package plan

import (
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// Options are the settings of planning. Durations are whole seconds, except in LeadTime.
type Options struct {
	// Window is the length of the windows by which runs are planned.
	Window time.Duration
	// PlanAhead is how long before its start a window is planned.
	PlanAhead time.Duration
	// MaxAhead limits how long before its due time a run is enqueued.
	MaxAhead time.Duration
	// GroupEvery is the number of started jobs that adds a group, and Groups the number of groups. The
	// windows of group g begin g/Groups of a window later.
	GroupEvery int
	Groups     int
	// A job that fires less than once a window is planned between these times before its due time, by job
	// ID.
	SingleSpreadMin time.Duration
	SingleSpreadMax time.Duration
	// MaxInstants limits the runs of one job and pass, MaxSkips the scheduled times that a pass checks for
	// one job. The next pass continues.
	MaxInstants int
	MaxSkips    int
	// TailCheck is when a tick rechecks a fixed-delay job with an open run.
	TailCheck time.Duration
	LeadTime  LeadTime
	// SlowLane reports whether there is a slow queue, for runs that failed twice and for slow ones.
	SlowLane bool
}

// AWS returns options for a tick that can be two minutes late, and a queue that delays a message by 900 s
// at most.
func AWS() Options {
	return Options{
		// An advance covers eleven runs of a minutely job. PlanAhead and Window together are at most MaxAhead.
		Window: 660 * time.Second,
		// 119 s between two wake-ups and 90 s for an outage, and one to spare.
		PlanAhead: 210 * time.Second,
		// SQS delays by at most 900 s; 5 s for the way there.
		MaxAhead:   895 * time.Second,
		GroupEvery: 2000,
		Groups:     2, // each half of the jobs is planned at its own time, so tables need less capacity at once
		// More than PlanAhead, and under MaxAhead with 15 s for the pass: the midnight burst is planned
		// over ten minutes.
		SingleSpreadMin: 240 * time.Second,
		SingleSpreadMax: 880 * time.Second,
		MaxInstants:     1000,  // more than a secondly job has in PlanAhead and a window
		MaxSkips:        20000, // 5 h of a secondly job; about 5 ms
		TailCheck:       10 * time.Minute,
		LeadTime: LeadTime{
			Every: 2500, Step: time.Second, Max: 10 * time.Second, Few: ring.MaxFires,
			Lonely: 150 * time.Millisecond, LonelyMin: 50 * time.Millisecond, Way: 30 * time.Millisecond,
		},
		SlowLane: true,
	}
}

// Local returns options for one process whose tick runs once a second. It needs no lead time, because a
// timer waits for the earliest due time.
func Local() Options {
	return Options{
		Window:          5 * time.Second,
		PlanAhead:       2 * time.Second, // two ticks
		MaxAhead:        15 * time.Second,
		GroupEvery:      2000,
		Groups:          5, // each tick of a window plans a fifth of the jobs
		SingleSpreadMin: 2 * time.Second,
		SingleSpreadMax: 7 * time.Second,
		MaxInstants:     1000,
		MaxSkips:        20000,
		TailCheck:       10 * time.Minute,
	}
}

// GroupsFor returns the number of groups for a number of started jobs: at most one for each second of a
// window.
func (o Options) GroupsFor(started int) int {
	groups := max(o.Groups, 1)
	if o.GroupEvery > 0 {
		groups = max(groups, 1+started/o.GroupEvery)
	}
	return min(groups, max(o.Groups, int(seconds(o.Window)), 1))
}

// With returns the options with the stored number of groups, if it is higher. A change of the number moves the ends of
// windows, but no scheduled time.
func (o Options) With(groups int) Options {
	o.Groups = max(o.Groups, groups, 1)
	return o
}

// Grouped reports whether planAt belongs to a window of the job's group, as for a job that fires more than
// once a window.
func (o Options) Grouped(job core.JobID, planAt core.Instant) bool {
	start := planAt + seconds(o.PlanAhead)
	return o.WindowStart(job, start) == start
}
