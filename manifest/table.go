package manifest

import (
	"fmt"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/schedule"
)

// kind is what the value of a field is.
type kind uint8

const (
	kText      kind = iota
	kInt            // min to max
	kBool           //
	kDuration       // min to max, in nanoseconds
	kInstant        // RFC 3339, whole seconds
	kMoment         // a date or an RFC 3339 time
	kWord           // one of words
	kSecret         // a text, or {env: NAME} or {file: PATH}
	kTexts          // a map of texts
	kList           // of item
	kObject         // of obj
	kOneOrList      // an object of obj, or a list of such
	kVersion        // 1
)

// field is one field of the manifest: what the parser, the writer and the JSON
// schema know of it.
type field struct {
	name     string
	kind     kind
	doc      string
	def      string   // what left out means, for people
	later    string   // not empty: refused as not yet; what it will be
	words    []string // kWord
	notYet   []string // words that are refused as not yet
	min, max int64    // kInt, kDuration; of kText, kList the largest length if max > 0
	item     *field   // kList
	obj      *object  // kObject, kOneOrList
	required bool
	instead  string // the field that is not needed where this one is
}

// object is a map with a closed set of fields, in the order in which they are
// written.
type object struct {
	name   string // what it is, for messages: "a job"
	def    string // its name in the JSON schema
	fields []*field
	index  map[string]int
}

func newObject(name, def string, fields ...*field) *object {
	o := &object{name: name, def: def, fields: fields, index: make(map[string]int, len(fields))}
	for i, f := range fields {
		o.index[f.name] = i
	}
	return o
}

