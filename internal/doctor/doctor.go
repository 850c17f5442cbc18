// Package doctor finds the problems of a deployment and explains how to fix them. Gather collects the facts that the
// deployment itself has, and Ask collects the facts of AWS about its stack. Judge checks these facts and returns
// findings; package words translates the findings. The package changes nothing. It reports a part as healthy only if
// it checked the part.
package doctor

import (
	"slices"
	"strconv"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

// Level is the severity of a finding.
type Level string

const (
	Well    Level = "ok"
	Unknown Level = "unknown" // the check could not be made
	Warning Level = "warning" // the checked object works now, but may soon stop working
	Wrong   Level = "wrong"
)

// Levels has all levels, from the best to the worst.
var Levels = []Level{Well, Unknown, Warning, Wrong}

func Worst(list []Finding) Level {
	worst := 0
	for _, x := range list {
		worst = max(worst, slices.Index(Levels, x.Level))
	}
	return Levels[worst]
}

// Finding is the result of one check for one object. words.Say translates its texts.
type Finding struct {
	Check core.Text // the name of the check. The English text also identifies the check for programs
	Level Level
	Says  core.Text
	Do    core.Text // the action that fixes the problem; zero: no action is needed or known
}

// Facts is the input of Judge. A fact that was not requested, or that a server on one machine does not have, is nil or
// empty.
type Facts struct {
	Now      time.Time // the current time by the clock of this machine
	Took     time.Duration
	Endpoint string
	// Own has the facts that the deployment itself reports. If Own is nil, OwnErr is the error, and Refused
	// reports whether the deployment rejected the token.
	Own     *client.Facts
	Canary  *Canary // the latest canary run; nil: the deployment has no canary job, or the run could not be read
	OwnErr  string  // the error of the deployment in the requested language, or the network error of this machine
	Refused bool
	Older   bool // whether the deployment answers but does not support this request, because its version is older
	// Apps has the names of all apps. It is set only if an executor was rejected, to check whether the
	// executor's app exists.
	Apps []string
	// Jobs has the facts about the deployment's jobs. If Jobs is nil, JobsErr is the error.
	Jobs    *client.JobFacts
	JobsErr string

	Cloud *Cloud // the facts of AWS; nil for a server on one machine
}

// Canary is the latest run of the canary job, with which a deployment checks itself.
type Canary struct {
	Ran     bool      // whether a run of the canary job has ended
	Came    bool      // whether the run succeeded: the run reached its executor, and the result came back
	At      time.Time // the scheduled time of the run
	Message string    // the message of a run that did not succeed
}

// need is the information that a check requires.
type need uint8

const (
	own  need = 1 << iota // the deployment answered
	ours                  // and is not fenced: a fenced one is not reported as late as well
	aws                   // AWS was asked
)

func (n need) met(f *Facts) bool {
	return (n&(own|ours) == 0 || f.Own != nil) && (n&ours == 0 || f.Own.Fenced == "") && (n&aws == 0 || f.Cloud != nil)
}

// check is one entry of the table. judge adds the rows that apply to the sheet, and returns the text to report if there are
// none; the zero Text: the check does not apply.
type check struct {
	name  core.Text
	needs need
	judge func(f *Facts, s *sheet) (well core.Text)
}

// Judge returns all findings, in the order in which the checks are made.
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

// Verdict returns one sentence that sums up all findings, for the console, `tickring doctor` and /healthz. The
// sentence includes the number of failing jobs that the deployment reports. Some callers do not run the check "jobs",
// which reads every job.
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

// health is the name of a level in a verdict.
var health = map[Level]core.Text{Well: core.Say("healthy"), Unknown: core.Say("partly unchecked"), Warning: core.Say("with warnings"),
	Wrong: core.Say("unhealthy")}

// row is one line of a check: the condition, the finding, and what to do.
type row struct {
	applies bool
	Finding
}

func wrong(applies bool, code string, args ...any) row {
	return row{applies, Finding{Level: Wrong, Says: core.Say(code, args...)}}
}

func warn(applies bool, code string, args ...any) row {
	return row{applies, Finding{Level: Warning, Says: core.Say(code, args...)}}
}

func unknown(applies bool, code string, args ...any) row {
	return row{applies, Finding{Level: Unknown, Says: core.Say(code, args...)}}
}

// do adds what to do. Commands are arguments, because they are the same in each language.
func (r row) do(code string, args ...any) row {
	r.Do = core.Say(code, args...)
	return r
}

// sheet collects the findings of one check.
type sheet struct {
	check core.Text
	list  []Finding
}

// all adds the rows that apply.
func (s *sheet) all(rows ...row) {
	for _, r := range rows {
		if r.applies {
			r.Check = s.check
			s.list = append(s.list, r.Finding)
		}
	}
}

// first adds the first row that applies.
func (s *sheet) first(rows ...row) {
	if i := slices.IndexFunc(rows, func(r row) bool { return r.applies }); i >= 0 {
		s.all(rows[i])
	}
}

func (s *sheet) close(well core.Text) {
	if len(s.list) == 0 && well.Code() != "" {
		s.list = append(s.list, Finding{Check: s.check, Level: Well, Says: well})
	}
}

// span returns a duration with useful precision: 20ms, 1m5s, 3m, 1h30m, 3 days.
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
