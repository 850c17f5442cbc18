// Package schedule computes when a job fires, from the settings of its owner. It combines the rules of
// a schedule, the zone with its clock changes, the from/until window and the jitter. It reads no clock.
//
// # Clock changes
//
// A rule in wall-clock time fires when the clock of its zone first reaches or passes that time. A time
// that does not exist thus fires at the first instant after the gap (several in one gap fire once). A time
// that exists twice fires once, the first time, and scheduled times never go back. A rule that is a
// rhythm rather than a time of day (cron.Expr.RealTime) is matched against the wall clock at every real
// second instead: it fires in both passes of a repeated hour, and not for times that do not exist.
package schedule
