// Package model searches all states that docs/internals/claim-protocol.md allows, within bounds:
// every order of the steps of tickers, dispatchers, callbacks, the watchdog and users. A crash can
// come before and after each step, and every write can have each possible answer. Read it beside
// that page: each step and table has a function with the page's name.
//
// The search asserts section 7 at every step. From every reached state a good end must also be
// reachable by steps without a fault: all fires are planned, no message, open run or pending
// follow-up is left, and each expected scheduled time has its run or its record. The windows of
// section 8 are counted; they are not errors.
//
// Parts that are too large to combine with World have their own worlds, which rely on the claim
// that World has searched: Broadcast, Join, Replace, Again, PauseAfter, Limits.
//
// World models one job and at most two fires. Time is only an order: until passes when its owner is
// dead (or slow, if the bounds allow it), and the watchdog comes after the invocations that hold
// the fire. The model leaves out sizes, clocks (except in Limits), lanes, gates, jitter, the late
// rule, changes of limits and pauses of apps. It runs no product code and imports no other package
// of tickring; other tests check that the code follows the page.
package model
