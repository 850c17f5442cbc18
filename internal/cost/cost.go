// Package cost computes the monthly cost of a deployment on AWS. The package simulates how the planner plans the jobs,
// counts the messages and writes, and multiplies the counts by the AWS prices.
//
// The reads for a run and the waiting time of functions were measured with fakes of AWS that count requests. A test in
// measure_test.go compares the numbers in this package with that measurement. Processor time was measured on a full
// core; a function has a share of a core that depends on its memory. The costs include no free tier, discount or tax.
// The tests write the tables of docs/reference/aws-cost.md: go test ./internal/cost -run TestPage -update.
package cost

import (
	"fmt"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/cfnoutputs"
)

// Month is the length of the month that all costs refer to.
const Month = 30 * 24 * time.Hour

// Prices has the AWS prices in US dollars.
type Prices struct {
	WriteUnits    float64 // price of one million write units, on demand
	ReadUnits     float64 // price of one million read units, on demand
	WriteHour     float64 // price of one provisioned write unit per second for one hour
	ReadHour      float64 // price of one provisioned read unit per second for one hour
	StoredGB      float64 // price of one stored GB for one month
	QueueRequests float64 // price of one million queue requests
	Invocations   float64 // price of one million function invocations
	GBSeconds     float64 // price of one GB of function memory for one second
	HTTPRequests  float64 // price of one million requests to an HTTP API; requests to a function URL cost nothing
	Schedules     float64 // price of one million scheduled wake-ups of the planner
	Alarm         float64 // price of one alarm for one month
}

// Virginia has the prices of us-east-1 in November 2026, with functions on arm64.
var Virginia = Prices{
	WriteUnits: 0.625, ReadUnits: 0.125, WriteHour: 0.00065, ReadHour: 0.00013, StoredGB: 0.25,
	QueueRequests: 0.40,
	Invocations:   0.20, GBSeconds: 0.0000133334,
	HTTPRequests: 1.00,
	Schedules:    1.00,
	Alarm:        0.10,
}

// The use of the parts of a run, in units and seconds. A run is claimed and ended with one write unit each; an advance
// writes an item and moves an entry of the index; a journal is one item for each batch.
const (
	writesOfRun     = 2
	writesOfAdvance = 1
	movesOfAdvance  = 2    // in the index
	writesOfWake    = 2.03 // the sign of life, the watchdog's cursor
	writesOfDue     = 2    // of a wake-up that finds jobs due: the lease, taken and released
	writesOfBeats   = 1    // a minute of one executor: it sends two heartbeats, of which one is written

	bytesOfJournal = 198 // and of each of its runs
	bytesOfEntry   = 4
	bytesUncharged = 100 // of each item: stored, but not counted in its units
	keepsJournals  = 20 * 24 * time.Hour

	readsOfFire     = 1     // its job's schedule
	readsOfRun      = 0.035 // the planner checks whether the run exists
	readsOfAnew     = 0.5   // a definition
	readsOfToken    = 0.9
	readsOfDispatch = 2.4 // the app, its executors, the global item; the journal later
	readsOfHealths  = 0.5 // slow jobs and addresses that others found, if they fit into one unit
	readsOfAdvance  = 0.5
	looksOfAdvance  = 0.2  // for runs
	readsOfDue      = 11   // of a wake-up that finds jobs due
	readsOfWake     = 8.45 // the global item, the sign of life, lost messages, checks of notifications
	looksOfWake     = 0.67 // for jobs that are due, and are next
	readsOfBeats    = 5    // a minute of one executor

	// A minute with jobs: every third minute some jobs are compared with their runs, and the age of the delay queue is
	// recorded.
	readsOfSample  = 0.7
	looksOfSample  = 0.5 // for runs
	agesOfSample   = 1
	writesOfSample = 0.34

	// Waiting, for stores, executors and the next second.
	secondsOfWake     = 0.05
	secondsOfDue      = 0.9 // of a wake-up that finds jobs due: mostly waiting for the next second
	secondsOfBeat     = 0.013
	secondsOfCallback = 0.006
	secondsOfResult   = 0.00015 // of a callback, beyond its first
	secondsOfDispatch = 0.08    // without its runs and its waiting
	secondsOfFire     = 0.0022  // of a batch, beyond the ones that are sent together first

	// Processor time on a full core. A heartbeat is assumed to take as much as a callback, and a result beyond the first a
	// tenth of one.
	coreOfWake     = 0.18
	coreOfCallback = 0.0023
	coreOfResult   = coreOfCallback / 10
	coreOfFire     = 0.00145
	coreMB         = 1769 // memory of a function that has a full core

	firesAtOnce = 20
)

