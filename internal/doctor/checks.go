package doctor

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/cfnoutputs"
)

var checks = []check{
	{core.Say("server"), 0, answers},
	{core.Say("generation"), own, fence},
	{core.Say("pause"), own, pause},
	{core.Say("clock"), 0, clock},
	{core.Say("last tick"), ours, lastTick},
	{core.Say("planning"), ours, planning},
	{core.Say("messages"), own, messages},
	{core.Say("logs and notifications"), own, postRun},
	{core.Say("notifications"), own, notifications},
	{core.Say("losses"), ours | aws, losses},
	{core.Say("canary"), ours, canary},
	{core.Say("apps"), own, apps},
	{core.Say("executors"), own, executors},
	{core.Say("jobs"), own, jobs},
	{core.Say("reports"), own, reports},
	{core.Say("certificate"), own, certificate},
	{core.Say("disk"), own, disk},
	{core.Text{}, aws, each("table %s", func(c *Cloud) map[string]*Table { return c.Tables }, table)},
	{core.Text{}, aws, each("queue %s", func(c *Cloud) map[string]*Queue { return c.Queues }, queue)},
	{core.Say("dead letters"), 0, deadLetters},
	{core.Text{}, aws, each("function %s", func(c *Cloud) map[string]*Function { return c.Functions }, function)},
	{core.Say("schedule"), aws, schedule},
	{core.Say("emulator"), aws, emulator},
	{core.Say("account concurrency"), aws, concurrency},
	{core.Say("table quota"), aws, quota},
	{core.Text{}, aws, unasked},
	{core.Say("server"), own, unread},
}

// Limits above which something is wrong. On AWS the planner is woken once a minute, two wake-ups can be 119 s apart, and
// it plans 210 s ahead.
const (
	clockWarn, clockWrong = 2 * time.Second, 30 * time.Second
	tickAWS, tickLocal    = 3 * time.Minute, 10 * time.Second
	lateAWS, lateLocal    = 210 * time.Second, 10 * time.Second
	canaryWithin          = 5 * time.Minute // it fires every three minutes; the first planner pass plans its first run
	dueAWS, dueLocal      = 5 * time.Minute, 30 * time.Second
	dueFew                = 20               // messages
	postRunMany           = 10_000           // messages that no process takes
	onItsWay              = 15 * time.Minute // as an audit has patience
	inARow                = 3                // retry chains of a job that failed for good: it does not work
	uncompared            = 10 * time.Minute // since due runs were compared
	diskWrong, diskWarn   = 100 << 20, 1 << 30
	certificateEnds       = 7 * 24 * time.Hour
	unsummed              = 3 * time.Hour // an hour is summed up some minutes after its end
	fewConcurrent         = 50
	fewWrites             = 4000
	fewReceives           = 20
	keepsMessages         = 14 * 24 * time.Hour
)

func local[T any](f *Facts, here, aws T) T {
	if f.Cloud == nil {
		return here
	}
	return aws
}

// tail returns the command that shows the log of a function.
func tail(f *Facts, name, since string) string {
	log := "LOG-GROUP"
	if f.Cloud != nil && f.Cloud.Functions[name] != nil {
		log = cmp.Or(f.Cloud.Functions[name].Log, log)
	}
	return "aws logs tail " + log + " --since " + since
}

func answers(f *Facts, s *sheet) core.Text {
	if f.Own == nil {
		s.first(
			warn(f.Older, "the server at %s is older than this command and does not report its status", f.Endpoint).
				do("update the server, or use the tickring command of the same version"),
			wrong(f.Refused && f.Cloud != nil, "%s rejects the token of the stack", f.Endpoint).
				do("the parameter with the token changed after the functions read the token: update the stack, or restore the "+
					"parameter"),
			wrong(f.Refused, "%s rejects the token", f.Endpoint).
				do("set the token with TICKRING_TOKEN or a context; the token is in the file `admin-token` of the server's data "+
					"directory"),
			wrong(f.Cloud != nil, "the API does not answer: %s", f.OwnErr).
				do("see the log of the function: %s; planning and sending do not need the API", tail(f, "api", "10m")),
			wrong(true, "no server answers: %s", f.OwnErr).do("start one with: %s", "tickring serve"))
		return core.Text{}
	}
	s.all(warn(f.Own.Standby, "the server at %s is a standby: another server uses the same data", f.Endpoint).
		do("use the other server, or stop the other server so that this server takes over"))
	if v := f.Own.Version; v != "" {
		return core.Say("%s answered in %s, version %s", f.Endpoint, span(f.Took), v)
	}
	return core.Say("%s answered in %s", f.Endpoint, span(f.Took))
}

