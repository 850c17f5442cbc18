package words

import (
	"cmp"

	"github.com/tickring/tickring/core"
)

// State returns the display name of a run's state, such as "failed" or "执行失败".
func State(l Language, s core.State) string { return in(l, "state", cmp.Or(states[s], string(s))) }

// Reason returns the reason for the end of a run as a clause, such as "no executor accepted the run".
func Reason(l Language, r core.Reason) string { return in(l, "reason", cmp.Or(reasons[r], string(r))) }

var states = map[core.State]string{
	core.Planned:   "planned",
	core.Queued:    "queued",
	core.Running:   "running",
	core.Succeeded: "succeeded",
	core.Failed:    "failed",
	core.TimedOut:  "timed out",
	core.Killed:    "killed",
	core.Lost:      "lost",
	core.Skipped:   "skipped",
}

var reasons = map[core.Reason]string{
	core.ReasonNotAccepted:   "no executor accepted the run",
	core.ReasonNoExecutor:    "no executor was available",
	core.ReasonHandler:       "the handler reported a failure",
	core.ReasonCrashed:       "the executor exited during the run",
	core.ReasonShards:        "shards of the run did not succeed",
	core.ReasonSnoozed:       "the handler postponed the run",
	core.ReasonTimeout:       "the run exceeded its timeout",
	core.ReasonPerson:        "a user killed the run",
	core.ReasonReplaced:      "a newer run replaced this run",
	core.ReasonGone:          "the executor is gone",
	core.ReasonForgotten:     "the executor is idle and reported no result",
	core.ReasonNoReport:      "no result was reported in time",
	core.ReasonMisfire:       "skipped by the misfire policy",
	core.ReasonDeadline:      "the run was later than its deadline",
	core.ReasonOverlap:       "another run was still running",
	core.ReasonQueueFull:     "the waiting queue was full",
	core.ReasonPaused:        "the schedule was paused",
	core.ReasonChanged:       "the job was changed",
	core.ReasonDeleted:       "the job was deleted",
	core.ReasonCancelled:     "the run was cancelled",
	core.ReasonUndeliverable: "the dispatch message could not be delivered",
	core.ReasonJoin:          "a parent job did not finish in time",
}
