package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/words"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// well is a deployment that nothing is wrong with, on AWS.
func well() *Facts {
	on := true
	queue := func(name string, dead bool) *Queue {
		q := &Queue{URL: "https://sqs.eu-central-1.amazonaws.com/1/" + name, Visibility: time.Minute, Retention: 14 * 24 * time.Hour, Due: 1}
		if name == "results" { // no function reads it: no executor is a function
			q.Due = 0
		}
		if !dead {
			q.Dead, q.MaxReceives = "arn:aws:sqs:eu-central-1:1:dead", 100
		} else {
			q.Due = 0
		}
		return q
	}
	env := map[string]string{"TICKRING_TABLE_JOBS": "jobs-1", "TICKRING_TABLE_RUNS": "runs-1", "TICKRING_TABLE_STATE": "state-1"}
	return &Facts{Now: now, Took: 20 * time.Millisecond, Endpoint: "https://jobs.example.com",
		Own: &client.Facts{Now: now, Version: "0.1", LastTick: now.Add(-50 * time.Second), Generation: 1, Holder: "eu-central-1/state-1",
			Deployment: "eu-central-1/state-1",
			Fires:      &client.Depth{Due: 3, Waiting: 5}, Partitions: 1,
			Executors: []client.Executor{{App: "web", Address: "http://10.0.0.1:9999/", Live: true, BeatAt: now}}},
		Canary: &Canary{Ran: true, Came: true, At: now.Add(-time.Minute)},
		Cloud: &Cloud{Clock: now,
			Tables: map[string]*Table{
				"jobs": {Name: "jobs-1", Status: "ACTIVE", Protected: true, Recoverable: &on, TTL: "expires",
					Indexes: map[string]string{"due": "ACTIVE"}},
				"runs":  {Name: "runs-1", Status: "ACTIVE", Protected: true, Recoverable: new(bool), TTL: "expires"},
				"state": {Name: "state-1", Status: "ACTIVE", Protected: true, Recoverable: &on, TTL: "expires"},
			},
			Queues: map[string]*Queue{"fires": queue("fires", false), "checks": queue("checks", false), "dead": queue("dead", true),
				"results": queue("results", false)},
			Functions: map[string]*Function{
				"tick": {Name: "t-tick", State: "Active", Update: "Successful", Timeout: time.Minute, Env: env, Loop: "Allow"},
				"dispatch": {Name: "t-dispatch", State: "Active", Update: "Successful", Timeout: 30 * time.Second, Env: env, Loop: "Allow",
					Mappings: map[string]string{"arn:aws:sqs:eu-central-1:1:fires": "Enabled", "arn:aws:sqs:eu-central-1:1:checks": "Enabled"}},
			},
			Schedule: &Schedule{Name: "wake", State: "ENABLED", Rate: "rate(1 minute)"},
			Account:  &Account{Concurrency: 1000, Unreserved: 1000, TableWrite: 40000, TableRead: 40000},
		}}
}

// here returns the same facts for a server on one machine.
func here() *Facts {
	f := well()
	f.Cloud, f.Canary, f.Endpoint = nil, nil, "http://127.0.0.1:7700"
	f.Own.Holder, f.Own.Generation, f.Own.Deployment = "", 0, ""
	f.Own.LastTick = now.Add(-time.Second)
	f.Own.Data = &client.DataFolder{Folder: "/var/lib/tickring", Bytes: 50 << 20, Free: 50 << 30}
	return f
}

// TestWell: a call may take as long as its job allows, and its message is in progress during that time. On AWS the age of messages
// is an upper bound: if jobs fire every second, a few are always due; if some are always in flight, it is known to ten minutes.
func TestWell(t *testing.T) {
	behind := func(f *Facts, due, inFlight int, age time.Duration) *Facts {
		f.Own.Fires.Due, f.Own.Fires.InFlight, f.Own.OldestMessage = due, inFlight, now.Add(-age)
		return f
	}
	for name, f := range map[string]*Facts{"a deployment": well(), "a server": here(), "a long call": behind(here(), 0, 1, 10*time.Minute),
		"a busy fleet": behind(well(), 20, 0, 6*time.Minute), "always busy": behind(well(), 20, 0, time.Hour),
		"always in flight": behind(well(), 5000, 0, 11*time.Minute)} {
		list := Judge(f)
		if w := Worst(list); w != Well || len(list) < 6 {
			t.Errorf("%s: %s, %+v", name, w, list)
		}
	}
	if w := Worst(nil); w != Well {
		t.Error(w)
	}
}

