// Package plan computes which runs of a job's schedule to send now: the late rule, windows, due times and packing. It is
// pure: now is a parameter, and the same job planned again gives the same runs with the same IDs.
//
// # Windows
//
// Runs of a job are planned one window at a time. Windows are a fixed grid, shifted by the job's group. A job that fires
// more than once a window is planned when the window of its next due time is PlanAhead away. Other jobs, whose gap to the
// following scheduled time is at least a window, are planned SingleSpreadMin to SingleSpreadMax before their due time, by
// job ID. No state stores the kind of a job, so an edit cannot leave it wrong.
package plan
