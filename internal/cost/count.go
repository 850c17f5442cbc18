package cost

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
)

// Counts is what passes of the tick do for jobs over a span, and what dispatch
// takes of it.
type Counts struct {
	Span     time.Duration
	Fires    int
	Messages int           // on the ring, of up to 50 fires of one second
	Advances int           // of jobs
	Anew     int           // fires whose job's definition no function knows any more
	Looks    int           // tenths of a unit that the watchdog reads: ten runs of a job in eight minutes share one
	Tokens   int           // reads of an app's token by callbacks: remembered for a while by those that do not come at once
	Sends    int           // requests, ten messages each
	Takes    int           // batches: at most ten messages of one second
	Healths  int           // reads of what others found slow: each process once in a while at most
	Held     time.Duration // by dispatch until the second has come, all batches together
}

func (c Counts) plus(o Counts) Counts {
	return Counts{c.Span, c.Fires + o.Fires, c.Messages + o.Messages, c.Advances + o.Advances, c.Anew + o.Anew, c.Looks + o.Looks,
		c.Tokens + o.Tokens, c.Sends + o.Sends, c.Takes + o.Takes, c.Healths + o.Healths, c.Held + o.Held}
}

func (c Counts) times(n float64, span time.Duration) Counts {
	t := func(v int) int { return int(float64(v)*n + 0.5) }
	return Counts{span, t(c.Fires), t(c.Messages), t(c.Advances), t(c.Anew), t(c.Looks), t(c.Tokens),
		t(c.Sends), t(c.Takes), t(c.Healths), time.Duration(float64(c.Held) * n)}
}

const (
	tickPage  = 1000 // due items that a tick plans and packs together
	sendBatch = 10
	takeBatch = 10
	wokenAt   = 17 * time.Second // of a minute: anywhere in it
	awakeMost = 50 * time.Second
	// How long after the beginning of a pass its first message is on the queue, and
	// how much later the last one for each job.
	way    = 40 * time.Millisecond
	wayJob = 100 * time.Microsecond
	taken  = 30 * time.Millisecond // until a visible message is in hand
	window = 480                   // seconds of a job's runs that the watchdog reads together
	tokens = 10                    // seconds that a token is remembered
	atOnce = 25                    // callbacks, at most, of the fires of one second
	knows  = 3600                  // seconds that a function lives on, and knows definitions
	asks   = 5                     // seconds for which a process of dispatch has asked what is slow
)

// A Job is what counts of one.
type Job struct {
	Name     string
	Schedule core.Schedule
	// Took is how long it runs; only a fixed delay fires less often for it.
	Took time.Duration
	// Keep is how long its runs stay.
	Keep time.Duration
}

// Spread are jobs whose fires come anywhere in the minute: by a jitter, where they do
// not already.
func Spread(jobs []Job) []Job {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		s := &jobs[i].Schedule
		if !slices.ContainsFunc(s.Any, func(w core.When) bool { return w.Kind == core.KindEvery && !w.Aligned && w.Offset == 0 }) {
			s.Jitter = max(s.Jitter, 59*time.Second)
		}
	}
	return jobs
}

// leastKept is how long a table keeps a run whatever its job says: longer than a
// queue keeps the message that may bring it once more.
const leastKept = 15 * 24 * time.Hour

// forEver is how long what is kept for ever counts as kept: what is stored then.
const forEver = 10 * 365 * 24 * time.Hour

// Kept is how long a job's runs stay, by its own word or by default.
func Kept(d core.Def) time.Duration {
	j := core.Job{Def: d}
	j.Normalize()
	return min(max(j.Def.Keep.For(), leastKept), forEver)
}

// Keep is how long a run stays on average.
func Keep(jobs []Job, begin time.Time) (time.Duration, error) {
	fires, kept := 0.0, 0.0
	for _, j := range jobs {
		sch, err := schedule.Compile(j.Schedule, 1)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", j.Name, err)
		}
		n := estimate(sch, begin, 4*7*24*time.Hour)
		if delay, ok := sch.FixedDelay(); ok {
			n = float64(Month) / float64(max(delay+j.Took, time.Second))
		}
		fires += n
		kept += n * float64(j.Keep)
	}
	if fires == 0 {
		return 0, nil
	}
	return time.Duration(kept / fires), nil
}

