package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// TestWaitsAreInReach: the longest delay of a waiting run is one that every queue supports.
func TestWaitsAreInReach(t *testing.T) {
	if most := waitMost * 5 / 4; most > ring.Farthest || hintTries < 20 {
		t.Errorf("a waiting run is checked after %s", most)
	}
}

// TestLateWriteIsListed: a write without an answer may arrive after its invocation. The journal names its run all the same.
func TestLateWriteIsListed(t *testing.T) {
	for _, lost := range []bool{true, false} {
		b := &batch{d: &Dispatcher{store: &store.Store{ByJournal: true}}, key: core.JournalKey{Minute: 1, Nonce: "own"}}
		it := &item{fire: core.Fire{Run: 7}, run: &noRun, phase: done{}}
		if lost {
			it.written(errors.New("connection reset"), false)
		}
		run := &core.Run{ID: 7, State: core.Planned, Journal: core.JournalKey{Minute: 1, Nonce: "another"}}
		b.seen(it, map[core.RunID]store.Got[*core.Run]{7: {Is: run}}, func(*core.Run) bool { return false })
		if is := b.entry(it).Outcome == core.Recorded; is != lost {
			t.Errorf("answer lost %t, listed %t", lost, is)
		}
	}
}

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
		x := newProbes()
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
		x := newProbes()
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

func gatesOf(o Options) *gates {
	o.defaults()
	return newGates(&o)
}

const anHour = time.Hour

// TestPlacesAreGivenInTurn: the longest waiting send gets the next place. A send that leaves or times out takes none.
func TestPlacesAreGivenInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := gatesOf(Options{SendsMin: 2, SendsMax: 9}).of(at{"a", "http://a"})
		var got []int
		var in []*passage
		gone, goAway := context.WithCancel(t.Context())
		refused := 0
		var mu sync.Mutex
		for i := range 7 {
			ctx, until := t.Context(), time.Now().Add(anHour)
			if i == 3 {
				ctx = gone
			}
			if i == 4 {
				until = time.Now().Add(time.Second)
			}
			go func() {
				p, err := a.enter(ctx, until)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					refused++
					return
				}
				got, in = append(got, i), append(in, p)
			}()
			synctest.Wait()
		}
		if fmt.Sprint(got) != "[0 1]" {
			t.Errorf("%v have a place, want the first two", got)
		}
		goAway()
		time.Sleep(time.Second)
		synctest.Wait()
		for i := range 5 {
			in[i].leave(time.Millisecond)
			synctest.Wait()
		}
		if fmt.Sprint(got) != "[0 1 2 5 6]" || refused != 2 {
			t.Errorf("places were given to %v, %d were refused", got, refused)
		}
		if a.used != 0 || len(a.waiting) != 0 || a.g.open.used != 0 {
			t.Errorf("%d places in use, %d wait, when all have left", a.used, len(a.waiting))
		}
	})
}

// TestPlaceOfOneWhoIsGoneIsPassedOn: a send gets a place at the moment its ctx ends; the place is not lost in either
// case.
func TestPlaceOfOneWhoIsGoneIsPassedOn(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			a := gatesOf(Options{SendsMin: 1, SendsMax: 1}).of(at{"a", "http://a"})
			until := time.Now().Add(anHour)
			first, err := a.enter(t.Context(), until)
			if err != nil {
				t.Fatal("no place at an empty gate")
			}
			ctx, cancel := context.WithCancel(t.Context())
			var in *passage
			go func() { in, _ = a.enter(ctx, until) }()
			synctest.Wait()
			cancel()
			first.leave(0)
			synctest.Wait()
			if in != nil {
				in.leave(0)
			}
			if a.used != 0 || len(a.waiting) != 0 || a.g.open.used != 0 {
				t.Fatalf("it got in: %t; %d places in use, %d wait", in != nil, a.used, len(a.waiting))
			}
		})
	}
}

