package model

import (
	"flag"
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
	t.Logf("%d states, %d steps, complete %v, in %v; windows %v", r.States, r.Steps, r.Complete, time.Since(began).Round(time.Millisecond), r.Windows)
	return r
}

// bounded are the worlds of every test run.
var bounded = []named{
	{"a fire", World{Fires: 1, Tickers: 2}},
	{"crashes", World{Fires: 1, Tickers: 1, Crashes: 2, All: 2, Few: true}},
	{"a fault", World{Fires: 1, Tickers: 1, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 1}},
	{"a late write", World{Fires: 1, Tickers: 1, Crashes: 1, Writes: 1, All: 2, Late: true, Few: true}},
	{"a slow owner", World{Fires: 1, Tickers: 1, Slow: 1, All: 1, BetweenCheckAndSend: true}},
	{"a check", World{Fires: 1, Tickers: 1, Writes: 2, All: 2, Checks: true, Few: true}},
	{"two fires", World{Fires: 2, Tickers: 1, Few: true}},
	{"a change", World{Fires: 1, Tickers: 1, Due: -1, Changes: 1, Allowed: edit | pause, Crashes: 1, All: 1, Few: true}},
	{"two changes", World{Fires: 1, Tickers: 1, Due: -1, Changes: 2, Allowed: edit | pause | resume, EndsBy: true, Few: true}},
	{"two people", World{Fires: 1, Tickers: 1, People: 2, Changes: 2, Allowed: edit | pause, Few: true}},
	{"a trigger", World{Kind: Trigger, Fires: 1, Tickers: 1, Crashes: 1, Busy: 1, All: 1, Few: true}},
	{"a changed trigger", World{Kind: Trigger, Fires: 1, Tickers: 1, Changes: 1, Few: true}},
	{"a chain", World{Kind: FixedDelay, Fires: 2, Tickers: 1, Few: true}},
	{"a chain, a crash", World{Kind: FixedDelay, Fires: 1, Tickers: 1, Crashes: 1, All: 1, Few: true}},
	{"a changed chain", World{Kind: FixedDelay, Fires: 1, Tickers: 1, Changes: 1, Allowed: edit, Crashes: 1, All: 1, Few: true}},
	{"cover early, and a kill", World{Fires: 1, Tickers: 1, CoverEarly: true, Kills: 1, Crashes: 1, All: 1, Few: true}},
}

