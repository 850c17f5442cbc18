package cost

import (
	"fmt"
	"math"
	"time"
)

// UsedEvenly is how much of what is provisioned is used: the target of the stack's tables.
const UsedEvenly = 0.7

// usedAtOnce is that of jobs and their index, which are written all at once when a
// window is planned: as much as a table keeps of what it did not use, five minutes of
// the window's ten.
const usedAtOnce = 0.5

// Capacity is what is read of a table, or of the index, and written to it: in units,
// or, where that is provisioned, in units a second.
type Capacity struct {
	Of    string  `json:"of"`
	Write float64 `json:"write"`
	Read  float64 `json:"read"`
}

// tables are the stack's and, as jobs/due, the index, whose capacity is its own.
type tables [4]Capacity

func tablesOf(jobs, due, runs, state Capacity) tables {
	jobs.Of, due.Of, runs.Of, state.Of = "jobs", "jobs/due", "runs", "state"
	return tables{jobs, due, runs, state}
}

// unitsOfIdle are those of a month.
func unitsOfIdle(d Deployment) tables {
	const minutes = float64(Month / time.Minute)
	n := float64(d.Executors)
	return tablesOf(Capacity{}, Capacity{Read: minutes * looksOfWake}, Capacity{},
		Capacity{Write: minutes * (writesOfWake + writesOfBeats*n), Read: minutes * (readsOfWake + readsOfBeats*n)})
}

// unitsOfJobs are those of what was counted.
func unitsOfJobs(c Counts, d Deployment) tables {
	fires, advances, minutes := float64(c.Fires), float64(c.Advances), c.Span.Minutes()
	return tablesOf(
		Capacity{Write: writesOfAdvance * advances, Read: readsOfFire*fires + readsOfAnew*float64(c.Anew) + readsOfAdvance*advances +
			readsOfSample*minutes},
		Capacity{Write: movesOfAdvance * advances},
		Capacity{Write: writesOfRun * fires, Read: readsOfRun*fires + float64(c.Looks)/10 + looksOfAdvance*advances +
			looksOfSample*minutes},
		Capacity{Write: writesOfJournal*float64(c.Messages) + writesOfSample*minutes, Read: readsOfDispatch*float64(c.Takes) +
			readsOfHealths*float64(c.Healths) + agesOfSample*minutes + readsOfToken*float64(c.Tokens)/max(d.Results, 1)})
}

// taking is what has to be provisioned for so much.
func (t tables) taking() tables {
	for i := range t {
		used := UsedEvenly
		if i < 2 {
			used = usedAtOnce
		}
		t[i].Write, t[i].Read = t[i].Write/used, t[i].Read/UsedEvenly
	}
	return t
}

// with adds what tables are used.
func (u Usage) with(t tables, d Deployment) Usage {
	write, read := &u.WriteUnits, &u.ReadUnits
	if d.Provisioned {
		t = t.taking()
		write, read = &u.WriteHours, &u.ReadHours
	}
	for _, of := range t {
		*write, *read = *write+of.Write, *read+of.Read
	}
	u.WriteHours, u.ReadHours = u.WriteHours/time.Hour.Seconds(), u.ReadHours/time.Hour.Seconds()
	return u
}

// busier is how much more than what comes evenly tables may grow to: for the busy
// hour, and for what is made up for after an outage.
const busier = 4

// Provision is what a deployment with jobs that fire evenly takes, in units a second:
// what each table keeps on average, what to say to the stack (least and most reads,
// least and most writes, the same for all) and what a month of that least uses beside
// Idle and Jobs. The least holds the burst in which a window is planned: no table
// grows by itself for as little as that takes.
func Provision(c Counts, d Deployment) (takes []Capacity, provisioned string, least Usage) {
	idle, jobs := unitsOfIdle(d), unitsOfJobs(c, d)
	sum := idle
	for i := range sum {
		sum[i].Write = idle[i].Write/Month.Seconds() + jobs[i].Write/max(c.Span, 1).Seconds()
		sum[i].Read = idle[i].Read/Month.Seconds() + jobs[i].Read/max(c.Span, 1).Seconds()
	}
	all := sum.taking()
	const leastRead = 1.0
	leastWrite := max(1, math.Ceil(max(all[0].Write, all[1].Write)))
	mostRead, mostWrite := leastRead, leastWrite
	hours := Month.Hours()
	for i := range all {
		t := &all[i]
		mostRead, mostWrite = max(mostRead, busier*t.Read), max(mostWrite, busier*t.Write)
		least.WriteHours += max(0, leastWrite-t.Write) * hours
		least.ReadHours += max(0, leastRead-t.Read) * hours
		t.Write, t.Read = max(t.Write, leastWrite), max(t.Read, leastRead)
	}
	tens := func(n float64) float64 { return 10 * math.Ceil(n/10) }
	return all[:], fmt.Sprintf("%.0f,%.0f,%.0f,%.0f", leastRead, tens(mostRead), leastWrite, tens(mostWrite)), least
}