// Replay plays the tick's passes from begin on: woken each minute, beating each
// second until nothing is due. It counts the second of two spans; in the first
// the passes find their rhythm. Fixed delays are not played.
func Replay(jobs []Job, begin time.Time, span time.Duration, o plan.Options) (Counts, error) {
	c := Counts{Span: span}
	list := make([]core.Sched, 0, len(jobs))
	schs := make([]*schedule.Schedule, 0, len(jobs))
	for i, j := range jobs {
		id := core.JobID(i + 1)
		sch, err := schedule.Compile(j.Schedule, id)
		if err != nil {
			return c, fmt.Errorf("%s: %w", j.Name, err)
		}
		s := plan.Start(core.Sched{
			ID: id, App: "app", Rev: begin.UnixMilli(), RevAt: begin, Schedule: j.Schedule,
			State: core.Started, Misfire: core.MisfireLatest, Grace: time.Minute,
		}, sch, o)
		list, schs = append(list, s), append(schs, sch)
	}
	q := newQueue(list)
	slots := map[core.Instant]int{}
	ends := map[core.Instant]int{} // fires of each second
	holds := map[core.Instant]time.Duration{}
	last := make([]core.Instant, len(jobs)) // fire of each
	seen := make([]int, len(jobs))          // runs in the window of that
	for m := time.Duration(0); m < 2*span; m += time.Minute {
		counts := m >= span
		for beat := time.Duration(0); beat < awakeMost; beat += time.Second {
			now := begin.Add(m + wokenAt + beat)
			due := q.due(core.InstantOf(now))
			if len(due) == 0 {
				break
			}
			for page := range slices.Chunk(due, tickPage) {
				var fires []core.Fire
				for _, i := range page {
					r := plan.Job(list[i], schs[i], now, o)
					fires = append(fires, r.Fires...)
					for k := range r.Fires {
						at := r.Fires[k].Slot
						if seen[i]++; at/window != last[i]/window {
							seen[i] = 1
						}
						if counts {
							c.look(seen[i])
						}
						if at-last[i] > knows && counts {
							c.Anew++
						}
						last[i] = at
					}
					list[i].Next, list[i].PlanAt, list[i].Seq, list[i].State = r.Advance.NewNext, r.Advance.NewPlanAt, r.Advance.NewSeq, r.Advance.NewState
					q.put(list[i].PlanAt, i)
				}
				if !counts {
					continue
				}
				out := plan.Pack(fires, ring.MaxFires, o.LeadTime.Of)
				c.Fires += len(fires)
				c.Advances += len(page)
				c.Messages += len(out)
				c.Sends += (len(out) + sendBatch - 1) / sendBatch
				for k, m := range out {
					sent := now.Add(o.LeadTime.Phase() + way + time.Duration(len(page))*wayJob*time.Duration(k)/time.Duration(len(out)))
					slots[m.Message.Slot]++
					ends[m.Message.Slot] += len(m.Message.Fires)
					slot := m.Message.Slot.Time()
					visible := sent.Add(m.NotBefore.Sub(sent).Truncate(time.Second) + taken) // a queue delays by whole seconds
					holds[m.Message.Slot] = max(holds[m.Message.Slot], slot.Sub(visible))
				}
			}
		}
	}
	callers := map[core.Instant]int{} // at a time, in each span for which a token is remembered
	for slot, n := range ends {
		callers[slot/tokens] = max(callers[slot/tokens], min(n, atOnce))
	}
	for _, n := range callers {
		c.Tokens += n
	}
	asked := core.Instant(-asks)
	for _, slot := range slices.Sorted(maps.Keys(slots)) {
		takes := (slots[slot] + takeBatch - 1) / takeBatch
		if slot-asked >= asks { // batches at once are each in a process of its own
			c.Healths += takes
			asked = slot
		}
		c.Takes += takes
		c.Held += time.Duration(takes) * holds[slot]
	}
	return c, nil
}

