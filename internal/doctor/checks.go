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
	switch {
	case f.Own != nil && f.Own.Standby:
		return s.warn("the server at %s is a standby: another server uses the same data", f.Endpoint).
			do("use the other server, or stop the other server so that this server takes over")
	case f.Own != nil:
		if v := f.Own.Version; v != "" {
			return core.Say("%s answered in %s, version %s", f.Endpoint, span(f.Took), v)
		}
		return core.Say("%s answered in %s", f.Endpoint, span(f.Took))
	case f.Older:
		return s.warn("the server at %s is older than this command and does not report its status", f.Endpoint).
			do("update the server, or use the tickring command of the same version")
	case f.Refused && f.Cloud != nil:
		return s.wrong("%s rejects the token of the stack", f.Endpoint).
			do("the parameter with the token changed after the functions read the token: update the stack, or restore the " +
				"parameter")
	case f.Refused:
		return s.wrong("%s rejects the token", f.Endpoint).
			do("set the token with TICKRING_TOKEN or a context; the token is in the file `admin-token` of the server's data " +
				"directory")
	case f.Cloud != nil:
		return s.wrong("the API does not answer: %s", f.OwnErr).
			do("see the log of the function: %s; planning and sending do not need the API", tail(f, "api", "10m"))
	}
	return s.wrong("no server answers: %s", f.OwnErr).do("start one with: %s", "tickring serve")
}

func fence(f *Facts, s *sheet) core.Text {
	switch {
	case f.Own.Fenced != "" && f.Own.Data != nil: // on one machine the text includes what to do
		return s.wrong("%s", f.Own.Fenced).do("if you only test a backup, no action is needed; to start this copy, see " +
			"docs/how-to/back-up-and-restore.md")
	case f.Own.Fenced != "":
		return s.wrong("%s", f.Own.Fenced).
			do("to start this deployment, run `tickring takeover` for a replica or `tickring restore` for a copy; see " +
				"docs/how-to/recover-on-aws.md")
	case f.Own.Holder == "":
		return core.Text{}
	}
	return core.Say("generation %d, used by %s", f.Own.Generation, f.Own.Holder)
}

func pause(f *Facts, s *sheet) core.Text {
	if !f.Own.Paused {
		return core.Text{}
	}
	return s.warn("everything is paused: no schedule fires").do("to resume, run `tickring resume --all`; `tickring changes` " +
		"shows who paused everything, and why")
}

