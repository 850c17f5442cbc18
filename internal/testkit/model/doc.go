// Package model searches all states that docs/internals/claim-protocol.md allows, within set bounds. A search tries
// every order of the steps of tickers, dispatchers, callbacks, the watchdog and users. A crash can happen before and
// after each step, and every write can have each possible answer. Each step and each table in that page has a Go
// function with the name in the page.
//
// After every step, the search checks the promises in section 7 of the page. From every reached state, steps without a
// fault must also lead to a good end. At a good end, all scheduled runs are planned, and no message, open run or
// pending follow-up is left. Each expected scheduled time then has a run or a recorded skip. The exceptions in section
// 8 of the page are counted, and are not errors.
//
// Parts that are too large to combine with World have searches of their own: Broadcast, Join, Replace, Again,
// PauseAfter and Limits. These searches rely on the claim that the search of World covers.
//
// World models one job and at most two scheduled runs. Time is only an order of events. The claim time `until` passes
// when the owner of the claim is dead, or slow if the bounds allow slow owners. The watchdog runs after the
// invocations that hold the scheduled run have ended. The model leaves out sizes, clocks (except in Limits), slow
// queues, gates, jitter, the late rule, changes of limits, and pauses of apps. The package runs no product code and
// imports no other package of tickring. Other tests check that the code follows the page.
package model