func fence(f *Facts, s *sheet) core.Text {
	fenced := f.Own.Fenced != ""
	s.first(
		// On one machine the text includes what to do.
		wrong(fenced && f.Own.Data != nil, "%s", f.Own.Fenced).
			do("if you only test a backup, no action is needed; to start this copy, see docs/how-to/back-up-and-restore.md"),
		wrong(fenced, "%s", f.Own.Fenced).
			do("to start this deployment, run `tickring takeover` for a replica or `tickring restore` for a copy; see "+
				"docs/how-to/recover-on-aws.md"))
	if f.Own.Holder == "" {
		return core.Text{}
	}
	return core.Say("generation %d, used by %s", f.Own.Generation, f.Own.Holder)
}

func pause(f *Facts, s *sheet) core.Text {
	s.all(warn(f.Own.Paused, "everything is paused: no schedule fires").
		do("to resume, run `tickring resume --all`; `tickring changes` shows who paused everything, and why"))
	return core.Text{}
}

func clock(f *Facts, s *sheet) core.Text {
	asked := false
	judge := func(whose core.Text, at time.Time, exact time.Duration) {
		if at.IsZero() {
			return
		}
		asked = true
		off := at.Sub(f.Now).Abs() - exact
		s.first(
			wrong(off > clockWrong, "%s and the clock of this machine differ by %s", whose, span(off)).
				do("correct the clock of the wrong machine and synchronize it with NTP; AWS rejects requests if the clocks "+
					"differ by more than 5 minutes"),
			warn(off > clockWarn, "%s and the clock of this machine differ by %s", whose, span(off)).
				do("synchronize the clocks with NTP: scheduled times follow the clock of the sending machine"))
	}
	if f.Own != nil {
		judge(core.Say("the server's clock"), f.Own.Now, f.Took)
	}
	if f.Cloud != nil {
		judge(core.Say("the clock of AWS"), f.Cloud.Clock, time.Second+f.Took)
	}
	if !asked {
		return core.Text{}
	}
	return core.Say("the clocks agree")
}

func lastTick(f *Facts, s *sheet) core.Text {
	if f.Own.Standby || slices.Contains(f.Own.Unread, "last tick") {
		return core.Text{}
	}
	do := local(f, core.Say("restart the server; its log on standard error has the reason"),
		core.Say("check the EventBridge rule and the function `tick`; the log of the function shows the error: %s", tail(f, "tick", "10m")))
	age := f.Own.Now.Sub(f.Own.LastTick)
	s.first(
		unknown(young(f, tickAWS) && age > tickAWS, "no run was planned so far: the deployment is new, and EventBridge invokes the "+
			"function `tick` within two minutes"),
		wrong(f.Own.LastTick.IsZero(), "the planner has never run").do("%s", do),
		wrong(age > local(f, tickLocal, tickAWS), "the planner last ran %s ago: no scheduled run starts", span(age)).do("%s", do))
	return core.Say("%s ago", span(age))
}

// young reports whether a deployment is too new for an event that takes up to a given time.
func young(f *Facts, within time.Duration) bool {
	if f.Cloud == nil || f.Cloud.Queues["fires"] == nil { // tables may be older
		return false
	}
	return f.Now.Sub(f.Cloud.Queues["fires"].Made) <= within
}

// canary checks that a run was recently executed from start to end: everything else may be healthy and still no run
// arrive.
func canary(f *Facts, s *sheet) core.Text {
	c := f.Canary
	if c == nil || f.Own.Paused {
		return core.Text{}
	}
	do := core.Say("fix the other findings, then check the logs of the functions `dispatch`, `canary` and `callback`; the "+
		"canary job runs every three minutes unless the job is paused: %s", "tickring describe "+cfnoutputs.CanaryApp+"/"+cfnoutputs.CanaryJob)
	age := f.Own.Now.Sub(c.At)
	late := !c.Ran || age > canaryWithin
	s.first(
		unknown(late && young(f, canaryWithin), "the canary job of the deployment has not run yet"),
		wrong(!c.Ran, "the canary job of the deployment has no finished run").do("%s", do),
		wrong(late, "the canary job of the deployment has not run for %s", span(age)).do("%s", do),
		wrong(!c.Came && c.Message == "", "the canary run of %s ago reported no result", span(age)).do("%s", do),
		wrong(!c.Came, "the canary run of %s ago reported no result: %s", span(age), c.Message).do("%s", do))
	return core.Say("the canary run of %s ago arrived and reported a result", span(age))
}

func planning(f *Facts, s *sheet) core.Text {
	if f.Own.LastTick.IsZero() && f.Own.DueSince.IsZero() {
		return core.Text{} // before the first planner pass, an empty queue of jobs proves nothing
	}
	text, age := core.Say("no job waits to be planned"), time.Duration(0)
	if !f.Own.DueSince.IsZero() {
		age = f.Own.Now.Sub(f.Own.DueSince)
		text = core.Say("the earliest job has waited for %s", span(age))
	}
	s.all(wrong(age > local(f, lateLocal, lateAWS), "the earliest job has waited for %s to be planned: the runs of the job are late",
		span(age)).do("%s", local(f, core.Say("the disk or the processor is too slow"),
		core.Say("planning is too slow: check the jobs table for throttling. Partitions of the table's index: %d. Under load, "+
			"tickring adds partitions up to the setting `maxPartitions`", f.Own.Partitions))))
	if n := f.Own.Partitions; n > 1 {
		return core.Say("%s; %d partitions", text, n)
	}
	return text
}