func clock(f *Facts, s *sheet) core.Text {
	asked := false
	judge := func(whose core.Text, at time.Time, exact time.Duration) {
		asked = asked || !at.IsZero()
		switch off := at.Sub(f.Now).Abs() - exact; {
		case at.IsZero():
		case off > clockWrong:
			s.wrong("%s and the clock of this machine differ by %s", whose, span(off)).
				do("correct the clock of the wrong machine and synchronize it with NTP; AWS rejects requests if the clocks " +
					"differ by more than 5 minutes")
		case off > clockWarn:
			s.warn("%s and the clock of this machine differ by %s", whose, span(off)).
				do("synchronize the clocks with NTP: scheduled times follow the clock of the sending machine")
		}
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
	switch age := f.Own.Now.Sub(f.Own.LastTick); {
	case young(f, tickAWS) && age > tickAWS:
		s.unknown("no run was planned so far: the deployment is new, and EventBridge invokes the function `tick` within two " +
			"minutes")
	case f.Own.LastTick.IsZero():
		s.wrong("the planner has never run").do("%s", do)
	case age > local(f, tickLocal, tickAWS):
		s.wrong("the planner last ran %s ago: no scheduled run starts", span(age)).do("%s", do)
	default:
		return core.Say("%s ago", span(age))
	}
	return core.Text{}
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
	switch {
	case late && young(f, canaryWithin):
		s.unknown("the canary job of the deployment has not run yet")
	case !c.Ran:
		s.wrong("the canary job of the deployment has no finished run").do("%s", do)
	case late:
		s.wrong("the canary job of the deployment has not run for %s", span(age)).do("%s", do)
	case !c.Came && c.Message == "":
		s.wrong("the canary run of %s ago reported no result", span(age)).do("%s", do)
	case !c.Came:
		s.wrong("the canary run of %s ago reported no result: %s", span(age), c.Message).do("%s", do)
	}
	return core.Say("the canary run of %s ago arrived and reported a result", span(age))
}

func planning(f *Facts, s *sheet) core.Text {
	if f.Own.LastTick.IsZero() && f.Own.DueSince.IsZero() {
		return core.Text{} // before the first planner pass, an empty queue of jobs proves nothing
	}
	among := func(text core.Text) core.Text {
		if n := f.Own.Partitions; n > 1 {
			return core.Say("%s; %d partitions", text, n)
		}
		return text
	}
	if f.Own.DueSince.IsZero() {
		return among(core.Say("no job waits to be planned"))
	}
	age := f.Own.Now.Sub(f.Own.DueSince)
	if age > local(f, lateLocal, lateAWS) {
		s.wrong("the earliest job has waited for %s to be planned: the runs of the job are late", span(age)).
			do("%s", local(f, core.Say("the disk or the processor is too slow"),
				core.Say("planning is too slow: check the jobs table for throttling. Partitions of the table's index: %d. Under load, "+
					"tickring adds partitions up to the setting `maxPartitions`", f.Own.Partitions)))
	}
	return among(core.Say("the earliest job has waited for %s", span(age)))
}

// losses reports how a deployment handles messages that its queues lost.
func losses(f *Facts, s *sheet) core.Text {
	if at := f.Own.LossFound; !at.IsZero() {
		return s.warn("queues lost messages (detected %s ago): the runs of these messages are being sent again", span(f.Own.Now.Sub(at))).
			do("check whether a queue was purged or created again, or the retention of a queue was shortened; `tickring " +
				"audit` shows whether runs are still missing")
	}
	since := f.Own.UncomparedFrom
	if age := f.Own.Now.Sub(since); !since.IsZero() && age > uncompared {
		s.warn("due times since %s (%s ago) are not compared with the runs yet: a message of that age can still be in a queue",
			since.UTC().Format(time.RFC3339), span(age)).
			do("the comparison continues after the old messages are processed; if a queue was purged: %s",
				"tickring replan --from "+core.FormatDuration((age+time.Hour).Truncate(time.Hour)))
	}
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
	switch {
	case old.IsZero() || age <= local(f, dueLocal, dueAWS) || f.Own.Fenced != "":
	// On AWS the age is only an upper bound: the time since the queue was last seen empty. If jobs fire every second, a few
	// messages are always due; if messages are always in flight, the age is known to ten minutes (decision 030).
	case f.Cloud != nil:
		text = core.Say("%s; some messages may have waited for up to %s, because the queue reports no exact age; to list overdue runs: "+
			"tickring audit",
			text,
			span(age))
		if d.Due > dueFew && age > onItsWay {
			s.warn("%s", text).do("if runs are late, check the function `dispatch` below for throttles, errors and mappings, "+
				"then look for slow executors: %s",
				"tickring runs --state running")
		}
	case d.Due > 0:
		s.wrong("%s; some messages are overdue by up to %s, so runs are late", text, span(age)).
			do("executors are slow, busy or stopped, or this machine is overloaded: %s", tellsOverdue)
	// A message is also in progress while a call waits for its answer, for as long as that may take. If executors are busy or
	// missing, the message is requeued.
	case age > onItsWay:
		s.warn("%s; some messages have been in progress for up to %s: calls are slow, or no executor accepts the runs", text, span(age)).
			do("%s", tellsOverdue)
	}
	return text
}

// post-run checks the post-run queue: logs that must be kept, and how many of them and of notifications wait.
func postRun(f *Facts, s *sheet) core.Text {
	d := f.Own.PostRun
	if d == nil {
		return core.Text{}
	}
	text := core.Say("%d tasks due, %d waiting for a retry, %d in progress", d.Due, d.Waiting, d.InFlight)
	if d.Due > postRunMany {
		s.warn("%s", text).do("executors answer slowly with their logs, or channels accept notifications slowly: %s",
			local(f, core.Say("the log of the server names the slow executors and channels"),
				core.Say("check the function `postrun` below: its log names the slow executors and channels")))
	}
	if n := f.Own.LogsLost; n > 0 {
		s.warn("logs that could not be stored: %d since %s", n, f.Own.UpSince.Format(time.RFC3339)).
			do("`tickring logs RUN` shows the reason, such as an executor that stopped too early or does not answer; the server's " +
				"log names each run")
	}
	return text
}

// notifications checks that notifications reach users.
func notifications(f *Facts, s *sheet) core.Text {
	test := func(channel string) core.Text {
		return core.Say("fix the channel in its manifest, then test it: %s", "tickring channels test "+channel)
	}
	for _, c := range f.Own.LockedChannels {
		s.wrong("%s", c.Message).do("notifications to this channel are retried for a day")
	}
	mute := func(c *client.ChannelTrouble) bool { return c.GivenUp > 0 }
	troubled := worstFirst(f.Own.TroubledChannels, mute)
	for i, c := range troubled {
		if i == mostNamed {
			s.say(levelIf(mute(&c)), core.Say("and %d more channels fail", len(troubled)-i)).
				do("to list all channels: %s", "tickring get channels")
			break
		}
		since := core.Say("channel %s has failed since %s, %s ago", c.Channel,
			c.Since.UTC().Format(time.RFC3339), span(f.Own.Now.Sub(c.Since)))
		if c.GivenUp > 0 {
			s.wrong("%s: %s; notifications dropped: %d", since, oneLine(c.Error), c.GivenUp).
				do("%s; dropped notifications are not sent again; the server logs each of them as 'notification dropped'", test(c.Channel))
			continue
		}
		s.warn("%s: %s", since, oneLine(c.Error)).do("%s; pending notifications are retried for a day", test(c.Channel))
	}
	if n := f.Own.NotificationsDropped; n > 0 {
		s.warn("notifications dropped since %s: %d", f.Own.UpSince.Format(time.RFC3339), n).
			do("the server's log has a line \"notification dropped\" for each dropped notification, with its channel and the reason")
	}
	return core.Say("all channels accept notifications")
}

// worstFirst returns list with the items that are wrong first. So the items behind mostNamed,
// which are only counted, are of the level of the first of them.
func worstFirst[T any](list []T, wrong func(*T) bool) []T {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b T) int {
		if wrong(&a) == wrong(&b) {
			return 0
		}
		if wrong(&a) {
			return -1
		}
		return 1
	})
	return list
}

