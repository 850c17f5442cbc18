// Package plan computes which scheduled runs of a job to send. The package applies the misfire policy, computes due times, and
// packs runs into messages. Its functions use no clock and no store. If a job is planned again, the runs and their IDs are the
// same.
//
// # Windows
//
// The scheduled times of a job are planned one window at a time. Windows have a fixed length, and a start that depends on the
// job's group. A job that fires more than once in a window is planned PlanAhead before the window of its next due time.
//
// Every other job has at least a window between two scheduled times. Its run is planned SingleSpreadMin to SingleSpreadMax
// before its due time; the job's ID determines the time. Each pass decides this from the schedule, so no stored state can
// become wrong after an edit.
package plan
