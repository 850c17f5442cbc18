package plan

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
)

// fleet is what a number of jobs costs on AWS, counted in the passes of a tick
// that is woken once a minute and beats once a second.
type fleet struct {
	fires, messages, advances int
	sends                     int // requests, ten messages each
	takes                     int // batches of at most ten messages of a slot
	awake                     int // seconds, of minutes
	minutes                   int
}

const (
	tickPage  = 1000 // due items that a tick plans and packs together
	sendBatch = 10
	takeBatch = 10
)

// run plans jobs from begin on and counts what passes do in the last of two
// spans: in the first they find their rhythm.
func run(t testing.TB, span time.Duration, jobs int, when func(i int) core.When) (f fleet) {
	o := AWS()
	list := make([]core.Sched, jobs)
	schs := make([]*schedule.Schedule, jobs)
	for i := range list {
		s := sched(core.JobID(i+1), when(i))
		schs[i] = compile(t, s)
		list[i] = Start(s, schs[i], o)
	}
	slots := map[core.Instant]int{}
	for m := time.Duration(0); m < 2*span; m += time.Minute {
		counts := m >= span
		if counts {
			f.minutes++
		}
		for beat := time.Duration(0); beat < 50*time.Second; beat += time.Second {
			now := begin.Add(m + 17*time.Second + beat)
			if counts {
				f.awake++
			}
			due := dueAt(list, core.InstantOf(now))
			if len(due) == 0 {
				break
			}
			for page := range slices.Chunk(due, tickPage) {
				var fires []core.Fire
				for _, i := range page {
					r := Job(list[i], schs[i], now, o)
					fires = append(fires, r.Fires...)
					list[i].Next, list[i].PlanAt, list[i].Seq = r.Advance.NewNext, r.Advance.NewPlanAt, r.Advance.NewSeq
				}
				out := Pack(fires, ring.MaxFires, nil)
				if !counts {
					continue
				}
				f.fires += len(fires)
				f.advances += len(page)
				f.messages += len(out)
				f.sends += (len(out) + sendBatch - 1) / sendBatch
				for _, m := range out {
					slots[m.Message.Slot]++
				}
			}
		}
	}
	for _, n := range slots {
		f.takes += (n + takeBatch - 1) / takeBatch
	}
	return f
}

// dueAt are the indices of the jobs that are due to be planned, in the order in
// which a tick plans them.
func dueAt(list []core.Sched, now core.Instant) (due []int) {
	for i := range list {
		if p := list[i].PlanAt; p != 0 && p <= now {
			due = append(due, i)
		}
	}
	slices.SortStableFunc(due, func(a, b int) int { return int(list[a].PlanAt - list[b].PlanAt) })
	return due
}

// What a write costs: a claim and an end of a run one unit each, a journal one
// for a message, the advance of a job three (its item, and a move in the index).
const (
	unitsOfRun     = 2
	unitsOfAdvance = 3
	unitsOfJournal = 1
)

func (f fleet) perMillion(n int) int { return int(float64(n)/float64(f.fires)*1e6 + 0.5) }

func (f fleet) units() float64 {
	return unitsOfRun + float64(unitsOfAdvance*f.advances+unitsOfJournal*f.messages)/float64(f.fires)
}

// requests to queues: a message is sent, received and deleted, each in batches.
func (f fleet) requests() float64 { return float64(f.sends+2*f.takes) / float64(f.fires) }

func (f fleet) row(name string) string {
	return fmt.Sprintf("| %s | %d | %d | %.2f | %.3f |", name, f.perMillion(f.messages), f.perMillion(f.advances), f.units(), f.requests())
}

// TestFleets counts what six fleets cost and holds docs/aws.md to it, and that
// to the targets.
func TestFleets(t *testing.T) {
	doc, err := os.ReadFile("../../docs/aws.md")
	if err != nil {
		t.Fatal(err)
	}
	spread := func(d time.Duration) func(int) core.When {
		return func(int) core.When { return core.When{Kind: core.KindEvery, Every: d} } // a phase by the job's number
	}
	together := func(d time.Duration) func(int) core.When {
		return func(int) core.When { return every(d) }
	}
	for _, c := range []struct {
		name            string
		jobs            int
		span            time.Duration
		when            func(int) core.When
		units, requests float64 // at most
	}{
		{"1,000 minutely, all on :00", 1000, 100 * time.Minute, together(time.Minute), 2.45, 0.2},
		{"1,000 minutely, each at a second of its own", 1000, 100 * time.Minute, spread(time.Minute), 2.6, 0.5},
		{"20 minutely, each at a second of its own", 20, 100 * time.Minute, spread(time.Minute), 4.4, 2.5},
		{"100 secondly", 100, 20 * time.Minute, together(time.Second), 2.45, 0.2},
		{"10,000 daily, all at midnight", 10_000, 24 * time.Hour, together(24 * time.Hour), 5.1, 0.2},
		{"10,000 daily, each at a second of its own", 10_000, 24 * time.Hour, spread(24 * time.Hour), 6, 2.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := run(t, c.span, c.jobs, c.when)
			row := f.row(c.name)
			if !strings.Contains(string(doc), "\n"+row+"\n") {
				t.Errorf("docs/aws.md does not have the row\n%s", row)
			}
			if f.units() > c.units || f.requests() > c.requests {
				t.Errorf("%.3f write units and %.3f requests a fire; at most %.2f and %.2f", f.units(), f.requests(), c.units, c.requests)
			}
			// Every instant of the span, neither more nor fewer: the counts are of whole rhythms.
			if want := c.jobs * int(c.span/c.when(0).Every); f.fires != want {
				t.Errorf("%d fires in %s, want %d", f.fires, c.span, want)
			}
			t.Logf("%d fires, %d messages, %d advances; awake %.1f s of a minute", f.fires, f.messages, f.advances, float64(f.awake)/float64(f.minutes))
		})
	}
}
