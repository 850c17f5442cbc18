package words

import (
	"cmp"

	"github.com/tickring/tickring/core"
)

// State is what a run that stands so is said to be: "failed", "执行失败".
func State(l Language, s core.State) string { return in(l, "state", cmp.Or(states[s], string(s))) }

// Reason says in a clause why a run ended as it did: "no executor took it".
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
	core.ReasonNotAccepted:   "no executor took it",
	core.ReasonNoExecutor:    "no executor was there",
	core.ReasonHandler:       "its handler said so",
	core.ReasonCrashed:       "its executor ended under it",
	core.ReasonShards:        "its shards did not succeed",
	core.ReasonSnoozed:       "its handler asked for a later time",
	core.ReasonTimeout:       "its time was over",
	core.ReasonPerson:        "somebody killed it",
	core.ReasonReplaced:      "a newer run went in its place",
	core.ReasonGone:          "its executor is no longer there",
	core.ReasonForgotten:     "its executor is idle and never reported its end",
	core.ReasonNoReport:      "nothing was heard of it in time",
	core.ReasonMisfire:       "it was late, and the misfire policy leaves such out",
	core.ReasonDeadline:      "it was later than the deadline",
	core.ReasonOverlap:       "another run was at work",
	core.ReasonQueueFull:     "as many waited as may",
	core.ReasonPaused:        "the schedule was paused",
	core.ReasonChanged:       "the job was changed",
	core.ReasonDeleted:       "the job was deleted",
	core.ReasonCancelled:     "it was cancelled",
	core.ReasonUndeliverable: "it could not be delivered",
	core.ReasonJoin:          "a job that it comes after did not end within its time",
}
