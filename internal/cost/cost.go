// Package cost computes what a deployment on AWS costs a month: it plays the passes
// of the tick over the jobs, counts what they send and write, and prices that.
// What one fire reads and how long functions wait was measured in a deployment
// on fakes that count (measure_test.go), and a test holds the numbers here to
// it. Processor time was measured on a full core; a function has a share of one by its
// memory. There is no free tier, no discount and no tax. The tests write the tables of
// docs/reference/aws-cost.md: go test ./internal/cost -run TestPage -update.
package cost

import (
	"fmt"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
)

// Month is the month of all figures.
const Month = 30 * 24 * time.Hour

// Prices are in US dollars.
type Prices struct {
	WriteUnits    float64 // a million, on demand
	ReadUnits     float64 // a million, on demand
	WriteHour     float64 // a unit a second, provisioned, for an hour
	ReadHour      float64 // a unit a second, provisioned, for an hour
	StoredGB      float64 // a month
	QueueRequests float64 // a million
	Invocations   float64 // a million
	GBSeconds     float64 // one
	HTTPRequests  float64 // a million, of an HTTP API; a function URL costs nothing
	Schedules     float64 // a million wake-ups
	Alarm         float64 // a month
}

// Virginia are the prices of us-east-1 in November 2026, functions on arm64.
var Virginia = Prices{
	WriteUnits: 0.625, ReadUnits: 0.125, WriteHour: 0.00065, ReadHour: 0.00013, StoredGB: 0.25,
	QueueRequests: 0.40,
	Invocations:   0.20, GBSeconds: 0.0000133334,
	HTTPRequests: 1.00,
	Schedules:    1.00,
	Alarm:        0.10,
}

// What the parts of a fire use, in units and seconds. A run is claimed and
// ended with one write unit each; an advance is an item and a move in the
// index; a journal is one item for each batch.
const (
	writesOfRun     = 2
	writesOfAdvance = 1
	movesOfAdvance  = 2    // in the index
	writesOfWake    = 2.03 // the sign of life, the watchdog's cursor
	writesOfDue     = 2    // of a wake-up that finds jobs due: the lease, and back
	writesOfBeats   = 1    // a minute of one executor: it beats twice, and every second one is written

	bytesOfJournal = 215 // and of each of its runs
	bytesOfEntry   = 9
	bytesUncharged = 100 // of each item: they are stored, and are none of its units
	keepsJournals  = 20 * 24 * time.Hour

	readsOfFire     = 1    // its job's schedule
	readsOfRun      = 0.07 // a look of the tick whether it is there
	readsOfAnew     = 1    // a definition
	readsOfToken    = 0.9
	readsOfDispatch = 2.9 // the app, its executors, what holds for all; the journal later
	readsOfHealths  = 0.5 // what others found slow, where that is not too many for a unit
	readsOfAdvance  = 1
	looksOfAdvance  = 0.4  // for runs
	readsOfDue      = 11   // of a wake-up that finds jobs due
	readsOfWake     = 8.45 // what holds for all, the sign of life, whether anything was lost, looks at notices
	looksOfWake     = 0.67 // for jobs that are due, and are next
	readsOfBeats    = 5    // a minute of one executor

	// A minute with jobs: in every third one some are compared with their runs, and
	// how old the ring is is noted for that.
	readsOfSample  = 0.7
	looksOfSample  = 0.5 // for runs
	agesOfSample   = 1
	writesOfSample = 0.34

	// Waiting, for stores, executors and the beat.
	secondsOfWake     = 0.05
	secondsOfDue      = 0.9 // of a wake-up that finds jobs due: most of it waits for the beat
	secondsOfBeat     = 0.013
	secondsOfCallback = 0.006
	secondsOfResult   = 0.00015 // of a callback, beyond its first
	secondsOfDispatch = 0.08    // without its fires, and what it holds
	secondsOfFire     = 0.0022  // of a batch, beyond those that are sent all at once

	// Processor time on a full core. That of a beat is taken for that of a callback, and that
	// of a result beyond the first for a tenth of one.
	coreOfWake     = 0.18
	coreOfCallback = 0.0023
	coreOfResult   = coreOfCallback / 10
	coreOfFire     = 0.00145
	coreMB         = 1769 // memory of a function that has a full core

	firesAtOnce = 20
)