// losses reports how a deployment handles messages that its queues lost.
func losses(f *Facts, s *sheet) core.Text {
	found, since := f.Own.LossFound, f.Own.UncomparedFrom
	age := f.Own.Now.Sub(since)
	s.first(
		warn(!found.IsZero(), "queues lost messages (detected %s ago): the runs of these messages are being sent again",
			span(f.Own.Now.Sub(found))).
			do("check whether a queue was purged or created again, or the retention of a queue was shortened; `tickring "+
				"audit` shows whether runs are still missing"),
		warn(!since.IsZero() && age > uncompared, "due times since %s (%s ago) are not compared with the runs yet: a message of that age "+
			"can still be in a queue", since.UTC().Format(time.RFC3339), span(age)).
			do("the comparison continues after the old messages are processed; if a queue was purged: %s",
				"tickring replan --from "+core.FormatDuration((age+time.Hour).Truncate(time.Hour))))
	return core.Say("every due time has a run or a recorded skip")
}

func messages(f *Facts, s *sheet) core.Text {
	d := f.Own.Fires
	if d == nil {
		return core.Text{}
	}
	text := core.Say("%d messages due, %d scheduled for later, %d in progress", d.Due, d.Waiting, d.InFlight)
	old := f.Own.OldestMessage
	age := f.Own.Now.Sub(old)
	if old.IsZero() || age <= local(f, dueLocal, dueAWS) || f.Own.Fenced != "" {
		return text
	}
	if f.Cloud != nil {
		// The age is only an upper bound: the time since the queue was last seen empty. If jobs fire every second, a few
		// messages are always due; if messages are always in flight, the age is known to ten minutes (decision 030).
		text = core.Say("%s; some messages may have waited for up to %s, because the queue reports no exact age; to list overdue runs: "+
			"tickring audit", text, span(age))
		s.all(warn(d.Due > dueFew && age > onItsWay, "%s", text).do("if runs are late, check the function `dispatch` below for throttles, "+
			"errors and mappings, then look for slow executors: %s", "tickring runs --state running"))
		return text
	}
	s.first(
		wrong(d.Due > 0, "%s; some messages are overdue by up to %s, so runs are late", text, span(age)).
			do("executors are slow, busy or stopped, or this machine is overloaded: %s", tellsOverdue),
		// A message is also in progress while a call waits for its answer, for as long as that may take. If executors are
		// busy or missing, the message is requeued.
		warn(age > onItsWay, "%s; some messages have been in progress for up to %s: calls are slow, or no executor accepts the runs", text,
			span(age)).do("%s", tellsOverdue))
	return text
}

// post-run checks the post-run queue: logs that must be kept, and how many of them and of notifications wait.
func postRun(f *Facts, s *sheet) core.Text {
	d := f.Own.PostRun
	if d == nil {
		return core.Text{}
	}
	text := core.Say("%d tasks due, %d waiting for a retry, %d in progress", d.Due, d.Waiting, d.InFlight)
	s.all(
		warn(d.Due > postRunMany, "%s", text).do("executors answer slowly with their logs, or channels accept notifications slowly: %s",
			local(f, core.Say("the log of the server names the slow executors and channels"),
				core.Say("check the function `postrun` below: its log names the slow executors and channels"))),
		warn(f.Own.LogsLost > 0, "logs that could not be stored: %d since %s", f.Own.LogsLost, f.Own.UpSince.Format(time.RFC3339)).
			do("`tickring logs RUN` shows the reason, such as an executor that stopped too early or does not answer; the server's "+
				"log names each run"))
	return text
}

// notifications checks that notifications reach users.
func notifications(f *Facts, s *sheet) core.Text {
	for _, c := range f.Own.LockedChannels {
		s.all(wrong(true, "%s", c.Message).do("notifications to this channel are retried for a day"))
	}
	mute := func(c *client.ChannelTrouble) bool { return c.GivenUp > 0 }
	troubled := worstFirst(f.Own.TroubledChannels, mute)
	for i, c := range troubled {
		if i == mostNamed {
			s.first(levelIf(mute(&c), "and %d more channels fail", len(troubled)-i).do("to list all channels: %s", "tickring get channels"))
			break
		}
		since := core.Say("channel %s has failed since %s, %s ago", c.Channel,
			c.Since.UTC().Format(time.RFC3339), span(f.Own.Now.Sub(c.Since)))
		test := core.Say("fix the channel in its manifest, then test it: %s", "tickring channels test "+c.Channel)
		s.first(
			wrong(mute(&c), "%s: %s; notifications dropped: %d", since, oneLine(c.Error), c.GivenUp).
				do("%s; dropped notifications are not sent again; the server logs each of them as 'notification dropped'", test),
			warn(true, "%s: %s", since, oneLine(c.Error)).do("%s; pending notifications are retried for a day", test))
	}
	dropped := f.Own.NotificationsDropped
	s.all(warn(dropped > 0, "notifications dropped since %s: %d", f.Own.UpSince.Format(time.RFC3339), dropped).
		do("the server's log has a line \"notification dropped\" for each dropped notification, with its channel and the reason"))
	return core.Say("all channels accept notifications")
}

