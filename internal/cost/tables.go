package cost

import "time"

// UsedEvenly is the used fraction of provisioned capacity, which is the target utilization of the stack's tables. Jobs
// and their index are written in bursts, when the windows of many jobs are planned. A table keeps unused capacity for
// five minutes, and a burst comes every 330 s. A burst therefore finds more capacity than it uses: see TestProvision.
const UsedEvenly = 0.7

// Capacity has the reads and writes of a table or of the index, in capacity units. For provisioned tables, the numbers
// are units per second.
type Capacity struct {
	Of          string
	Write, Read float64
}

// tables are the stack's tables and, as jobs/due, the index, which has its own capacity.
type tables [4]Capacity

func tablesOf(jobs, due, runs, state Capacity) tables {
	jobs.Of, due.Of, runs.Of, state.Of = "jobs", "jobs/due", "runs", "state"
	return tables{jobs, due, runs, state}
}

// unitsOfIdle returns the units of a month without jobs.
func unitsOfIdle(d Deployment) tables {
	const minutes = float64(Month / time.Minute)
	n := float64(d.Executors)
	return tablesOf(Capacity{}, Capacity{Read: minutes * looksOfWake}, Capacity{},
		Capacity{Write: minutes * (writesOfWake + writesOfBeats*n), Read: minutes * (readsOfWake + readsOfBeats*n)})
}

// unitsOfJobs returns the units for the counted work.
func unitsOfJobs(c Counts, d Deployment) tables {
	fires, advances, minutes := float64(c.Fires), float64(c.Advances), c.Span.Minutes()
	return tablesOf(
		Capacity{Write: writesOfAdvance * advances, Read: readsOfFire*fires + readsOfAnew*float64(c.Anew) + readsOfAdvance*advances +
			readsOfSample*minutes},
		Capacity{Write: movesOfAdvance * advances},
		Capacity{Write: writesOfRun * fires, Read: readsOfRun*fires + float64(c.Looks)/20 + looksOfAdvance*advances +
			looksOfSample*minutes},
		Capacity{Write: float64(c.Journals) + writesOfSample*minutes,
			Read: readsOfDispatch*float64(c.Takes) + readsOfHealths*float64(c.Healths) + agesOfSample*minutes +
				readsOfToken*float64(c.Tokens)/max(d.Results, 1)})
}

// taking returns the capacity to provision for this use.
func (t tables) taking() tables {
	for i := range t {
		t[i].Write, t[i].Read = t[i].Write/UsedEvenly, t[i].Read/UsedEvenly
	}
	return t
}

// with adds the usage of tables.
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
