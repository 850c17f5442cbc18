package main

import (
	"fmt"
	"math"
	"time"
)

// usage is what AWS charges for.
type usage struct {
	runs, writeUnits, readUnits, queueRequests, invocations, gbSeconds, httpRequests, wakes float64
}

func (u usage) plus(v usage) usage {
	return usage{u.runs + v.runs, u.writeUnits + v.writeUnits, u.readUnits + v.readUnits, u.queueRequests + v.queueRequests,
		u.invocations + v.invocations, u.gbSeconds + v.gbSeconds, u.httpRequests + v.httpRequests, u.wakes + v.wakes}
}

func (u usage) times(n float64) usage {
	return usage{u.runs * n, u.writeUnits * n, u.readUnits * n, u.queueRequests * n,
		u.invocations * n, u.gbSeconds * n, u.httpRequests * n, u.wakes * n}
}

// The parts of the formula in docs/reference/aws-cost.md.
var (
	ofRun    = usage{runs: 1, writeUnits: 2, readUnits: 1.2, invocations: 1, gbSeconds: 0.008}
	ofBatch  = usage{writeUnits: 1, readUnits: 2.5, queueRequests: 2.2, invocations: 1, gbSeconds: 0.043}
	ofPlan   = usage{writeUnits: 3, readUnits: 0.7}
	ofMinute = usage{writeUnits: 4.4, readUnits: 22.3, queueRequests: 25, invocations: 1, gbSeconds: 0.55, wakes: 1}
	// rarely has the additional reads of a run if its job runs once an hour or less.
	rarely = usage{readUnits: 1.7}
)

const (
	planned = 11  // minutes of a job that are planned at a time
	batched = 250 // runs of one second that a batch has at most
)

// expected returns the forecast usage of n jobs over length, each of which fires every minute, at second i%60.
func expected(n int, length time.Duration) usage {
	seconds := min(n, 60)
	batches := float64(seconds) * math.Ceil(float64(n)/float64(seconds)/batched)
	minute := ofMinute.plus(ofRun.times(float64(n))).plus(ofBatch.times(batches)).plus(ofPlan.times(float64(n) / planned))
	return minute.times(length.Minutes())
}

// line is one line of a bill.
type line struct {
	what    string
	amount  float64
	unit    string
	dollars float64
}

// bill has the prices of us-east-1 in November 2026, in the order of the report.
func (u usage) bill() []line {
	const million = 1e6
	return []line{
		{"table writes", u.writeUnits, "units", u.writeUnits / million * 0.625},
		{"table reads", u.readUnits, "units", u.readUnits / million * 0.125},
		{"queue requests", u.queueRequests, "requests", u.queueRequests / million * 0.40},
		{"function invocations", u.invocations, "invocations", u.invocations / million * 0.20},
		{"function time", u.gbSeconds, "GB-seconds", u.gbSeconds * 0.0000133334},
		{"HTTP API", u.httpRequests, "requests", u.httpRequests / million * 1.00},
		{"wake-ups", u.wakes, "wake-ups", u.wakes / million * 1.00},
	}
}

func (u usage) dollars() (sum float64) {
	for _, l := range u.bill() {
		sum += l.dollars
	}
	return sum
}

// dollars formats an amount. Small amounts have more digits after the decimal point.
func dollars(d float64) string {
	if d < 0.995 {
		return fmt.Sprintf("$%.3f", d)
	}
	return fmt.Sprintf("$%.2f", d)
}