// worstFirst returns list with the items that are wrong first. So the items behind mostNamed,
// which are only counted, are of the level of the first of them.
func worstFirst[T any](list []T, wrong func(*T) bool) []T {
	list = slices.Clone(list)
	rank := func(x *T) int {
		if wrong(x) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b T) int { return rank(&a) - rank(&b) })
	return list
}

// levelIf returns the row of items that do not work, or that may not work for long.
func levelIf(isWrong bool, code string, args ...any) row {
	if isWrong {
		return wrong(true, code, args...)
	}
	return warn(true, code, args...)
}

// oneLine is the first line of a text.
func oneLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return first
}

var tellsOverdue = core.Say("`tickring audit` lists overdue runs; `tickring runs --state running` lists running runs")

func apps(f *Facts, s *sheet) core.Text {
	for _, a := range f.Own.UnreadableApps {
		s.all(wrong(true, "app %s cannot be read: %s", a.Name, a.Message).
			do("runs of the app wait for 15 minutes, then move to the dead-letter queue. If a key is missing, add the key or " +
				"set the secrets again. Otherwise restore the app from a backup"))
	}
	for _, name := range f.Own.KnownTokens {
		s.all(warn(true, "app %s uses the default token of xxl-job, which is public", name).
			do("set a random token in its manifest (tickring apply) and in its executors"))
	}
	return core.Text{}
}

func executors(f *Facts, s *sheet) core.Text {
	if slices.Contains(f.Own.Unread, "executors") || slices.Contains(f.Own.Unread, "apps") {
		return core.Text{}
	}
	live, gone, fails, unchecked := map[string]bool{}, map[string][]core.Text{}, map[string][]core.Text{}, 0
	for i := range f.Own.Executors {
		switch x := &f.Own.Executors[i]; {
		case !x.Live && x.Replaced:
		case !x.Live:
			gone[x.App] = append(gone[x.App], core.Say("%s (%s ago)", x.Address, span(f.Own.Now.Sub(x.BeatAt))))
		case x.Answers != nil && !*x.Answers:
			fails[x.App] = append(fails[x.App], core.Say("%s (%s ago: %s)", x.Address, span(f.Own.Now.Sub(x.CheckedAt)), oneLine(x.Problem)))
		default:
			live[x.App] = true
			if x.Fixed && x.Answers == nil && x.BeatAt.IsZero() {
				unchecked++
			}
		}
	}
	for _, app := range slices.Sorted(maps.Keys(fails)) {
		text := core.Say("app %s: runs do not reach %s", app, some(fails[app]))
		s.all(levelIf(!live[app], "%s", text).
			do("check the address, the token and the network, then test again: tickring executors %s --test ADDRESS", app))
	}
	for _, app := range slices.Sorted(maps.Keys(gone)) {
		s.first(
			warn(live[app] || len(fails[app]) > 0, "app %s: executors that stopped: %s", app, some(gone[app])).
				do("if you stopped these executors on purpose: tickring executors rm %s ADDRESS", app),
			wrong(true, "app %s has no live executor: %s stopped sending heartbeats", app, some(gone[app])).
				do("start an executor; until then, runs fail (`no-executor`). After an outage of the scheduler, runs wait "+
					"until their deadline"))
	}
	since := func(r client.RefusedExecutor) bool { // it was accepted later
		return slices.ContainsFunc(f.Own.Executors, func(x client.Executor) bool {
			return x.App == r.App && x.Live && x.BeatAt.After(r.At) && x.Address == core.NormalAddress(r.Address)
		})
	}
	refused := slices.DeleteFunc(slices.Clone(f.Own.Refused), since)
	for _, r := range refused[max(0, len(refused)-10):] { // the newest; unknown clients can cause any number
		s.first(
			warn(f.Apps != nil && !slices.Contains(f.Apps, r.App), "app %q does not exist: its executor at %q was rejected; rejections so "+
				"far: %d, last %s ago, from %s", r.App, r.Address, r.Times, span(f.Own.Now.Sub(r.At)), r.From).
				do("create the app in a manifest, with the token of its executors, and run `tickring apply`; if the executor "+
					"is not yours, the registrations can be an attack"),
			warn(r.Why != "", "app %q: the executor at %q was rejected; rejections so far: %d, last %s ago, from %s: %s", r.App, r.Address,
				r.Times, span(f.Own.Now.Sub(r.At)), r.From, r.Why).
				do("change the address that the executor registers; the executor also logs this rejection"),
			warn(true, "app %q: the executor at %q was rejected because of its token; rejections so far: %d, last %s ago, from %s", r.App,
				r.Address, r.Times, span(f.Own.Now.Sub(r.At)), r.From).
				do("set the access token of the executor to the token of its app; if the executor is not yours, the registrations "+
					"can be an attack"))
	}
	if len(f.Own.Executors) == 0 {
		return core.Text{}
	}
	return core.Say("%d executors, none failing; not checked yet: %d", len(f.Own.Executors), unchecked)
}