// levelIf is the level of an item that does not work, or that may not work for long.
func levelIf(wrong bool) Level {
	if wrong {
		return Wrong
	}
	return Warning
}

// oneLine is the first line of a text.
func oneLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return first
}

var tellsOverdue = core.Say("`tickring audit` lists overdue runs; `tickring runs --state running` lists running runs")

func apps(f *Facts, s *sheet) core.Text {
	for _, a := range f.Own.UnreadableApps {
		s.wrong("app %s cannot be read: %s", a.Name, a.Message).
			do("runs of the app wait for 15 minutes, then move to the dead-letter queue. If a key is missing, add the key or " +
				"set the secrets again. Otherwise restore the app from a backup")
	}
	for _, name := range f.Own.KnownTokens {
		s.warn("app %s uses the default token of xxl-job, which is public", name).
			do("set a random token in its manifest (tickring apply) and in its executors")
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
		do := core.Say("check the address, the token and the network, then test again: tickring executors %s --test ADDRESS", app)
		if live[app] {
			s.warn("%s", text).do("%s", do)
		} else {
			s.wrong("%s", text).do("%s", do)
		}
	}
	for _, app := range slices.Sorted(maps.Keys(gone)) {
		if live[app] || len(fails[app]) > 0 {
			s.warn("app %s: executors that stopped: %s", app, some(gone[app])).
				do("if you stopped these executors on purpose: tickring executors rm %s ADDRESS", app)
		} else {
			s.wrong("app %s has no live executor: %s stopped sending heartbeats", app, some(gone[app])).
				do("start an executor; until then, runs fail (`no-executor`). After an outage of the scheduler, runs wait " +
					"until their deadline")
		}
	}
	since := func(r client.RefusedExecutor) bool { // it was accepted later
		return slices.ContainsFunc(f.Own.Executors, func(x client.Executor) bool {
			return x.App == r.App && x.Live && x.BeatAt.After(r.At) && x.Address == core.NormalAddress(r.Address)
		})
	}
	refused := slices.DeleteFunc(slices.Clone(f.Own.Refused), since)
	for _, r := range refused[max(0, len(refused)-10):] { // the newest; unknown clients can cause any number
		if f.Apps != nil && !slices.Contains(f.Apps, r.App) {
			s.warn("app %q does not exist: its executor at %q was rejected; rejections so far: %d, last %s ago, from %s", r.App, r.Address, r.Times,
				span(f.Own.Now.Sub(r.At)), r.From).
				do("create the app in a manifest, with the token of its executors, and run `tickring apply`; if the executor " +
					"is not yours, the registrations can be an attack")
			continue
		}
		if r.Why != "" {
			s.warn("app %q: the executor at %q was rejected; rejections so far: %d, last %s ago, from %s: %s", r.App, r.Address, r.Times,
				span(f.Own.Now.Sub(r.At)), r.From, r.Why).do("change the address that the executor registers; the executor " +
				"also logs this rejection")
			continue
		}
		s.warn("app %q: the executor at %q was rejected because of its token; rejections so far: %d, last %s ago, from %s", r.App, r.Address,
			r.Times, span(f.Own.Now.Sub(r.At)), r.From).
			do("set the access token of the executor to the token of its app; if the executor is not yours, the registrations " +
				"can be an attack")
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
		if f.JobsErr != "" {
			s.unknown("the status of the jobs could not be read: %s", f.JobsErr)
		}
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
		s.wrong("app %s has no executor, so these jobs cannot run: %s", d.App, of).
			do("start an executor, or give the app a fixed address")
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
			s.say(levelIf(broken(x)), core.Say("and %d more jobs fail", j.FailingJobs-i)).do("%s", "tickring runs --failed")
			break
		}
		why, _, _ := strings.Cut(strings.TrimSpace(x.Last.Message), "\n")
		why = strings.TrimSuffix(x.Last.Reason+": "+why, ": ")
		do := "tickring runs " + x.Job + " --failed; tickring logs " + x.Last.ID
		if when := span(f.Own.Now.Sub(x.Last.EndedAt)); !broken(x) {
			s.warn("%s has never succeeded, and its last failure was %s ago: %s", x.Job, when, why).do("%s", do)
		} else {
			s.wrong("%s failed %d times in a row after all retries, last %s ago: %s", x.Job, x.Times, when, why).do("%s", do)
		}
	}
	for i, u := range j.MissingChannels {
		if i == mostNamed {
			s.wrong("and %d more jobs or apps notify a channel that does not exist", len(j.MissingChannels)-i)
			break
		}
		s.wrong("%s notifies channel %s, which does not exist, so these notifications are not sent", u.Subject, u.Channel).
			do("create the channel, or remove the channel from `notify.to` in the manifest and run `tickring apply`")
	}
	for i, l := range j.Locked {
		if i == mostNamed {
			s.wrong("and %d more jobs cannot be read", len(j.Locked)-i)
			break
		}
		s.wrong("%s", l.Message).do("%s", local(f, core.Say("no run of the job is planned until the job can be read"),
			core.Say("runs of the job wait for 15 minutes, then move to the dead-letter queue")))
	}
	text := core.Say("jobs checked: %d", j.Looked)
	if j.More {
		text = core.Say("jobs checked: %d; more jobs exist and were not checked", j.Looked)
	}
	if p := j.Pending; p != nil {
		age := f.Own.Now.Sub(p.DueAt)
		oldest := core.Say("the oldest run that is due and not sent: job %s, state %s, waiting for %s", p.Job, p.State, span(age))
		if age > onItsWay {
			s.warn("%s", oldest).do("to see the reason: %s", "tickring runs "+p.Job+" --state planned,queued,running")
		}
		text = core.Say("%s; %s", text, oldest)
	}
	if j.More && len(s.list) > 0 {
		s.unknown("%s", text)
	}
	return text
}

