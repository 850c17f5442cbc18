// Package doctor says in plain words what is wrong with a deployment and what to
// do. Each check is a function of facts alone; Ask gathers the facts of a stack
// on AWS, and the deployment itself tells the rest. It changes nothing, and what
// could not be asked it does not call well.
package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/stack"
)

// Level of a finding.
type Level string

const (
	Well    Level = "ok"
	Unknown Level = "unknown" // it could not be asked
	Warning Level = "warning" // it works, and will not or may not for long
	Wrong   Level = "wrong"
)

// Finding is what one check found of one thing.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	Says  string `json:"says"`
	Do    string `json:"do,omitempty"` // what to do about it
}

// Facts are what is judged. What was not asked, or does not exist where the
// server runs on one machine, is nil or empty.
type Facts struct {
	Now      time.Time // by the clock of this machine
	Took     time.Duration
	Endpoint string
	// Own is what the deployment says of itself; OwnErr why it says nothing,
	// Refused that it does not take the token.
	Own     *client.Facts
	Canary  *Canary // of a deployment that has one, where it could be asked
	OwnErr  string
	Refused bool
	Older   bool // it answers, and knows no such question

	Cloud *Cloud // nil on one machine
}

// Canary is the last run of the job by which a deployment watches itself.
type Canary struct {
	Ran     bool      // there is a run of it that ended
	Came    bool      // it succeeded: it arrived, and its result came back
	At      time.Time // its instant
	Message string    // of a run that did not
}

// Cloud is what AWS says of a stack.
type Cloud struct {
	Stack, Region string
	Clock         time.Time // of AWS, to the second; zero not known
	Tables        map[string]*Table
	Queues        map[string]*Queue
	Functions     map[string]*Function
	Schedule      *Schedule
	Account       *Account
	// Unread says of what could not be asked why.
	Unread map[string]string
}

// Table is a table of DynamoDB; Missing, that there is none of the name.
type Table struct {
	Name        string
	Missing     bool
	Status      string
	Protected   bool
	TTL         string // the attribute by which it forgets; empty: none
	Recoverable *bool  // point in time; nil: not asked
	Indexes     map[string]string
}

// Queue is a queue of SQS.
type Queue struct {
	URL                    string
	Missing                bool
	Visibility, Retention  time.Duration
	Dead                   string // ARN of its dead-letter queue
	MaxReceives            int
	Due, Waiting, InFlight int
}

// Function is a function of Lambda.
type Function struct {
	Name          string
	Missing       bool
	State, Update string
	Log           string // its log group
	Timeout       time.Duration
	Env           map[string]string
	Reserved      *int              // concurrency that is reserved; nil: none
	Loop          string            // Allow or Terminate; empty: not asked
	Mappings      map[string]string // state of each mapping by the ARN of its queue
	Errors        float64           // of the last 15 minutes
	Throttles     float64
}

// Schedule is what wakes the tick.
type Schedule struct {
	Name    string
	Missing bool
	State   string
	Rate    string
	Made    time.Time // zero: not known
}

// Account is what the account allows.
type Account struct {
	Concurrency, Unreserved int
	TableWrite, TableRead   int64 // of one table on demand; 0: not asked
}

// Judge is all findings, in the order of the checks.
func Judge(f *Facts) []Finding {
	var list []Finding
	for _, check := range checks {
		list = append(list, check(f)...)
	}
	return list
}

// Worst is the worst level of findings.
func Worst(list []Finding) Level {
	worst := Well
	order := []Level{Well, Unknown, Warning, Wrong}
	for _, x := range list {
		if slices.Index(order, x.Level) > slices.Index(order, worst) {
			worst = x.Level
		}
	}
	return worst
}

var checks = []func(*Facts) []Finding{
	answers, fence, pause, clock, lastTick, planning, messages, losses, canary, executors, disk,
	tables, queues, deadLetters, functions, schedule, concurrency, quota, unasked,
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
	onItsWay              = 15 * time.Minute // as an audit has patience
	diskWrong, diskWarn   = 100 << 20, 1 << 30
	fewConcurrent         = 50
	fewWrites             = 4000
)

