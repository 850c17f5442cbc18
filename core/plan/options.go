package plan

import (
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// Options are the numbers of planning. Durations are whole seconds, but for
// those of the lead time.
type Options struct {
	// Window is how long the windows are by which fires are planned.
	Window time.Duration
	// PlanAhead is how long before its start a window is planned.
	PlanAhead time.Duration
	// MaxAhead bounds how far before its slot a fire goes on the ring.
	MaxAhead time.Duration
	// GroupEvery is how many started jobs make one group more; Groups how many
	// there are. The windows of group g begin g/Groups of a window later.
	GroupEvery int
	Groups     int
	// A job that fires less than once a window is planned this long before its
	// slot, between the two by its number.
	LonelySpreadMin time.Duration
	LonelySpreadMax time.Duration
	// MaxInstants bounds the fires of one job and pass, MaxSkips the instants
	// that one pass looks at for one job. The next pass goes on.
	MaxInstants int
	MaxSkips    int
	// TailCheck is when a tick looks again at a fixed delay whose fire is out.
	TailCheck time.Duration
	LeadTime  LeadTime
	// SlowLane: the ring has one. What went wrong twice, and what is slow, waits there.
	SlowLane bool
}

// AWS is planning for a tick that may be two minutes late on a queue that
// delays a message by 900 s at most.
func AWS() Options {
	return Options{
		Window: 600 * time.Second, // an advance covers ten fires of a minutely job
		// 119 s between two wake-ups and 90 s for an outage, and one to spare.
		PlanAhead: 210 * time.Second,
		// SQS delays by at most 900 s; 5 s for the way there.
		MaxAhead:   895 * time.Second,
		GroupEvery: 2000,
		Groups:     1,
		// More than PlanAhead, and under MaxAhead with 15 s for the pass: ten minutes
		// over which the midnight burst is planned.
		LonelySpreadMin: 240 * time.Second,
		LonelySpreadMax: 880 * time.Second,
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

// Local is planning for one process whose tick beats once a second. It has no
// lead time: a timer on the earliest slot is enough.
func Local() Options {
	return Options{
		Window:          5 * time.Second,
		PlanAhead:       2 * time.Second, // two beats
		MaxAhead:        15 * time.Second,
		GroupEvery:      2000,
		Groups:          5, // each beat of a window plans a fifth of the jobs
		LonelySpreadMin: 2 * time.Second,
		LonelySpreadMax: 7 * time.Second,
		MaxInstants:     1000,
		MaxSkips:        20000,
		TailCheck:       10 * time.Minute,
	}
}

// GroupsFor is how many groups a number of started jobs makes: at most one for
// each second of a window, for more could not begin apart.
func (o Options) GroupsFor(started int) int {
	groups := max(o.Groups, 1)
	if o.GroupEvery > 0 {
		groups = max(groups, 1+started/o.GroupEvery)
	}
	return min(groups, max(o.Groups, int(seconds(o.Window)), 1))
}

// With are the options with as many groups as were stored, if those are more.
// A job's plan goes on from its next instant whatever their number: a change
// moves the ends of windows, and no instant.
func (o Options) With(groups int) Options {
	o.Groups = max(o.Groups, groups, 1)
	return o
}

// Grouped reports whether a planAt is that of a window of the job's group, as
// that of a job is which fires more than once a window.
func (o Options) Grouped(job core.JobID, planAt core.Instant) bool {
	start := planAt + seconds(o.PlanAhead)
	return o.WindowStart(job, start) == start
}