// The table.
var (
	secretObject = newObject("a secret", "secret",
		&field{name: "env", kind: kText, doc: "The environment variable of the CLI that holds it."},
		&field{name: "file", kind: kText, doc: "The file that holds it, relative to the manifest; a line break at its end is left out."},
		&field{name: "ssm", later: "secrets from the SSM parameter store come with the deployment on AWS"},
	)
	retryObject = newObject("a retry", "retry",
		&field{name: "max", kind: kInt, max: core.MaxRetries, def: "0", doc: "Attempts after the first."},
		&field{name: "delay", kind: kDuration, min: int64(time.Second), max: int64(core.MaxDelay), def: "30s", doc: "From the end of an attempt to the next."},
		&field{name: "backoff", kind: kWord, words: words(core.Backoffs), def: string(core.BackoffConstant), doc: "How the delay grows: exponential doubles it after each attempt."},
		&field{name: "maxDelay", kind: kDuration, max: int64(core.MaxDelay), doc: "Bounds the delay. Left out: a day."},
		&field{name: "on", kind: kList, min: 1, max: 16, item: &field{kind: kWord, words: words(core.RetryOns)}, def: "[failed, timed-out]", doc: "Which ends are tried again."},
	)
	keepObject = newObject("a keep", "keep",
		&field{name: "days", kind: kInt, min: 1, max: core.MaxKeepDays, def: "30", doc: "How long runs are kept."},
		&field{name: "log", later: "keeping logs of runs comes with a later version"},
	)
	scheduleObject = newObject("a schedule", "schedule",
		&field{name: "cron", kind: kText, doc: "Quartz: seconds minutes hours day-of-month month day-of-week [year], with one ?; 1 is Sunday."},
		&field{name: "crontab", kind: kText, doc: "Unix: minutes hours day-of-month month day-of-week; 0 and 7 are Sunday."},
		&field{name: "every", kind: kDuration, min: int64(schedule.MinPeriod), max: int64(schedule.MaxPeriod), doc: "A fixed period counted from 1970."},
		&field{name: "offset", kind: kDuration, max: int64(schedule.MaxPeriod), doc: "Of every: when in the period. Left out, the jobs of one period spread; 0s aligns."},
		&field{name: "fixedDelay", kind: kDuration, min: int64(schedule.MinPeriod), max: int64(schedule.MaxPeriod), doc: "From the end of a run to the next; stands alone."},
		&field{name: "at", kind: kInstant, doc: "Once, such as 2027-01-01T00:00:00Z."},
		&field{name: "timezone", kind: kText, max: core.MaxZone, def: "UTC", doc: "IANA, such as Europe/Berlin."},
		&field{name: "from", kind: kMoment, doc: "The first day or time that counts."},
		&field{name: "until", kind: kMoment, doc: "The last day or time that counts."},
		&field{name: "jitter", kind: kDuration, max: int64(schedule.MaxJitter), doc: "Spreads the fires over this span."},
		&field{name: "calendar", later: "calendars come with a later version"},
	)

	timezoneField = &field{name: "timezone", kind: kText, max: core.MaxZone, def: "UTC", doc: "Of jobs whose schedule names none."}
	misfireField  = &field{name: "misfire", kind: kWord, words: words(core.Misfires), def: string(core.MisfireLatest), doc: "What becomes of late fires."}
	graceField    = &field{name: "grace", kind: kDuration, min: int64(time.Second), max: int64(core.MaxGrace), def: "60s", doc: "Later than this is late."}
	deadlineField = &field{name: "deadline", kind: kDuration, max: int64(core.MaxDeadline), doc: "Later than this is skipped, whatever the policy. Left out: none."}
	overlapField  = &field{name: "overlap", later: "limits of overlap come with a later version"}
	blockField    = &field{name: "block", kind: kWord, words: words(core.Blocks), def: string(core.BlockSerial), doc: "What an xxl-job executor does with a second run on one address."}
	routeField    = &field{name: "route", kind: kWord, words: readyRoutes(), notYet: laterRoutes(), def: string(core.RouteFirst), doc: "Which executor a run goes to."}
	timeoutField  = &field{name: "timeout", kind: kDuration, max: int64(core.MaxTimeout), doc: "Longer than this is ended. Left out: none."}
	retryField    = &field{name: "retry", kind: kObject, obj: retryObject, doc: "Whether a failed run is tried again."}
	pauseField    = &field{name: "pauseAfter", later: "pausing after failures comes with a later version"}
	lostField     = &field{name: "lostAfter", kind: kDuration, min: int64(core.MinLostAfter), max: int64(core.MaxLostAfter), def: "10m", doc: "When a run that nobody reports is looked after."}
	notifyField   = &field{name: "notify", later: "notices come with a later version"}
	keepField     = &field{name: "keep", kind: kObject, obj: keepObject, doc: "How long runs are kept."}

	// defaultsObject is what a job takes from `defaults` where it says nothing.
	defaultsObject = newObject("defaults", "defaults", timezoneField, misfireField, graceField, deadlineField, overlapField, blockField,
		routeField, timeoutField, retryField, pauseField, lostField, notifyField, keepField)

	appObject = newObject("an app", "app",
		&field{name: "name", kind: kText, required: true, max: 64, doc: "1 to 64 of a-z A-Z 0-9 . _ -"},
		&field{name: "title", kind: kText, max: core.MaxTitle, doc: "Free text."},
		&field{name: "token", kind: kSecret, obj: secretObject, doc: "What its executors send as XXL-JOB-ACCESS-TOKEN. Left out: it stays as it is."},
		&field{name: "executors", kind: kList, max: core.MaxAddresses, item: &field{kind: kText}, doc: "Fixed addresses: http://…, https://…, call:https://… Left out: those that register."},
		&field{name: "allow", kind: kList, max: core.MaxAllow, item: &field{kind: kText}, doc: "Ranges such as 10.0.0.0/8 that its executors may be in."},
		&field{name: "limits", later: "limits of an app come with a later version"},
		overlapField,
	)
	jobObject = newObject("a job", "job",
		&field{name: "app", kind: kText, required: true, max: 64, doc: "The app that runs it."},
		&field{name: "name", kind: kText, required: true, max: 128, doc: "1 to 128 of a-z 0-9 . _ - with a letter; unique in its app."},
		&field{name: "title", kind: kText, max: core.MaxTitle, doc: "Free text."},
		&field{name: "labels", kind: kTexts, max: core.MaxLabels, doc: "For filters."},
		&field{name: "handler", kind: kText, required: true, doc: "What the executor is to run; of call: executors \"POST /path\"."},
		&field{name: "params", kind: kText, doc: "Goes to the executor byte for byte; at most 64 KB."},
		&field{name: "template", kind: kBool, later: "templates in params come with a later version", def: "false", doc: "Whether params is a template."},
		&field{name: "after", later: "children come with a later version"},
		&field{name: "script", instead: "handler", later: "scripts come with a later version"},
		&field{name: "schedule", kind: kOneOrList, max: core.MaxRules, obj: scheduleObject, doc: "When it fires; of a list the earliest wins. Left out: by hand only."},
		misfireField, graceField, deadlineField, overlapField, blockField, routeField,
		&field{name: "broadcast", later: "broadcasts come with a later version"},
		timeoutField, retryField, pauseField, lostField, notifyField, keepField,
		&field{name: "paused", kind: kBool, doc: "Left out: the live state stays as it is."},
	)
	fileObject = newObject("a manifest", "manifest",
		&field{name: "version", kind: kVersion, required: true, doc: "1."},
		&field{name: "set", kind: kText, max: core.MaxSet, doc: "What --prune may delete: only what this set made."},
		&field{name: "defaults", kind: kObject, obj: defaultsObject, doc: "What jobs take where they say nothing."},
		&field{name: "channels", later: "channels of notices come with a later version"},
		&field{name: "calendars", later: "calendars come with a later version"},
		&field{name: "apps", kind: kList, max: MaxApps, item: &field{kind: kObject, obj: appObject}, doc: "Groups of executors."},
		&field{name: "jobs", kind: kList, max: MaxJobs, item: &field{kind: kObject, obj: jobObject}, doc: "What to run, and when."},
	)
)

