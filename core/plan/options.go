package plan

import (
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// Options are the settings of planning. All durations outside of LeadTime are whole seconds.
type Options struct {
	// Window is the length of the windows in which runs are planned.
	Window time.Duration
	// PlanAhead is how long before its start a window is planned.
	PlanAhead time.Duration
	// MaxAhead is the maximum time between enqueueing a run and its due time.
	MaxAhead time.Duration
	// GroupEvery is the number of started jobs for which a group is added, and Groups the number of groups. Windows of group g
	// start g/Groups of a window later than the windows of group 0.
	GroupEvery int
	Groups     int
	// SingleSpreadMin and SingleSpreadMax limit how long before its due time a run is planned if its job fires less than once
	// in a window. The job's ID determines the exact time.
	SingleSpreadMin time.Duration
	SingleSpreadMax time.Duration
	// MaxInstants is the maximum number of runs that a pass plans for one job. MaxSkips is the maximum number of scheduled
	// times that it checks for one job. The next pass continues.
	MaxInstants int
	MaxSkips    int
	// TailCheck is the interval at which the planner checks a fixed-delay job whose run is open.
	TailCheck time.Duration
	LeadTime  LeadTime
	// SlowLane reports whether a slow queue exists, for the third and later retries of a run and for slow jobs and addresses.
	SlowLane bool
}

// AWS returns options for AWS: a planner that can be two minutes late, and a queue that delays a message by at most 900 s.
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

// Local returns options for a single process whose planner runs every second. There is no lead time, because a timer waits for
// the earliest due time.
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

// GroupsFor returns the number of groups that the given number of started jobs needs. The result is at most the number of
// seconds in a window.
func (o Options) GroupsFor(started int) int {
	groups := max(o.Groups, 1)
	if o.GroupEvery > 0 {
		groups = max(groups, 1+started/o.GroupEvery)
	}
	return min(groups, max(o.Groups, int(seconds(o.Window)), 1))
}

// With returns the options with the given number of groups if it is higher than o.Groups. More groups move the ends of
// windows, but not the scheduled times.
func (o Options) With(groups int) Options {
	o.Groups = max(o.Groups, groups, 1)
	return o
}

// Grouped reports whether planAt is the planning time of a window of the job's group. This is so for jobs that fire more than
// once in a window.
func (o Options) Grouped(job core.JobID, planAt core.Instant) bool {
	start := planAt + seconds(o.PlanAhead)
	return o.WindowStart(job, start) == start
}
