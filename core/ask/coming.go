package ask

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
	ComingBuckets = 288 // five minutes of a day
	maxPiles      = 20
	pileNames     = 3
	// comingDense is the fires from which on a job is in the band of its app, not in buckets:
	// on an axis they are a line, and a walk over all of them would be long.
	comingDense = 100
	// comingWalk is after how many instants the fires of a dense job are reckoned.
	comingWalk = 300
	// mostComing and mostFires bound the jobs that are looked at, and the fires in buckets.
	mostComing, mostFires = 100_000, 2_000_000
	// mostComingApps bounds the apps in an answer.
	mostComingApps = 200
)

// ComingAsk is what of what comes the shape is asked for.
type ComingAsk struct {
	JobFilter           // but After, Limit, Last
	From      time.Time // now, if that is later
	For       time.Duration
	Buckets   int // at most so many; 0: as many as there may be
}

// ComingShape is what fires from From until before To, in buckets of one width.
type ComingShape struct {
	From, To core.Instant
	Width    core.Instant
	Apps     []ComingApp // those of which anything fires, by name
	MoreApps int         // that are not in Apps
	Jobs     int         // that fire, of all apps
	Piles    []Pile      // the worst seconds of those in buckets, the worst first
	// Partial says that not all jobs were looked at, or that some cannot be read.
	Partial bool
}

type ComingApp struct {
	App   string
	Jobs  int   // that fire
	Fires []int // of each bucket, without the band
	Band  Band
}

// Band is the jobs that fire so often that they are in no bucket.
type Band struct {
	Jobs  int
	Fires int
	About bool     // Fires is reckoned
	Names []string // of the densest
	most  []int    // fires of each of Names
}

// Pile is a second in which more than one job fires.
type Pile struct {
	At    core.Instant
	Jobs  int
	Names []string // app/name of some
}

// stretch is the instants after one and up to another.
type stretch struct{ after, end core.Instant }

// without is what of some stretches is in no pause.
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

// ComingShape tells what fires of the schedules of jobs when, as Upcoming lists it, but for
// what waits: in buckets, with a band of those that fire often, and the worst seconds.
func (q *Ask) ComingShape(ctx context.Context, a ComingAsk) (*ComingShape, error) {
	if _, err := a.check(); err != nil {
		return nil, err
	}
	if a.For < time.Second || a.For > MaxComing {
		return nil, core.Invalid("for", a.For.String(), "allowed are 1s to 7d")
	}
	if a.Buckets < 0 || a.Buckets > ComingBuckets {
		return nil, core.Invalid("buckets", strconv.Itoa(a.Buckets), "allowed are 1 to %d", ComingBuckets)
	}
	now := q.o.Now()
	if a.From.After(now.Add(MaxUpcoming)) {
		return nil, core.Invalid("from", a.From.Format(time.RFC3339), "at most 366 days from now are allowed")
	}
	s := &ComingShape{From: max(core.Ceil(a.From), core.InstantOf(now)+1)}
	s.To = s.From + core.Instant(a.For/time.Second)
	buckets := core.Instant(cmp.Or(a.Buckets, ComingBuckets))
	s.Width = (s.To - s.From + buckets - 1) / buckets
	g, err := q.Global(ctx)
	if err != nil {
		return nil, err
	}
	apps, bad, err := q.Apps(ctx)
	if err != nil {
		return nil, err
	}
	open := make(map[string][]stretch, len(apps))
	for i := range apps {
		whole := []stretch{{s.From - 1, min(s.To-1, core.Horizon)}}
		open[apps[i].Name] = without(without(whole, g.Pause), apps[i].Pause)
	}
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
		if why := bad.Of(j.Def.App); why != nil { // its pause is not known
			p.Bad.Add(j.Def.ID, why)
			return true
		}
		c.add(j, open[j.Def.App])
		return true
	})
	if err != nil {
		return nil, err
	}
	s.Partial = next != 0 || len(p.Passed(0)) > 0
	c.end()
	return s, nil
}

// comings sums up what comes.
type comings struct {
	shape   *ComingShape
	of      map[string]*ComingApp
	seconds []int32 // how many fires, of each second from From on
	fires   []aFire
	names   []string // of the jobs in fires
}

// aFire is a second from From on, and the place of a name.
type aFire struct{ at, name int32 }

// add takes a job in, with what of the span falls to no pause of its app or of everything.
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

// app is that of a job that fires.
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

// end puts the apps in order, and finds the worst seconds.
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