// jobs reports jobs without executors, failing jobs, and jobs that notify a channel that does not exist.
func jobs(f *Facts, s *sheet) core.Text {
	j := f.Jobs
	if j == nil {
		s.all(unknown(f.JobsErr != "", "the status of the jobs could not be read: %s", f.JobsErr))
		return core.Text{}
	}
	deserted := map[string]bool{}
	for _, d := range j.AppsWithoutExecutor {
		deserted[d.App] = true
		if slices.ContainsFunc(f.Own.Executors, func(x client.Executor) bool { return x.App == d.App }) {
			continue // the check of executors reports its executors
		}
		of := core.Say("%s", d.Job)
		if d.Jobs > 1 {
			of = core.Say("%s and %d more", of, d.Jobs-1)
		}
		s.all(wrong(true, "app %s has no executor, so these jobs cannot run: %s", d.App, of).
			do("start an executor, or give the app a fixed address"))
	}
	named := 0
	broken := func(x *client.FailingJob) bool { return x.Times >= inARow }
	failing := worstFirst(j.Failing, broken)
	for i := range failing {
		x := &failing[i]
		if x.Last.Reason == string(core.ReasonNoExecutor) && deserted[x.Last.App] {
			continue
		}
		if named++; named > mostNamed {
			s.all(levelIf(broken(x), "and %d more jobs fail", j.FailingJobs-i).do("%s", "tickring runs --failed"))
			break
		}
		why, _, _ := strings.Cut(strings.TrimSpace(x.Last.Message), "\n")
		why = strings.TrimSuffix(x.Last.Reason+": "+why, ": ")
		do, when := "tickring runs "+x.Job+" --failed; tickring logs "+x.Last.ID, span(f.Own.Now.Sub(x.Last.EndedAt))
		s.first(
			wrong(broken(x), "%s failed %d times in a row after all retries, last %s ago: %s", x.Job, x.Times, when, why).do("%s", do),
			warn(true, "%s has never succeeded, and its last failure was %s ago: %s", x.Job, when, why).do("%s", do))
	}
	for i, u := range j.MissingChannels {
		if i == mostNamed {
			s.all(wrong(true, "and %d more jobs or apps notify a channel that does not exist", len(j.MissingChannels)-i))
			break
		}
		s.all(wrong(true, "%s notifies channel %s, which does not exist, so these notifications are not sent", u.Subject, u.Channel).
			do("create the channel, or remove the channel from `notify.to` in the manifest and run `tickring apply`"))
	}
	for i, l := range j.Locked {
		if i == mostNamed {
			s.all(wrong(true, "and %d more jobs cannot be read", len(j.Locked)-i))
			break
		}
		s.all(wrong(true, "%s", l.Message).do("%s", local(f, core.Say("no run of the job is planned until the job can be read"),
			core.Say("runs of the job wait for 15 minutes, then move to the dead-letter queue"))))
	}
	text := core.Say("jobs checked: %d", j.Looked)
	if j.More {
		text = core.Say("jobs checked: %d; more jobs exist and were not checked", j.Looked)
	}
	if p := j.Pending; p != nil {
		age := f.Own.Now.Sub(p.DueAt)
		oldest := core.Say("the oldest run that is due and not sent: job %s, state %s, waiting for %s", p.Job, p.State, span(age))
		s.all(warn(age > onItsWay, "%s", oldest).do("to see the reason: %s", "tickring runs "+p.Job+" --state planned,queued,running"))
		text = core.Say("%s; %s", text, oldest)
	}
	s.all(unknown(j.More && len(s.list) > 0, "%s", text))
	return text
}

func certificate(f *Facts, s *sheet) core.Text {
	until := f.Own.CertificateUntil
	if until.IsZero() {
		return core.Text{}
	}
	do := core.Say("write a new certificate and its key into the files of --tls-cert and --tls-key; the server reloads both " +
		"files, and logs the reason if the reload fails")
	left := until.Sub(f.Own.Now)
	s.first(
		wrong(left <= 0, "the certificate expired %s ago: clients that verify it cannot connect", span(-left)).do("%s", do),
		warn(left < certificateEnds, "the certificate expires in %s", span(left)).do("%s", do))
	return core.Say("the certificate expires at %s", until.UTC().Format(time.RFC3339))
}

