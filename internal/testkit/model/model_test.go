package model

import (
	"flag"
	"reflect"
	"strings"
	"testing"
	"time"
)

var (
	long   = flag.Bool("model.long", false, "search the worlds of the page's table, of up to some ten million states each")
	states = flag.Int("model.states", 40_000_000, "how many states of a long world are looked at")
)

func searched(t *testing.T, w *World, most int) Report {
	t.Helper()
	began := time.Now()
	r := w.Search(most)
	took := time.Since(began).Round(time.Millisecond)
	t.Logf("%d states, %d steps, complete %v, in %v; windows %v", r.States, r.Steps, r.Complete, took, r.Windows)
	return r
}

// bounded are the worlds of every test run.
var bounded = []named{
	{"a fire", World{Fires: 1, Tickers: 2}},
	{"crashes", one(World{Crashes: 2, All: 2, Few: true})},
	{"a fault", one(World{Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 1})},
	{"a late write", one(World{Crashes: 1, Writes: 1, All: 2, Late: true, Few: true})},
	{"a slow owner", one(World{Slow: 1, All: 1, BetweenCheckAndSend: true})},
	{"a check", one(World{Writes: 2, All: 2, Checks: true, Few: true})},
	{"two fires", World{Fires: 2, Tickers: 1, Few: true}},
	{"a change", one(World{Due: -1, Changes: 1, Allowed: edit | pause, Crashes: 1, All: 1, Few: true})},
	{"two changes", one(World{Due: -1, Changes: 2, Allowed: edit | pause | resume, EndsBy: true, Few: true})},
	{"two people", one(World{People: 2, Changes: 2, Allowed: edit | pause, Few: true})},
	{"a trigger", one(World{Kind: Trigger, Crashes: 1, Busy: 1, All: 1, Few: true})},
	{"a changed trigger", one(World{Kind: Trigger, Changes: 1, Few: true})},
	{"a chain", World{Kind: FixedDelay, Fires: 2, Tickers: 1, Few: true}},
	{"a chain, a crash", one(World{Kind: FixedDelay, Crashes: 1, All: 1, Few: true})},
	{"a changed chain", one(World{Kind: FixedDelay, Changes: 1, Allowed: edit, Crashes: 1, All: 1, Few: true})},
	{"cover early, and a kill", one(World{CoverEarly: true, Kills: 1, Crashes: 1, All: 1, Few: true})},
	{"a timeout, and a kill", one(World{Timeouts: true, Kills: 1, Crashes: 1, Writes: 1, Seconds: 1, All: 1, Few: true})},
	{"a limit", World{Fires: 2, Tickers: 1, Limit: true, Crashes: 1, Writes: 1, All: 1, Few: true}},
	{"a limit, a slow owner", World{Fires: 2, Tickers: 1, Limit: true, Slow: 1, All: 1, BetweenCheckAndSend: true, Few: true}},
	{"children", one(World{Children: 2, Crashes: 1, Writes: 1, Seconds: 1, All: 1, Few: true})},
	{"children, and a kill", one(World{Children: 1, Kills: 1, Few: true})},
	{"children of what is refused", one(World{Children: 2, Crashes: 1, All: 1})},
	{"a wait", one(World{Waits: true, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 1, Few: true})},
	{"a wait, and a change", one(World{Waits: true, Due: -1, Changes: 1, Allowed: edit | pause, Few: true})},
	{"a trigger waits", one(World{Waits: true, Kind: Trigger, Few: true})},
	{"a chain waits", one(World{Waits: true, Kind: FixedDelay, Changes: 1, Allowed: edit | pause, Few: true})},
}

