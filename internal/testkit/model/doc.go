// Package model searches all states that docs/internals/claim-protocol.md allows, within
// bounds: every order of the steps of tickers, dispatchers, callbacks, the
// watchdog and people, with a crash before and after each step and every answer
// that a write can have. It is to be read beside that page: a function for each
// step and table, named as the page names it.
//
// What must hold (section 7) is asserted at every step. Besides, from every
// state that was reached a good end must be reachable by steps without a fault:
// all is planned, no message, no open run and nothing owed is left, and each
// instant that was demanded has its run or its record. What section 8 lists is
// counted as a window, and is no complaint.
//
// What would be too large beside all of that has a world of its own, which takes the
// claim of a run for what World has shown: Broadcast, Join,
// Replace, Again, PauseAfter, Limits.
//
// It models one job and at most two fires. Time is order alone: until passes
// when its owner is dead (or slow, where the bounds say so), the watchdog comes
// after the invocations that hold the fire. It refuses to say anything of sizes,
// clocks (but for that of Limits), lanes, gates, jitter, the late rule, limits that are
// changed or pauses of apps, and it runs none of the product's code: that the code follows the page
// is for the other tests. It imports nothing of ours.
package model
