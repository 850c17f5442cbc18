package console

import (
	"slices"

	"github.com/tickring/tickring/core"
)

// A field is one field of a job in the form. Its name is its path in a manifest.
type field struct {
	Name string
	// Kind is the kind of the input: text, number, check, choice, marks, lines, pairs, numbers, parents, area or
	// secret.
	Kind  string
	Label core.Text
	Hint  core.Text
	// Options has the values of the kinds choice and marks. The first value of a choice is the default.
	// Users can select any number of marks.
	Options []string
	Sample  string
	For     string // the field is shown only if the job runs this: handler, script or command; empty: always shown
}

// namesOf returns values of a setting as texts.
func namesOf[T ~string](values []T) []string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	return names
}

// A group is a section of the form.
type group struct {
	Name   string
	Title  core.Text
	Fields []field
}

// whenGroup has the fields that all schedules of a job share, and the fields of parent jobs. They are not at a path of
// a manifest.
var whenGroup = group{"when", core.Say("When"), []field{
	{Name: "from", Kind: "text", Label: core.Say("Valid from"), Hint: core.Say("First day or time at which the schedule can " +
		"fire"), Sample: "2026-12-24"},
	{Name: "until", Kind: "text", Label: core.Say("Valid until"), Hint: core.Say("Last day or time at which the schedule can fire"),
		Sample: "2027-01-06T18:00"},
	{Name: "jitter", Kind: "text", Label: core.Say("Jitter"), Hint: core.Say("Prevents many jobs from firing at the same time"),
		Sample: "5m"},
	{Name: "after", Kind: "parents", Label: core.Say("Parent jobs"),
		Hint: core.Say("Each result that matches the condition triggers a run")},
	{Name: "within", Kind: "text", Label: core.Say("All parents finish within"),
		Hint: core.Say("If empty, each parent job triggers a separate run of this job"), Sample: "2h"},
}}

// formGroups are the sections of the form in their order.
var formGroups = slices.Insert(slices.Clone(groups), 2, whenGroup)