func found(check string, level Level, says, do string) []Finding {
	return []Finding{{check, level, says, do}}
}

func answers(f *Facts) []Finding {
	const check = "server"
	switch {
	case f.Own != nil && f.Own.Standby:
		return found(check, Warning, "the server at "+f.Endpoint+" stands by: another one works on the same data", "ask that one, or stop it if this is to take over")
	case f.Own != nil:
		return found(check, Well, strings.TrimSpace(f.Endpoint+" answers in "+span(f.Took)+versionText(f.Own.Version)), "")
	case f.Older:
		return found(check, Warning, f.Endpoint+" is older than this command, and says nothing of itself", "update it, or ask it with its own release of tickring")
	case f.Refused && f.Cloud != nil:
		return found(check, Wrong, f.Endpoint+" does not take the token of the stack", "the parameter was changed after the functions had read it: update the stack, or set the parameter back")
	case f.Refused:
		return found(check, Wrong, f.Endpoint+" does not take the token", "set TICKRING_TOKEN to the token of this server; it is in the file admin-token of its data folder")
	case f.Cloud != nil:
		return found(check, Wrong, "the API does not answer: "+f.OwnErr, "the log of the function says why: "+tail(f, "api", "10m")+"; what is planned and sent needs no API")
	}
	return found(check, Wrong, "there is no server: "+f.OwnErr, "start one with: tickring serve")
}

func versionText(v string) string {
	if v == "" {
		return ""
	}
	return ", version " + v
}

func fence(f *Facts) []Finding {
	const check = "generation"
	switch {
	case f.Own == nil || f.Own.Holder == "" && f.Own.Fenced == "":
		return nil
	case f.Own.Fenced != "":
		return found(check, Wrong, f.Own.Fenced, "if this is the deployment that is to work: tickring takeover (a replica) or tickring restore (a copy); see docs/operations.md")
	}
	return found(check, Well, fmt.Sprintf("generation %d, worked on by %s", f.Own.Generation, f.Own.Holder), "")
}

func pause(f *Facts) []Finding {
	if f.Own == nil || !f.Own.Paused {
		return nil
	}
	return found("pause", Warning, "everything is paused: no schedule fires", "tickring resume --all; tickring changes says who paused it, and why")
}

func clock(f *Facts) []Finding {
	const check = "clock"
	var list []Finding
	judge := func(whose string, off time.Duration, exact time.Duration) {
		off = max(off.Abs()-exact, 0)
		switch {
		case off > clockWrong:
			list = append(list, Finding{check, Wrong, fmt.Sprintf("%s and this machine differ by %s", whose, span(off)), "set the clock of the machine that is wrong, and let it be kept by NTP; requests to AWS fail beyond 5 minutes"})
		case off > clockWarn:
			list = append(list, Finding{check, Warning, fmt.Sprintf("%s and this machine differ by %s", whose, span(off)), "let the clocks be kept by NTP: instants count by the clock of the machine that sends"})
		}
	}
	if f.Own != nil && !f.Own.Now.IsZero() {
		judge("the server's clock", f.Own.Now.Sub(f.Now), f.Took)
	}
	if c := f.Cloud; c != nil && !c.Clock.IsZero() {
		judge("the clock of AWS", c.Clock.Sub(f.Now), time.Second+f.Took)
	}
	if len(list) == 0 && (f.Own != nil || f.Cloud != nil && !f.Cloud.Clock.IsZero()) {
		return found(check, Well, "the clocks agree", "")
	}
	return list
}

// tail is the command that shows the log of a function.
func tail(f *Facts, name, since string) string {
	log := "LOG-GROUP"
	if f.Cloud != nil && f.Cloud.Functions[name] != nil {
		log = cmp.Or(f.Cloud.Functions[name].Log, log)
	}
	return "aws logs tail " + log + " --since " + since
}

func local[T any](f *Facts, here, aws T) T {
	if f.Cloud == nil {
		return here
	}
	return aws
}

