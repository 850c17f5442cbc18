// Package plan says what of a job's schedule goes on the ring now: the late
// rule, windows, slots and packing. It is pure: now is a parameter, and the
// same job planned again gives the same fires with the same IDs.
//
// # Windows
//
// A job's fires are planned a window at a time. Windows are a fixed grid,
// shifted by the job's group. A job that fires more than once a window is
// planned when the window that holds its next slot is PlanAhead away; one that fires
// less often, LonelySpreadMin to LonelySpreadMax before its slot, by its number.
// Which of the two a job is, is decided afresh at each of its instants by the
// gap to the one after it (at least a window: less often), so no state says it
// and an edit cannot leave it wrong.
package plan