// findingTexts returns the text of each finding, and what to do about it.
func findingTexts(list []Finding) string {
	var b strings.Builder
	for _, x := range list {
		fmt.Fprintf(&b, "%s\n%s\n", x.Says, x.Do)
	}
	return b.String()
}

// told is the message of the tests' fenced deployment, in its own language.
const told = "these tables belong to another deployment"

// english matches five English words in a row, which no command has.
var english = regexp.MustCompile(`(?:\b[a-z]{2,} ){4}[a-z]{2,}\b`)

func failing(job string, times int, reason core.Reason) client.FailingJob {
	app, _, _ := strings.Cut(job, "/")
	return client.FailingJob{Job: job, Times: times, Last: client.Run{ID: "7", App: app, State: "failed", Reason: string(reason),
		Message: "no such table\nline 7", EndedAt: now.Add(-time.Minute)}}
}

// TestManyJobs: a few of many failing jobs are named and the others counted, and the text reports where the check stopped.
func TestManyJobs(t *testing.T) {
	texts, f := golden.New(t), here()
	f.Jobs = &client.JobFacts{Looked: 10_000, More: true}
	jobs := func() []Finding {
		return slices.DeleteFunc(Judge(f), func(x Finding) bool { return x.Check.String() != "jobs" })
	}
	if list := jobs(); len(list) != 1 || Worst(Judge(f)) != Well {
		t.Errorf("%+v", list)
	}
	texts.Equal(t, "no job fails", findingTexts(jobs()))
	f.Jobs.FailingJobs = 300
	for range 100 {
		f.Jobs.Failing = append(f.Jobs.Failing, failing("web/a", 3, core.ReasonHandler))
	}
	list := jobs()
	if len(list) != mostNamed+2 {
		t.Fatalf("%+v", list)
	}
	texts.Equal(t, "300 jobs fail", findingTexts(list[mostNamed:]))
}

// TestDoctorDoesNotBlameEmulator: an emulator lacks some features and does not show some settings. Doctor names them and finds no fault.
func TestDoctorDoesNotBlameEmulator(t *testing.T) {
	f := well()
	f.Cloud.Emulated, f.Cloud.Functions["dispatch"].Loop = true, "Terminate"
	for _, table := range f.Cloud.Tables {
		table.TTL, table.Recoverable, table.Protected = "", new(bool), false
	}
	for lacks, want := range map[bool]int{false: 1, true: 3} {
		f.Cloud.NoHTTPAPIs, f.Cloud.NoPermissions = lacks, lacks
		list, n := Judge(f), 0
		for _, x := range list {
			if x.Check.String() == "emulator" {
				n++
			}
		}
		if worst := Worst(list); worst != Well || n != want {
			t.Errorf("the worst is %s, and %d findings are about the emulator: %v", worst, n, list)
		}
	}
}

// TestVerdictTellsTheSchedulerFromItsJobs: failing jobs do not make the scheduler unhealthy, and the verdict counts the
// same jobs whether each one was checked or not.
func TestVerdictTellsTheSchedulerFromItsJobs(t *testing.T) {
	texts := golden.New(t)
	looked := &client.JobFacts{FailingJobs: 1, Failing: []client.FailingJob{failing("web/a", 3, core.ReasonHandler)},
		MissingChannels: []client.MissingChannel{{Subject: "web/a", Channel: "gone"}}}
	for name, change := range map[string]func(f *Facts){
		"no job fails":  func(f *Facts) { f.Own.Failing = &client.FailingCount{} },
		"one job fails": func(f *Facts) { f.Own.Failing = &client.FailingCount{Jobs: 1} },
		"partial count": func(f *Facts) { f.Own.Failing = &client.FailingCount{Jobs: 2, Partial: true} },
		"no count":      func(f *Facts) {},
		"paused":        func(f *Facts) { f.Own.Paused = true },
		"unread facts": func(f *Facts) {
			f.Own.Unread, f.Own.Failing = []string{"reports"}, &client.FailingCount{Jobs: 2}
		},
		"no server":        func(f *Facts) { f.Own = nil },
		"no live executor": func(f *Facts) { f.Own.Executors[0].Live = false },
	} {
		for _, jobs := range []*client.JobFacts{nil, looked} {
			f := here()
			f.Jobs = jobs
			if change(f); f.Own == nil && jobs != nil {
				continue
			}
			texts.Equal(t, name, Verdict(f.Own, Judge(f)).String())
		}
	}
}

