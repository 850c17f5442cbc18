package doctor

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/stack"
)

var checks = []check{
	{core.Say("server"), 0, answers},
	{core.Say("generation"), own, fence},
	{core.Say("pause"), own, pause},
	{core.Say("clock"), 0, clock},
	{core.Say("last tick"), ours, lastTick},
	{core.Say("planning"), ours, planning},
	{core.Say("messages"), own, messages},
	{core.Say("logs and notices"), own, aside},
	{core.Say("notices"), own, notices},
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

// Limits beyond which something is wrong. On AWS the tick is woken once a
// minute, two wake-ups can be 119 s apart, and it plans 210 s ahead.
const (
	clockWarn, clockWrong = 2 * time.Second, 30 * time.Second
	tickAWS, tickLocal    = 3 * time.Minute, 10 * time.Second
	lateAWS, lateLocal    = 210 * time.Second, 10 * time.Second
	canaryWithin          = 5 * time.Minute // it fires each minute; the first is planned by the first tick
	dueAWS, dueLocal      = 5 * time.Minute, 30 * time.Second
	dueFew                = 20               // messages
	asideMany             = 10_000           // messages that nobody takes
	onItsWay              = 15 * time.Minute // as an audit has patience
	inARow                = 3                // chains of a job that failed for good: it does not work
	uncompared            = 10 * time.Minute // that what was due is not compared with its runs
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

// tail is the command that shows the log of a function.
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
		return s.warn("the server at %s stands by: another one works on the same data", f.Endpoint).
			do("ask that one, or stop it if this is to take over")
	case f.Own != nil:
		if v := f.Own.Version; v != "" {
			return core.Say("%s answers in %s, version %s", f.Endpoint, span(f.Took), v)
		}
		return core.Say("%s answers in %s", f.Endpoint, span(f.Took))
	case f.Older:
		return s.warn("%s is older than this command, and says nothing of itself", f.Endpoint).
			do("update it, or ask it with its own release of tickring")
	case f.Refused && f.Cloud != nil:
		return s.wrong("%s does not take the token of the stack", f.Endpoint).
			do("the parameter was changed after the functions had read it: update the stack, or set the parameter back")
	case f.Refused:
		return s.wrong("%s does not take the token", f.Endpoint).
			do("give it its own, by TICKRING_TOKEN or its context; it is in the file admin-token of its data folder")
	case f.Cloud != nil:
		return s.wrong("the API does not answer: %s", f.OwnErr).
			do("the log of the function says why: %s; what is planned and sent needs no API", tail(f, "api", "10m"))
	}
	return s.wrong("there is no server: %s", f.OwnErr).do("start one with: %s", "tickring serve")
}

func fence(f *Facts, s *sheet) core.Text {
	switch {
	case f.Own.Fenced != "" && f.Own.Data != nil: // one machine: it says itself what to do
		return s.wrong("%s", f.Own.Fenced).do("a test of a backup needs no action; to start this copy, see docs/how-to/back-up-and-restore.md")
	case f.Own.Fenced != "":
		return s.wrong("%s", f.Own.Fenced).
			do("to start this deployment: tickring takeover (a replica) or tickring restore (a copy); see docs/how-to/recover-on-aws.md")
	case f.Own.Holder == "":
		return core.Text{}
	}
	return core.Say("generation %d, worked on by %s", f.Own.Generation, f.Own.Holder)
}

func pause(f *Facts, s *sheet) core.Text {
	if !f.Own.Paused {
		return core.Text{}
	}
	return s.warn("everything is paused: no schedule fires").do("tickring resume --all; tickring changes says who paused it, and why")
}