// TestAwaitedSendsMakeRoom: a send that waits long for its answer leaves its gate once but still counts against
// SendsAll.
func TestAwaitedSendsMakeRoom(t *testing.T) {
	g := gatesOf(Options{SendsMin: 1, SendsMax: 1, SendsAll: 6})
	a, b := g.of(at{"a", "call:http://h"}), g.of(at{"b", "call:http://h"})
	var awaited []*passage
	for i := range 3 { // half of six, as no other app has any
		p, err := a.enter(t.Context(), time.Now())
		if err != nil || !p.linger() || p.linger() {
			t.Fatalf("number %d: %v", i, err)
		}
		awaited = append(awaited, p)
	}
	if _, err := a.enter(t.Context(), time.Now().Add(anHour)); err != errFull {
		t.Errorf("half of all is one app's, and it gets more: %v", err)
	}
	// Another app gets half of the free places, and some are left for a third.
	p, err := b.enter(t.Context(), time.Now())
	if err != nil || !p.linger() {
		t.Fatalf("another app at the same address: %v", err)
	}
	q, err := b.enter(t.Context(), time.Now())
	if err != nil {
		t.Fatalf("and once more: %v", err)
	}
	if _, err := g.of(at{"c", "call:http://h"}).enter(t.Context(), time.Now()); err != nil {
		t.Errorf("a third app: %v", err)
	}
	if !q.leave(time.Second) || p.leave(time.Second) || awaited[0].leave(time.Second) {
		t.Error("not only the lingering batch reports that when it leaves")
	}
	if a.used != 0 || b.used != 0 || g.open.used != 3 || g.open.of["a"] != 2 {
		t.Errorf("%d and %d in the gates, without an answer %+v", a.used, b.used, g.open)
	}
}

// TestGatesAreForgotten: the number of gates is limited, since addresses come from outside; gates in use stay.
func TestGatesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gatesOf(Options{})
		used := g.of(at{"a", "http://used"})
		used.offer(1)
		if _, err := used.enter(t.Context(), time.Now()); err != nil {
			t.Fatal("no place at an empty gate")
		}
		for i := range maxGates - 1 {
			g.of(at{"a", fmt.Sprint("http://", i)}).offer(1)
		}
		time.Sleep(62 * time.Second)
		g.of(at{"a", "http://new"})
		if len(g.byAddress) != 2 || g.of(at{"a", "http://used"}) != used {
			t.Errorf("%d gates are remembered, want the one in use and the new one", len(g.byAddress))
		}
	})
}

// TestRoomOfAnotherAppIsATurn: waiting runs come in hand when runs of another app end. Their own app may have no ending
// run, and half of its share need not be free.
func TestRoomOfAnotherAppIsATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, calls := range []int{4, 7} { // long ones; one app may have 8 of 16
			o := &Options{InHand: 16}
			o.defaults()
			g := newGates(o)
			for range calls {
				if held, _ := g.hold("calls"); !held {
					t.Fatal("no room")
				}
			}
			bursts := map[string]int{}
			for _, app := range []string{"one", "two", "three"} {
				for held, _ := g.hold(app); held; held, _ = g.hold(app) {
					bursts[app]++
				}
			}
			if held, waits := g.hold("calls"); held || !waits {
				t.Fatalf("held: %t, waits: %t", held, waits)
			}
			began := time.Now()
			time.AfterFunc(time.Second, func() {
				for app, n := range bursts {
					for range n {
						g.letGo(app)
					}
				}
			})
			got, err := g.takeTurn(t.Context(), "calls", 1, began.Add(10*time.Second))
			if took := time.Since(began); err != nil || got != 1 || took > time.Second {
				t.Errorf("beside %d calls: after %s it got %d: %v", calls, took, got, err)
			}
		}
	})
}

// closesAll has one run, and accepts its close when the test allows it.
type closesAll struct {
	store.Runs
	run        core.Run
	began, may chan struct{}
}

func (s closesAll) Get(context.Context, []core.RunID) (map[core.RunID]store.Got[*core.Run], error) {
	return map[core.RunID]store.Got[*core.Run]{s.run.ID: {Is: new(s.run)}}, nil
}

func (s closesAll) Put(_ context.Context, puts []store.RunPut) []error {
	close(s.began)
	<-s.may
	return make([]error, len(puts))
}

// TestEndsSideBySide: of two concurrent calls of end, the second does not store the results that the first is storing.
func TestEndsSideBySide(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	r := core.Run{ID: core.NumberedRun(7, 1), App: "a", State: core.Running, Owner: "me", Attempt: 1}
	r.First = r.ID
	s := closesAll{run: r, began: make(chan struct{}), may: make(chan struct{})}
	d := New(nil, nil, finish.New(&store.Store{Runs: s}, finish.Options{Log: log}), Options{Log: log, Nonce: func() string { return "me" }})
	b := newBatch(d, nil, nil)
	b.items = append(b.items, &item{fire: r.Fire(), run: &r, phase: ended{Answer{State: core.Succeeded, Kind: AnswerEnded}}})
	over := make(chan struct{})
	go func() {
		b.end(t.Context(), b.toEnd())
		close(over)
	}()
	<-s.began
	if n := len(b.toEnd()); n != 0 {
		t.Errorf("%d results are stored again while they are stored", n)
	}
	close(s.may)
	<-over
	if n := len(b.toEnd()); n != 0 || b.items[0].phase != (done{}) {
		t.Errorf("%d results are stored again; the run is %T", n, b.items[0].phase)
	}
}
