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

// Counts has the work of the planner for all jobs in a time span, and the resulting work of dispatchers.
type Counts struct {
	Span     time.Duration
	Fires    int
	Messages int // number of messages in the delay queue; a message has up to 50 runs that are due in one second
	Advances int // number of writes that advance a job; each such write plans the job's runs of one window
	Anew     int // number of runs for which a function must read the job definition, because it is not cached
	// Looks has the watchdog reads in twentieths of a read unit: ten runs of one job in eight minutes share half a
	// unit.
	Looks    int
	Tokens   int // number of reads of an app's token for callbacks; later callbacks use the cached token
	Sends    int // number of send requests to the queue; each request has ten messages
	Takes    int // number of received batches; a batch has at most five messages of one second
	Journals int // number of write units for the journals of the batches
	// Healths is the number of reads of the shared list of slow jobs and addresses; each process reads the list at
	// most once in an interval.
	Healths int
	Wakes   int           // number of wake-ups of the planner that find due jobs
	Held    time.Duration // total time that all batches wait in dispatch until their runs are due
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

// Replay simulates the planner from the time `begin` on. Each minute, the planner starts, and scans the jobs once a
// second until no job is due. The simulation covers two spans of equal length. The first span is a warm-up, and the
// result counts only the second span and the dispatch of its runs. Fixed delays are not simulated.
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
