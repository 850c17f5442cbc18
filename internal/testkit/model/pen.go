package model

import "fmt"

// move is one step from a state.
type move[S comparable] struct {
	to      S
	words   string // empty unless traces are printed
	fault   bool   // the good end must be reachable without it
	broken  string // the promise that this step breaks
	window  string // the window of section 8 that it goes through
	swapped swaps
}

// pen collects the steps from a state.
type pen[S comparable] struct {
	say    bool
	left   func(*S) *budget
	tidy   func(*S) (swapped swaps, broken string) // makes a kept state canonical, and returns the rule that the state breaks
	out    []move[S]
	broken string // by the step that is being made
	window string
}

func (g *pen[S]) breaks(what string) {
	if g.broken == "" {
		g.broken = what
	}
}

// emit adds a step to s, as it is after it.
func (g *pen[S]) emit(s *S, fault bool, words string, args ...any) {
	m := move[S]{fault: fault}
	if g.say {
		m.words = fmt.Sprintf(words, args...)
	}
	swapped, broken := g.tidy(s)
	if broken != "" {
		g.breaks(broken)
	}
	m.to, m.swapped, m.broken, m.window = *s, swapped, g.broken, g.window
	g.broken, g.window = "", ""
	g.out = append(g.out, m)
}

// answer of a write.
type answer int

const (
	ok answer = iota
	refusedAnswer
	throttled
	unknown
)

// write emits each possible outcome of one write: do makes the write and reports whether its condition held, then sets the
// writer's next step. later, if any, stores the write so that it can arrive at any later moment.
func (g *pen[S]) write(s S, what string, do func(*S) bool, then func(*S, answer), later func(*S)) {
	t := s
	if do(&t) {
		then(&t, ok)
		g.emit(&t, false, "%s: ok", what)
	} else {
		t = s
		g.broken, g.window = "", ""
		then(&t, refusedAnswer)
		g.emit(&t, false, "%s: refused", what)
	}
	left := g.left(&s)
	if left.write == 0 {
		return
	}
	left.spend(&left.write)
	t = s
	then(&t, throttled)
	g.emit(&t, true, "%s: throttled", what)
	t = s
	if do(&t) {
		then(&t, unknown)
		g.emit(&t, true, "%s: done, but the answer is lost", what)
	}
	g.broken, g.window = "", ""
	t = s
	then(&t, unknown)
	g.emit(&t, true, "%s: nothing happened, and the answer is lost", what)
	if later != nil {
		t = s
		later(&t)
		then(&t, unknown)
		g.emit(&t, true, "%s: no answer, and it is still on its way", what)
	}
}

// dies emits a crash: s is the state without the dead actor.
func (g *pen[S]) dies(s S, who string) {
	left := g.left(&s)
	left.spend(&left.crash)
	g.emit(&s, true, "%s dies", who)
}
