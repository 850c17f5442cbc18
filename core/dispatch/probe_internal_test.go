package dispatch

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
)

// TestChosen: the first address with a yes is chosen, even if its answer came after the check that triggered the
// choice.
func TestChosen(t *testing.T) {
	no, open, quick := said(errors.New("no")), &probe{done: make(chan struct{})}, said(nil)
	order := []string{"http://a", "http://b", "http://c"}
	for name, c := range map[string]struct {
		asked []*probe
		first string // of the choice
		err   bool
	}{
		"the second, and a third answered yes since": {[]*probe{no, quick, quick}, "http://b", false},
		"the only one":                {[]*probe{quick}, "http://a", false},
		"beside one that is awaited":  {[]*probe{open, no, quick}, "http://c", false},
		"none, and one is not asked":  {[]*probe{no, no}, "", true},
		"none, and one has no answer": {[]*probe{no, open, no}, "", true},
		"none":                        {[]*probe{no, no, no}, "", false},
	} {
		got := chosen(order, c.asked, 0, -1)
		first := ""
		if len(got.order) > 0 {
			first = got.order[0]
		}
		if first != c.first || (got.err != nil) != c.err {
			t.Errorf("%s: %q, %v", name, first, got.err)
		}
	}
}

// TestSilenceIsRememberedApart: idle probes for many jobs do not evict a cached missing answer.
func TestSilenceIsRememberedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newProbes(&Options{AskAgain: time.Second, AskNext: 100 * time.Millisecond, AskSilent: time.Minute})
		silent := question{at: at{"app", "http://silent"}}
		p, mine := x.ask(silent, false)
		p.err, p.silent = errors.New("no answer"), true
		x.made(silent, p)
		for job := range core.JobID(maxProbes + 10) {
			q := question{silent.at, job + 1}
			p, _ := x.ask(q, false)
			x.made(q, p)
		}
		time.Sleep(2 * time.Second)
		if again, asks := x.ask(silent, false); !mine || asks || again != p {
			t.Error("that it was silent is forgotten")
		}
		if len(x.idles) > maxProbes {
			t.Errorf("%d are remembered", len(x.idles))
		}
	})
}

// TestWhatIsGivenBackIsTakenOnce: a returned yes serves another run, unless the address was asked again and a run used
// that answer.
func TestWhatIsGivenBackIsTakenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newProbes(&Options{AskAgain: time.Second, AskNext: 100 * time.Millisecond, AskSilent: time.Minute})
		q := question{at{"app", "http://a"}, 1}
		first, _ := x.ask(q, false)
		x.made(q, first)
		if !x.take(first) || x.take(first) {
			t.Fatal("a yes is taken once")
		}
		x.untake(q, first)
		if !x.take(first) {
			t.Error("a returned one is missing")
		}
		time.Sleep(200 * time.Millisecond)
		second, mine := x.ask(q, true)
		if x.made(q, second); !mine || !x.take(second) {
			t.Fatal("it is not asked once more")
		}
		x.untake(q, first)
		if x.take(first) {
			t.Error("two runs use the answer of one address")
		}
	})
}