// TestDoctorCountsTheRestAtItsOwnLevel checks the line "and N more": six jobs that failed once are a warning, as one is;
// if the rest is wrong, the line is wrong. Wrong findings come before warnings.
func TestDoctorCountsTheRestAtItsOwnLevel(t *testing.T) {
	once, broken := failing("web/a", 1, core.ReasonHandler), failing("web/b", 3, core.ReasonHandler)
	mute := client.ChannelTrouble{Channel: "oncall", Since: now, GivenUp: 1}
	slow := client.ChannelTrouble{Channel: "chat", Since: now}
	for _, c := range []struct {
		name        string
		jobs        []client.FailingJob
		channels    []client.ChannelTrouble
		untold      int
		first, rest Level
	}{
		{name: "jobs that failed once", jobs: slices.Repeat([]client.FailingJob{once}, 6), first: Warning, rest: Warning},
		{name: "the last one is broken", jobs: append(slices.Repeat([]client.FailingJob{once}, 6), broken), first: Wrong, rest: Warning},
		{name: "broken jobs", jobs: slices.Repeat([]client.FailingJob{broken}, 6), first: Wrong, rest: Wrong},
		{name: "slow channels", channels: append(slices.Repeat([]client.ChannelTrouble{slow}, 6), mute), first: Wrong, rest: Warning},
		{name: "mute channels", channels: slices.Repeat([]client.ChannelTrouble{mute}, 6), first: Wrong, rest: Wrong},
		{name: "channels that do not exist", untold: 6, first: Wrong, rest: Wrong},
	} {
		f := here()
		f.Own.TroubledChannels = c.channels
		f.Jobs = &client.JobFacts{Failing: c.jobs, FailingJobs: len(c.jobs),
			MissingChannels: slices.Repeat([]client.MissingChannel{{Subject: "web/a"}}, c.untold)}
		list := slices.DeleteFunc(Judge(f), func(x Finding) bool { return x.Level == Well })
		if len(list) != mostNamed+1 || list[0].Level != c.first || list[mostNamed].Level != c.rest {
			t.Errorf("%s: %+v", c.name, list)
		}
	}
}

