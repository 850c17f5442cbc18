package query

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/schedule"
)

const (
	MaxComing     = 7 * 24 * time.Hour
	ComingBuckets = 288 // for a time span of one day, each bucket is five minutes
	maxPiles      = 20
	pileNames     = 3
	// comingDense is how many runs in the span put a job into the band of its app, not into buckets. On a time axis
	// such jobs are a line, and computing each run would take long.
	comingDense = 100
	// comingWalk is after how many scheduled times the number of runs is estimated.
	comingWalk = 300
	// mostComing and mostFires bound the scanned jobs and the runs in buckets.
	mostComing, mostFires = 100_000, 2_000_000
	// mostComingApps bounds the apps in an answer.
	mostComingApps = 200
)

// ComingAsk selects the jobs and the time span of a ComingShape.
type ComingAsk struct {
	JobFilter           // After, Limit and Last are ignored
	From      time.Time // start of the time span; a time in the past means now
	For       time.Duration
	Buckets   int // maximum number of buckets; 0: ComingBuckets
}

// ComingShape is a histogram of the scheduled runs from From until before To.
type ComingShape struct {
	From, To core.Instant
	Width    core.Instant
	Apps     []ComingApp // apps with scheduled runs, by name
	MoreApps int         // number of apps that are not in Apps
	Jobs     int         // number of jobs with scheduled runs, in all apps
	Piles    []Pile      // seconds in which the most jobs run, without jobs in a Band; the busiest second is first
	// Partial is true if some jobs were not scanned or cannot be read.
	Partial bool
}

type ComingApp struct {
	App   string
	Jobs  int   // number of jobs with scheduled runs
	Fires []int // number of runs in each bucket, without the runs in Band
	Band  Band
}

// Band counts the runs of jobs that run too often to be counted in buckets.
type Band struct {
	Jobs  int
	Fires int
	About bool     // true if Fires is an estimate
	Names []string // names of the jobs with the most runs
	most  []int    // runs of each of Names
}

// Pile is a second in which more than one job is scheduled.
type Pile struct {
	At    core.Instant
	Jobs  int
	Names []string // app/name of some of the jobs
}

// stretch is the time span after < t <= end.
type stretch struct{ after, end core.Instant }

// without returns the parts of the stretches that are outside a pause.
func without(list []stretch, p core.Pause) []stretch {
	if p.From.IsZero() {
		return list
	}
	var left []stretch
	for _, s := range list {
		if before := (stretch{s.after, min(s.end, core.Ceil(p.From)-1)}); before.after < before.end {
			left = append(left, before)
		}
		if !p.To.IsZero() {
			if behind := (stretch{max(s.after, core.Ceil(p.To)-1), s.end}); behind.after < behind.end {
				left = append(left, behind)
			}
		}
	}
	return left
}

// ComingShape returns a histogram of the scheduled runs of the selected jobs, without waiting triggers and retries.
// The runs of very frequent jobs are only counted in a Band for each app. The runs of all other jobs are counted in
// buckets.
func (q *Queries) ComingShape(ctx context.Context, a ComingAsk) (*ComingShape, error) {
	if _, err := a.check(); err != nil {
		return nil, err
	}
	if a.For < time.Second || a.For > MaxComing {
		return nil, core.Invalid("for", core.FormatDuration(a.For), "allowed values: 1s to 7d")
	}
	if a.Buckets < 0 || a.Buckets > ComingBuckets {
		return nil, core.Invalid("buckets", strconv.Itoa(a.Buckets), "allowed values: 1 to %d", ComingBuckets)
	}
	now := q.o.Now()
	if a.From.After(now.Add(MaxUpcoming)) {
		return nil, core.Invalid("from", a.From.Format(time.RFC3339), "at most 366 days from now are allowed")
	}
	s := &ComingShape{From: max(core.Ceil(a.From), core.InstantOf(now)+1)}
	s.To = s.From + core.Instant(a.For/time.Second)
	buckets := core.Instant(cmp.Or(a.Buckets, ComingBuckets))
	s.Width = (s.To - s.From + buckets - 1) / buckets
	h, err := q.holds(ctx)
	if err != nil {
		return nil, err
	}
	open := without([]stretch{{s.From - 1, min(s.To-1, core.Horizon)}}, h.global.Pause)
	c := &comings{shape: s, of: map[string]*ComingApp{}, seconds: make([]int32, s.To-s.From)}
	p := q.Page()
	looked := 0
	next, err := q.EachJob(ctx, a.App, 0, p, func(j *core.Job) bool {
		if looked == mostComing || len(c.fires) >= mostFires {
			return false
		}
		looked++
		if !a.takes(j) {
			return true
		}
		if why := h.bad[j.Def.App]; why != nil { // the pause of its app is unknown
			p.Bad[j.Def.ID] = core.UnreadableApp(j.Def.App, why)
			return true
		}
		c.add(j, without(open, h.of[j.Def.App]))
		return true
	})
	if err != nil {
		return nil, err
	}
	s.Partial = next != 0 || len(p.Passed(0)) > 0
	c.end()
	return s, nil
}