func words[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return out
}

// isLater asks core itself, so that a route that becomes ready is ready here.
func isLater(r core.Route) bool {
	j := core.Job{Def: core.Def{App: "a", Name: "a", Handler: "a", Route: r}}
	j.Normalize()
	return j.Validate() != nil
}

func readyRoutes() []string { return routes(false) }
func laterRoutes() []string { return routes(true) }

func routes(later bool) []string {
	var out []string
	for _, r := range core.Routes {
		if isLater(r) == later {
			out = append(out, string(r))
		}
	}
	return out
}

// allowed says what the value of a field may be.
func (f *field) allowed() string {
	switch f.kind {
	case kInt:
		return fmt.Sprintf("allowed are whole numbers from %d to %d", f.min, f.max)
	case kBool:
		return "allowed are true and false"
	case kDuration:
		return fmt.Sprintf("allowed are whole seconds from %s to %s, such as 10s 5m 2h 30d", FormatDuration(time.Duration(f.min)), FormatDuration(time.Duration(f.max)))
	case kInstant:
		return "a time in whole seconds such as 2027-01-01T00:00:00Z or 2027-01-01T01:00:00+01:00 is needed"
	case kMoment:
		return "a date such as 2026-12-01, or a time such as 2026-12-01T09:00:00+01:00, is needed"
	case kWord:
		return "allowed are " + strings.Join(f.words, ", ")
	case kSecret:
		return "allowed are {env: NAME} and {file: PATH}"
	case kTexts:
		return "a map such as {team: finance} is needed"
	case kList:
		return "a list such as [" + f.item.example() + "] is needed"
	case kObject:
		return "a map with fields is needed: " + f.obj.names()
	case kOneOrList:
		return "a map with fields, or a list of such maps, is needed: " + f.obj.names()
	case kVersion:
		return "this program reads version: 1"
	}
	return "a text is needed"
}

func (f *field) example() string {
	switch f.kind {
	case kWord:
		return strings.Join(f.words, ", ")
	case kObject:
		return "{…}"
	}
	return "a, b"
}

// names lists the fields that may be written.
func (o *object) names() string {
	var names []string
	for _, f := range o.fields {
		if !f.refused() {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, ", ")
}

// refused reports whether a field comes later whatever its value is.
func (f *field) refused() bool { return f.later != "" && f.kind != kBool }

// unknown is what is said of a field that an object does not have.
func (o *object) unknown(name string) string {
	if len(name) > 64 {
		name = name[:64] + "…"
	}
	msg := fmt.Sprintf("%s has no field %q", o.name, name)
	for _, f := range o.fields { // written one level too high
		if f.obj != nil && f.kind != kSecret {
			if i, ok := f.obj.index[name]; ok && !f.obj.fields[i].refused() {
				return fmt.Sprintf("%s; did you mean %s.%s?", msg, f.name, name)
			}
		}
	}
	best, bestAt := "", 1<<30
	for _, f := range o.fields {
		if d := distance(fold(name), fold(f.name)); d < bestAt && d <= max(1, len(f.name)/3) {
			best, bestAt = f.name, d
		}
	}
	if best != "" {
		return fmt.Sprintf("%s; did you mean %s?", msg, best)
	}
	return msg + "; allowed are " + o.names()
}

// fold makes time_zone and Time-Zone alike.
func fold(s string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", " ", "").Replace(s))
}

// distance is how many letters are to be changed, added, removed or swapped
// with their neighbour to make b of a.
func distance(a, b string) int {
	if a == b {
		return 0
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
