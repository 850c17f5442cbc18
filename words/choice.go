package words

// Choice returns the display name of a value that a user chooses for a field of a job or an app. Examples are "round"
// and "轮询 (round)". The parameter field is the path of the field in a manifest.
func Choice(l Language, field, value string) string {
	if name, ok := translated(l, field, value); ok {
		return name + " (" + value + ")"
	}
	return value
}

// Means returns the effect of a value in one line; empty if the name of the value is clear enough.
func Means(l Language, field, value string) string {
	if text := choices[field][value]; text != "" {
		return in(l, field, text)
	}
	return ""
}

// choices are the effects of the values of each field that has a closed list.
var choices = map[string]map[string]string{
	"route": {
		"first":     "the first executor in the list",
		"last":      "the last executor in the list",
		"round":     "each executor in turn",
		"random":    "a random executor",
		"hash":      "always the same executor for a job, even if other executors come and go",
		"lfu":       "the executor that this job used least often",
		"lru":       "the executor that this job has not used for the longest time",
		"failover":  "the first executor that answers the heartbeat check",
		"busyover":  "the first executor that is not running this job",
		"broadcast": "all executors, one shard each",
	},
	"broadcast.fail": {
		"any": "at least one shard did not succeed",
		"all": "no shard succeeded",
	},
	"block": {
		"serial":        "the new run waits at the executor",
		"discard-later": "the new run is rejected and skipped",
		"cover-early":   "the current run is stopped, and the new run starts",
	},
	"misfire": {
		"latest": "only the newest late run is sent, unless the next scheduled time has passed",
		"all":    "all late runs are sent",
		"skip":   "no late run is sent",
	},
	"retry.backoff": {
		"constant":    "always the same delay",
		"exponential": "the delay doubles each time",
	},
	"overlap.whenFull": {
		"queue":   "the new run waits",
		"skip":    "the new run is skipped",
		"replace": "the new run replaces the longest-running run, which is killed",
	},
	"after.when": {
		"succeeded": "if the parent job succeeded",
		"failed":    "if the parent job failed",
		"finished":  "after the parent job finished, with any result",
	},
	"retention.log": {
		"on-failure": "logs of runs that failed, timed out or were lost",
		"never":      "no logs",
		"always":     "logs of all runs",
	},
}