// Deployment is what the bill depends on besides the jobs.
type Deployment struct {
	HTTPAPI   bool          // in front of callbacks and beats, which costs a dollar a million requests
	Keep      time.Duration // how long runs stay
	RunBytes  int           // of a run that succeeded, as DynamoDB counts them, with an app's name of 6 and an address of 21
	Results   float64       // of a callback, on average; 0: one
	Executors int           // that beat; those at fixed addresses do not
	Alarms    int           // metrics that alarms look at
	Pollers   int           // that ask queues for messages, each for 20 s at a time
	// Provisioned are tables whose capacity follows their use, of fires that come
	// evenly; the least that each table keeps is not in it.
	Provisioned bool
	MemoryMB    struct{ Tick, Dispatch, API int } // the API takes callbacks and beats
}

// Standard is a stack as it is deployed without any choices.
func Standard() Deployment {
	d := Deployment{Keep: 30 * 24 * time.Hour, RunBytes: 375, Pollers: 8}
	d.MemoryMB.Tick, d.MemoryMB.Dispatch, d.MemoryMB.API = 256, 256, 256
	return d
}

type Usage struct {
	Fires, WriteUnits, ReadUnits, StoredGB, QueueRequests float64
	WriteHours, ReadHours                                 float64 // of provisioned tables, instead of their units
	Invocations, HTTPRequests, Wakes, Alarms              float64
	// GBSeconds are those of waiting; CoreSeconds are processor time on a full core.
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

// Idle is what a deployment without jobs uses.
func Idle(d Deployment) Usage {
	const minutes = float64(Month / time.Minute)
	beats := 2 * minutes * float64(d.Executors)
	u := Usage{
		QueueRequests: minutes * (3*float64(d.Pollers) + 1), // each wake-up takes dead letters
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

// Jobs is what the fires of jobs use on top, counted over a span.
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

// Planning is what wake-ups use on top that find jobs due, however many those are.
func Planning(wakes float64, d Deployment) Usage {
	u := Usage{GBSeconds: wakes * secondsOfDue * gb(d.MemoryMB.Tick)}
	return u.with(tablesOf(Capacity{}, Capacity{}, Capacity{}, Capacity{Write: writesOfDue * wakes, Read: readsOfDue * wakes}), d)
}

// Canary is what a job that fires each minute to a function of the stack uses.
func Canary(d Deployment) (Usage, error) {
	d.Keep, d.HTTPAPI = leastKept, false // its end is a call inside the stack
	job := []Job{{Name: "canary", Schedule: core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Minute}}}}}
	c, err := Replay(job, time.Date(2027, 1, 4, 0, 0, 0, 0, time.UTC), 100*time.Minute, plan.AWS())
	if err != nil {
		return Usage{}, err
	}
	u := Jobs(c, d).Plus(Planning(float64(c.Wakes), d).Times(float64(Month) / float64(c.Span)))
	u.Invocations += u.Fires // its executor
	u.GBSeconds += u.Fires * secondsOfCallback * gb(128)
	u.CoreSeconds += u.Fires * coreOfCallback
	return u, nil
}

// Times is so many times the same, or a part of it.
func (u Usage) Times(n float64) Usage {
	return Usage{
		u.Fires * n, u.WriteUnits * n, u.ReadUnits * n, u.StoredGB * n, u.QueueRequests * n,
		u.WriteHours * n, u.ReadHours * n,
		u.Invocations * n, u.HTTPRequests * n, u.Wakes * n, u.Alarms * n,
		u.GBSeconds * n, u.CoreSeconds * n,
	}
}

// FunctionTime is the GB-seconds of all functions, waiting and processor time together.
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

// Dollars is an amount as people read it: more digits where it is small.
func Dollars(d float64) string {
	if d != 0 && d < 0.995 {
		return fmt.Sprintf("$%.3f", d)
	}
	return fmt.Sprintf("$%.2f", d)
}
