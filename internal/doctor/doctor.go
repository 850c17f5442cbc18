// Package doctor says in plain words what is wrong with a deployment and what to
// do. Gather is what the deployment says of itself, Ask what AWS says of its
// stack; Judge makes of these facts alone what its table of checks finds, in
// sentences that package words says in the language of whoever reads them. It
// changes nothing, and what could not be asked it does not call well.
package doctor

import (
	"slices"
	"strconv"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

// Level of a finding.
type Level string

const (
	Well    Level = "ok"
	Unknown Level = "unknown" // it could not be asked
	Warning Level = "warning" // it works, and will not or may not for long
	Wrong   Level = "wrong"
)

// Levels from the best to the worst.
var Levels = []Level{Well, Unknown, Warning, Wrong}

func Worst(list []Finding) Level {
	worst := 0
	for _, x := range list {
		worst = max(worst, slices.Index(Levels, x.Level))
	}
	return Levels[worst]
}

// Finding is what one check found of one thing. It is said by words.Say.
type Finding struct {
	Check core.Text // in English it is what programs know the check by
	Level Level
	Says  core.Text
	Do    core.Text // what to do about it; the zero Text: nothing, or it is not known
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
	OwnErr  string  // in the language that was asked for, or of this machine's network
	Refused bool
	Older   bool // it answers, and knows no such question
	// Apps are the names of all, where one was refused that said he is of one; else nil.
	Apps []string
	// Jobs are how its jobs fare; JobsErr is why that is not known.
	Jobs    *client.JobFacts
	JobsErr string

	Cloud *Cloud // nil on one machine
}

// Canary is the last run of the job by which a deployment watches itself.
type Canary struct {
	Ran     bool      // there is a run of it that ended
	Came    bool      // it succeeded: it arrived, and its result came back
	At      time.Time // its instant
	Message string    // of a run that did not
}

// need is what has to be known for a check to be made.
type need uint8

const (
	own  need = 1 << iota // the deployment answered
	ours                  // and may work: what is fenced is not called late besides
	aws                   // AWS was asked
)

func (n need) met(f *Facts) bool {
	return (n&(own|ours) == 0 || f.Own != nil) && (n&ours == 0 || f.Own.Fenced == "") && (n&aws == 0 || f.Cloud != nil)
}

// check is one entry of the table: judge says on the sheet what is wrong, and
// answers what is to be said where nothing is; the zero Text: that does not apply.
type check struct {
	name  core.Text
	needs need
	judge func(f *Facts, s *sheet) (well core.Text)
}

// Judge is all findings, in the order of the checks.
func Judge(f *Facts) []Finding {
	var list []Finding
	for _, c := range checks {
		if c.needs.met(f) {
			s := sheet{check: c.name}
			s.close(c.judge(f, &s))
			list = append(list, s.list...)
		}
	}
	return list
}

// Verdict sums up all findings in one sentence. The console, tickring doctor and /healthz show it.
// It counts the failing jobs that the deployment reports: the check "jobs", which looks at every
// job, is not made by all who show the verdict.
func Verdict(own *client.Facts, list []Finding) core.Text {
	var executors, scheduler []Finding
	for _, x := range list {
		switch x.Check.Code() {
		case "jobs":
		case "executors":
			executors = append(executors, x)
		default:
			scheduler = append(scheduler, x)
		}
	}
	jobs := core.Say("jobs not checked")
	if own != nil && own.Failing != nil {
		switch n := own.Failing.Jobs; {
		case own.Failing.Partial:
			jobs = core.Say("at least %d jobs failing", n)
		case n == 0:
			jobs = core.Say("no job failing")
		case n == 1:
			jobs = core.Say("1 job failing")
		default:
			jobs = core.Say("%d jobs failing", n)
		}
	}
	status := core.Say("scheduler %s", health[Worst(scheduler)])
	if worst := Worst(executors); worst != Well {
		status = core.Say("%s, executors %s", status, health[worst])
	}
	return core.Say("%s, %s", status, jobs)
}

// health is what a verdict calls a level.
var health = map[Level]core.Text{Well: core.Say("healthy"), Unknown: core.Say("partly unchecked"), Warning: core.Say("with warnings"),
	Wrong: core.Say("unhealthy")}

// sheet is what one check finds.
type sheet struct {
	check core.Text
	list  []Finding
}

func (s *sheet) say(level Level, says core.Text) *sheet {
	s.list = append(s.list, Finding{Check: s.check, Level: level, Says: says})
	return s
}

func (s *sheet) wrong(code string, args ...any) *sheet {
	return s.say(Wrong, core.Say(code, args...))
}
func (s *sheet) warn(code string, args ...any) *sheet {
	return s.say(Warning, core.Say(code, args...))
}
func (s *sheet) unknown(code string, args ...any) *sheet {
	return s.say(Unknown, core.Say(code, args...))
}

// do says what to do about what was said last. Nothing is well then, which a judge
// may return. What is only a command is an argument: it is the same in each language.
func (s *sheet) do(code string, args ...any) (well core.Text) {
	s.list[len(s.list)-1].Do = core.Say(code, args...)
	return core.Text{}
}

func (s *sheet) close(well core.Text) {
	if len(s.list) == 0 && well.Code() != "" {
		s.say(Well, well)
	}
}

// span is a duration as precisely as somebody needs it: 20ms, 1m5s, 3m, 1h30m, 3 days.
func span(d time.Duration) core.Text {
	d = max(d, 0)
	switch {
	case d < time.Second-time.Millisecond/2:
		if d = d.Round(time.Millisecond); d > 0 {
			return core.Say("%dms", d.Milliseconds())
		}
		return core.Say("%ss", "0")
	case d < 2*time.Minute:
		d = d.Round(100 * time.Millisecond)
		seconds := strconv.FormatFloat((d % time.Minute).Seconds(), 'f', -1, 64)
		switch {
		case d < time.Minute:
			return core.Say("%ss", seconds)
		case seconds == "0":
			return core.Say("%dm0s", d/time.Minute)
		}
		return core.Say("%dm%ss", d/time.Minute, seconds)
	case d < 48*time.Hour:
		switch d = d.Round(time.Minute); {
		case d < time.Hour:
			return core.Say("%dm", d/time.Minute)
		case d%time.Hour == 0:
			return core.Say("%dh0m", d/time.Hour)
		}
		return core.Say("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return core.Say("%d days", d/(24*time.Hour))
}

func size(n int64) string {
	switch {
	case n >= 10<<30:
		return strconv.FormatInt(n>>30, 10) + " GB"
	case n >= 10<<20:
		return strconv.FormatInt(n>>20, 10) + " MB"
	}
	return strconv.FormatInt(n>>10, 10) + " KB"
}

// mostNamed bounds how many of a kind are named in one line.
const mostNamed = 5

func some(list []core.Text) core.Text {
	if len(list) > mostNamed {
		return core.Say("%s and %d more", core.Listed(list[:mostNamed]), len(list)-mostNamed)
	}
	return core.Listed(list)
}
