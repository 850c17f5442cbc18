package words

// Choice is what a value is called that a user chooses for a field of a job or an app, which is
// named by its path in a manifest: "round", "轮询 (round)". The value itself is what a manifest has.
func Choice(l Language, field, value string) string {
	if name, ok := translated(l, field, value); ok {
		return name + " (" + value + ")"
	}
	return value
}

// Means is the effect of a value in one line; empty if its name is clear without it.
func Means(l Language, field, value string) string {
	if text := choices[field][value]; text != "" {
		return in(l, field, text)
	}
	return ""
}

// choices are the effects of the values of each field that has a closed list.
var choices = map[string]map[string]string{
	"route": {
		"first":     "the first of the list",
		"last":      "the last of the list",
		"round":     "each of them in turn",
		"random":    "any of them, by chance",
		"hash":      "always the same for one job, while the others come and go",
		"lfu":       "the one that this job used least",
		"lru":       "the one that this job did not use for longest",
		"failover":  "the first that says it is there",
		"busyover":  "the first that runs nothing of this job",
		"broadcast": "all of them, each with its shard",
	},
	"broadcast.fail": {
		"any": "one of its shards did not succeed",
		"all": "none of its shards succeeded",
	},
	"block": {
		"serial":        "the new run waits there",
		"discard-later": "the new run is refused, and skipped",
		"cover-early":   "the one at work is ended for the new one",
	},
	"misfire": {
		"latest": "the newest of them is sent, if the next instant is still to come",
		"all":    "each of them is sent",
		"skip":   "none of them is sent",
	},
	"retry.backoff": {
		"constant":    "always the same",
		"exponential": "doubled each time",
	},
	"overlap.full": {
		"queue":   "it waits",
		"skip":    "it is skipped",
		"replace": "it takes the place of the one at work longest, which is killed",
	},
	"after.when": {
		"succeeded": "when it succeeded",
		"failed":    "when it failed",
		"closed":    "when it ended, however",
	},
	"keep.log": {
		"on-failure": "of runs that failed, timed out or were lost",
		"never":      "of none",
		"always":     "of all",
	},
}
