package core

import (
	"fmt"
	"strconv"
)

// JobID is the number of a job. A JobID is positive, and an int32 because executors store job IDs as int32.
type JobID int32

// RunID identifies a run. The xxl-job protocol calls the RunID logId. A RunID is a positive int64 of one of two
// forms:
//
//	jobId<<32 | 0<<31 | seconds since 2020-01-01Z   planned run, created by the planner for a scheduled time
//	jobId<<32 | 1<<31 | n                           numbered run: a trigger, child run, retry or shard
//
// If a scheduled time is planned again, its run has the same ID. Stores find a run by ID without an index. The
// history of a job is the merge of two ID ranges.
type RunID int64

const (
	runEpoch  = 1577836800 // 2020-01-01T00:00:00Z
	numbered  = 1 << 31
	MaxNumber = 1<<31 - 1 // highest number n of a numbered run
)

// PlannedRun returns the ID of the job's planned run for a scheduled time, which must be from 2020-01-01 to Horizon.
func PlannedRun(job JobID, at Instant) RunID {
	return RunID(int64(job)<<32 | (int64(at)-runEpoch)&(numbered-1))
}

// NumberedRun returns the ID of the job's numbered run with the number n.
func NumberedRun(job JobID, n uint32) RunID {
	return RunID(int64(job)<<32 | numbered | int64(n&MaxNumber))
}

func (r RunID) Job() JobID { return JobID(int64(r) >> 32) }

// Planned returns the scheduled time in the ID of a planned run; false for a numbered run.
func (r RunID) Planned() (Instant, bool) {
	if int64(r)&numbered != 0 {
		return 0, false
	}
	return Instant(int64(r)&(numbered-1) + runEpoch), true
}

// Number returns the number n in the ID of a numbered run; false for a planned run.
func (r RunID) Number() (uint32, bool) {
	if int64(r)&numbered == 0 {
		return 0, false
	}
	return uint32(int64(r) & MaxNumber), true
}

// Valid reports whether r can be the ID of a run: the job ID in r must be positive.
func (r RunID) Valid() bool { return r.Job() > 0 }

func (r RunID) String() string { return strconv.FormatInt(int64(r), 10) }

func ParseRunID(text string) (RunID, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || !RunID(n).Valid() {
		return 0, Invalid("run", text, "a run ID is a positive whole number as printed by `tickring runs`")
	}
	return RunID(n), nil
}

// RunRange returns the first and last ID of the job's planned runs in a range of scheduled times. The range includes
// both of its ends.
func RunRange(job JobID, from, to Instant) (first, last RunID) {
	return PlannedRun(job, max(from, runEpoch)), PlannedRun(job, min(to, Horizon))
}

// NumberedRange returns the first and last ID of all numbered runs of the job.
func NumberedRange(job JobID) (first, last RunID) {
	return NumberedRun(job, 0), NumberedRun(job, MaxNumber)
}

// RunRanges returns the first and last ID of the job's planned runs, and of its numbered runs.
func RunRanges(job JobID) (spans [2][2]RunID) {
	spans[0][0], spans[0][1] = RunRange(job, 0, Horizon)
	spans[1][0], spans[1][1] = NumberedRange(job)
	return spans
}

func (j JobID) String() string { return fmt.Sprint(int32(j)) }