// longer are those of the table in docs/claim-protocol.md.
var longer = []named{
	{"crashes, writes", World{Fires: 1, Tickers: 2, Crashes: 2, Writes: 2, Busy: 1, Seconds: 1, All: 2}},
	{"three faults", one(World{Crashes: 2, Writes: 2, Busy: 1, Seconds: 1, All: 3})},
	{"slow owners", one(World{Crashes: 1, Writes: 1, Slow: 1, Seconds: 1, All: 2, BetweenCheckAndSend: true})},
	{"a late write", one(World{Crashes: 1, Writes: 2, Busy: 1, Seconds: 1, All: 2, Late: true})},
	{"a check", one(World{Crashes: 1, Writes: 2, Seconds: 1, All: 3, Checks: true})},
	{"two fires", World{Fires: 2, Tickers: 1, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 1, Few: true}},
	{"an edit", World{Fires: 1, Tickers: 2, Due: -1, Changes: 1, Allowed: edit, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 1}},
	{"a pause", World{Fires: 1, Tickers: 2, Due: -1, Changes: 1, Allowed: pause, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 1}},
	{"a change, two faults",
		one(World{Due: -1, Changes: 1, Allowed: edit | pause, Crashes: 2, Writes: 1, Busy: 1, Seconds: 1, All: 2, Few: true})},
	{"two fires, a change between", World{Fires: 2, Tickers: 1, Due: 1, Changes: 1, Allowed: edit | pause, Few: true}},
	{"the same, a crash", World{Fires: 2, Tickers: 1, Due: 1, Changes: 1, Allowed: edit | pause, Crashes: 1, All: 1, Few: true}},
	{"two changes", one(World{Due: -1, Changes: 2, Allowed: edit | pause | resume, EndsBy: true, Crashes: 1, All: 1, Few: true})},
	{"two fires, two changes", World{Fires: 2, Tickers: 1, Due: 1, Changes: 2, Allowed: edit | pause | resume, EndsBy: true, Few: true}},
	{"two people", one(World{People: 2, Due: -1, Changes: 2, Allowed: edit | pause | resume, Few: true})},
	{"a changed trigger", one(World{Kind: Trigger, Changes: 1, Crashes: 1, Busy: 1, All: 1, Few: true})},
	{"a trigger, changed twice", one(World{Kind: Trigger, Changes: 2, Few: true})},
	{"a paused trigger", one(World{Kind: Trigger, Changes: 2, AppPauses: true, Few: true})},
	{"a chain", World{Kind: FixedDelay, Fires: 2, Tickers: 1, Crashes: 1, Writes: 1, Busy: 1, All: 1, Few: true}},
	{"a changed chain", one(World{Kind: FixedDelay, Due: -1, Changes: 1, Allowed: edit | pause, Crashes: 1, Busy: 1, All: 1, Few: true})},
	{"a changed chain, two fires", World{Kind: FixedDelay, Fires: 2, Tickers: 1, Changes: 1, Allowed: edit | pause, Few: true}},
	{"a chain, two changes", one(World{Kind: FixedDelay, Changes: 2, Allowed: edit | pause | resume, Few: true})},
	{"cover early, and a kill", one(World{CoverEarly: true, Kills: 1, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 2})},
	{"a timeout, and a kill", one(World{Timeouts: true, Kills: 1, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 2})},
	{"a limit", World{Fires: 2, Tickers: 1, Limit: true, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 1, Few: true}},
	{"a limit, two crashes", World{Fires: 2, Tickers: 1, Limit: true, Crashes: 2, All: 2, Few: true}},
	{"a limit, a late write", World{Fires: 2, Tickers: 1, Limit: true, Crashes: 1, Writes: 1, Slow: 1, All: 2, Late: true, Few: true}},
	{"children", one(World{Children: 2, Crashes: 2, Writes: 2, Busy: 1, Seconds: 1, All: 2})},
}

// one is a world with one fire and one ticker.
func one(w World) World {
	w.Fires, w.Tickers = 1, 1
	return w
}

type named struct {
	name string
	w    World
}

// TestProtocolHolds: no promise is broken, every state can end well, and no send
// goes outside the promises but through a window that the page names.
func TestProtocolHolds(t *testing.T) {
	worlds, most := bounded, 3_000_000
	if *long {
		worlds, most = longer, *states
	}
	for _, c := range worlds {
		t.Run(c.name, func(t *testing.T) {
			r := searched(t, &c.w, most)
			for window := range r.Windows {
				if !c.w.mayReach(window) {
					t.Errorf("the window %q was reached", window)
				}
			}
			if r.Broken != nil {
				t.Errorf("broken: %v", r.Broken)
			}
			if r.Stuck != nil {
				t.Errorf("%d states cannot end well: %v", r.StuckAll, r.Stuck)
			}
			if !r.Complete && !*long {
				t.Error("not complete")
			}
		})
	}
}

// mayReach says which windows of the page's section 8 a world can lead to.
func (w *World) mayReach(window string) bool {
	switch window {
	case windowCallback:
		return w.All > 0
	case windowStored:
		return w.Slow > 0 || w.Late || w.Checks
	case windowStopped:
		return w.Slow > 0 && w.BetweenCheckAndSend
	case windowChain:
		return w.Kind == FixedDelay && w.Changes > 0
	}
	return false
}