// TestFindings: each possible problem is found, alone, with what to do about it.
func TestFindings(t *testing.T) {
	texts, no := golden.New(t), new(bool)
	for _, c := range []struct {
		name   string
		from   func() *Facts
		change func(f *Facts)
		check  string
		level  Level
	}{
		{"no server", here, func(f *Facts) { f.Own, f.OwnErr = nil, "no answer: connection refused" }, "server", Wrong},
		{"no API", well, func(f *Facts) { f.Own, f.OwnErr = nil, "it answered 502" }, "server", Wrong},
		{"a wrong token", here, func(f *Facts) { f.Own, f.Refused = nil, true }, "server", Wrong},
		{"a stack's wrong token", well, func(f *Facts) { f.Own, f.Refused = nil, true }, "server", Wrong},
		{"an older server", here, func(f *Facts) { f.Own, f.Older = nil, true }, "server", Warning},
		{"a standby", here, func(f *Facts) { f.Own = &client.Facts{Now: now, Standby: true} }, "server", Warning},
		{"fenced", well, func(f *Facts) { // and so not late
			ago := now.Add(-time.Hour)
			f.Own.Fenced, f.Own.LastTick, f.Own.DueSince, f.Own.OldestMessage = told, ago, ago, ago
		}, "generation", Wrong},
		{"paused", well, func(f *Facts) { f.Own.Paused = true }, "pause", Warning},
		{"a clock that is off", well, func(f *Facts) { f.Own.Now = now.Add(-5 * time.Second); f.Own.LastTick = f.Own.Now }, "clock", Warning},
		{"a clock that is far off", here, func(f *Facts) { f.Now = now.Add(time.Hour) }, "clock", Wrong},
		{"AWS's clock", well, func(f *Facts) { f.Cloud.Clock = now.Add(2 * time.Minute) }, "clock", Wrong},
		{"no tick for long", well, func(f *Facts) { f.Own.LastTick = now.Add(-4 * time.Minute) }, "last tick", Wrong},
		{"no tick ever", well, func(f *Facts) { f.Own.LastTick = time.Time{} }, "last tick", Wrong},
		{"a server that hangs", here, func(f *Facts) { f.Own.LastTick = now.Add(-11 * time.Second) }, "last tick", Wrong},
		{"planning behind", well, func(f *Facts) { f.Own.DueSince = now.Add(-211 * time.Second) }, "planning", Wrong},
		{"planning behind here", here, func(f *Facts) { f.Own.DueSince = now.Add(-11 * time.Second) }, "planning", Wrong},
		{"messages behind", well, func(f *Facts) { f.Own.Fires.Due, f.Own.OldestMessage = 21, now.Add(-16*time.Minute) }, "messages", Warning},
		{"messages behind here", here, func(f *Facts) { f.Own.Fires.Due, f.Own.OldestMessage = 1, now.Add(-31*time.Second) }, "messages", Wrong},
		{"a message that is requeued repeatedly", here, func(f *Facts) { f.Own.Fires.Due, f.Own.OldestMessage = 0, now.Add(-time.Hour) },
			"messages", Warning},
		{"a loss", well, func(f *Facts) { f.Own.LossFound = now.Add(-3 * time.Minute) }, "losses", Warning},
		{"nothing to be compared for long", well, func(f *Facts) { f.Own.UncomparedFrom = now.Add(-12 * time.Minute) }, "losses", Warning},
		{"nothing to be compared for days", well, func(f *Facts) { f.Own.UncomparedFrom = now.Add(-50*time.Hour - time.Minute) }, "losses",
			Warning},
		{"a canary that never came", well, func(f *Facts) { f.Canary = &Canary{} }, "canary", Wrong},
		{"a canary that came no more", well, func(f *Facts) { f.Canary.At = now.Add(-6 * time.Minute) }, "canary", Wrong},
		{"a canary whose result is lost", well, func(f *Facts) { f.Canary.Came, f.Canary.Message = false, "no report" }, "canary", Wrong},
		{"a mapping in the making", well, func(f *Facts) {
			f.Cloud.Functions["dispatch"].Mappings["arn:aws:sqs:eu-central-1:1:fires"] = "Creating"
		}, "function dispatch", Unknown},
		{"one executor gone", well, func(f *Facts) {
			f.Own.Executors = append(f.Own.Executors, client.Executor{App: "web", Address: "http://10.0.0.2:9999/", BeatAt: now.Add(-time.Hour)})
		}, "executors", Warning},
		{"one executor was replaced", well, func(f *Facts) {
			f.Own.Executors = append(f.Own.Executors, client.Executor{App: "web", Address: "http://10.0.0.2:9999", Replaced: true},
				client.Executor{App: "web", Address: "http://10.0.0.3:9999", BeatAt: now.Add(-time.Hour)})
		}, "executors", Warning},
		{"no run arrives at one that beats", here, func(f *Facts) {
			f.Own.Executors[0].Answers, f.Own.Executors[0].Problem = new(false), "HTTP 500: out of memory"
		}, "executors", Wrong},
		{"one is refused for its token", here, func(f *Facts) {
			f.Own.Refused = []client.RefusedExecutor{{App: "web", Address: "http://10.0.0.9:9999/", From: "10.0.0.9",
				At: f.Own.Now.Add(-time.Minute), Times: 7}}
		}, "executors", Warning},
		{"one is refused for an app that is not there", here, func(f *Facts) {
			f.Own.Refused = []client.RefusedExecutor{{App: "shop", Address: "http://10.0.0.9:9999/", From: "10.0.0.9", At: f.Own.Now,
				Times: 7}}
			f.Apps = []string{"web"}
		}, "executors", Warning},
		{"one of two is allowed in finally", here, func(f *Facts) {
			f.Own.Refused = []client.RefusedExecutor{{App: "web", Address: "http://10.0.0.8:9999", From: "10.0.0.8",
				At: f.Own.Now.Add(-time.Minute), Times: 8}, {App: "web", Address: "http://10.0.0.9:9999", At: f.Own.Now.Add(-time.Minute), Times: 7}}
			f.Own.Executors = append(f.Own.Executors, client.Executor{App: "web", Address: "http://10.0.0.9:9999", Live: true,
				BeatAt: f.Own.Now.Add(-time.Second)})
			f.Apps = []string{"web"}
		}, "executors", Warning},
		{"all executors gone", here, func(f *Facts) { f.Own.Executors[0].Live = false }, "executors", Wrong},
		{"an app without executors", here, func(f *Facts) {
			f.Jobs = &client.JobFacts{Looked: 3, AppsWithoutExecutor: []client.AppWithoutExecutor{{App: "shop", Jobs: 3, Job: "shop/backup"}}}
		}, "jobs", Wrong},
		{"all executors gone, and jobs", here, func(f *Facts) {
			f.Own.Executors[0].Live = false
			f.Jobs = &client.JobFacts{Looked: 3, AppsWithoutExecutor: []client.AppWithoutExecutor{{App: "web", Jobs: 1, Job: "web/a"}},
				FailingJobs: 1, Failing: []client.FailingJob{failing("web/a", 3, core.ReasonNoExecutor)}}
		}, "executors", Wrong},
		{"a job that fails", here, func(f *Facts) {
			f.Jobs = &client.JobFacts{Looked: 3, FailingJobs: 1, Failing: []client.FailingJob{failing("web/a", 3, core.ReasonHandler)}}
		}, "jobs", Wrong},
		{"a job that only failed yet", here, func(f *Facts) {
			f.Jobs = &client.JobFacts{Looked: 3, FailingJobs: 1, Failing: []client.FailingJob{failing("web/a", 1, core.ReasonNoExecutor)}}
		}, "jobs", Warning},
		{"a run that waits for long", well, func(f *Facts) {
			f.Jobs = &client.JobFacts{Looked: 3, Pending: &client.Run{Job: "web/a", State: "queued", DueAt: now.Add(-16 * time.Minute)}}
		}, "jobs", Warning},
		{"jobs that cannot be checked", well, func(f *Facts) { f.JobsErr = "it answered 500" }, "jobs", Unknown},
		{"a certificate that ends", here, func(f *Facts) { f.Own.CertificateUntil = now.Add(6 * 24 * time.Hour) }, "certificate", Warning},
		{"a certificate that ended", here, func(f *Facts) { f.Own.CertificateUntil = now.Add(-time.Minute) }, "certificate", Wrong},
		{"a full disk", here, func(f *Facts) { f.Own.Data.Free = 99 << 20 }, "disk", Wrong},
		{"a disk that fills up", here, func(f *Facts) { f.Own.Data.Free = 1 << 29 }, "disk", Warning},
		{"a disk that is not known", here, func(f *Facts) { f.Own.Data.Free = -1 }, "disk", Unknown},
		{"a channel that takes nothing", here, func(f *Facts) {
			f.Own.TroubledChannels = []client.ChannelTrouble{{Channel: "oncall", Since: now.Add(-3 * time.Hour), LastAt: now,
				Error: "no answer\nline 2"}}
		}, "notifications", Warning},
		{"a channel of AWS that is mute", well, func(f *Facts) {
			f.Own.TroubledChannels = []client.ChannelTrouble{{Channel: "oncall", Since: now.Add(-time.Hour), LastAt: now,
				Error: "410 Gone", GivenUp: 7}}
		}, "notifications", Wrong},
		{"dropped notifications", here, func(f *Facts) { f.Own.NotificationsDropped = 3 }, "notifications", Warning},
		{"a channel that is not there", well, func(f *Facts) {
			f.Jobs = &client.JobFacts{MissingChannels: []client.MissingChannel{{Subject: "web/a", Channel: "gone"}}}
		}, "jobs", Wrong},
		{"a job with the secrets of another server", well, func(f *Facts) {
			f.Jobs = &client.JobFacts{Locked: []client.UnreadableApp{{Name: "web/a", Message: "of web/a: " + told}}}
		}, "jobs", Wrong},
		{"no table", well, func(f *Facts) { f.Cloud.Tables["jobs"].Missing = true }, "table jobs", Wrong},
		{"a table in the making", well, func(f *Facts) { f.Cloud.Tables["runs"].Status = "CREATING" }, "table runs", Wrong},
		{"no time to live", well, func(f *Facts) { f.Cloud.Tables["runs"].TTL = "" }, "table runs", Warning},
		{"another time to live", well, func(f *Facts) { f.Cloud.Tables["state"].TTL = "at" }, "table state", Wrong},
		{"no recovery", well, func(f *Facts) { f.Cloud.Tables["state"].Recoverable = no }, "table state", Warning},
		{"no protection", well, func(f *Facts) { f.Cloud.Tables["runs"].Protected = false }, "table runs", Warning},
		{"no index", well, func(f *Facts) { delete(f.Cloud.Tables["jobs"].Indexes, "due") }, "table jobs", Wrong},
		{"an index in the making", well, func(f *Facts) { f.Cloud.Tables["jobs"].Indexes["due"] = "CREATING" }, "table jobs", Wrong},
		{"no queue", well, func(f *Facts) { f.Cloud.Queues["fires"].Missing = true }, "queue fires", Wrong},
		{"a short memory", well, func(f *Facts) { f.Cloud.Queues["checks"].Retention = 4 * 24 * time.Hour }, "queue checks", Warning},
		{"no dead letters", well, func(f *Facts) { f.Cloud.Queues["fires"].Dead = "" }, "queue fires", Wrong},
		{"another's dead letters", well, func(f *Facts) { f.Cloud.Queues["fires"].Dead = "arn:aws:sqs:eu-central-1:1:other" }, "queue fires",
			Warning},
		{"few receives", well, func(f *Facts) { f.Cloud.Queues["fires"].MaxReceives = 3 }, "queue fires", Warning},
		{"visible too early", well, func(f *Facts) { f.Cloud.Queues["fires"].Visibility = 20 * time.Second }, "queue fires", Wrong},
		{"dead letters", well, func(f *Facts) { f.Cloud.Queues["dead"].Due = 7 }, "dead letters", Wrong},
		{"no function", well, func(f *Facts) { f.Cloud.Functions["tick"].Missing = true }, "function tick", Wrong},
		{"a function that failed", well, func(f *Facts) { f.Cloud.Functions["tick"].State = "Failed" }, "function tick", Wrong},
		{"an update that failed", well, func(f *Facts) { f.Cloud.Functions["tick"].Update = "Failed" }, "function tick", Wrong},
		{"switched off", well, func(f *Facts) { f.Cloud.Functions["dispatch"].Reserved = new(int) }, "function dispatch", Wrong},
		{"the tick switched off", well, func(f *Facts) { f.Cloud.Functions["tick"].Reserved = new(int) }, "function tick", Wrong},
		{"other tables", well, func(f *Facts) { f.Cloud.Functions["tick"].Env = map[string]string{"TICKRING_TABLE_RUNS": "runs-2"} },
			"function tick", Wrong},
		{"a loop", well, func(f *Facts) { f.Cloud.Functions["dispatch"].Loop = "Terminate" }, "function dispatch", Wrong},
		{"a mapping off", well, func(f *Facts) {
			f.Cloud.Functions["dispatch"].Mappings["arn:aws:sqs:eu-central-1:1:fires"] = "Disabled"
		}, "function dispatch", Wrong},
		{"no mapping", well, func(f *Facts) { delete(f.Cloud.Functions["dispatch"].Mappings, "arn:aws:sqs:eu-central-1:1:checks") },
			"queue checks", Wrong},
		{"results without a mapping", well, func(f *Facts) { f.Cloud.Queues["results"].Due = 1 },
			"queue results", Wrong},
		{"throttles", well, func(f *Facts) { f.Cloud.Functions["dispatch"].Throttles = 12 }, "function dispatch", Warning},
		{"throttles of an endpoint", well, func(f *Facts) {
			f.Cloud.Functions["dispatch"].Throttles, f.Cloud.Functions["dispatch"].Reserved = 12, new(50)
		}, "function dispatch", Warning},
		{"errors", well, func(f *Facts) { f.Cloud.Functions["tick"].Errors = 2 }, "function tick", Warning},
		{"no schedule", well, func(f *Facts) { f.Cloud.Schedule.Missing = true }, "schedule", Wrong},
		{"a schedule off", well, func(f *Facts) { f.Cloud.Schedule.State = "DISABLED" }, "schedule", Wrong},
		{"a slow schedule", well, func(f *Facts) { f.Cloud.Schedule.Rate = "rate(5 minutes)" }, "schedule", Wrong},
		{"a new account", well, func(f *Facts) { f.Cloud.Account.Concurrency = 10 }, "account concurrency", Warning},
		{"all reserved", well, func(f *Facts) { f.Cloud.Account.Unreserved = 20 }, "account concurrency", Warning},
		{"a small quota", well, func(f *Facts) { f.Cloud.Account.TableWrite = 300 }, "table quota", Warning},
		{"no rights", well, func(f *Facts) { f.Cloud.Unread = []Unread{{core.Say("table quota"), core.Phrase("denied")}} }, "table quota",
			Unknown},
		{"the deployment has no rights", well, func(f *Facts) { f.Own.Unread = []string{"due index"} }, "server", Unknown},
		{"a fact not read here", here, func(f *Facts) { f.Own.Unread = []string{"due index"} }, "server", Unknown},
	} {
		f := c.from()
		c.change(f)
		list := slices.DeleteFunc(Judge(f), func(x Finding) bool { return x.Level == Well })
		if len(list) != 1 || list[0].Check.String() != c.check || list[0].Level != c.level ||
			list[0].Do.String() == "" && c.level != Unknown {
			t.Errorf("%s: %+v; want %s %s", c.name, list, c.check, c.level)
		}
		texts.Equal(t, c.name, findingTexts(list))
		for _, x := range Judge(f) {
			if _, from, is := strings.Cut(x.Do.String(), "--from "); is && from != "TIME" { // pasted, the shell parts it at a space
				if _, err := api.ParseDuration(from); err != nil {
					t.Errorf("%s: %q is no command: %v", c.name, x.Do, err)
				}
			}
			for _, text := range []core.Text{x.Check, x.Says, x.Do} {
				if zh := words.Say(words.Chinese, text); !strings.Contains(text.String(), told) && english.MatchString(zh) {
					t.Errorf("%s: in Chinese it is %q", c.name, zh)
				}
			}
		}
	}
}