func lastTick(f *Facts) []Finding {
	const check = "last tick"
	if f.Own == nil || f.Own.Fenced != "" || f.Own.Standby || slices.Contains(f.Own.Unread, "last tick") {
		return nil
	}
	do := local(f, "restart the server; its log on standard error says why", "look at the schedule and at the function tick; its log says why: "+tail(f, "tick", "10m"))
	age := f.Own.Now.Sub(f.Own.LastTick)
	if young(f, tickAWS) && age > tickAWS {
		return found(check, Unknown, "nothing has been planned yet: the schedule that wakes the tick is new, and first does within two minutes", "")
	}
	if f.Own.LastTick.IsZero() {
		return found(check, Wrong, "nothing has ever been planned", do)
	}
	if age > local(f, tickLocal, tickAWS) {
		return found(check, Wrong, fmt.Sprintf("nothing has been planned for %s: no schedule fires", span(age)), do)
	}
	return found(check, Well, span(age)+" ago", "")
}

// young reports whether a deployment is so new that what happens within a time may
// be still to come.
func young(f *Facts, within time.Duration) bool {
	if f.Cloud == nil || f.Cloud.Schedule == nil || f.Cloud.Schedule.Made.IsZero() {
		return false
	}
	return f.Now.Sub(f.Cloud.Schedule.Made) <= within
}

// canary says whether a fire lately went the whole way: all else may be well and
// nothing arrive.
func canary(f *Facts) []Finding {
	const check = "canary"
	c := f.Canary
	if c == nil || f.Own == nil || f.Own.Fenced != "" || f.Own.Paused {
		return nil
	}
	age := f.Own.Now.Sub(c.At)
	late := !c.Ran || age > canaryWithin
	switch do := "look at what is wrong here besides, then at the logs of the functions dispatch, canary and callback; it fires each minute unless it is paused: tickring describe " + stack.CanaryApp + "/" + stack.CanaryJob; {
	case late && young(f, canaryWithin):
		return found(check, Unknown, "the first fire of the job by which the deployment watches itself is still to come", "")
	case !c.Ran:
		return found(check, Wrong, "the job by which the deployment watches itself has no run that ended", do)
	case late:
		return found(check, Wrong, "the job by which the deployment watches itself did not fire for "+span(age), do)
	case !c.Came:
		return found(check, Wrong, strings.TrimSuffix("its fire of "+span(age)+" ago did not come back: "+c.Message, ": "), do)
	}
	return found(check, Well, "its fire of "+span(age)+" ago arrived, and its result came back", "")
}

func planning(f *Facts) []Finding {
	const check = "planning"
	if f.Own == nil || f.Own.Fenced != "" || f.Own.LastTick.IsZero() && f.Own.DueSince.IsZero() {
		return nil // while nobody ever looked, that no job waits says nothing
	}
	parts := ""
	if n := f.Own.Partitions; n > 1 {
		parts = fmt.Sprintf("; %d partitions", n)
	}
	if f.Own.DueSince.IsZero() {
		return found(check, Well, "no job waits to be planned"+parts, "")
	}
	age := f.Own.Now.Sub(f.Own.DueSince)
	if age > local(f, lateLocal, lateAWS) {
		return found(check, Wrong, fmt.Sprintf("the earliest job has waited %s to be planned: its fires are late", span(age)),
			local(f, "the disk or the processor does not keep up: tickring bench says what this machine can", fmt.Sprintf("the tick does not keep up: look for throttles of the table of jobs; the index has %d partitions, and more are made under load up to MaxPartitions", f.Own.Partitions)))
	}
	return found(check, Well, "the earliest job has waited "+span(age)+parts, "")
}

// uncompared is from when on it is worth a word that what was due is not compared
// with its runs.
const uncompared = 10 * time.Minute

