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

// Counts holds the work of the planner passes for the jobs over a span, and the dispatch work that follows.
type Counts struct {
	Span     time.Duration
	Fires    int
	Messages int           // messages on the delay queue, of up to 50 runs of one second
	Advances int           // advances of jobs: each plans the runs of a window
	Anew     int           // runs whose job's definition no function has cached
	Looks    int           // twentieths of a unit that the watchdog reads: ten runs of a job in eight minutes share half a unit
	Tokens   int           // reads of an app's token by callbacks; callbacks that come later use the cached token
	Sends    int           // requests, ten messages each
	Takes    int           // batches: at most five messages of one second
	Journals int           // write units of their journals
	Healths  int           // reads of the slow jobs and addresses that others found: each process at most once in a while
	Wakes    int           // wake-ups of the planner that find jobs due
	Held     time.Duration // waiting time of dispatch until the due second, all batches together
}

const (
	tickPage  = 1000 // due items that the planner plans and packs together
	sendBatch = 10
	takeBatch = 5
	wokenAt   = 17 * time.Second // of a minute: any second in it
	awakeMost = 50 * time.Second
	// The delay from the start of a pass until its first message is on the queue, and the additional delay of the last message
	// for each job.
	way    = 40 * time.Millisecond
	wayJob = 100 * time.Microsecond
	taken  = 30 * time.Millisecond // until a visible message is received
	window = 480                   // seconds of a job's runs that the watchdog reads together
	tokens = 10                    // seconds that a token is remembered
	atOnce = 25                    // callbacks, at most, of the runs of one second
	knows  = 3600                  // seconds that a function lives and caches definitions
	asks   = 5                     // seconds for which a dispatch process keeps the list of slow jobs and addresses
)

// A Job has the counted properties of a job.
type Job struct {
	Name     string
	Schedule core.Schedule
}

// leastKept is the minimum time for which a table keeps a run: longer than a queue keeps the run's message.
const leastKept = 15 * 24 * time.Hour

// Replay simulates the planner's passes from begin on: woken each minute, with a pass each second until nothing is due. It
// counts the passes in the second of two spans, and the dispatch of the runs that are due in it; in the first the passes reach
// their rhythm. Fixed delays are not simulated.
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
	from := core.InstantOf(begin.Add(span))
	slots := map[core.Instant]int{}
	ends := map[core.Instant]int{} // number of runs of each second
	holds := map[core.Instant]time.Duration{}
	last := make([]core.Instant, len(jobs)) // run of each
	seen := make([]int, len(jobs))          // runs in the current window
	for m := time.Duration(0); m < 2*span; m += time.Minute {
		counts := m >= span
		for beat := time.Duration(0); beat < awakeMost; beat += time.Second {
			now := begin.Add(m + wokenAt + beat)
			due := q.due(core.InstantOf(now))
			if len(due) == 0 {
				break
			}
			if counts && beat == 0 {
				c.Wakes++
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
				out := plan.Pack(fires, ring.MaxFires, o.LeadTime.Of)
				if counts {
					c.Fires += len(fires)
					c.Advances += len(page)
					c.Messages += len(out)
					c.Sends += (len(out) + sendBatch - 1) / sendBatch
				}
				for k, m := range out {
					if slot := m.Message.Slot; slot < from || slot >= from+core.Instant(span/time.Second) {
						continue
					}
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
	callers := map[core.Instant]int{} // in each span for which a token is cached
	for slot, n := range ends {
		callers[slot/tokens] = max(callers[slot/tokens], min(n, atOnce))
	}
	for _, n := range callers {
		c.Tokens += n
	}
	asked := core.Instant(-asks)
	for _, slot := range slices.Sorted(maps.Keys(slots)) {
		takes := (slots[slot] + takeBatch - 1) / takeBatch
		if slot-asked >= asks { // concurrent batches are each in their own process
			c.Healths += takes
			asked = slot
		}
		c.Takes += takes
		bytes := bytesOfJournal - bytesUncharged + bytesOfEntry*ends[slot]/takes
		c.Journals += takes * ((bytes + 1023) / 1024)
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

// A queue holds when jobs must be planned.
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

// due takes the jobs that are due to be planned, in the planner's order.
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