func certificate(f *Facts, s *sheet) core.Text {
	until := f.Own.CertificateUntil
	if until.IsZero() {
		return core.Text{}
	}
	do := core.Say("write a new certificate and its key into the files of --tls-cert and --tls-key; the server reloads both " +
		"files, and logs the reason if the reload fails")
	switch left := until.Sub(f.Own.Now); {
	case left <= 0:
		s.wrong("the certificate expired %s ago: clients that verify it cannot connect", span(-left)).do("%s", do)
	case left < certificateEnds:
		s.warn("the certificate expires in %s", span(left)).do("%s", do)
	}
	return core.Say("the certificate expires at %s", until.UTC().Format(time.RFC3339))
}

func reports(f *Facts, s *sheet) core.Text {
	r := f.Own.Reports
	switch {
	case r == nil || r.Until.IsZero(): // an older one, or nothing has worked on the data yet
		return core.Text{}
	case r.Failed != "":
		return s.warn("reports are complete up to %s, then the summary failed: %s", r.Until.Format(time.RFC3339), r.Failed).
			do("the summary is retried each minute and delays no run. If the summary fails for longer than runs are kept, " +
				"`tickring report` has gaps")
	case f.Own.Now.Sub(r.Until) > unsummed:
		return s.warn("reports are complete only up to %s, %s ago", r.Until.Format(time.RFC3339), span(f.Own.Now.Sub(r.Until))).
			do("tickring retries by itself; if the time does not advance, see docs/explanation/reports.md")
	}
	return core.Say("reports are complete up to %s", r.Until.Format(time.RFC3339))
}