// look counts the read of the n-th run of a window.
func (c *Counts) look(n int) {
	switch {
	case n == 1:
		c.Looks += 10
	case n > 10:
		c.Looks++
	}
}

// A queue holds which jobs are to be planned when.
type queue struct{ at map[core.Instant][]int }

func newQueue(list []core.Sched) *queue {
	q := &queue{at: map[core.Instant][]int{}}
	for i := range list {
		q.put(list[i].PlanAt, i)
	}
	return q
}

func (q *queue) put(at core.Instant, job int) {
	if at != 0 {
		q.at[at] = append(q.at[at], job)
	}
}

// due takes the jobs that are due to be planned, in the order in which a tick
// plans them.
func (q *queue) due(now core.Instant) (jobs []int) {
	var ats []core.Instant
	for at := range q.at {
		if at <= now {
			ats = append(ats, at)
		}
	}
	slices.Sort(ats)
	for _, at := range ats {
		list := q.at[at]
		slices.Sort(list)
		jobs = append(jobs, list...)
		delete(q.at, at)
	}
	return jobs
}

// Bounds of what PlayMonth plays.
const (
	playMost  = 2_000_000 // fires of jobs that fire often
	oftenIs   = 14        // fires of a week; what fires less is rare
	estimated = 3000      // instants that are looked at to estimate how often a job fires
)

// PlayMonth counts a month from begin on: rare jobs over four weeks, those that fire
// often over as much of a week as can be played, a fixed delay by its rule.
func PlayMonth(jobs []Job, begin time.Time, o plan.Options) (Counts, error) {
	const week, day = 7 * 24 * time.Hour, 24 * time.Hour
	begin = begin.UTC().Truncate(time.Hour)
	total := Counts{Span: Month}
	var often, rare []Job
	perWeek := 0.0
	for _, j := range jobs {
		sch, err := schedule.Compile(j.Schedule, 1)
		if err != nil {
			return total, fmt.Errorf("%s: %w", j.Name, err)
		}
		if delay, ok := sch.FixedDelay(); ok {
			// Its fire goes out alone, and both it and the end of its run move the job.
			n := int(Month / max(delay+j.Took, time.Second))
			total = total.plus(Counts{Fires: n, Messages: n, Advances: 2 * n, Looks: 10 * n, Tokens: n, Sends: n, Takes: n, Healths: n,
				Held: time.Duration(n) * o.LeadTime.Lonely})
			continue
		}
		if n := estimate(sch, begin, week); n >= oftenIs {
			often = append(often, j)
			perWeek += n
		} else if !sch.Manual() {
			rare = append(rare, j)
		}
	}
	if len(rare) > 0 {
		c, err := Replay(rare, begin, 4*week, o)
		if err != nil {
			return total, err
		}
		total = total.plus(c.times(float64(Month)/float64(4*week), Month))
	}
	if len(often) > 0 {
		span := week
		played := func() float64 { return perWeek * float64(2*span) / float64(week) }
		for _, shorter := range []time.Duration{day, 4 * time.Hour, time.Hour, 20 * time.Minute} {
			if played() > playMost {
				span = shorter
			}
		}
		// Of more than can be played at all, every so many jobs stand for the rest.
		share := max(1, int(played()/playMost+0.999))
		var some []Job
		for i := 0; i < len(often); i += share {
			some = append(some, often[i])
		}
		c, err := Replay(some, begin, span, o)
		if err != nil {
			return total, err
		}
		total = total.plus(c.times(float64(Month)/float64(span)*float64(len(often))/float64(len(some)), Month))
	}
	total.Span = Month
	return total, nil
}

// estimate is how many instants a schedule has in a span from begin on.
func estimate(sch *schedule.Schedule, begin time.Time, span time.Duration) float64 {
	first := core.InstantOf(begin)
	last := core.InstantOf(begin.Add(span))
	at, ok := sch.Next(first)
	n := 0
	for ; ok && at <= last; at, ok = sch.Next(at) {
		if n++; n == estimated {
			return float64(n) * span.Seconds() / float64(at-first)
		}
	}
	return float64(n)
}
