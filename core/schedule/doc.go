// Package schedule computes when a job fires. The package combines the rules of the schedule, the time zone with its clock
// changes, the start and end of the schedule, and the jitter. The package does not read the current time.
//
// # Clock changes
//
// A rule in wall-clock time fires when the clock of its zone first reaches or passes that time. If the time does not exist,
// the rule fires at the end of the gap. Several times in one gap fire once. A time that exists twice fires only the first
// time. Scheduled times never go back.
//
// A rule can be a rhythm instead of a list of times of day; cron.Expr.RealTime defines this. A rhythm is
// compared with the wall clock at every second of real time. It therefore fires in both passes of a repeated hour, and does not
// fire for times that do not exist.
package schedule