func disk(f *Facts, s *sheet) core.Text {
	d := f.Own.Data
	if d == nil {
		return core.Text{}
	}
	text := core.Say("%s: the database uses %s, and the disk has %s free", d.Folder, size(d.Bytes), size(d.Free))
	switch {
	case d.Free < 0:
		s.unknown("%s: the free disk space is unknown on this system", d.Folder)
	case d.Free < diskWrong:
		s.wrong("%s", text).do("free disk space: tickring plans no runs while the disk is full")
	case d.Free < diskWarn || d.Free < d.Bytes/4:
		s.warn("%s", text).do("free disk space, or let jobs keep their runs for fewer days (retention.days)")
	}
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
		return s.wrong("table %s does not exist", t.Name).
			do("restore the table from a backup under another name, and set that name in the stack; see " +
				"docs/how-to/recover-on-aws.md")
	}
	if t.Status != "ACTIVE" && t.Status != "UPDATING" {
		s.wrong("%s is %s", t.Name, t.Status).do("wait until the table is ACTIVE: tickring does not work without this table")
	}
	shown := !f.Cloud.Emulated
	if t.TTL == "" && name != "jobs" && shown {
		s.warn("table %s has no time-to-live setting, so expired records are never removed", t.Name).
			do("enable time to live for the attribute `expires`: %s", update)
	} else if t.TTL != "" && t.TTL != "expires" {
		s.wrong("the time to live of %s uses the attribute %s, which tickring does not set", t.Name, t.TTL).
			do("set the attribute for time to live to `expires`")
	}
	if t.Recoverable != nil && !*t.Recoverable && name != "runs" && shown {
		s.warn("%s has no point-in-time recovery: lost data cannot be restored", t.Name).do("enable point-in-time recovery: %s", update)
	}
	if !t.Protected && shown {
		s.warn("%s has no deletion protection", t.Name).do("enable deletion protection: %s", update)
	}
	if status, ok := t.Indexes["due"]; name == "jobs" && !ok {
		s.wrong("table %s has no index named 'due', so no job can be planned", t.Name).do("%s", update)
	} else if name == "jobs" && status != "ACTIVE" && status != "" { // emulators report no status
		s.wrong("the index `due` of %s is %s", t.Name, status).
			do("wait until the index is ACTIVE: until then, due jobs are not found")
	}
	return core.Say("%s", t.Name)
}