// groups are all fields of a job except the schedule and the kind of work, which have forms of their own.
var groups = []group{
	{"job", core.Say("The job"), []field{
		{Name: "app", Kind: "text", Label: core.Say("App"), Hint: core.Say("App whose executors run the job")},
		{Name: "name", Kind: "text", Label: core.Say("Name"),
			Hint: core.Say("1 to 128 characters a-z 0-9 . _ - with at least one letter; unique in the app")},
		{Name: "title", Kind: "text", Label: core.Say("Title"), Hint: core.Say("Free text")},
		{Name: "author", Kind: "text", Label: core.Say("Author"), Hint: core.Say("Contact for questions about the job")},
		{Name: "labels", Kind: "pairs", Label: core.Say("Labels"),
			Hint: core.Say("key=value, one per line; used by filters"), Sample: "team=pay"},
	}},
	{"what", core.Say("What to run"), []field{
		{Name: "handler", Kind: "text", For: "handler", Label: core.Say("Handler"),
			Hint: core.Say("The JobHandler name in the executors; for \"call:\" addresses, a method and a path"), Sample: "POST /warm"},
		{Name: "script.kind", Kind: "choice", For: "script", Label: core.Say("Language"), Hint: core.Say("Language of the script"),
			Options: namesOf(core.ScriptKinds)},
		{Name: "script.source", Kind: "area", For: "script", Label: core.Say("Source"),
			Hint: core.Say("Sent with each run to executors that use the xxl-job protocol. To leave the field, press Escape, then Tab")},
		{Name: "script.note", Kind: "text", For: "script", Label: core.Say("Note"), Hint: core.Say("What is new in this version")},
		{Name: "command.line", Kind: "area", For: "command", Label: core.Say("Command line"),
			Hint:   core.Say("Command that /bin/sh -c runs on the server's machine, if the server allows commands; $1 contains the params"),
			Sample: "./backup.sh --all"},
		{Name: "command.dir", Kind: "text", For: "command", Label: core.Say("Directory"),
			Hint:   core.Say("Start directory (default: the server's first directory)"),
			Sample: "/srv/jobs"},
		{Name: "command.user", Kind: "text", For: "command", Label: core.Say("User"),
			Hint: core.Say("User that runs the command (default: the server's user)")},
		{Name: "command.env", Kind: "pairs", For: "command", Label: core.Say("Environment"),
			Hint: core.Say("NAME=value, one per line; *** keeps the current value"), Sample: "LEVEL=info"},
		{Name: "command.maxOutput", Kind: "text", For: "command", Label: core.Say("Maximum output"),
			Hint: core.Say("Output beyond this size is not logged"), Sample: "1MB"},
		{Name: "params", Kind: "area", Label: core.Say("Params"), Hint: core.Say("Passed to the job unchanged; for a call, the request body")},
		{Name: "template", Kind: "check", Label: core.Say("Params are a template"),
			Hint: core.Say("These placeholders are replaced for each run: {{scheduledAt yyyy-MM-dd -1d}}, {{lastSuccessAt}}, " +
				"{{attempt}}, {{runId}}, {{parent.data}}")},
		{Name: "route", Kind: "choice", Label: core.Say("Route"), Hint: core.Say("How the executor for a run is chosen"),
			Options: namesOf(core.Routes)},
		{Name: "broadcast.fail", Kind: "choice", Label: core.Say("Broadcast fails if"),
			Hint: core.Say("Only for the broadcast route"), Options: namesOf(core.BroadcastFails)},
		{Name: "block", Kind: "choice", Label: core.Say("Block strategy"),
			Hint: core.Say("What an executor does with a new run while it already runs this job"), Options: namesOf(core.Blocks)},
	}},
	{"late", core.Say("When late"), []field{
		{Name: "grace", Kind: "text", Label: core.Say("Late after"), Hint: core.Say("A run is late if it is not sent within this time after " +
			"its scheduled time"), Sample: "60s"},
		{Name: "misfire", Kind: "choice", Label: core.Say("Misfire policy"),
			Hint: core.Say("Which late runs are sent. Other late runs are recorded as skipped"), Options: namesOf(core.Misfires)},
		{Name: "deadline", Kind: "text", Label: core.Say("Deadline"),
			Hint:   core.Say("Runs later than this are skipped, regardless of other settings"),
			Sample: "10m"},
		{Name: "waitForExecutor", Kind: "text", Label: core.Say("Wait for executor"),
			Hint: core.Say("How long to wait if no executor is available (default: the app's setting)"), Sample: "5m"},
	}},
	{"fails", core.Say("On failure"), []field{
		{Name: "retry.max", Kind: "number", Label: core.Say("Retries"), Hint: core.Say("Number of retries after the first attempt (0: no " +
			"retry)"), Sample: "0"},
		{Name: "retry.delay", Kind: "text", Label: core.Say("Retry delay"),
			Hint: core.Say("From the end of one attempt to the start of the next"), Sample: "30s"},
		{Name: "retry.backoff", Kind: "choice", Label: core.Say("Backoff"), Hint: core.Say("How the delay grows with each retry"),
			Options: namesOf(core.Backoffs)},
		{Name: "retry.maxDelay", Kind: "text", Label: core.Say("Maximum retry delay"), Hint: core.Say("Longest delay before a " +
			"retry"), Sample: "1d"},
		{Name: "retry.on", Kind: "marks", Label: core.Say("Retry on"), Hint: core.Say("Default: failed and timed-out"),
			Options: namesOf(core.RetryOns)},
		{Name: "timeout", Kind: "text", Label: core.Say("Timeout"),
			Hint: core.Say("Runs longer than this are ended (default: no limit)"), Sample: "10m"},
		{Name: "lostAfter", Kind: "text", Label: core.Say("Check result after"),
			Hint:   core.Say("Time without a reported result after which tickring asks the executor"),
			Sample: "10m"},
		{Name: "pauseAfter", Kind: "number", Label: core.Say("Auto-pause after"),
			Hint: core.Say("Number of failures in a row after which the job is paused (default: never)")},
	}},
	{"limits", core.Say("Limits"), []field{
		{Name: "overlap.limit", Kind: "number", Label: core.Say("Concurrent runs"),
			Hint: core.Say("Maximum number of concurrent runs on all executors (default: no limit)")},
		{Name: "overlap.whenFull", Kind: "choice", Label: core.Say("When full"),
			Hint: core.Say("What happens to runs above the limit"), Options: namesOf(core.Fulls)},
		{Name: "overlap.max", Kind: "number", Label: core.Say("Maximum waiting"), Hint: core.Say("Further runs are skipped")},
		{Name: "overlap.group", Kind: "text", Label: core.Say("Shared group"),
			Hint: core.Say("All jobs with the same group name share the limit")},
		{Name: "overlap.key", Kind: "text", Label: core.Say("Limit per value of"),
			Hint: core.Say("JSON pointer to a value in the params; the limit applies to each value separately"), Sample: "/tenant"},
	}},
	{"notifications", core.Say("Notifications"), []field{
		{Name: "notify.to", Kind: "lines", Label: core.Say("Channels"), Hint: core.Say("One per line (default: the app's setting)")},
		{Name: "notify.on", Kind: "marks", Label: core.Say("Events"), Hint: core.Say("Default: the app's setting"),
			Options: namesOf(core.Events)},
		{Name: "notify.late", Kind: "text", Label: core.Say("Late"), Hint: core.Say("Users are notified of runs that are sent later than " +
			"this after their due time"), Sample: "5m"},
		{Name: "notify.slow", Kind: "text", Label: core.Say("Slow"),
			Hint: core.Say("Users are notified if a run has not ended within this time after it was sent"), Sample: "30m"},
		{Name: "notify.quiet", Kind: "text", Label: core.Say("Quiet period"),
			Hint:   core.Say("For this time after a notification, further events of the same kind are counted, then reported in one notification"),
			Sample: "1h"},
		{Name: "notify.overdue.by", Kind: "text", Label: core.Say("Must succeed by"),
			Hint:   core.Say("Time of day in the job's time zone, on each day that the job is scheduled"),
			Sample: "06:00"},
		{Name: "notify.overdue.within", Kind: "text", Label: core.Say("Must succeed within"),
			Hint: core.Say("Maximum time since the last success of the job"), Sample: "25h"},
	}},
	{"keeping", core.Say("Retention"), []field{
		{Name: "retention.days", Kind: "number", Label: core.Say("Days to keep runs"), Hint: core.Say("0 keeps runs forever"), Sample: "30"},
		{Name: "retention.log", Kind: "choice", Label: core.Say("Logs"),
			Hint:    core.Say("Runs for which the server keeps the end of the log, at most 64 KB"),
			Options: []string{"on-failure", "never", "always"}},
	}},
	{"call", core.Say("HTTP call (for 'call:' addresses)"), []field{
		{Name: "call.headers", Kind: "pairs", For: "handler", Label: core.Say("Headers"),
			Hint:   core.Say("Name=value, one per line; *** keeps the current value"),
			Sample: "X-Team=pay"},
		{Name: "call.expect", Kind: "numbers", For: "handler", Label: core.Say("Success status codes"),
			Hint: core.Say("One per line (default: 200 to 299 except 202)"), Sample: "200"},
		{Name: "call.maxAnswer", Kind: "text", For: "handler", Label: core.Say("Maximum response size"),
			Hint:   core.Say("tickring does not read the part of the response beyond this size"),
			Sample: "16MB"},
		{Name: "call.auth.bearer", Kind: "secret", For: "handler", Label: core.Say("Bearer token"),
			Hint: core.Say("*** keeps the current value. Set only one of bearer token, basic auth and OAuth")},
		{Name: "call.auth.basic.user", Kind: "text", For: "handler", Label: core.Say("Basic auth user"),
			Hint: core.Say("Used together with the password")},
		{Name: "call.auth.basic.password", Kind: "secret", For: "handler", Label: core.Say("Basic auth password"),
			Hint: core.Say("*** keeps the current value")},
		{Name: "call.auth.oauth.tokenUrl", Kind: "text", For: "handler", Label: core.Say("OAuth token URL"),
			Hint: core.Say("URL of the token server, for the client credentials grant")},
		{Name: "call.auth.oauth.clientId", Kind: "text", For: "handler", Label: core.Say("OAuth client ID"),
			Hint: core.Say("Client name at the token server")},
		{Name: "call.auth.oauth.clientSecret", Kind: "secret", For: "handler", Label: core.Say("OAuth client secret"),
			Hint: core.Say("*** keeps the current value")},
		{Name: "call.auth.oauth.scope", Kind: "text", For: "handler", Label: core.Say("OAuth scope"),
			Hint: core.Say("Only if the token server requires a scope")},
	}},
}