// comings collects a ComingShape.
type comings struct {
	shape   *ComingShape
	of      map[string]*ComingApp
	seconds []int32 // number of runs in each second after From
	fires   []aFire
	names   []string // jobs in fires
}

// aFire is a run: its second after From, and the index of its job's name.
type aFire struct{ at, name int32 }

// add adds a job. open are the parts of the span without a pause of its app or of everything.
func (c *comings) add(j *core.Job, open []stretch) {
	sched := &j.Sched
	switch {
	case sched.State != core.Paused:
	case sched.PauseUntil != 0:
		open = without(open, core.Pause{From: c.shape.From.Time(), To: (sched.PauseUntil + 1).Time()})
	default:
		return
	}
	if _, fixed := sched.Schedule.FixedDelay(); fixed {
		for _, s := range open {
			if sched.State == core.Started && sched.Tail == 0 && sched.Next > s.after && sched.Next <= s.end {
				c.bucket(c.app(j), sched.Next)
			}
		}
		return
	}
	sch, err := schedule.Compile(sched.Schedule, sched.ID)
	if err != nil {
		return
	}
	n, about := 0, false
	for _, s := range open {
		some, all := sch.Count(s.after, s.end, comingWalk)
		n, about = n+some, about || !all
	}
	switch {
	case n == 0:
	case n > comingDense || about:
		c.app(j).Band.add(j.Def.Name, n, about)
	default:
		a := c.app(j)
		for _, s := range open {
			for at, ok := sch.Next(s.after); ok && at <= s.end; at, ok = sch.Next(at) {
				c.bucket(a, at)
			}
		}
	}
}

// app returns the entry of a job's app and counts the job.
func (c *comings) app(j *core.Job) *ComingApp {
	a := c.of[j.Def.App]
	if a == nil {
		s := c.shape
		a = &ComingApp{App: j.Def.App, Fires: make([]int, (s.To-s.From+s.Width-1)/s.Width)}
		c.of[j.Def.App] = a
	}
	a.Jobs++
	c.shape.Jobs++
	c.names = append(c.names, j.Name())
	return a
}

func (c *comings) bucket(a *ComingApp, at core.Instant) {
	at -= c.shape.From
	a.Fires[at/c.shape.Width]++
	c.seconds[at]++
	c.fires = append(c.fires, aFire{int32(at), int32(len(c.names) - 1)})
}

func (b *Band) add(name string, fires int, about bool) {
	b.Jobs, b.Fires, b.About = b.Jobs+1, b.Fires+fires, b.About || about
	i := 0
	for i < len(b.most) && b.most[i] >= fires {
		i++
	}
	if i < pileNames {
		b.most, b.Names = slices.Insert(b.most, i, fires), slices.Insert(b.Names, i, name)
		n := min(len(b.most), pileNames)
		b.most, b.Names = b.most[:n], b.Names[:n]
	}
}

// end sorts the apps and finds the busiest seconds.
func (c *comings) end() {
	s := c.shape
	for _, a := range c.of {
		s.Apps = append(s.Apps, *a)
	}
	slices.SortFunc(s.Apps, func(x, y ComingApp) int { return cmp.Compare(x.App, y.App) })
	s.MoreApps = max(0, len(s.Apps)-mostComingApps)
	s.Apps = s.Apps[:len(s.Apps)-s.MoreApps]
	for at, n := range c.seconds {
		if n < 2 || len(s.Piles) == maxPiles && int(n) <= s.Piles[maxPiles-1].Jobs {
			continue
		}
		i := 0
		for i < len(s.Piles) && s.Piles[i].Jobs >= int(n) {
			i++
		}
		s.Piles = slices.Insert(s.Piles, i, Pile{At: s.From + core.Instant(at), Jobs: int(n)})
		s.Piles = s.Piles[:min(len(s.Piles), maxPiles)]
	}
	if len(s.Piles) == 0 {
		return
	}
	at := make(map[int32]*Pile, len(s.Piles))
	for i := range s.Piles {
		at[int32(s.Piles[i].At-s.From)] = &s.Piles[i]
	}
	least := int32(s.Piles[len(s.Piles)-1].Jobs)
	for _, f := range c.fires {
		if c.seconds[f.at] < least {
			continue
		}
		if p := at[f.at]; p != nil && len(p.Names) < pileNames {
			p.Names = append(p.Names, c.names[f.name])
		}
	}
}