func queue(f *Facts, name string, q *Queue, s *sheet) core.Text {
	if q.Missing {
		return s.wrong("queue %s does not exist", q.URL).do("%s; to resend the messages of the queue: %s", update, "tickring replan --from TIME")
	}
	if q.Retention < keepsMessages {
		s.warn("the queue keeps messages for only %s",
			span(q.Retention)).do("set the retention to 14 days: an outage of up to 14 days then loses no messages")
	}
	well := core.Say("%d messages due, %d waiting, %d in progress", q.Due, q.Waiting, q.InFlight)
	if name == "dead" {
		return well
	}
	if q.Dead == "" {
		s.wrong("the queue has no dead-letter queue: a message that cannot be processed is delivered again until it expires").do("%s", update)
	} else if d := f.Cloud.Queues["dead"]; d != nil && nameOf(q.Dead, ":") != nameOf(d.URL, "/") {
		s.warn("the dead-letter queue is %s, which this stack does not read", nameOf(q.Dead, ":")).do("%s", update)
	}
	if q.Dead != "" && q.MaxReceives < fewReceives {
		s.warn("a message moves to the dead-letter queue after only %d receipts, so an outage of a few minutes can move many "+
			"messages", q.MaxReceives).
			do("set maxReceiveCount to %d", ring.MaxReceives)
	}
	if !taken(f.Cloud, q) && (name != "results" || q.Due > 0) { // a stack without executors that are functions has no mapping
		s.wrong("no function receives the messages of the queue: the queue has no event source mapping").do("%s", update)
	}
	if d := f.Cloud.Functions["dispatch"]; d != nil && name != "results" && q.Visibility < d.Timeout {
		s.wrong("a message becomes visible again after %s, but the function dispatch can run for %s, so runs are sent twice",
			span(q.Visibility), span(d.Timeout)).
			do("set the visibility timeout to twice the timeout of dispatch: %s", update)
	}
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
	if n > 0 {
		if n >= maxLetters {
			s.wrong("%d or more messages in the dead-letter queue could not be processed", n)
		} else {
			s.wrong("%d messages in the dead-letter queue could not be processed", n)
		}
		s.do("`tickring redrive --dry-run` lists these messages with the reason; `tickring redrive` resends the messages that " +
			"are not too late")
	}
	return core.Say("none")
}

func function(f *Facts, name string, fn *Function, s *sheet) core.Text {
	if fn.Missing {
		return s.wrong("function %s does not exist", fn.Name).do("%s", update)
	}
	if fn.State != "" && fn.State != "Active" && fn.State != "Inactive" {
		s.wrong("%s is %s", fn.Name, fn.State).do("wait, or update the stack")
	}
	if fn.Update == "Failed" {
		s.wrong("the last update of %s failed: the function runs its previous code", fn.Name).do("%s", update)
	}
	if fn.Reserved != nil && *fn.Reserved == 0 {
		text := core.Say("%s is switched off, because its reserved concurrency is 0", fn.Name)
		if takers[name] {
			text = core.Say("%s; each delivery to the function fails and counts as a receipt, so messages finally move to the dead-letter "+
				"queue", text)
		}
		s.wrong("%s", text).do("%s", "aws lambda delete-function-concurrency --function-name "+fn.Name)
	}
	for _, key := range []string{"jobs", "runs", "state"} {
		t, env := f.Cloud.Tables[key], fn.Env["TICKRING_TABLE_"+strings.ToUpper(key)]
		if t != nil && env != "" && env != t.Name {
			s.wrong("%s uses the table %s, but the table of the stack is %s", fn.Name, env, t.Name).
				do("%s: all functions must use the same tables", update)
		}
	}
	if loops[name] && fn.Loop == "Terminate" && !f.Cloud.Emulated {
		s.wrong("Lambda can stop %s as a runaway loop, because the function sends messages back to its queue", fn.Name).
			do("%s", "aws lambda put-function-recursion-config --recursive-loop Allow --function-name "+fn.Name)
	}
	for _, arn := range slices.Sorted(maps.Keys(fn.Mappings)) {
		switch state := fn.Mappings[arn]; state {
		case "Enabled", "Updating":
		case "Creating", "Enabling":
			s.unknown("%s does not receive messages from %s yet: the event source mapping is %s", fn.Name, nameOf(arn, ":"), state)
		default:
			s.wrong("%s does not receive messages from %s: the event source mapping is %s", fn.Name, nameOf(arn, ":"), state).
				do("enable the event source mapping of that queue")
		}
	}
	if fn.Throttles > 0 {
		text := core.Say("throttles of %s in 15 minutes: %.0f: no concurrency was left", fn.Name, fn.Throttles)
		if fn.Reserved != nil {
			s.warn("%s: at most %d invocations of the function run at the same time", text, *fn.Reserved).
				do("find the clients that send these requests; if the clients are your own executors, set %s",
					"-c tickring:endpointConcurrency=N")
		} else {
			s.warn("%s", text).do("other functions of the account use all concurrency: request a higher quota (Service Quotas: " +
				"Lambda, concurrent executions), or reserve concurrency for this function")
		}
	}
	if fn.Errors > 0 {
		s.warn("errors of %s in 15 minutes: %.0f", fn.Name, fn.Errors).do("%s", tail(f, name, "15m"))
	}
	return core.Say("%s", fn.Name)
}

