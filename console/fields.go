package console

import "github.com/tickring/tickring/core"

// field is one of a job, as the form has it. Its name is its path in a manifest.
type field struct {
	Name    string
	Kind    string // text, number, check, choice, marks, lines, pairs, numbers, parents, area, secret
	Label   core.Text
	Hint    core.Text
	Options []string // of a choice, the first is the default; of marks, of which any are taken
	Sample  string
	For     string // shown where that runs: handler, script or command; empty: whatever runs
}

// group is fields that answer one question.
type group struct {
	Name   string
	Title  core.Text
	Fields []field
}

// groups are all fields of a job but what runs and when, which have forms of their own.
var groups = []group{
	{"job", core.Say("The job"), []field{
		{Name: "app", Kind: "text", Label: core.Say("App"), Hint: core.Say("Whose executors run it")},
		{Name: "name", Kind: "text", Label: core.Say("Name"),
			Hint: core.Say("1 to 128 of a-z 0-9 . _ - with a letter; unique in its app")},
		{Name: "title", Kind: "text", Label: core.Say("Title"), Hint: core.Say("Free text, for people")},
		{Name: "author", Kind: "text", Label: core.Say("Author"), Hint: core.Say("Who to ask about it")},
		{Name: "labels", Kind: "pairs", Label: core.Say("Labels"),
			Hint: core.Say("key=value, one a line; for filters"), Sample: "team=pay"},
	}},
	{"what", core.Say("What runs"), []field{
		{Name: "handler", Kind: "text", For: "handler", Label: core.Say("Handler"),
			Hint: core.Say("As its executors name it; of call: executors a method and a path"), Sample: "POST /warm"},
		{Name: "script.kind", Kind: "choice", For: "script", Label: core.Say("Language"), Hint: core.Say("What the script is written in"),
			Options: []string{"shell", "python", "nodejs", "php", "powershell", "groovy"}},
		{Name: "script.source", Kind: "area", For: "script", Label: core.Say("Source"),
			Hint: core.Say("Comes with each run, to executors that speak xxl-job's protocol. Escape, then Tab, leaves the field")},
		{Name: "script.note", Kind: "text", For: "script", Label: core.Say("Note"), Hint: core.Say("What is new in this version")},
		{Name: "command.line", Kind: "area", For: "command", Label: core.Say("Command line"),
			Hint:   core.Say("What /bin/sh -c runs on the server's machine, where it allows that; $1 is the params"),
			Sample: "./backup.sh --all"},
		{Name: "command.dir", Kind: "text", For: "command", Label: core.Say("Folder"),
			Hint:   core.Say("Where it begins; left empty: the server's first"),
			Sample: "/srv/jobs"},
		{Name: "command.user", Kind: "text", For: "command", Label: core.Say("User"),
			Hint: core.Say("As whom it runs; left empty: as the server")},
		{Name: "command.env", Kind: "pairs", For: "command", Label: core.Say("Environment"),
			Hint: core.Say("NAME=value, one a line; *** stays as it is"), Sample: "LEVEL=info"},
		{Name: "command.maxOutput", Kind: "text", For: "command", Label: core.Say("Output that is kept"),
			Hint: core.Say("The rest is left out of the log"), Sample: "1MB"},
		{Name: "params", Kind: "area", Label: core.Say("Params"), Hint: core.Say("What it gets, byte for byte; the body of a call")},
		{Name: "template", Kind: "check", Label: core.Say("The params are a template"),
			Hint: core.Say("Filled for each run: {{scheduledAt yyyy-MM-dd -1d}}, {{lastSuccessAt}}, {{attempt}}, {{runId}}, {{parent.data}}")},
		{Name: "route", Kind: "choice", Label: core.Say("Route"), Hint: core.Say("Which of the executors gets it"),
			Options: []string{"first", "last", "round", "random", "hash", "lfu", "lru", "failover", "busyover", "broadcast"}},
		{Name: "broadcast.fail", Kind: "choice", Label: core.Say("A broadcast has failed if"),
			Hint: core.Say("Where its route is broadcast"), Options: []string{"any", "all"}},
		{Name: "block", Kind: "choice", Label: core.Say("Block"), Hint: core.Say("What an executor does that is at work on it already"),
			Options: []string{"serial", "discard-later", "cover-early"}},
	}},
	{"late", core.Say("If it is late"), []field{
		{Name: "grace", Kind: "text", Label: core.Say("Late after"), Hint: core.Say("Not sent within this of its time"), Sample: "60s"},
		{Name: "misfire", Kind: "choice", Label: core.Say("What becomes of late ones"),
			Hint:    core.Say("Those that are not sent are recorded as skipped"),
			Options: []string{"latest", "all", "skip"}},
		{Name: "deadline", Kind: "text", Label: core.Say("Deadline"),
			Hint:   core.Say("Later than this it is skipped, whatever else is said"),
			Sample: "10m"},
		{Name: "waitForExecutor", Kind: "text", Label: core.Say("Wait for an executor"),
			Hint: core.Say("How long, where none is there; left empty: as the app says"), Sample: "5m"},
	}},
	{"fails", core.Say("If it fails"), []field{
		{Name: "retry.max", Kind: "number", Label: core.Say("More attempts"), Hint: core.Say("After the first; 0 is none"), Sample: "0"},
		{Name: "retry.delay", Kind: "text", Label: core.Say("Between attempts"),
			Hint: core.Say("From the end of one to the next"), Sample: "30s"},
		{Name: "retry.backoff", Kind: "choice", Label: core.Say("How that grows"), Hint: core.Say("From one attempt to the next"),
			Options: []string{"constant", "exponential"}},
		{Name: "retry.maxDelay", Kind: "text", Label: core.Say("At most"), Hint: core.Say("What it grows to"), Sample: "1d"},
		{Name: "retry.on", Kind: "marks", Label: core.Say("After which ends"), Hint: core.Say("None marked: failed and timed-out"),
			Options: []string{"failed", "timed-out", "lost"}},
		{Name: "timeout", Kind: "text", Label: core.Say("Timeout"),
			Hint: core.Say("Longer than this is ended; left empty: never"), Sample: "10m"},
		{Name: "lostAfter", Kind: "text", Label: core.Say("Looked after"), Hint: core.Say("When nobody has reported its end for so long"),
			Sample: "10m"},
		{Name: "pauseAfter", Kind: "number", Label: core.Say("Paused after"),
			Hint: core.Say("So many failures in a row; left empty: never")},
	}},
	{"limits", core.Say("Limits"), []field{
		{Name: "overlap.limit", Kind: "number", Label: core.Say("At work at once"),
			Hint: core.Say("So many of its runs, wherever; left empty: no limit")},
		{Name: "overlap.full", Kind: "choice", Label: core.Say("The next one beyond"),
			Hint:    core.Say("What becomes of it"),
			Options: []string{"queue", "skip", "replace"}},
		{Name: "overlap.max", Kind: "number", Label: core.Say("So many wait"), Hint: core.Say("The next is skipped")},
		{Name: "overlap.group", Kind: "text", Label: core.Say("Shared with"),
			Hint: core.Say("All jobs that name this group share the limit")},
		{Name: "overlap.key", Kind: "text", Label: core.Say("For each value at"),
			Hint: core.Say("A JSON pointer into the params"), Sample: "/tenant"},
	}},
	{"notices", core.Say("Who is told"), []field{
		{Name: "notify.to", Kind: "lines", Label: core.Say("Channels"), Hint: core.Say("One a line; left empty: as the app says")},
		{Name: "notify.on", Kind: "marks", Label: core.Say("Of what"), Hint: core.Say("None marked: as the app says"),
			Options: []string{"failed", "lost", "no-executor", "recovered", "skipped", "late", "slow", "paused", "unplanned", "dead-letter",
				"overdue"}},
		{Name: "notify.late", Kind: "text", Label: core.Say("Late"), Hint: core.Say("Sent so long after its time"), Sample: "5m"},
		{Name: "notify.slow", Kind: "text", Label: core.Say("Slow"), Hint: core.Say("At work for so long"), Sample: "30m"},
		{Name: "notify.quiet", Kind: "text", Label: core.Say("Quiet"),
			Hint:   core.Say("One notice of an event in so long, then one with the count"),
			Sample: "1h"},
		{Name: "notify.overdue.by", Kind: "text", Label: core.Say("Done by"), Hint: core.Say("Of each day it is to run on, in its zone"),
			Sample: "06:00"},
		{Name: "notify.overdue.within", Kind: "text", Label: core.Say("Done within"),
			Hint: core.Say("So long after its last success"), Sample: "25h"},
	}},
	{"keeping", core.Say("What is kept"), []field{
		{Name: "keep.days", Kind: "number", Label: core.Say("Runs, in days"), Hint: core.Say("0 is for ever"), Sample: "30"},
		{Name: "keep.log", Kind: "choice", Label: core.Say("Logs"),
			Hint:    core.Say("Of which runs the end of the log is kept, beyond their executor"),
			Options: []string{"on-failure", "never", "always"}},
	}},
	{"call", core.Say("How it is called (of call: executors)"), []field{
		{Name: "call.headers", Kind: "pairs", For: "handler", Label: core.Say("Headers"),
			Hint:   core.Say("Name=value, one a line; *** stays as it is"),
			Sample: "X-Team=pay"},
		{Name: "call.expect", Kind: "numbers", For: "handler", Label: core.Say("Statuses that succeed"),
			Hint: core.Say("One a line; left empty: 200 to 299 but 202"), Sample: "200"},
		{Name: "call.maxAnswer", Kind: "text", For: "handler", Label: core.Say("How much of the answer is read"),
			Hint:   core.Say("The rest is left"),
			Sample: "16MB"},
		{Name: "call.auth.bearer", Kind: "secret", For: "handler", Label: core.Say("Bearer token"),
			Hint: core.Say("*** stays as it is; one of the three ways")},
		{Name: "call.auth.basic.user", Kind: "text", For: "handler", Label: core.Say("Basic: user"), Hint: core.Say("With its password")},
		{Name: "call.auth.basic.password", Kind: "secret", For: "handler", Label: core.Say("Basic: password"),
			Hint: core.Say("*** stays as it is")},
		{Name: "call.auth.oauth.tokenUrl", Kind: "text", For: "handler", Label: core.Say("OAuth: where a token is got"),
			Hint: core.Say("For client credentials")},
		{Name: "call.auth.oauth.clientId", Kind: "text", For: "handler", Label: core.Say("OAuth: client"),
			Hint: core.Say("Its name there")},
		{Name: "call.auth.oauth.clientSecret", Kind: "secret", For: "handler", Label: core.Say("OAuth: secret"),
			Hint: core.Say("*** stays as it is")},
		{Name: "call.auth.oauth.scope", Kind: "text", For: "handler", Label: core.Say("OAuth: scope"),
			Hint: core.Say("If it must be said")},
	}},
}

// unshown are what a manifest may say of a job, or of the set it is of, that the form has no fields for.
// The form carries them.
var unshown = []field{{Name: "set", Kind: "text"}, {Name: "paused", Kind: "text"}, {Name: "call.hidden", Kind: "lines", For: "handler"},
	{Name: "command.hidden", Kind: "lines", For: "command"}}

// commonSchedules are what many begin with. What they mean is said by who reads them when they fire.
var commonSchedules = []string{"crontab * * * * *", "crontab */5 * * * *", "crontab */15 8-17 * * 1-5", "crontab 0 * * * *",
	"crontab 30 2 * * *", "crontab 0 6,18 * * *", "crontab 0 9 * * 1-5", "crontab 0 22 * * 0", "crontab 0 3 1 * *",
	"cron 0 0 18 L * ?", "cron 0 0 18 LW * ?", "cron 0 0 9 ? * MON#1", "crontab 0 4 1 1,4,7,10 *"}

// zones are those that the form offers; any other is typed.
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
