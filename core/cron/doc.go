// Package cron parses cron expressions and computes their next time on the wall clock. The package reads two dialects: Quartz
// as xxl-job 2.3 uses it ([ParseQuartz], 6 or 7 fields), and the Unix crontab with 5 fields ([ParseCrontab]). The package does
// not handle time zones. Package schedule handles clock changes, for which it uses [Expr.RealTime].
//
// # Quartz
//
// Fields: seconds minutes hours day-of-month month day-of-week [year].
// Each is a list of *, */n, /n, n, n/step, a-b and a-b/step. A range may wrap
// around (22-3; not in years). Months and days have names, in any case, short
// or in full. Exactly one of the two day fields is "?".
//
//   - day-of-month: L (last day), L-n (n days before it), nW (the weekday,
//     Monday to Friday, nearest the nth and in the same month), LW and L-nW
//     (the weekday nearest that day). These may stand in lists.
//   - day-of-week: 1 is Sunday; n#k (the kth such day of the month), nL (the
//     last one), L (Saturday). These stand alone.
//
// A W day differs from Java on purpose: it is the nearest weekday of each month, at every matching time of that day. Java
// skips some of these times.
//
// # Crontab
//
// Fields: minutes hours day-of-month month day-of-week, or one of @yearly, @annually, @monthly, @weekly, @daily, @midnight and
// @hourly. In day-of-week, 0 and 7 are Sunday. If both day fields are restricted, a day matches if it matches either field.
// Otherwise a day must match both fields. As in Vixie cron, a field that starts with *, such as */2, counts as unrestricted.
//
// # Rejected texts
//
// Java accepts many wrong expressions, and ignores or misreads a part of them. This package rejects them, with the position
// and the reason, because firing at unexpected times is worse than an error. testdata/README.md lists the oddities of Java
// that are kept. The rejected expressions are:
//
//   - extra characters after a number, name, L, W, # or *
//   - an empty list member, or ? in a list
//   - a second - in a range
//   - a step of 0, a step larger than its field, and a step after a name
//   - 99 and 98, which Java uses internally for * and ?
//   - # and L in a list or after a range of days, and L in the month and year fields
//   - days and years out of range
//   - signs, and characters that are not ASCII
//
// Crontab also rejects n/step (programs disagree on its meaning), a range that wraps around, and @reboot.
//
// Both dialects reject an expression longer than [MaxText].
package cron