// longer are those of the table in docs/claim-protocol.md.
var longer = []named{
	{"crashes, writes", World{Fires: 1, Tickers: 2, Crashes: 2, Writes: 2, Busy: 1, Seconds: 1, All: 2}},
	{"three faults", World{Fires: 1, Tickers: 1, Crashes: 2, Writes: 2, Busy: 1, Seconds: 1, All: 3}},
	{"slow owners", World{Fires: 1, Tickers: 1, Crashes: 1, Writes: 1, Slow: 1, Seconds: 1, All: 2, BetweenCheckAndSend: true}},
	{"a late write", World{Fires: 1, Tickers: 1, Crashes: 1, Writes: 2, Busy: 1, Seconds: 1, All: 2, Late: true}},
	{"a check", World{Fires: 1, Tickers: 1, Crashes: 1, Writes: 2, Seconds: 1, All: 3, Checks: true}},
	{"two fires", World{Fires: 2, Tickers: 1, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 1, Few: true}},
	{"an edit", World{Fires: 1, Tickers: 2, Due: -1, Changes: 1, Allowed: edit, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 1}},
	{"a pause", World{Fires: 1, Tickers: 2, Due: -1, Changes: 1, Allowed: pause, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 1}},
	{"a change, two faults", World{Fires: 1, Tickers: 1, Due: -1, Changes: 1, Allowed: edit | pause, Crashes: 2, Writes: 1, Busy: 1, Seconds: 1, All: 2, Few: true}},
	{"two fires, a change between", World{Fires: 2, Tickers: 1, Due: 1, Changes: 1, Allowed: edit | pause, Crashes: 1, All: 1, Few: true}},
	{"two changes", World{Fires: 1, Tickers: 1, Due: -1, Changes: 2, Allowed: edit | pause | resume, EndsBy: true, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 1, Few: true}},
	{"two fires, two changes", World{Fires: 2, Tickers: 1, Due: -1, Changes: 2, Allowed: edit | pause | resume, EndsBy: true, Few: true}},
	{"two people", World{Fires: 1, Tickers: 1, People: 2, Due: -1, Changes: 2, Allowed: edit | pause | resume, Crashes: 1, All: 1, Few: true}},
	{"a changed trigger", World{Kind: Trigger, Fires: 1, Tickers: 1, Changes: 1, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 1}},
	{"a trigger, changed twice", World{Kind: Trigger, Fires: 1, Tickers: 1, Changes: 2, Crashes: 1, Busy: 1, All: 1, Few: true}},
	{"a paused trigger", World{Kind: Trigger, Fires: 1, Tickers: 1, Changes: 2, AppPauses: true, Busy: 1, All: 1, Few: true}},
	{"a chain", World{Kind: FixedDelay, Fires: 2, Tickers: 1, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 1}},
	{"a changed chain", World{Kind: FixedDelay, Fires: 1, Tickers: 1, Due: -1, Changes: 1, Allowed: edit | pause, Crashes: 1, Writes: 1, Busy: 1, All: 1, Few: true}},
	{"a chain, two changes", World{Kind: FixedDelay, Fires: 2, Tickers: 1, Changes: 2, Allowed: edit | pause | resume, Few: true}},
	{"cover early, and a kill", World{Fires: 1, Tickers: 2, CoverEarly: true, Kills: 1, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 1}},
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

// TestEachRuleIsNeeded: without any one of the protocol's rules the search
// finds how it breaks, and the shortest way has this many steps.
func TestEachRuleIsNeeded(t *testing.T) {
	trigger := World{Kind: Trigger, Fires: 1, Tickers: 1, Few: true}
	fixed := World{Kind: FixedDelay, Fires: 1, Tickers: 1, Crashes: 1, All: 1, Few: true}
	for _, c := range []struct {
		name  string
		rules Rules
		w     World
		steps int
		why   string
	}{
		{"V1", Rules{NoRangeAtChange: true}, World{Fires: 1, Tickers: 1, Due: 1, Changes: 1, Allowed: edit, Few: true}, 2, "f1 was demanded, and has neither run nor record"},
		{"V2", Rules{GiveBackForgets: true}, World{Fires: 1, Tickers: 1, Crashes: 1, Busy: 1, All: 2, Few: true}, 25, "3: two addresses"},
		{"V3", Rules{SilentFallIsDone: true}, World{Fires: 1, Tickers: 1, Crashes: 1, All: 1, Changes: 1, Allowed: edit, Few: true}, 11, "1: an open run that nothing names: f1"},
		{"V4", Rules{SilentFallMayBeDone: true}, World{Fires: 1, Tickers: 1, Crashes: 1, Seconds: 1, All: 2, Changes: 1, Allowed: pause, Few: true}, 12, "1: an open run that nothing names: f1"},
		{"V5", Rules{FallTakesOver: true}, World{Fires: 1, Tickers: 1, Crashes: 1, All: 1, Changes: 1, Allowed: edit, Few: true}, 14, ""},
		{"V6", Rules{FallTakesOver: true}, World{Fires: 1, Tickers: 1, Crashes: 1, Writes: 1, All: 2, Changes: 1, Allowed: edit, Few: true}, 17, "4: a send by one who read another revision"},
		{"V7", Rules{ClosedIsDone: true}, World{Fires: 1, Tickers: 1, Crashes: 2, All: 2, Few: true}, 12, ""},
		{"V8", Rules{UnconfirmedIsNotDone: true}, World{Fires: 1, Tickers: 1, Writes: 1, All: 1, Few: true}, 18, "3: a re-send of what a stored journal says was answered"},
		{"V9", Rules{JournalBeforeUntil: true}, World{Fires: 1, Tickers: 1, Crashes: 1, Seconds: 1, All: 2, Few: true}, 18, "3: a re-send of what a stored journal says was answered"},
		{"V10", Rules{JournalWithoutVersion: true}, World{Fires: 1, Tickers: 1, Writes: 2, All: 2, Late: true}, 20, "3: a re-send of what a stored journal says was answered"},
		{"V11", Rules{BegunIsJudged: true}, World{Fires: 1, Tickers: 1, Crashes: 1, All: 1}, 10, ""},
		{"V12", Rules{GiveBackDeletes: true}, World{Fires: 1, Tickers: 1, Writes: 1, Busy: 1, All: 2, Late: true, Few: true, Changes: 1, Allowed: pause}, 21, "1: a report finds no run"},
		{"V13", Rules{CheckOnlyNames: true}, World{Fires: 1, Tickers: 1, Writes: 2, All: 2, Checks: true, Few: true}, 19, "3: a re-send of what a stored journal says was answered"},
		{"until emptied at give-back", Rules{GiveBackEmptiesUntil: true}, with(trigger, World{Changes: 1, Busy: 1, All: 1}), 17, "a trigger is sent as it was before its change"},
		{"until kept at change", Rules{ChangeKeepsUntil: true}, with(trigger, World{Changes: 1}), 10, "a trigger is sent as it was before its change"},
		{"an until twice", Rules{UntilComesTwice: true}, with(trigger, World{Changes: 1, Busy: 2, All: 2}), 25, "a trigger is sent as it was before its change"},
		{"skip", Rules{SkipIgnoresUntil: true}, with(trigger, World{Changes: 2, AppPauses: true}), 9, "a trigger is skipped by what it was before its change"},
		{"record", Rules{RecordBeforeWrite: true}, World{Fires: 1, Tickers: 1, Changes: 2, EndsBy: true, Allowed: pause | resume, Few: true}, 5, "a change is on record that was never made"},
		{"resume", Rules{ResumePlansAll: true}, World{Fires: 1, Tickers: 1, Due: -1, Changes: 2, Allowed: edit | pause | resume, Few: true}, 11, "4: a revision sends what was due before it"},
		{"advance", Rules{AdvanceIgnoresRev: true}, World{Fires: 1, Tickers: 1, Changes: 1, Allowed: edit, Few: true}, 3, ""},
		{"entry first", Rules{EntryRemovedFirst: true}, with(trigger, World{Crashes: 1, All: 1}), 3, "1: an open run that nothing names: f1"},
		{"entry blindly", Rules{EntryRemovedBlindly: true}, with(trigger, World{Changes: 1, Crashes: 1, All: 1}), 12, "1: an open run that nothing names: f1"},
		{"chain's tail", Rules{ChainIgnoresTail: true}, World{Kind: FixedDelay, Fires: 2, Tickers: 1, Few: true}, 18, "a job leaves a chain that has not ended"},
		{"look at tail", Rules{NoLookAtTail: true}, fixed, 11, "the schedule is not planned to its end"},
		{"claimed tail", Rules{ClaimedTailIsOut: true}, with(fixed, World{Changes: 1, Allowed: edit}), 9, "f1 is open"},
		{"killed", Rules{KilledCloses: true}, World{Fires: 1, Tickers: 1, CoverEarly: true, Crashes: 1, All: 1, Few: true}, 20, "5: a 'killed' of our own making closes a run that runs"},
		{"kill race", Rules{KillIsNotSeen: true}, World{Fires: 1, Tickers: 1, Kills: 1, Few: true}, 12, "5: a retry of what a person killed"},
		{"own IDs", Rules{OwnIDs: true}, World{Fires: 1, Tickers: 1, Writes: 1, Seconds: 1, All: 2, Few: true}, 17, "5: two retries of one run"},
		{"owes", Rules{OwesNotedFirst: true}, World{Fires: 1, Tickers: 1, Few: true}, 12, "5: nothing is owed any more, and the retry is not on its way"},
	} {
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
}

func with(w, more World) World {
	w.Changes, w.Allowed, w.AppPauses = more.Changes, more.Allowed, more.AppPauses
	if more.All > 0 {
		w.Crashes, w.Busy, w.All = more.Crashes, more.Busy, more.All
	}
	return w
}