// Deployment has all cost factors except the jobs.
type Deployment struct {
	HTTPAPI bool          // whether an HTTP API, at $1 per million requests, receives callbacks and heartbeats
	Keep    time.Duration // time for which runs are kept
	// RunBytes is the size in bytes of a succeeded run, as DynamoDB counts it, with an app name of 6 bytes and an
	// address of 21 bytes.
	RunBytes  int
	Results   float64 // average number of results in one callback; 0: one
	Executors int     // number of executors that send heartbeats; executors with fixed addresses send none
	Alarms    int     // number of metrics that alarms evaluate
	Pollers   int     // number of processes that poll queues; each poll lasts up to 20 s
	// Provisioned reports whether the tables have provisioned capacity that follows their use. The computation
	// assumes that runs are evenly spread over time, and ignores the minimum capacity of each table.
	Provisioned bool
	// MemoryMB is the memory of the functions in MB. The API function receives callbacks and heartbeats.
	MemoryMB struct{ Tick, Dispatch, API int }
}

// Standard returns a Deployment with default settings.
func Standard() Deployment {
	d := Deployment{Keep: 30 * 24 * time.Hour, RunBytes: 375, Pollers: 8}
	d.MemoryMB.Tick, d.MemoryMB.Dispatch, d.MemoryMB.API = 256, 256, 256
	return d
}

type Usage struct {
	Fires, WriteUnits, ReadUnits, StoredGB, QueueRequests float64
	// WriteHours has the hours of provisioned write and read units; 0 if the tables are billed on demand.
	WriteHours, ReadHours                    float64
	Invocations, HTTPRequests, Wakes, Alarms float64
	// GBSeconds is the waiting time of functions, multiplied by their memory in GB. CoreSeconds is processor
	// time on a full core.
	GBSeconds, CoreSeconds float64
}

func (u Usage) Plus(v Usage) Usage {
	return Usage{
		u.Fires + v.Fires, u.WriteUnits + v.WriteUnits, u.ReadUnits + v.ReadUnits, u.StoredGB + v.StoredGB, u.QueueRequests + v.QueueRequests,
		u.WriteHours + v.WriteHours, u.ReadHours + v.ReadHours,
		u.Invocations + v.Invocations, u.HTTPRequests + v.HTTPRequests, u.Wakes + v.Wakes, u.Alarms + v.Alarms,
		u.GBSeconds + v.GBSeconds, u.CoreSeconds + v.CoreSeconds,
	}
}

// Idle returns the monthly usage of a deployment that has no jobs.
func Idle(d Deployment) Usage {
	const minutes = float64(Month / time.Minute)
	beats := 2 * minutes * float64(d.Executors)
	u := Usage{
		QueueRequests: minutes * (3*float64(d.Pollers) + 1), // each wake-up reads the dead-letter queue
		Invocations:   minutes + beats,
		GBSeconds:     minutes*secondsOfWake*gb(d.MemoryMB.Tick) + beats*secondsOfBeat*gb(d.MemoryMB.API),
		CoreSeconds:   minutes*coreOfWake + beats*coreOfCallback,
		Wakes:         minutes,
		Alarms:        float64(d.Alarms),
	}
	if d.HTTPAPI {
		u.HTTPRequests = beats
	}
	return u.with(unitsOfIdle(d), d)
}

// Jobs returns the monthly usage that the jobs add. The counts cover the time span.
func Jobs(c Counts, d Deployment) Usage {
	times := float64(Month) / float64(c.Span)
	fires, batches := float64(c.Fires), float64(c.Takes)
	results := max(d.Results, 1)
	callbacks := fires / results
	u := Usage{
		Fires: fires,
		StoredGB: (fires*float64(d.RunBytes)*float64(d.Keep) +
			(bytesOfJournal*batches+bytesOfEntry*fires)*float64(keepsJournals)) / 1e9 / float64(Month),
		QueueRequests: float64(c.Sends) + 2*batches,
		Invocations:   callbacks + batches,
		GBSeconds: (callbacks*secondsOfCallback+(fires-callbacks)*secondsOfResult)*gb(d.MemoryMB.API) +
			(batches*secondsOfDispatch+max(0, fires-firesAtOnce*batches)*secondsOfFire+c.Held.Seconds())*gb(d.MemoryMB.Dispatch),
		CoreSeconds: callbacks*coreOfCallback + (fires-callbacks)*coreOfResult + fires*coreOfFire,
	}
	if d.HTTPAPI {
		u.HTTPRequests = callbacks
	}
	return u.with(unitsOfJobs(c, d), d).Times(times)
}

