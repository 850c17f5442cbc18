package cost

import "time"

// UsedEvenly is how much of what is provisioned is used: the target of the stack's tables.
const UsedEvenly = 0.7

// usedAtOnce is that of jobs and their index, which are written all at once when a
// window is planned: as much as a table keeps of what it did not use, five minutes of
// the window's ten.
const usedAtOnce = 0.5

// Capacity is what is read of a table, or of the index, and written to it: in units,
// or, where that is provisioned, in units a second.
type Capacity struct {
	Of          string
	Write, Read float64
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
		Capacity{Write: float64(c.Journals) + writesOfSample*minutes,
			Read: readsOfDispatch*float64(c.Takes) + readsOfHealths*float64(c.Healths) + agesOfSample*minutes +
				readsOfToken*float64(c.Tokens)/max(d.Results, 1)})
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