// emulator names the features that the emulator lacks, and the settings that are not checked there: it accepts them but
// may not show them.
func emulator(f *Facts, s *sheet) core.Text {
	if !f.Cloud.Emulated {
		return core.Text{}
	}
	if f.Cloud.NoHTTPAPIs {
		s.say(Well, core.Say("this emulator has no HTTP APIs (API Gateway v2): %s cannot be used", "-c tickring:httpApi=true"))
	}
	if f.Cloud.NoPermissions {
		s.say(Well, core.Say("this emulator does not check permissions (IAM): a missing permission causes errors only in an "+
			"AWS account"))
	}
	s.say(Well, core.Say("emulators of AWS do not show some settings, so these settings are not checked: time to live, "+
		"point-in-time recovery and deletion protection of tables; recursion settings of functions"))
	return core.Text{}
}

func schedule(f *Facts, s *sheet) core.Text {
	x := f.Cloud.Schedule
	switch {
	case x == nil:
		return core.Text{}
	case x.Missing:
		return s.wrong("the EventBridge rule %s does not exist: the function `tick` does not run", x.Name).do("%s", update)
	case x.State == "":
		return s.wrong("the EventBridge rule %s has no state: the function `tick` does not run", x.Name).
			do("enable the rule in EventBridge, or %s", update)
	case x.State != "ENABLED":
		return s.wrong("the EventBridge rule %s is %s: the function `tick` does not run", x.Name, x.State).
			do("enable the rule in EventBridge, or %s", update)
	case x.Rate != "rate(1 minute)" && x.Rate != "rate(1 minutes)":
		return s.wrong("the EventBridge rule %s has the schedule %s: runs are planned 210 s ahead, so runs are late unless "+
			"the function `tick` runs each minute",
			x.Name, x.Rate).do("set the schedule of the rule to %s", "rate(1 minute)")
	}
	return core.Say("%s", x.Rate)
}

func concurrency(f *Facts, s *sheet) core.Text {
	a := f.Cloud.Account
	switch {
	case a == nil || a.Concurrency == 0:
		return core.Text{}
	case a.Concurrency < fewConcurrent:
		s.warn("the account can run only %d concurrent functions, the limit of new accounts: bursts of runs wait", a.Concurrency).
			do("request a quota of 1,000 (Service Quotas: Lambda, concurrent executions)")
	case a.Unreserved < fewConcurrent:
		s.warn("concurrent functions of the account: %d; only %d are not reserved by other functions", a.Concurrency, a.Unreserved).
			do("reserve less concurrency for other functions, or reserve concurrency for the functions `dispatch` and `tick`")
	}
	return core.Say("at most %d functions run at the same time", a.Concurrency)
}

func quota(f *Facts, s *sheet) core.Text {
	a := f.Cloud.Account
	if a == nil || a.TableWrite == 0 {
		return core.Text{}
	}
	if a.TableWrite < fewWrites {
		s.warn("a table can take %d write units per second, enough for about %d runs per second", a.TableWrite, a.TableWrite/3).
			do("request a higher quota (Service Quotas: DynamoDB, table-level write throughput)")
	}
	return core.Say("each table can take %d write units and %d read units per second", a.TableWrite, a.TableRead)
}

// unasked reports each check of AWS that could not be made, under its name.
func unasked(f *Facts, s *sheet) core.Text {
	unread := slices.SortedFunc(slices.Values(f.Cloud.Unread), func(a, b Unread) int { return cmp.Compare(a.What.String(), b.What.String()) })
	for _, x := range unread {
		s.check = x.What
		s.unknown("%s", x.Why)
	}
	return core.Text{}
}

func unread(f *Facts, s *sheet) core.Text {
	if len(f.Own.Unread) == 0 {
		return core.Text{}
	}
	names := make([]core.Text, len(f.Own.Unread))
	for i, name := range f.Own.Unread {
		names[i] = core.Phrase(name)
	}
	return s.unknown("the deployment could not read: %s", some(names)).
		do("%s", local(f, core.Say("see the server's log on standard error for the reason"),
			core.Say("see the log of the function `api` for the error; if a permission is missing, add the permission to the role "+
				"of the function")))
}