func clock(f *Facts, s *sheet) core.Text {
	asked := false
	judge := func(whose core.Text, at time.Time, exact time.Duration) {
		asked = asked || !at.IsZero()
		switch off := at.Sub(f.Now).Abs() - exact; {
		case at.IsZero():
		case off > clockWrong:
			s.wrong("%s and this machine differ by %s", whose, span(off)).
				do("set the clock of the machine that is wrong, and let it be kept by NTP; requests to AWS fail beyond 5 minutes")
		case off > clockWarn:
			s.warn("%s and this machine differ by %s", whose, span(off)).
				do("let the clocks be kept by NTP: instants count by the clock of the machine that sends")
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
	do := local(f, core.Say("restart the server; its log on standard error says why"),
		core.Say("check the rule and the function tick; its log says why: %s", tail(f, "tick", "10m")))
	switch age := f.Own.Now.Sub(f.Own.LastTick); {
	case young(f, tickAWS) && age > tickAWS:
		s.unknown("nothing has been planned yet: the deployment is new, and the tick is woken within two minutes")
	case f.Own.LastTick.IsZero():
		s.wrong("nothing has ever been planned").do("%s", do)
	case age > local(f, tickLocal, tickAWS):
		s.wrong("nothing has been planned for %s: no schedule fires", span(age)).do("%s", do)
	default:
		return core.Say("%s ago", span(age))
	}
	return core.Text{}
}

// young reports whether a deployment is so new that what happens within a time may
// be still to come.
func young(f *Facts, within time.Duration) bool {
	if f.Cloud == nil || f.Cloud.Queues["fires"] == nil { // tables may be older
		return false
	}
	return f.Now.Sub(f.Cloud.Queues["fires"].Made) <= within
}

// canary says whether a fire lately went the whole way: all else may be well and
// nothing arrive.
func canary(f *Facts, s *sheet) core.Text {
	c := f.Canary
	if c == nil || f.Own.Paused {
		return core.Text{}
	}
	do := core.Say("look at what is wrong here besides, then at the logs of the functions dispatch, canary and callback; "+
		"it fires each minute unless it is paused: %s", "tickring describe "+stack.CanaryApp+"/"+stack.CanaryJob)
	age := f.Own.Now.Sub(c.At)
	late := !c.Ran || age > canaryWithin
	switch {
	case late && young(f, canaryWithin):
		s.unknown("the first fire of the job by which the deployment watches itself is still to come")
	case !c.Ran:
		s.wrong("the job by which the deployment watches itself has no run that ended").do("%s", do)
	case late:
		s.wrong("the job by which the deployment watches itself did not fire for %s", span(age)).do("%s", do)
	case !c.Came && c.Message == "":
		s.wrong("its fire of %s ago did not come back", span(age)).do("%s", do)
	case !c.Came:
		s.wrong("its fire of %s ago did not come back: %s", span(age), c.Message).do("%s", do)
	}
	return core.Say("its fire of %s ago arrived, and its result came back", span(age))
}

func planning(f *Facts, s *sheet) core.Text {
	if f.Own.LastTick.IsZero() && f.Own.DueSince.IsZero() {
		return core.Text{} // while nobody ever looked, that no job waits says nothing
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
		s.wrong("the earliest job has waited %s to be planned: its fires are late", span(age)).
			do("%s", local(f, core.Say("the disk or the processor does not keep up: tickring bench says what this machine can"),
				core.Say("the tick does not keep up: look for throttles of the table of jobs; the index has %d partitions, "+
					"and more are made under load up to MaxPartitions", f.Own.Partitions)))
	}
	return among(core.Say("the earliest job has waited %s", span(age)))
}

// losses tells of what a deployment does about messages that its queues lost.
func losses(f *Facts, s *sheet) core.Text {
	if at := f.Own.LossFound; !at.IsZero() {
		return s.warn("the queues lost messages, which was found %s ago: what was on them is being sent again", span(f.Own.Now.Sub(at))).
			do("was a queue purged, made anew, or its retention shortened? tickring audit tells when all is accounted for")
	}
	since := f.Own.UncomparedFrom
	if age := f.Own.Now.Sub(since); !since.IsZero() && age > uncompared {
		s.warn("what was due since %s (%s ago) is not compared with its runs yet: a message as old may be on its way",
			since.UTC().Format(time.RFC3339), span(age)).
			do("it goes on by itself when the queues are not behind; where they were purged: %s",
				"tickring replan --from "+api.FormatDuration((age+time.Hour).Truncate(time.Hour)))
	}
	return core.Say("what was due is compared with its runs")
}

func messages(f *Facts, s *sheet) core.Text {
	d := f.Own.Fires
	if d == nil {
		return core.Text{}
	}
	text := core.Say("%d due, %d waiting for their time, %d in hand", d.Due, d.Waiting, d.InFlight)
	old := f.Own.OldestMessage
	age := f.Own.Now.Sub(old)
	switch {
	case old.IsZero() || age <= local(f, dueLocal, dueAWS) || f.Own.Fenced != "":
	// On AWS the age is only known to be no more than that: since the queue was last
	// seen empty. Where something fires each second a few messages are always due, and
	// where something always is in flight the age is known to ten minutes (decision 030).
	case f.Cloud != nil:
		text = core.Say("%s; one may be on its way for up to %s, for no queue tells: tickring audit tells what is overdue", text, span(age))
		if d.Due > dueFew && age > onItsWay {
			s.warn("%s", text).do("if runs are late, look at the function dispatch below: throttles, errors, its mappings; "+
				"then at slow executors: %s", "tickring runs --state running")
		}
	case d.Due > 0:
		s.wrong("%s; some have been due for up to %s: runs are late", text, span(age)).
			do("executors are slow, busy or gone, or this machine does not keep up: %s", tellsOverdue)
	// In hand is also what only waits for the answer of a call, for as long as that may
	// take; and what an executor is too busy for, or has none, is put back.
	case age > onItsWay:
		s.warn("%s; some have been on their way for up to %s: calls that are awaited, or fires that nobody takes", text, span(age)).
			do("%s", tellsOverdue)
	}
	return text
}

// aside is what comes of logs that are to be kept, and how many of them and of notices wait.
func aside(f *Facts, s *sheet) core.Text {
	d := f.Own.Aside
	if d == nil {
		return core.Text{}
	}
	text := core.Say("%d are due, %d wait for another try, %d are in hand", d.Due, d.Waiting, d.InFlight)
	if d.Due > asideMany {
		s.warn("%s", text).do("executors are slow to answer for their logs, or channels to take notices: %s",
			local(f, core.Say("the log of the server names them"), core.Say("look at the function aside below; its log names them")))
	}
	if n := f.Own.LogsLost; n > 0 {
		s.warn("logs that were to be kept could not be read: %d since %s", n, f.Own.UpSince.Format(time.RFC3339)).
			do("tickring logs RUN says why of each, as does the server's log (%s): executors that end before their logs are read, "+
				"or do not answer", "could not be kept")
	}
	return text
}

// notices is whether people hear of what they are to be told.
func notices(f *Facts, s *sheet) core.Text {
	test := func(channel string) core.Text {
		return core.Say("mend the channel in its file; whether it takes messages says: %s", "tickring notify test "+channel)
	}
	for _, c := range f.Own.LockedChannels {
		s.wrong("%s", c.Message).do("notifications for it are retried for a day")
	}
	mute := func(c *client.ChannelTrouble) bool { return c.GivenUp > 0 }
	troubled := worstFirst(f.Own.TroubledChannels, mute)
	for i, c := range troubled {
		if i == mostNamed {
			s.say(levelIf(mute(&c)), core.Say("and %d more channels do not take notices", len(troubled)-i)).
				do("%s lists them", "tickring get channels")
			break
		}
		since := core.Say("channel %s does not take notices since %s, %s ago", c.Channel,
			c.Since.UTC().Format(time.RFC3339), span(f.Own.Now.Sub(c.Since)))
		if c.GivenUp > 0 {
			s.wrong("%s: %s; %d were given up", since, oneLine(c.Error), c.GivenUp).
				do("%s; what was given up is in the log (given up), and is not sent again", test(c.Channel))
			continue
		}
		s.warn("%s: %s", since, oneLine(c.Error)).do("%s; what waits for it is tried for a day", test(c.Channel))
	}
	if n := f.Own.NoticesLost; n > 0 {
		s.warn("%d were given up since %s", n, f.Own.UpSince.Format(time.RFC3339)).
			do("the server's log names each (given up), with its channel and why")
	}
	return core.Say("each channel takes what it is sent")
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

var tellsOverdue = core.Say("tickring audit tells what is overdue, tickring runs --state running what is under way")

func apps(f *Facts, s *sheet) core.Text {
	for _, a := range f.Own.UnreadableApps {
		s.wrong("app %s cannot be read: %s", a.Name, a.Message).
			do("its runs wait for 15 minutes, then move to the dead-letter queue; if a key is missing, add the key or set the secrets again, " +
				"else restore the app from a backup")
	}
	for _, name := range f.Own.KnownTokens {
		s.warn("app %s has the token that xxl-job comes with, so everybody knows it", name).
			do("give it one of chance, in its file for tickring apply and at its executors")
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
		text := core.Say("app %s: no run arrives at %s", app, some(fails[app]))
		do := core.Say("tickring executors %s --test ADDRESS asks it once more: check its address, its token and the network between", app)
		if live[app] {
			s.warn("%s", text).do("%s", do)
		} else {
			s.wrong("%s", text).do("%s", do)
		}
	}
	for _, app := range slices.Sorted(maps.Keys(gone)) {
		if live[app] || len(fails[app]) > 0 {
			s.warn("app %s: gone are %s", app, some(gone[app])).
				do("if they were stopped for good: tickring executors rm %s ADDRESS", app)
		} else {
			s.wrong("app %s has no executor left: %s sent no heartbeat since", app, some(gone[app])).
				do("start one; its runs fail with no-executor, or wait within their deadline after an outage of the scheduler")
		}
	}
	since := func(r client.RefusedExecutor) bool { // it was let in at last
		return slices.ContainsFunc(f.Own.Executors, func(x client.Executor) bool {
			return x.App == r.App && x.Live && x.BeatAt.After(r.At) && x.Address == core.NormalAddress(r.Address)
		})
	}
	refused := slices.DeleteFunc(slices.Clone(f.Own.Refused), since)
	for _, r := range refused[max(0, len(refused)-10):] { // the newest; strangers can make any number
		if f.Apps != nil && !slices.Contains(f.Apps, r.App) {
			s.warn("there is no app %q: an executor of it at %q was refused %d times, the last %s ago from %s", r.App, r.Address, r.Times,
				span(f.Own.Now.Sub(r.At)), r.From).
				do("make the app, with the token of its executors, in a file for tickring apply; if it is none of yours, somebody is trying")
			continue
		}
		if r.Why != "" {
			s.warn("app %q: an executor at %q was refused %d times, the last %s ago from %s: %s", r.App, r.Address, r.Times,
				span(f.Own.Now.Sub(r.At)), r.From, r.Why).do("change the address that the executor registers, which its own log says too")
			continue
		}
		s.warn("app %q: an executor at %q was refused for its token, %d times, the last %s ago from %s", r.App, r.Address, r.Times,
			span(f.Own.Now.Sub(r.At)), r.From).
			do("give it the token of its app as its access token; if it is none of yours, somebody is trying")
	}
	if len(f.Own.Executors) == 0 {
		return core.Text{}
	}
	return core.Say("%d, none fails; not checked yet: %d", len(f.Own.Executors), unchecked)
}

// jobs tells of those that nobody takes, those that fail, and those that notify a channel that does not exist.
func jobs(f *Facts, s *sheet) core.Text {
	j := f.Jobs
	if j == nil {
		if f.JobsErr != "" {
			s.unknown("how they fare could not be asked: %s", f.JobsErr)
		}
		return core.Text{}
	}
	deserted := map[string]bool{}
	for _, d := range j.Deserted {
		deserted[d.App] = true
		if slices.ContainsFunc(f.Own.Executors, func(x client.Executor) bool { return x.App == d.App }) {
			continue // those it had are told of
		}
		of := core.Say("%s", d.Job)
		if d.Jobs > 1 {
			of = core.Say("%s and %d more", of, d.Jobs-1)
		}
		s.wrong("app %s has no executor, and nobody runs %s", d.App, of).
			do("start one, or give the app a fixed address")
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
			s.say(levelIf(broken(x)), core.Say("and %d more fail", j.FailingJobs-i)).do("%s", "tickring runs --failed")
			break
		}
		why, _, _ := strings.Cut(strings.TrimSpace(x.Last.Message), "\n")
		why = strings.TrimSuffix(x.Last.Reason+": "+why, ": ")
		do := "tickring runs " + x.Job + " --failed; tickring logs " + x.Last.ID
		if when := span(f.Own.Now.Sub(x.Last.EndedAt)); !broken(x) {
			s.warn("%s did nothing but fail yet, the last time %s ago: %s", x.Job, when, why).do("%s", do)
		} else {
			s.wrong("%s failed for good %d times in a row, the last time %s ago: %s", x.Job, x.Times, when, why).do("%s", do)
		}
	}
	for i, u := range j.Untold {
		if i == mostNamed {
			s.wrong("and %d more name a channel that is not there", len(j.Untold)-i)
			break
		}
		s.wrong("%s is to tell channel %s, and there is none: it tells nobody by it", u.Subject, u.Channel).
			do("make the channel, or take it out of notify.to, in a file for tickring apply")
	}
	for i, l := range j.Locked {
		if i == mostNamed {
			s.wrong("and %d more jobs cannot be read", len(j.Locked)-i)
			break
		}
		s.wrong("%s", l.Message).do("%s", local(f, core.Say("no runs of it are planned until then"),
			core.Say("its runs wait for 15 minutes, then move to the dead-letter queue")))
	}
	text := core.Say("%d looked at", j.Looked)
	if j.More {
		text = core.Say("%d looked at, and there are more, which were not", j.Looked)
	}
	if p := j.Pending; p != nil {
		age := f.Own.Now.Sub(p.DueAt)
		oldest := core.Say("the oldest run that is due and was not sent is of %s, %s: it waits for %s", p.Job, p.State, span(age))
		if age > onItsWay {
			s.warn("%s", oldest).do("%s tells what it waits for", "tickring runs "+p.Job+" --state planned,queued,running")
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
	do := core.Say("write a new one and its key into the files of --tls-cert and --tls-key: they are read again; where they are new, " +
		"the log says why not")
	switch left := until.Sub(f.Own.Now); {
	case left <= 0:
		s.wrong("it ended %s ago: whoever checks it does not connect", span(-left)).do("%s", do)
	case left < certificateEnds:
		s.warn("it ends in %s", span(left)).do("%s", do)
	}
	return core.Say("it ends at %s", until.UTC().Format(time.RFC3339))
}

func reports(f *Facts, s *sheet) core.Text {
	r := f.Own.Reports
	switch {
	case r == nil || r.Until.IsZero(): // an older one, or nothing has worked on the data yet
		return core.Text{}
	case r.Failed != "":
		return s.warn("runs are summed up to %s, and then it failed: %s", r.Until.Format(time.RFC3339), r.Failed).
			do("it is tried again each minute; no fire waits for it. What lasts longer than runs are kept is missing in tickring report")
	case f.Own.Now.Sub(r.Until) > unsummed:
		return s.warn("runs are summed up to %s: that is %s ago", r.Until.Format(time.RFC3339), span(f.Own.Now.Sub(r.Until))).
			do("tickring retries by itself; if the time does not advance, see docs/explanation/reports.md")
	}
	return core.Say("runs are summed up to %s", r.Until.Format(time.RFC3339))
}

func disk(f *Facts, s *sheet) core.Text {
	d := f.Own.Data
	if d == nil {
		return core.Text{}
	}
	text := core.Say("%s: the database has %s, %s are free", d.Folder, size(d.Bytes), size(d.Free))
	switch {
	case d.Free < 0:
		s.unknown("%s: how much room is left is not known on this system", d.Folder)
	case d.Free < diskWrong:
		s.wrong("%s", text).do("make room: without it nothing can be written, and nothing is planned")
	case d.Free < diskWarn || d.Free < d.Bytes/4:
		s.warn("%s", text).do("make room, or let jobs keep their runs for fewer days (keep.days)")
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
		return s.wrong("there is no table %s", t.Name).
			do("restore it to a table of another name and set that name in the stack; see docs/how-to/recover-on-aws.md")
	}
	if t.Status != "ACTIVE" && t.Status != "UPDATING" {
		s.wrong("%s is %s", t.Name, t.Status).do("wait until it is ACTIVE; without it nothing works")
	}
	shown := !f.Cloud.Emulated
	if t.TTL == "" && name != "jobs" && shown {
		s.warn("%s has no time to live: what is past its keeping is never removed", t.Name).
			do("turn it on, for the attribute expires: %s", update)
	} else if t.TTL != "" && t.TTL != "expires" {
		s.wrong("%s forgets by the attribute %s, which is not ours", t.Name, t.TTL).do("set its time to live to the attribute expires")
	}
	if t.Recoverable != nil && !*t.Recoverable && name != "runs" && shown {
		s.warn("%s has no point-in-time recovery: what is lost is lost", t.Name).do("turn it on: %s", update)
	}
	if !t.Protected && shown {
		s.warn("%s can be deleted by one command", t.Name).do("turn deletion protection on: %s", update)
	}
	if status, ok := t.Indexes["due"]; name == "jobs" && !ok {
		s.wrong("%s has no index due: nothing can be planned", t.Name).do("%s", update)
	} else if name == "jobs" && status != "ACTIVE" && status != "" { // stand-ins say nothing
		s.wrong("%s has an index due that is %s", t.Name, status).
			do("wait until it is ACTIVE: until then jobs are not found when they are due")
	}
	return core.Say("%s", t.Name)
}

func queue(f *Facts, name string, q *Queue, s *sheet) core.Text {
	if q.Missing {
		return s.wrong("there is no queue %s", q.URL).do("%s; what was on the queue is sent again by: %s", update, "tickring replan --from TIME")
	}
	if q.Retention < keepsMessages {
		s.warn("it keeps messages for %s only", span(q.Retention)).do("set it to 14 days: an outage of that length then loses nothing")
	}
	well := core.Say("%d due, %d waiting, %d in hand", q.Due, q.Waiting, q.InFlight)
	if name == "dead" {
		return well
	}
	if q.Dead == "" {
		s.wrong("it has no queue for its dead letters: what cannot be handled comes again until it expires").do("%s", update)
	} else if d := f.Cloud.Queues["dead"]; d != nil && nameOf(q.Dead, ":") != nameOf(d.URL, "/") {
		s.warn("its dead letters go to %s, which this stack does not look at", nameOf(q.Dead, ":")).do("%s", update)
	}
	if q.Dead != "" && q.MaxReceives < fewReceives {
		s.warn("a message is a dead letter after %d receipts: an outage of a few minutes makes many", q.MaxReceives).
			do("set maxReceiveCount to %d", ring.MaxReceives)
	}
	if !taken(f.Cloud, q) && (name != "results" || q.Due > 0) { // a stack without executors that are functions has no mapping
		s.wrong("no function takes anything from it: there is no event source mapping").do("%s", update)
	}
	if d := f.Cloud.Functions["dispatch"]; d != nil && name != "results" && q.Visibility < d.Timeout {
		s.wrong("a message is visible again after %s, before dispatch gives up after %s: runs are sent twice",
			span(q.Visibility), span(d.Timeout)).
			do("make the visibility twice the timeout of dispatch: %s", update)
	}
	return well
}

// takers are the functions that queues bring messages to, loops those that put
// messages back or wake themselves.
var (
	takers = map[string]bool{"dispatch": true, "slow": true, "aside": true, "callback": true}
	loops  = map[string]bool{"tick": true, "dispatch": true, "slow": true, "aside": true, "callback": true, "api": true}
)

// taken reports whether some function takes from a queue, or it is not known of
// all that may.
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
		if q := f.Cloud.Queues["dead"]; q != nil && !q.Missing { // not looked at yet
			n, known = n+q.Due+q.InFlight, true
		}
	}
	if !known {
		return core.Text{}
	}
	if n > 0 {
		if n >= maxLetters {
			s.wrong("%d or more messages could not be handled", n)
		} else {
			s.wrong("%d messages could not be handled", n)
		}
		s.do("tickring redrive --dry-run says what they are and why; tickring redrive sends again what still may be sent")
	}
	return core.Say("none")
}

func function(f *Facts, name string, fn *Function, s *sheet) core.Text {
	if fn.Missing {
		return s.wrong("there is no function %s", fn.Name).do("%s", update)
	}
	if fn.State != "" && fn.State != "Active" && fn.State != "Inactive" {
		s.wrong("%s is %s", fn.Name, fn.State).do("wait, or update the stack")
	}
	if fn.Update == "Failed" {
		s.wrong("the last update of %s failed: it runs the code of before", fn.Name).do("%s", update)
	}
	if fn.Reserved != nil && *fn.Reserved == 0 {
		text := core.Say("%s is switched off: its reserved concurrency is 0", fn.Name)
		if takers[name] {
			text = core.Say("%s; each message that it is offered counts as received meanwhile, and is a dead letter at last", text)
		}
		s.wrong("%s", text).do("%s", "aws lambda delete-function-concurrency --function-name "+fn.Name)
	}
	for _, key := range []string{"jobs", "runs", "state"} {
		t, env := f.Cloud.Tables[key], fn.Env["TICKRING_TABLE_"+strings.ToUpper(key)]
		if t != nil && env != "" && env != t.Name {
			s.wrong("%s works on the table %s, and the stack says %s", fn.Name, env, t.Name).
				do("%s: all functions have to work on the same tables", update)
		}
	}
	if loops[name] && fn.Loop == "Terminate" && !f.Cloud.Emulated {
		s.wrong("%s may be stopped as a runaway loop, for it puts messages back on the queue", fn.Name).
			do("%s", "aws lambda put-function-recursion-config --recursive-loop Allow --function-name "+fn.Name)
	}
	for _, arn := range slices.Sorted(maps.Keys(fn.Mappings)) {
		switch state := fn.Mappings[arn]; state {
		case "Enabled", "Updating":
		case "Creating", "Enabling":
			s.unknown("%s takes nothing from %s yet: the mapping is %s", fn.Name, nameOf(arn, ":"), state)
		default:
			s.wrong("%s takes nothing from %s: the mapping is %s", fn.Name, nameOf(arn, ":"), state).
				do("enable the event source mapping of that queue")
		}
	}
	if fn.Throttles > 0 {
		text := core.Say("%s was refused %.0f times in 15 minutes for want of concurrency", fn.Name, fn.Throttles)
		if fn.Reserved != nil {
			s.warn("%s: it has %d places", text, *fn.Reserved).do("see who asks so much; your own fleet: %s", "-c tickring:doorConcurrency=N")
		} else {
			s.warn("%s", text).do("other functions of the account use it up: ask for more (Service Quotas: Lambda, concurrent executions), " +
				"or reserve some")
		}
	}
	if fn.Errors > 0 {
		s.warn("%s failed %.0f times in 15 minutes", fn.Name, fn.Errors).do("%s", tail(f, name, "15m"))
	}
	return core.Say("%s", fn.Name)
}

// emulator names what the emulator lacks, and the settings that are not judged there: it accepts them and may not show them.
func emulator(f *Facts, s *sheet) core.Text {
	if !f.Cloud.Emulated {
		return core.Text{}
	}
	if f.Cloud.NoHTTPAPIs {
		s.say(Well, core.Say("this emulator has no HTTP APIs (API Gateway v2): %s cannot be used", "-c tickring:httpApi=true"))
	}
	if f.Cloud.NoPermissions {
		s.say(Well, core.Say("this emulator does not check permissions (IAM): a missing permission shows only in an account"))
	}
	s.say(Well, core.Say("emulators of AWS do not show some settings, so these are not checked: time to live, point-in-time recovery and "+
		"deletion protection of tables; recursion settings of functions"))
	return core.Text{}
}

func schedule(f *Facts, s *sheet) core.Text {
	x := f.Cloud.Schedule
	switch {
	case x == nil:
		return core.Text{}
	case x.Missing:
		return s.wrong("the EventBridge rule %s is missing: the tick is not woken", x.Name).do("%s", update)
	case x.State == "":
		return s.wrong("the EventBridge rule %s has no state: the tick is not woken", x.Name).
			do("enable the rule in EventBridge, or %s", update)
	case x.State != "ENABLED":
		return s.wrong("the EventBridge rule %s is %s: the tick is not woken", x.Name, x.State).
			do("enable the rule in EventBridge, or %s", update)
	case x.Rate != "rate(1 minute)" && x.Rate != "rate(1 minutes)":
		return s.wrong("the EventBridge rule %s has %s: runs are planned 210 s ahead, and are late unless the tick is woken each minute",
			x.Name, x.Rate).do("set the rule to %s", "rate(1 minute)")
	}
	return core.Say("%s", x.Rate)
}

func concurrency(f *Facts, s *sheet) core.Text {
	a := f.Cloud.Account
	switch {
	case a == nil || a.Concurrency == 0:
		return core.Text{}
	case a.Concurrency < fewConcurrent:
		s.warn("the account may run %d functions at a time, as new ones: a burst of fires waits", a.Concurrency).
			do("ask for 1,000 (Service Quotas: Lambda, concurrent executions)")
	case a.Unreserved < fewConcurrent:
		s.warn("of %d functions at a time %d are not reserved by others", a.Concurrency, a.Unreserved).
			do("reserve less elsewhere, or reserve some for dispatch and tick")
	}
	return core.Say("%d functions at a time", a.Concurrency)
}

func quota(f *Facts, s *sheet) core.Text {
	a := f.Cloud.Account
	if a == nil || a.TableWrite == 0 {
		return core.Text{}
	}
	if a.TableWrite < fewWrites {
		s.warn("a table may take %d write units a second, about %d fires", a.TableWrite, a.TableWrite/3).
			do("ask for more (Service Quotas: DynamoDB, table-level write throughput)")
	}
	return core.Say("%d write and %d read units a second for a table", a.TableWrite, a.TableRead)
}

// unasked tells of each check of AWS that could not be made, under its name.
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
		do("its log says why; the role of the function api needs the rights")
}
