// Package model searches all states that the core of docs/internals/claim-protocol.md allows, within set bounds. A
// search tries every order of the steps of tickers, dispatchers, callbacks, the watchdog and users. A crash can happen
// before and after each step, and every write can have each possible answer. Each step and each table of the core has a
// Go function with the name in the page.
//
// After every step, the search checks the promises in section 7 of the page. From every reached state, steps without a
// fault must also lead to a good end. At a good end, all scheduled runs are planned, and no message, open run or
// pending follow-up is left. Each expected scheduled time then has a run or a recorded skip. The exceptions in section
// 8 of the page are counted, and are not errors.
//
// Limits is a search of its own: runs of two limits, which rely on the claim that the search of World covers.
// Broadcasts, joins, reruns, pauses after failures, replacements and starts per second are not in the model. The
// simulation in internal/testkit/sim runs and checks them.
//
// World models one job and at most two scheduled runs. Time is only an order of events. The claim time `until` passes
// when the owner of the claim is dead, or slow if the bounds allow slow owners. The watchdog runs after the
// invocations that hold the scheduled run have ended. The model leaves out sizes, clocks, slow queues, gates, jitter,
// the late rule, changes of limits, and pauses of apps. The package runs no product code and imports no other package
// of tickring. Other tests check that the code follows the page.
package model