func reports(f *Facts, s *sheet) core.Text {
	r := f.Own.Reports
	if r == nil || r.Until.IsZero() { // an older one, or nothing has worked on the data yet
		return core.Text{}
	}
	until, age := r.Until.Format(time.RFC3339), f.Own.Now.Sub(r.Until)
	s.first(
		warn(r.Failed != "", "reports are complete up to %s, then the summary failed: %s", until, r.Failed).
			do("the summary is retried each minute and delays no run. If the summary fails for longer than runs are kept, "+
				"`tickring report` has gaps"),
		warn(age > unsummed, "reports are complete only up to %s, %s ago", until, span(age)).
			do("tickring retries by itself; if the time does not advance, see docs/explanation/reports.md"))
	return core.Say("reports are complete up to %s", until)
}

func disk(f *Facts, s *sheet) core.Text {
	d := f.Own.Data
	if d == nil {
		return core.Text{}
	}
	text := core.Say("%s: the database uses %s, and the disk has %s free", d.Folder, size(d.Bytes), size(d.Free))
	s.first(
		unknown(d.Free < 0, "%s: the free disk space is unknown on this system", d.Folder),
		wrong(d.Free < diskWrong, "%s", text).do("free disk space: tickring plans no runs while the disk is full"),
		warn(d.Free < diskWarn || d.Free < d.Bytes/4, "%s", text).
			do("free disk space, or let jobs keep their runs for fewer days (retention.days)"))
	return text
}

// each judges one thing after the other, of a check of the thing's own name.
func each[T any](check string, of func(*Cloud) map[string]*T, judge func(f *Facts, name string, x *T, s *sheet) core.Text) func(
	*Facts, *sheet) core.Text {
	return func(f *Facts, all *sheet) core.Text {
		m := of(f.Cloud)
		for _, name := range slices.Sorted(maps.Keys(m)) {
			s := sheet{check: core.Say(check, name)}
			s.close(judge(f, name, m[name], &s))
			all.list = append(all.list, s.list...)
		}
		return core.Text{}
	}
}

var update = core.Say("update the stack")

func table(f *Facts, name string, t *Table, s *sheet) core.Text {
	if t.Missing {
		s.all(wrong(true, "table %s does not exist", t.Name).
			do("restore the table from a backup under another name, and set that name in the stack; see " +
				"docs/how-to/recover-on-aws.md"))
		return core.Text{}
	}
	shown := !f.Cloud.Emulated
	index, indexed := t.Indexes["due"]
	s.all(
		wrong(t.Status != "ACTIVE" && t.Status != "UPDATING", "%s is %s", t.Name, t.Status).
			do("wait until the table is ACTIVE: tickring does not work without this table"),
		warn(t.TTL == "" && name != "jobs" && shown, "table %s has no time-to-live setting, so expired records are never removed", t.Name).
			do("enable time to live for the attribute `expires`: %s", update),
		wrong(t.TTL != "" && t.TTL != "expires", "the time to live of %s uses the attribute %s, which tickring does not set", t.Name, t.TTL).
			do("set the attribute for time to live to `expires`"),
		warn(t.Recoverable != nil && !*t.Recoverable && name != "runs" && shown,
			"%s has no point-in-time recovery: lost data cannot be restored", t.Name).do("enable point-in-time recovery: %s", update),
		warn(!t.Protected && shown, "%s has no deletion protection", t.Name).do("enable deletion protection: %s", update),
		wrong(name == "jobs" && !indexed, "table %s has no index named 'due', so no job can be planned", t.Name).do("%s", update),
		// Emulators report no status.
		wrong(name == "jobs" && indexed && index != "ACTIVE" && index != "", "the index `due` of %s is %s", t.Name, index).
			do("wait until the index is ACTIVE: until then, due jobs are not found"))
	return core.Say("%s", t.Name)
}

func queue(f *Facts, name string, q *Queue, s *sheet) core.Text {
	if q.Missing {
		s.all(wrong(true, "queue %s does not exist", q.URL).
			do("%s; to resend the messages of the queue: %s", update, "tickring replan --from TIME"))
		return core.Text{}
	}
	s.all(warn(q.Retention < keepsMessages, "the queue keeps messages for only %s", span(q.Retention)).
		do("set the retention to 14 days: an outage of up to 14 days then loses no messages"))
	well := core.Say("%d messages due, %d waiting, %d in progress", q.Due, q.Waiting, q.InFlight)
	if name == "dead" {
		return well
	}
	dead, dispatch := cmp.Or(f.Cloud.Queues["dead"], &Queue{URL: nameOf(q.Dead, ":")}), cmp.Or(f.Cloud.Functions["dispatch"], &Function{})
	s.all(
		wrong(q.Dead == "", "the queue has no dead-letter queue: a message that cannot be processed is delivered again until it expires").
			do("%s", update),
		warn(q.Dead != "" && nameOf(q.Dead, ":") != nameOf(dead.URL, "/"), "the dead-letter queue is %s, which this stack does not read",
			nameOf(q.Dead, ":")).do("%s", update),
		warn(q.Dead != "" && q.MaxReceives < fewReceives, "a message moves to the dead-letter queue after only %d receipts, so an outage of "+
			"a few minutes can move many messages", q.MaxReceives).do("set maxReceiveCount to %d", ring.MaxReceives),
		// A stack without executors that are functions has no mapping for results.
		wrong(!taken(f.Cloud, q) && (name != "results" || q.Due > 0), "no function receives the messages of the queue: the queue has no "+
			"event source mapping").do("%s", update),
		wrong(name != "results" && q.Visibility < dispatch.Timeout, "a message becomes visible again after %s, but the function dispatch can "+
			"run for %s, so runs are sent twice", span(q.Visibility), span(dispatch.Timeout)).
			do("set the visibility timeout to twice the timeout of dispatch: %s", update))
	return well
}

