// Package doctor says in plain words what is wrong with a deployment and what to
// do. Gather is what the deployment says of itself, Ask what AWS says of its
// stack; Judge makes of these facts alone what its table of checks finds. It
// changes nothing, and what could not be asked it does not call well.
package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
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

// Worst is the worst level of findings.
func Worst(list []Finding) Level {
	worst := 0
	for _, x := range list {
		worst = max(worst, slices.Index(Levels, x.Level))
	}
	return Levels[worst]
}

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
	Own     *api.Facts
	Canary  *Canary // of a deployment that has one, where it could be asked
	OwnErr  string
	Refused bool
	Older   bool // it answers, and knows no such question
	// Apps are the names of all, where one was refused that said he is of one; else nil.
	Apps []string
	// Jobs are how its jobs fare; JobsErr is why that is not known.
	Jobs    *api.JobFacts
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
// answers what is to be said where nothing is; empty: that does not apply.
type check struct {
	name  string
	needs need
	judge func(f *Facts, s *sheet) (well string)
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

// sheet is what one check finds.
type sheet struct {
	check string
	list  []Finding
}

func (s *sheet) say(level Level, says string) *sheet {
	s.list = append(s.list, Finding{Check: s.check, Level: level, Says: says})
	return s
}

func (s *sheet) wrong(format string, args ...any) *sheet {
	return s.say(Wrong, fmt.Sprintf(format, args...))
}
func (s *sheet) warn(format string, args ...any) *sheet {
	return s.say(Warning, fmt.Sprintf(format, args...))
}
func (s *sheet) unknown(format string, args ...any) *sheet {
	return s.say(Unknown, fmt.Sprintf(format, args...))
}

// do says what to do about what was said last. Nothing is well then, which a judge
// may return.
func (s *sheet) do(what string) (well string) {
	s.list[len(s.list)-1].Do = what
	return ""
}

func (s *sheet) close(well string) {
	if len(s.list) == 0 && well != "" {
		s.say(Well, well)
	}
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

// mostNamed bounds how many of a kind are named in one line.
const mostNamed = 5

func some(list []string) string {
	if len(list) > mostNamed {
		return strings.Join(list[:mostNamed], ", ") + fmt.Sprintf(" and %d more", len(list)-mostNamed)
	}
	return strings.Join(list, ", ")
}