// unshown are the fields of a manifest, of the job or its set, that the form does not show but carries.
var unshown = []field{{Name: "set", Kind: "text"}, {Name: "paused", Kind: "text"}, {Name: "call.hidden", Kind: "lines", For: "handler"},
	{Name: "command.hidden", Kind: "lines", For: "command"}}

// commonSchedules are frequent schedules to start from. Each is described by the code that computes its times.
var commonSchedules = []string{"crontab * * * * *", "crontab */5 * * * *", "crontab */15 8-17 * * 1-5", "crontab 0 * * * *",
	"crontab 30 2 * * *", "crontab 0 6,18 * * *", "crontab 0 9 * * 1-5", "crontab 0 22 * * 0", "crontab 0 3 1 * *",
	"cron 0 0 18 L * ?", "cron 0 0 18 LW * ?", "cron 0 0 9 ? * MON#1", "crontab 0 4 1 1,4,7,10 *"}

// zones are the time zones in the form's list; users can type any other.
var zones = []string{"UTC", "Africa/Cairo", "Africa/Johannesburg", "Africa/Lagos", "Africa/Nairobi", "America/Argentina/Buenos_Aires",
	"America/Bogota", "America/Chicago", "America/Denver", "America/Halifax", "America/Lima", "America/Los_Angeles", "America/Mexico_City",
	"America/New_York", "America/Phoenix", "America/Santiago", "America/Sao_Paulo", "America/Toronto", "America/Vancouver", "Asia/Bangkok",
	"Asia/Dhaka", "Asia/Dubai", "Asia/Ho_Chi_Minh", "Asia/Hong_Kong", "Asia/Jakarta", "Asia/Karachi", "Asia/Kolkata", "Asia/Kuala_Lumpur",
	"Asia/Manila", "Asia/Riyadh", "Asia/Seoul", "Asia/Shanghai", "Asia/Singapore", "Asia/Taipei", "Asia/Tehran", "Asia/Tokyo",
	"Atlantic/Reykjavik", "Australia/Adelaide", "Australia/Brisbane", "Australia/Melbourne", "Australia/Perth", "Australia/Sydney",
	"Europe/Amsterdam", "Europe/Athens", "Europe/Berlin", "Europe/Brussels", "Europe/Bucharest", "Europe/Budapest", "Europe/Copenhagen",
	"Europe/Dublin", "Europe/Helsinki", "Europe/Istanbul", "Europe/Kyiv", "Europe/Lisbon", "Europe/London", "Europe/Madrid", "Europe/Oslo",
	"Europe/Paris", "Europe/Prague", "Europe/Rome", "Europe/Stockholm", "Europe/Vienna", "Europe/Warsaw", "Europe/Zurich",
	"Pacific/Auckland", "Pacific/Honolulu"}