// takers are the functions that get messages from queues; loops also requeue messages or wake themselves.
var (
	takers = map[string]bool{"dispatch": true, "slow": true, "postrun": true, "callback": true}
	loops  = map[string]bool{"tick": true, "dispatch": true, "slow": true, "postrun": true, "callback": true, "api": true}
)

// taken reports whether a function takes messages from a queue, or whether that is unknown for a function that may.
func taken(c *Cloud, q *Queue) bool {
	for name, fn := range c.Functions {
		if !takers[name] || fn.Missing {
			continue
		}
		if fn.Mappings == nil {
			return true
		}
		for arn := range fn.Mappings {
			if nameOf(arn, ":") == nameOf(q.URL, "/") {
				return true
			}
		}
	}
	return c.Functions["dispatch"] == nil
}

func nameOf(text, sep string) string { return text[strings.LastIndex(text, sep)+1:] }

func deadLetters(f *Facts, s *sheet) core.Text {
	n, known := 0, false
	if f.Own != nil && f.Own.DeadLetters != nil {
		n, known = *f.Own.DeadLetters, true
	}
	if f.Cloud != nil {
		if q := f.Cloud.Queues["dead"]; q != nil && !q.Missing { // dead-letter messages that were not processed
			n, known = n+q.Due+q.InFlight, true
		}
	}
	if !known {
		return core.Text{}
	}
	do := core.Say("`tickring redrive --dry-run` lists these messages with the reason; `tickring redrive` resends the messages that " +
		"are not too late")
	s.first(
		wrong(n >= maxLetters, "%d or more messages in the dead-letter queue could not be processed", n).do("%s", do),
		wrong(n > 0, "%d messages in the dead-letter queue could not be processed", n).do("%s", do))
	return core.Say("none")
}

func function(f *Facts, name string, fn *Function, s *sheet) core.Text {
	if fn.Missing {
		s.all(wrong(true, "function %s does not exist", fn.Name).do("%s", update))
		return core.Text{}
	}
	off := core.Say("%s is switched off, because its reserved concurrency is 0", fn.Name)
	if takers[name] {
		off = core.Say("%s; each delivery to the function fails and counts as a receipt, so messages finally move to the dead-letter "+
			"queue", off)
	}
	s.all(
		wrong(fn.State != "" && fn.State != "Active" && fn.State != "Inactive", "%s is %s", fn.Name, fn.State).do("wait, or update the stack"),
		wrong(fn.Update == "Failed", "the last update of %s failed: the function runs its previous code", fn.Name).do("%s", update),
		wrong(fn.Reserved != nil && *fn.Reserved == 0, "%s", off).
			do("%s", "aws lambda delete-function-concurrency --function-name "+fn.Name))
	for _, key := range []string{"jobs", "runs", "state"} {
		t, env := cmp.Or(f.Cloud.Tables[key], &Table{}), fn.Env["TICKRING_TABLE_"+strings.ToUpper(key)]
		s.all(wrong(t.Name != "" && env != "" && env != t.Name, "%s uses the table %s, but the table of the stack is %s", fn.Name, env, t.Name).
			do("%s: all functions must use the same tables", update))
	}
	s.all(wrong(loops[name] && fn.Loop == "Terminate" && !f.Cloud.Emulated,
		"Lambda can stop %s as a runaway loop, because the function sends messages back to its queue", fn.Name).
		do("%s", "aws lambda put-function-recursion-config --recursive-loop Allow --function-name "+fn.Name))
	for _, arn := range slices.Sorted(maps.Keys(fn.Mappings)) {
		state := fn.Mappings[arn]
		if state == "Enabled" || state == "Updating" {
			continue
		}
		s.first(
			unknown(state == "Creating" || state == "Enabling",
				"%s does not receive messages from %s yet: the event source mapping is %s", fn.Name, nameOf(arn, ":"), state),
			wrong(true, "%s does not receive messages from %s: the event source mapping is %s", fn.Name, nameOf(arn, ":"), state).
				do("enable the event source mapping of that queue"))
	}
	throttled := core.Say("throttles of %s in 15 minutes: %.0f: no concurrency was left", fn.Name, fn.Throttles)
	limited := fn.Throttles > 0 && fn.Reserved != nil
	s.all(
		warn(limited, "%s: at most %d invocations of the function run at the same time", throttled, *cmp.Or(fn.Reserved, new(int))).
			do("find the clients that send these requests; if the clients are your own executors, set %s",
				"-c tickring:endpointConcurrency=N"),
		warn(fn.Throttles > 0 && !limited, "%s", throttled).do("other functions of the account use all concurrency: request a higher quota "+
			"(Service Quotas: Lambda, concurrent executions), or reserve concurrency for this function"),
		warn(fn.Errors > 0, "errors of %s in 15 minutes: %.0f", fn.Name, fn.Errors).do("%s", tail(f, name, "15m")))
	return core.Say("%s", fn.Name)
}