// TestEachRuleIsNeeded: without any one of the protocol's rules the search
// finds how it breaks, and the shortest way has this many steps.
func TestEachRuleIsNeeded(t *testing.T) {
	trigger := one(World{Kind: Trigger, Few: true})
	fixed := one(World{Kind: FixedDelay, Crashes: 1, All: 1, Few: true})
	const (
		noRecord      = "f1 was demanded, and has neither run nor record"
		neverTried    = "f1 was demanded, and closed as lost though nobody tried to send it"
		unnamedRun    = "1: an open run that nothing names: f1"
		answered      = "3: a re-send of what a stored journal says was answered"
		twoAtWork     = "8: two are at work, and one may be"
		twoOfOneChild = "5: two runs of one child"
		oldTrigger    = "a trigger is sent as it was before its change"
	)
	broken := map[string]bool{}
	for _, c := range []struct {
		name  string
		rules Rules
		w     World
		steps int
		why   string
	}{
		{"V1", Rules{NoRangeAtChange: true}, one(World{Due: 1, Changes: 1, Allowed: edit, Few: true}), 2, noRecord},
		{"V2", Rules{GiveBackForgets: true}, one(World{Crashes: 1, Busy: 1, All: 2, Few: true}), 19,
			"5: the end of what was sent is not taken"},
		{"V3", Rules{SilentFallIsDone: true}, one(World{Crashes: 1, All: 1, Changes: 1, Allowed: edit, Few: true}), 11, unnamedRun},
		{"V6", Rules{FallTakesOver: true}, one(World{Due: 1, Crashes: 1, Writes: 1, All: 2, Changes: 1, Allowed: edit, Few: true}),
			19, "4: a send by one who read another revision"},
		{"V7", Rules{ClosedIsDone: true}, one(World{Crashes: 2, All: 2, Few: true}), 12, "f1 owes its retry"},
		{"V8", Rules{UnconfirmedIsNotDone: true}, one(World{Writes: 1, All: 1, Few: true}), 18, answered},
		{"V9", Rules{JournalBeforeUntil: true}, one(World{Crashes: 1, Seconds: 1, All: 2, Few: true}), 18, answered},
		{"V10", Rules{JournalWithoutVersion: true}, one(World{Writes: 2, All: 2, Late: true}), 20, answered},
		{"V11", Rules{BegunIsJudged: true}, one(World{Crashes: 1, All: 1}), 10, neverTried},
		{"V12", Rules{GiveBackDeletes: true}, one(World{Writes: 1, Busy: 1, All: 2, Late: true, Few: true, Changes: 1, Allowed: pause}),
			18, "1: a report finds no run"},
		{"V13", Rules{CheckOnlyNames: true}, one(World{Writes: 2, All: 2, Checks: true, Few: true}), 19, answered},
		{"until emptied at give-back", Rules{GiveBackEmptiesUntil: true}, with(trigger, World{Changes: 1, Busy: 1, All: 1}),
			17, oldTrigger},
		{"until kept at change", Rules{ChangeKeepsUntil: true}, with(trigger, World{Changes: 1}), 10, oldTrigger},
		{"an until twice", Rules{UntilComesTwice: true}, with(trigger, World{Changes: 1, Busy: 2, All: 2}), 25, oldTrigger},
		{"taken address", Rules{TakeIgnoresAddress: true}, one(World{Crashes: 2, Writes: 1, All: 3, Late: true}),
			29, "3: two addresses"},
		{"skip", Rules{SkipIgnoresUntil: true}, with(trigger, World{Changes: 2, AppPauses: true}),
			9, "a trigger is skipped by what it was before its change"},
		{"record", Rules{RecordBeforeWrite: true}, one(World{Changes: 2, EndsBy: true, Allowed: pause | resume, Few: true}),
			5, "a change is on record that was never made"},
		{"resume", Rules{ResumePlansAll: true}, one(World{Due: -1, Changes: 2, Allowed: edit | pause | resume, Few: true}),
			11, "4: a revision sends what was due before it"},
		{"advance", Rules{AdvanceIgnoresRev: true}, one(World{Changes: 1, Allowed: edit, Few: true}), 3, noRecord},
		{"entry first", Rules{EntryRemovedFirst: true}, with(trigger, World{Crashes: 1, All: 1}), 3, unnamedRun},
		{"entry blindly", Rules{EntryRemovedBlindly: true}, with(trigger, World{Changes: 1, Crashes: 1, All: 1}), 12, unnamedRun},
		{"chain's tail", Rules{ChainIgnoresTail: true}, World{Kind: FixedDelay, Fires: 2, Tickers: 1, Few: true},
			18, "a job leaves a chain that has not ended"},
		{"look at tail", Rules{NoLookAtTail: true}, fixed, 11, "the schedule is not planned to its end"},
		{"claimed tail", Rules{ClaimedTailIsOut: true}, with(fixed, World{Changes: 1, Allowed: edit}), 9, "f1 is open"},
		{"a wait", Rules{WaitIsDone: true}, one(World{Waits: true, Few: true}), 6, unnamedRun},
		{"killed", Rules{KilledCloses: true}, one(World{CoverEarly: true, Crashes: 1, All: 1, Few: true}),
			20, "5: a 'killed' of our own making closes a run that runs"},
		{"a stranger", Rules{ReportEndsUnsent: true}, with(trigger, World{Strangers: true}), 3, "5: a report ends what nobody has"},
		{"kill race", Rules{KillIsNotSeen: true}, one(World{Kills: 1, Few: true}), 12, "5: a retry of what a person killed"},
		{"a timeout is a kill", Rules{TimeoutIsAKill: true}, one(World{Timeouts: true, Few: true}), 12,
			"5: what is past its timeout ends as killed"},
		{"own IDs", Rules{OwnIDs: true}, one(World{Writes: 1, Seconds: 1, All: 2, Few: true}), 17, "5: two retries of one run"},
		{"time frees a permit", Rules{TimeFreesPermit: true},
			World{Fires: 2, Tickers: 1, Limit: true, Crashes: 1, All: 1, Few: true}, 25, twoAtWork},
		{"a re-send asks not", Rules{ResendAsksNot: true},
			World{Fires: 2, Tickers: 1, Limit: true, Writes: 1, Slow: 1, All: 2, Late: true, Few: true}, 31, twoAtWork},
		{"over is not seen", Rules{OverIsNotSeen: true},
			World{Fires: 2, Tickers: 1, Limit: true, Crashes: 1, All: 1, Few: true}, 16, "a message is on the ring"},
		{"released first", Rules{ReleasedFirst: true}, World{Fires: 2, Tickers: 1, Limit: true, Crashes: 1, All: 1, Few: true}, 25, twoAtWork},
		{"a child is noted unsent", Rules{NotedUnsent: true}, one(World{Children: 1, Few: true}), 13,
			"5: a place is left, and its child is not on its way"},
		{"a draw ignores the place", Rules{DrawIgnoresPlace: true}, one(World{Children: 1, Few: true}), 18, twoOfOneChild},
		{"a note ignores the place", Rules{NoteIgnoresPlace: true}, one(World{Children: 2, Few: true}), 25, twoOfOneChild},
		{"owes", Rules{OwesNotedFirst: true}, one(World{Few: true}), 12, "5: nothing is owed any more, and the retry is not on its way"},
	} {
		of := reflect.ValueOf(c.rules)
		for i := range of.NumField() {
			broken[of.Type().Field(i).Name] = broken[of.Type().Field(i).Name] || of.Field(i).Bool()
		}
		t.Run(c.name, func(t *testing.T) {
			c.w.Rules = c.rules
			r := searched(t, &c.w, 3_000_000)
			found := r.Broken
			if found == nil {
				found = r.Stuck
			}
			if found == nil {
				t.Fatal("not found")
			}
			if len(found.Steps) != c.steps || !strings.Contains(found.Why, c.why) {
				t.Errorf("want %d steps to %q, found %d: %v", c.steps, c.why, len(found.Steps), found)
			}
		})
	}
	for rule, is := range broken {
		if !is {
			t.Errorf("nothing shows that %s is missed", rule)
		}
	}
}

func with(w, more World) World {
	w.Changes, w.Allowed, w.AppPauses, w.Strangers = more.Changes, more.Allowed, more.AppPauses, more.Strangers
	if more.All > 0 {
		w.Crashes, w.Busy, w.All = more.Crashes, more.Busy, more.All
	}
	return w
}