// losses tells of what a deployment does about messages that its queues lost.
func losses(f *Facts) []Finding {
	const check = "losses"
	if f.Own == nil || f.Cloud == nil || f.Own.Fenced != "" {
		return nil
	}
	if at := f.Own.LossFound; !at.IsZero() {
		return found(check, Warning, fmt.Sprintf("the queues lost messages, which was found %s ago: what was on them is being sent again", span(f.Own.Now.Sub(at))),
			"was a queue purged, made anew, or its retention shortened? tickring audit tells when all is accounted for")
	}
	since := f.Own.UncomparedFrom
	if age := f.Own.Now.Sub(since); !since.IsZero() && age > uncompared {
		return found(check, Warning, fmt.Sprintf("what was due since %s (%s ago) is not compared with its runs yet: a message as old may be on its way",
			since.UTC().Format(time.RFC3339), span(age)), "it goes on by itself when the queues are not behind; where they were purged: tickring replan --from "+span(age+time.Hour))
	}
	return found(check, Well, "what was due is compared with its runs", "")
}

func messages(f *Facts) []Finding {
	const check = "messages"
	if f.Own == nil || f.Own.Fires == nil {
		return nil
	}
	d := f.Own.Fires
	text := fmt.Sprintf("%d due, %d waiting for their time, %d in hand", d.Due, d.Waiting, d.InFlight)
	old := f.Own.OldestMessage
	age := f.Own.Now.Sub(old)
	if old.IsZero() || age <= local(f, dueLocal, dueAWS) || f.Own.Fenced != "" {
		return found(check, Well, text, "")
	}
	// On AWS the age is only known to be no more than that: since the queue was last
	// seen empty. Where something fires each second a few messages are always due, and
	// where something always is in flight the age is known to ten minutes (decision 030).
	if f.Cloud != nil {
		text = fmt.Sprintf("%s; one may be on its way for up to %s, for no queue tells: tickring audit tells what is overdue", text, span(age))
		if d.Due <= dueFew || age <= onItsWay {
			return found(check, Well, text, "")
		}
		return found(check, Warning, text, "if runs are late, look at the function dispatch below: throttles, errors, its mappings; then at slow executors: tickring runs --state running")
	}
	// In hand is also what only waits for the answer of a call, for as long as that may
	// take; and what an executor is too busy for, or has none, is put back.
	if d.Due == 0 {
		if age <= onItsWay {
			return found(check, Well, text, "")
		}
		return found(check, Warning, fmt.Sprintf("%s; some have been on their way for up to %s: calls that are awaited, or fires that nobody takes", text, span(age)),
			"tickring audit tells what is overdue, tickring runs --state running what is under way")
	}
	return found(check, Wrong, fmt.Sprintf("%s; some have been due for up to %s: runs are late", text, span(age)),
		"executors are slow, busy or gone, or this machine does not keep up: tickring audit tells what is overdue, tickring runs --state running what is under way")
}

// mostNamed bounds how many of a kind are named in one line.
const mostNamed = 5

func some(list []string) string {
	if len(list) > mostNamed {
		return strings.Join(list[:mostNamed], ", ") + fmt.Sprintf(" and %d more", len(list)-mostNamed)
	}
	return strings.Join(list, ", ")
}

func executors(f *Facts) []Finding {
	const check = "executors"
	if f.Own == nil || slices.Contains(f.Own.Unread, "executors") || slices.Contains(f.Own.Unread, "apps") {
		return nil
	}
	live, gone := map[string]int{}, map[string][]string{}
	total := 0
	for _, x := range f.Own.Executors {
		if x.Live {
			live[x.App]++
			total++
		} else {
			gone[x.App] = append(gone[x.App], fmt.Sprintf("%s (%s ago)", x.Address, span(f.Own.Now.Sub(x.BeatAt))))
		}
	}
	var list []Finding
	for _, app := range slices.Sorted(maps.Keys(gone)) {
		if live[app] == 0 {
			list = append(list, Finding{check, Wrong, fmt.Sprintf("app %s has no executor left: %s sent no heartbeat since", app, some(gone[app])), "start one; its runs fail with no-executor, or wait within their deadline after an outage of the scheduler"})
		} else {
			list = append(list, Finding{check, Warning, fmt.Sprintf("app %s: gone are %s", app, some(gone[app])), "nothing, if they were stopped: they are not used any more"})
		}
	}
	if len(list) == 0 && total > 0 {
		return found(check, Well, fmt.Sprintf("%d registered, all of them live", total), "")
	}
	return list
}