// TestFirstMinutes: a new deployment is not wrong for events still to come, and not healthy without evidence. The same
// holds on tables that an older deployment left.
func TestFirstMinutes(t *testing.T) {
	levels := func(f *Facts) map[string]Level {
		got := map[string]Level{}
		for _, x := range Judge(f) {
			got[x.Check.String()] = x.Level
		}
		return got
	}
	for name, last := range map[string]time.Time{"new tables": {}, "tables of before": now.Add(-72 * time.Hour)} {
		fresh := func(age time.Duration) *Facts {
			f := well()
			f.Cloud.Queues["fires"].Made, f.Own.LastTick, f.Canary = now.Add(-age), last, &Canary{Ran: !last.IsZero(), Came: true, At: last}
			f.Own.Holder, f.Own.Generation = "", 0
			return f
		}
		f := fresh(20 * time.Second)
		got := levels(f)
		if Worst(Judge(f)) != Unknown || got["last tick"] != Unknown || got["canary"] != Unknown || last.IsZero() && got["planning"] == Well {
			t.Errorf("%s, after 20 s: %v", name, got)
		}
		if got := levels(fresh(4 * time.Minute)); got["last tick"] != Wrong || got["canary"] != Unknown {
			t.Errorf("%s, after 4 min without a tick: %v", name, got)
		}
		if got := levels(fresh(6 * time.Minute)); got["last tick"] != Wrong || got["canary"] != Wrong {
			t.Errorf("%s, after 6 min without a tick: %v", name, got)
		}
		f = fresh(2 * time.Minute)
		f.Own.LastTick = now.Add(-30 * time.Second)
		if got := levels(f); got["last tick"] != Well || got["canary"] != Unknown {
			t.Errorf("%s, when the first tick has come: %v", name, got)
		}
		f.Canary = &Canary{Ran: true, Came: true, At: now.Add(-10 * time.Second)}
		if w := Worst(Judge(f)); w != Well {
			t.Errorf("%s, when the first fire has come back: %s", name, w)
		}
	}
	// The creation time of the deployment may be unknown.
	f := well()
	f.Cloud.Queues["fires"].Made, f.Own.LastTick = time.Time{}, time.Time{}
	if got := levels(f); got["last tick"] != Wrong {
		t.Errorf("%v", got)
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Second: "0s", 1500 * time.Microsecond: "2ms", 11 * time.Second: "11s",
		3 * time.Minute: "3m", 90 * time.Minute: "1h30m", 72 * time.Hour: "3 days"} {
		if got := span(d).String(); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}