// Planning returns the monthly usage that wake-ups with due jobs add. The usage does not depend on the number of due
// jobs.
func Planning(wakes float64, d Deployment) Usage {
	u := Usage{GBSeconds: wakes * secondsOfDue * gb(d.MemoryMB.Tick)}
	return u.with(tablesOf(Capacity{}, Capacity{}, Capacity{}, Capacity{Write: writesOfDue * wakes, Read: readsOfDue * wakes}), d)
}

// Canary returns the monthly usage of the canary job, which calls a function of the stack every three minutes.
func Canary(d Deployment) (Usage, error) {
	d.Keep, d.HTTPAPI = leastKept, false // it reports inside the stack
	job := []Job{{Name: "canary", Schedule: core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: cfnoutputs.CanaryEvery}}}}}
	c, err := Replay(job, time.Date(2027, 1, 4, 0, 0, 0, 0, time.UTC), 330*time.Minute, plan.AWS())
	if err != nil {
		return Usage{}, err
	}
	u := Jobs(c, d).Plus(Planning(float64(c.Wakes), d).Times(float64(Month) / float64(c.Span)))
	u.Invocations += u.Fires // its executor
	u.GBSeconds += u.Fires * secondsOfCallback * gb(128)
	u.CoreSeconds += u.Fires * coreOfCallback
	return u, nil
}

// Times returns the usage u multiplied by the number n.
func (u Usage) Times(n float64) Usage {
	return Usage{
		u.Fires * n, u.WriteUnits * n, u.ReadUnits * n, u.StoredGB * n, u.QueueRequests * n,
		u.WriteHours * n, u.ReadHours * n,
		u.Invocations * n, u.HTTPRequests * n, u.Wakes * n, u.Alarms * n,
		u.GBSeconds * n, u.CoreSeconds * n,
	}
}

// FunctionTime returns the GB-seconds of all functions, for waiting time and processor time together.
func (u Usage) FunctionTime() float64 { return u.GBSeconds + u.CoreSeconds*gb(coreMB) }

func gb(mb int) float64 { return float64(mb) / 1024 }

type Line struct {
	What    string  `json:"what"`
	Amount  float64 `json:"amount"`
	Unit    string  `json:"unit"`
	Dollars float64 `json:"dollars"`
}

func (p Prices) Bill(u Usage) []Line {
	const million = 1e6
	gbSeconds := u.FunctionTime()
	all := []Line{
		{"table writes", u.WriteUnits, "units", u.WriteUnits / million * p.WriteUnits},
		{"table reads", u.ReadUnits, "units", u.ReadUnits / million * p.ReadUnits},
		{"table writes", u.WriteHours, "unit-hours", u.WriteHours * p.WriteHour},
		{"table reads", u.ReadHours, "unit-hours", u.ReadHours * p.ReadHour},
		{"history stored", u.StoredGB, "GB", u.StoredGB * p.StoredGB},
		{"queue requests", u.QueueRequests, "requests", u.QueueRequests / million * p.QueueRequests},
		{"function invocations", u.Invocations, "invocations", u.Invocations / million * p.Invocations},
		{"function time", gbSeconds, "GB-seconds", gbSeconds * p.GBSeconds},
		{"HTTP API", u.HTTPRequests, "requests", u.HTTPRequests / million * p.HTTPRequests},
		{"wake-ups", u.Wakes, "wake-ups", u.Wakes / million * p.Schedules},
		{"alarms", u.Alarms, "alarms", u.Alarms * p.Alarm},
	}
	bill := all[:0]
	for _, l := range all {
		if l.Amount > 0 {
			bill = append(bill, l)
		}
	}
	return bill
}

func Sum(bill []Line) (dollars float64) {
	for _, l := range bill {
		dollars += l.Dollars
	}
	return dollars
}

// Dollars formats an amount for users. Small amounts have more digits after the decimal point.
func Dollars(d float64) string {
	if d != 0 && d < 0.995 {
		return fmt.Sprintf("$%.3f", d)
	}
	return fmt.Sprintf("$%.2f", d)
}