func disk(f *Facts) []Finding {
	const check = "disk"
	if f.Own == nil || f.Own.Data == nil {
		return nil
	}
	d := f.Own.Data
	text := fmt.Sprintf("%s: the database has %s, %s are free", d.Folder, size(d.Bytes), size(d.Free))
	switch {
	case d.Free < 0:
		return found(check, Unknown, d.Folder+": how much room is left is not known on this system", "")
	case d.Free < diskWrong:
		return found(check, Wrong, text, "make room: without it nothing can be written, and nothing is planned")
	case d.Free < diskWarn || d.Free < d.Bytes/4:
		return found(check, Warning, text, "make room, or let jobs keep their runs for fewer days (keep.days)")
	}
	return found(check, Well, text, "")
}

func each[T any](f *Facts, of func(c *Cloud) map[string]*T, judge func(name string, x *T) []Finding) []Finding {
	if f.Cloud == nil {
		return nil
	}
	var list []Finding
	m := of(f.Cloud)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, judge(name, m[name])...)
	}
	return list
}

func tables(f *Facts) []Finding {
	return each(f, func(c *Cloud) map[string]*Table { return c.Tables }, func(name string, t *Table) []Finding {
		check := "table " + name
		if t.Missing {
			return found(check, Wrong, "there is no table "+t.Name, "restore it from its point-in-time recovery into a table of another name, and say that name to the stack; see docs/operations.md")
		}
		var list []Finding
		add := func(level Level, says, do string) {
			list = append(list, Finding{check, level, t.Name + " " + says, do})
		}
		if t.Status != "ACTIVE" && t.Status != "UPDATING" {
			add(Wrong, "is "+t.Status, "wait until it is ACTIVE; without it nothing works")
		}
		if t.TTL == "" && name != "jobs" {
			add(Warning, "has no time to live: what is past its keeping is never removed", "turn it on, for the attribute expires: update the stack")
		} else if t.TTL != "" && t.TTL != "expires" {
			add(Wrong, "forgets by the attribute "+t.TTL+", which is not ours", "set its time to live to the attribute expires")
		}
		if t.Recoverable != nil && !*t.Recoverable && name != "runs" {
			add(Warning, "has no point-in-time recovery: what is lost is lost", "turn it on: update the stack")
		}
		if !t.Protected {
			add(Warning, "can be deleted by one command", "turn deletion protection on: update the stack")
		}
		if name == "jobs" {
			switch status, ok := t.Indexes["due"]; {
			case !ok:
				add(Wrong, "has no index due: nothing can be planned", "update the stack")
			case status != "ACTIVE" && status != "": // stand-ins say nothing
				add(Wrong, "has an index due that is "+status, "wait until it is ACTIVE: until then jobs are not found when they are due")
			}
		}
		if len(list) == 0 {
			return found(check, Well, t.Name, "")
		}
		return list
	})
}

const fourteenDays = 14 * 24 * time.Hour