// emulator names the features that the emulator lacks, and the settings that are not checked there: it accepts them but
// may not show them.
func emulator(f *Facts, s *sheet) core.Text {
	if !f.Cloud.Emulated {
		return core.Text{}
	}
	s.all(
		known(f.Cloud.NoHTTPAPIs, "this emulator has no HTTP APIs (API Gateway v2): %s cannot be used", "-c tickring:httpApi=true"),
		known(f.Cloud.NoPermissions, "this emulator does not check permissions (IAM): a missing permission causes errors only in an "+
			"AWS account"),
		known(true, "emulators of AWS do not show some settings, so these settings are not checked: time to live, "+
			"point-in-time recovery and deletion protection of tables; recursion settings of functions"))
	return core.Text{}
}

// known returns the row of a fact that is no problem.
func known(applies bool, code string, args ...any) row {
	return row{applies, Finding{Level: Well, Says: core.Say(code, args...)}}
}

func schedule(f *Facts, s *sheet) core.Text {
	x := f.Cloud.Schedule
	if x == nil {
		return core.Text{}
	}
	s.first(
		wrong(x.Missing, "the EventBridge rule %s does not exist: the function `tick` does not run", x.Name).do("%s", update),
		wrong(x.State == "", "the EventBridge rule %s has no state: the function `tick` does not run", x.Name).
			do("enable the rule in EventBridge, or %s", update),
		wrong(x.State != "ENABLED", "the EventBridge rule %s is %s: the function `tick` does not run", x.Name, x.State).
			do("enable the rule in EventBridge, or %s", update),
		wrong(x.Rate != "rate(1 minute)" && x.Rate != "rate(1 minutes)", "the EventBridge rule %s has the schedule %s: runs are planned "+
			"210 s ahead, so runs are late unless the function `tick` runs each minute", x.Name, x.Rate).
			do("set the schedule of the rule to %s", "rate(1 minute)"))
	return core.Say("%s", x.Rate)
}

func concurrency(f *Facts, s *sheet) core.Text {
	a := f.Cloud.Account
	if a == nil || a.Concurrency == 0 {
		return core.Text{}
	}
	s.first(
		warn(a.Concurrency < fewConcurrent, "the account can run only %d concurrent functions, the limit of new accounts: bursts of runs "+
			"wait", a.Concurrency).do("request a quota of 1,000 (Service Quotas: Lambda, concurrent executions)"),
		warn(a.Unreserved < fewConcurrent, "concurrent functions of the account: %d; only %d are not reserved by other functions",
			a.Concurrency, a.Unreserved).
			do("reserve less concurrency for other functions, or reserve concurrency for the functions `dispatch` and `tick`"))
	return core.Say("at most %d functions run at the same time", a.Concurrency)
}

func quota(f *Facts, s *sheet) core.Text {
	a := f.Cloud.Account
	if a == nil || a.TableWrite == 0 {
		return core.Text{}
	}
	s.all(warn(a.TableWrite < fewWrites, "a table can take %d write units per second, enough for about %d runs per second", a.TableWrite,
		a.TableWrite/3).do("request a higher quota (Service Quotas: DynamoDB, table-level write throughput)"))
	return core.Say("each table can take %d write units and %d read units per second", a.TableWrite, a.TableRead)
}

// unasked reports each check of AWS that could not be made, under its name.
func unasked(f *Facts, s *sheet) core.Text {
	unread := slices.SortedFunc(slices.Values(f.Cloud.Unread), func(a, b Unread) int { return cmp.Compare(a.What.String(), b.What.String()) })
	for _, x := range unread {
		s.check = x.What
		s.all(unknown(true, "%s", x.Why))
	}
	return core.Text{}
}

func unread(f *Facts, s *sheet) core.Text {
	names := make([]core.Text, len(f.Own.Unread))
	for i, name := range f.Own.Unread {
		names[i] = core.Phrase(name)
	}
	s.all(unknown(len(names) > 0, "the deployment could not read: %s", some(names)).
		do("%s", local(f, core.Say("see the server's log on standard error for the reason"),
			core.Say("see the log of the function `api` for the error; if a permission is missing, add the permission to the role "+
				"of the function"))))
	return core.Text{}
}