func queues(f *Facts) []Finding {
	return each(f, func(c *Cloud) map[string]*Queue { return c.Queues }, func(name string, q *Queue) []Finding {
		check := "queue " + name
		if q.Missing {
			return found(check, Wrong, "there is no queue "+q.URL, "update the stack; what was on the queue is sent again by: tickring replan --from TIME")
		}
		var list []Finding
		add := func(level Level, says, do string) { list = append(list, Finding{check, level, says, do}) }
		if q.Retention < fourteenDays {
			add(Warning, fmt.Sprintf("it keeps messages for %s only", span(q.Retention)), "set it to 14 days: an outage of that length then loses nothing")
		}
		if name != "dead" {
			if q.Dead == "" {
				add(Wrong, "it has no queue for its dead letters: what cannot be handled comes again until it expires", "update the stack")
			} else if d := f.Cloud.Queues["dead"]; d != nil && nameOf(q.Dead, ":") != nameOf(d.URL, "/") {
				add(Warning, "its dead letters go to "+nameOf(q.Dead, ":")+", which this stack does not look at", "update the stack")
			}
			if q.Dead != "" && q.MaxReceives < 20 {
				add(Warning, fmt.Sprintf("a message is a dead letter after %d receipts: an outage of a few minutes makes many", q.MaxReceives), fmt.Sprint("set maxReceiveCount to ", ring.MaxReceives))
			}
			if !taken(f.Cloud, q) {
				add(Wrong, "no function takes anything from it: there is no event source mapping", "update the stack")
			}
			if d := f.Cloud.Functions["dispatch"]; d != nil && name != "results" && q.Visibility < d.Timeout {
				add(Wrong, fmt.Sprintf("a message is visible again after %s, before dispatch gives up after %s: runs are sent twice", span(q.Visibility), span(d.Timeout)), "make the visibility twice the timeout of dispatch: update the stack")
			}
		}
		if len(list) == 0 {
			return found(check, Well, fmt.Sprintf("%d due, %d waiting, %d in hand", q.Due, q.Waiting, q.InFlight), "")
		}
		return list
	})
}

// takers are the functions that queues bring messages to, loops those that put
// messages back or wake themselves.
var (
	takers = map[string]bool{"dispatch": true, "slow": true, "callback": true}
	loops  = map[string]bool{"tick": true, "dispatch": true, "slow": true, "callback": true, "api": true}
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

func deadLetters(f *Facts) []Finding {
	n, known := 0, false
	if f.Own != nil && f.Own.DeadLetters != nil {
		n, known = *f.Own.DeadLetters, true
	}
	if f.Cloud != nil {
		if q := f.Cloud.Queues["dead"]; q != nil && !q.Missing { // not looked at yet
			n, known = n+q.Due+q.InFlight, true
		}
	}
	switch {
	case !known:
		return nil
	case n == 0:
		return found("dead letters", Well, "none", "")
	}
	more := ""
	if n >= 100 {
		more = " or more"
	}
	return found("dead letters", Wrong, fmt.Sprintf("%d%s messages could not be handled", n, more), "tickring redrive --dry-run says what they are and why; tickring redrive sends again what still may be sent")
}

func functions(f *Facts) []Finding {
	return each(f, func(c *Cloud) map[string]*Function { return c.Functions }, func(name string, fn *Function) []Finding {
		check := "function " + name
		if fn.Missing {
			return found(check, Wrong, "there is no function "+fn.Name, "update the stack")
		}
		var list []Finding
		add := func(level Level, says, do string) { list = append(list, Finding{check, level, says, do}) }
		if fn.State != "" && fn.State != "Active" && fn.State != "Inactive" {
			add(Wrong, fn.Name+" is "+fn.State, "wait, or update the stack")
		}
		if fn.Update == "Failed" {
			add(Wrong, "the last update of "+fn.Name+" failed: it runs the code of before", "update the stack")
		}
		if fn.Reserved != nil && *fn.Reserved == 0 {
			cost := ""
			if takers[name] {
				cost = "; each message that it is offered counts as received meanwhile, and is a dead letter at last"
			}
			add(Wrong, fn.Name+" is switched off: its reserved concurrency is 0"+cost, "aws lambda delete-function-concurrency --function-name "+fn.Name)
		}
		for _, key := range []string{"jobs", "runs", "state"} {
			t, env := f.Cloud.Tables[key], fn.Env["TICKRING_TABLE_"+strings.ToUpper(key)]
			if t != nil && fn.Env != nil && env != "" && env != t.Name {
				add(Wrong, fmt.Sprintf("%s works on the table %s, and the stack says %s", fn.Name, env, t.Name), "update the stack: all functions have to work on the same tables")
			}
		}
		if loops[name] && fn.Loop == "Terminate" {
			add(Wrong, fn.Name+" may be stopped as a runaway loop, for it puts messages back on the queue", "aws lambda put-function-recursion-config --recursive-loop Allow --function-name "+fn.Name)
		}
		for _, arn := range slices.Sorted(maps.Keys(fn.Mappings)) {
			switch state := fn.Mappings[arn]; state {
			case "Enabled", "Updating":
			case "Creating", "Enabling":
				add(Unknown, fn.Name+" takes nothing from "+nameOf(arn, ":")+" yet: the mapping is "+state, "")
			default:
				add(Wrong, fmt.Sprintf("%s takes nothing from %s: the mapping is %s", fn.Name, nameOf(arn, ":"), state), "enable the event source mapping of that queue")
			}
		}
		if fn.Throttles > 0 {
			add(Warning, fmt.Sprintf("%s was refused %.0f times in 15 minutes for want of concurrency", fn.Name, fn.Throttles), "other functions of the account use it up: ask for more (Service Quotas: Lambda, concurrent executions), or reserve some")
		}
		if fn.Errors > 0 {
			add(Warning, fmt.Sprintf("%s failed %.0f times in 15 minutes", fn.Name, fn.Errors), tail(f, name, "15m"))
		}
		if len(list) == 0 {
			return found(check, Well, fn.Name, "")
		}
		return list
	})
}

func schedule(f *Facts) []Finding {
	const check = "schedule"
	if f.Cloud == nil || f.Cloud.Schedule == nil {
		return nil
	}
	s := f.Cloud.Schedule
	switch {
	case s.Missing:
		return found(check, Wrong, "there is no schedule "+s.Name+": nothing wakes the tick", "update the stack")
	case s.State != "ENABLED":
		return found(check, Wrong, "the schedule "+s.Name+" is "+cmp.Or(s.State, "in no state")+": nothing wakes the tick", "enable it in EventBridge Scheduler, or update the stack")
	case s.Rate != "rate(1 minute)" && s.Rate != "rate(1 minutes)":
		return found(check, Wrong, "the schedule "+s.Name+" is "+s.Rate+": fires are planned 210 s ahead, and come late if nobody plans each minute", "set it to rate(1 minute)")
	}
	return found(check, Well, s.Rate, "")
}

func concurrency(f *Facts) []Finding {
	const check = "account concurrency"
	if f.Cloud == nil || f.Cloud.Account == nil || f.Cloud.Account.Concurrency == 0 {
		return nil
	}
	a := f.Cloud.Account
	switch {
	case a.Concurrency < fewConcurrent:
		return found(check, Warning, fmt.Sprintf("the account may run %d functions at a time, as new ones: a burst of fires waits", a.Concurrency), "ask for 1,000 (Service Quotas: Lambda, concurrent executions)")
	case a.Unreserved < fewConcurrent:
		return found(check, Warning, fmt.Sprintf("of %d functions at a time %d are not reserved by others", a.Concurrency, a.Unreserved), "reserve less elsewhere, or reserve some for dispatch and tick")
	}
	return found(check, Well, fmt.Sprintf("%d functions at a time", a.Concurrency), "")
}

func quota(f *Facts) []Finding {
	const check = "table quota"
	if f.Cloud == nil || f.Cloud.Account == nil || f.Cloud.Account.TableWrite == 0 {
		return nil
	}
	a := f.Cloud.Account
	if a.TableWrite < fewWrites {
		return found(check, Warning, fmt.Sprintf("a table may take %d write units a second, about %d fires", a.TableWrite, a.TableWrite/3), "ask for more (Service Quotas: DynamoDB, table-level write throughput)")
	}
	return found(check, Well, fmt.Sprintf("%d write and %d read units a second for a table", a.TableWrite, a.TableRead), "")
}

func unasked(f *Facts) []Finding {
	var list []Finding
	if f.Cloud != nil {
		for _, what := range slices.Sorted(maps.Keys(f.Cloud.Unread)) {
			list = append(list, Finding{what, Unknown, f.Cloud.Unread[what], ""})
		}
	}
	if f.Own != nil && len(f.Own.Unread) > 0 {
		list = append(list, Finding{"server", Unknown, "the deployment could not read: " + some(f.Own.Unread), "its log says why; the role of the function api needs the rights"})
	}
	return list
}

func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 2*time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MB", n>>20)
	}
	return fmt.Sprintf("%d KB", n>>10)
}
