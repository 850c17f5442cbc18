package model

import (
	"flag"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	all    = flag.Bool("model.all", false, "search each world to its end, not only its first 60,000 states")
	long   = flag.Bool("model.long", false, "search the worlds of the tables in README.md, of up to some ten million states each")
	states = flag.Int("model.states", 40_000_000, "maximum number of states of a long world that are searched")
)

func searched(t *testing.T, w searchable, most int) Report {
	t.Helper()
	began := time.Now()
	if !*all && !*long {
		most = 60_000
	}
	r := w.Search(most)
	took := time.Since(began).Round(time.Millisecond)
	t.Logf("%d states, %d steps, complete %v, in %v; windows %v", r.States, r.Steps, r.Complete, took, r.Windows)
	return r
}

// bounded are the worlds of every test run.
var bounded = []named{
	{"a fire", &World{Fires: 1, Tickers: 2}},
	{"crashes", one(World{Crashes: 2, All: 2, Few: true})},
	{"a fault", one(World{Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 1})},
	{"a late write", one(World{Crashes: 1, Writes: 1, All: 2, Late: true, Few: true})},
	{"a slow owner", one(World{Slow: 1, All: 1, BetweenCheckAndSend: true})},
	{"a check", one(World{Writes: 2, All: 2, Checks: true, Few: true})},
	{"two fires", &World{Fires: 2, Tickers: 1, Few: true}},
	{"a change", one(World{Due: -1, Changes: 1, Allowed: edit | pause, Crashes: 1, All: 1, Few: true})},
	{"two changes", one(World{Due: -1, Changes: 2, Allowed: edit | pause | resume, EndsBy: true, Few: true})},
	{"two people", one(World{People: 2, Changes: 2, Allowed: edit | pause, Few: true})},
	{"a trigger", one(World{Kind: Trigger, Crashes: 1, Busy: 1, All: 1, Few: true})},
	{"a changed trigger", one(World{Kind: Trigger, Changes: 1, Few: true})},
	{"a chain", &World{Kind: FixedDelay, Fires: 2, Tickers: 1, Few: true}},
	{"a chain, a crash", one(World{Kind: FixedDelay, Crashes: 1, All: 1, Few: true})},
	{"a changed chain", one(World{Kind: FixedDelay, Changes: 1, Allowed: edit, Crashes: 1, All: 1, Few: true})},
	{"cover early, and a kill", one(World{CoverEarly: true, Kills: 1, Crashes: 1, All: 1, Few: true})},
	{"a timeout, and a kill", one(World{Timeouts: true, Kills: 1, Crashes: 1, Writes: 1, Seconds: 1, All: 1, Few: true})},
	{"children", one(World{Children: 2, Crashes: 1, Writes: 1, Seconds: 1, All: 1, Few: true})},
	{"children, and a kill", one(World{Children: 1, Kills: 1, Few: true})},
	{"children of rejected runs", one(World{Children: 2, Crashes: 1, All: 1})},
	{"a word", one(World{Words: true, Spent: true, Kills: 1, Crashes: 1, Writes: 1, Seconds: 1, All: 1, Few: true})},
	{"a word, and a timeout", one(World{Words: true, Timeouts: true, Crashes: 1, Seconds: 1, All: 1, Few: true})},
	{"a wait", one(World{Waits: true, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 1, Few: true})},
	{"a wait, and a change", one(World{Waits: true, Due: -1, Changes: 1, Allowed: edit | pause, Few: true})},
	{"a trigger waits", one(World{Waits: true, Kind: Trigger, Few: true})},
	{"a chain waits", one(World{Waits: true, Kind: FixedDelay, Changes: 1, Allowed: edit | pause, Few: true})},
}

// longer lists the worlds of the first table in README.md.
var longer = []named{
	{"crashes, writes", &World{Fires: 1, Tickers: 2, Crashes: 2, Writes: 2, Busy: 1, Seconds: 1, All: 2}},
	{"three faults", one(World{Crashes: 2, Writes: 2, Busy: 1, Seconds: 1, All: 3})},
	{"slow owners", one(World{Crashes: 1, Writes: 1, Slow: 1, Seconds: 1, All: 2, BetweenCheckAndSend: true})},
	{"a late write", one(World{Crashes: 1, Writes: 2, Busy: 1, Seconds: 1, All: 2, Late: true})},
	{"a check", one(World{Crashes: 1, Writes: 2, Seconds: 1, All: 3, Checks: true})},
	{"two fires", &World{Fires: 2, Tickers: 1, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 1, Few: true}},
	{"an edit", &World{Fires: 1, Tickers: 2, Due: -1, Changes: 1, Allowed: edit, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 1}},
	{"a pause", &World{Fires: 1, Tickers: 2, Due: -1, Changes: 1, Allowed: pause, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 1}},
	{"a change, two faults",
		one(World{Due: -1, Changes: 1, Allowed: edit | pause, Crashes: 2, Writes: 1, Busy: 1, Seconds: 1, All: 2, Few: true})},
	{"two fires, a change between", &World{Fires: 2, Tickers: 1, Due: 1, Changes: 1, Allowed: edit | pause, Few: true}},
	{"the same, a crash", &World{Fires: 2, Tickers: 1, Due: 1, Changes: 1, Allowed: edit | pause, Crashes: 1, All: 1, Few: true}},
	{"two changes", one(World{Due: -1, Changes: 2, Allowed: edit | pause | resume, EndsBy: true, Crashes: 1, All: 1, Few: true})},
	{"two fires, two changes", &World{Fires: 2, Tickers: 1, Due: 1, Changes: 2, Allowed: edit | pause | resume, EndsBy: true, Few: true}},
	{"two people", one(World{People: 2, Due: -1, Changes: 2, Allowed: edit | pause | resume, Few: true})},
	{"a changed trigger", one(World{Kind: Trigger, Changes: 1, Crashes: 1, Busy: 1, All: 1, Few: true})},
	{"a trigger, changed twice", one(World{Kind: Trigger, Changes: 2, Few: true})},
	{"a paused trigger", one(World{Kind: Trigger, Changes: 2, AppPauses: true, Few: true})},
	{"a chain", &World{Kind: FixedDelay, Fires: 2, Tickers: 1, Crashes: 1, Writes: 1, Busy: 1, All: 1, Few: true}},
	{"a changed chain", one(World{Kind: FixedDelay, Due: -1, Changes: 1, Allowed: edit | pause, Crashes: 1, Busy: 1, All: 1, Few: true})},
	{"a changed chain, two fires", &World{Kind: FixedDelay, Fires: 2, Tickers: 1, Changes: 1, Allowed: edit | pause, Few: true}},
	{"a chain, two changes", one(World{Kind: FixedDelay, Changes: 2, Allowed: edit | pause | resume, Few: true})},
	{"cover early, and a kill", one(World{CoverEarly: true, Kills: 1, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 2})},
	{"a timeout, and a kill", one(World{Timeouts: true, Kills: 1, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 2})},
	{"words", one(World{Words: true, Kills: 1, Timeouts: true, Crashes: 1, Writes: 1, Busy: 1, Seconds: 1, All: 2, Few: true})},
	{"words without retries", one(World{Words: true, Spent: true, Kills: 1, Crashes: 2, Writes: 2, Busy: 1, Seconds: 1, All: 2})},
	{"children", one(World{Children: 2, Crashes: 2, Writes: 2, Busy: 1, Seconds: 1, All: 2})},
}

// one is a world with one fire and one ticker.
func one(w World) *World {
	w.Fires, w.Tickers = 1, 1
	return &w
}

type named struct {
	name string
	w    searchable
}

// searchable is any kind of world.
type searchable interface {
	Search(most int) Report
	mayReach(window string) bool
}

// limitsWorlds are worlds of two limits.
var limitsWorlds = []named{
	{"two limits", limits(Limits{Runs: 3, Of: keyed})},
	{"two limits, a fault", limits(Limits{Runs: 2, Crashes: 1, Writes: 1, Seconds: 1, All: 1})},
	{"two limits, a late write", limits(Limits{Runs: 2, Crashes: 1, Writes: 1, All: 2, Late: true})},
	{"two limits, a slow owner", limits(Limits{Runs: 2, Crashes: 1, Slow: 1, All: 2})},
	{"two limits, skips", limits(Limits{Runs: 3, Of: keyed, Jobs: [3]Bound{{Limit: 1, Skips: true}}})},
	{"two limits, full queues", limits(Limits{Runs: 3, Of: keyed, Jobs: [3]Bound{{Limit: 1}}, App: Bound{Limit: 1}})},
	{"two limits of two", limits(Limits{Runs: 3, Jobs: [3]Bound{{Limit: 2, Max: 2}}, App: Bound{Limit: 2, Max: 2}})},
}

// longerLimits lists the worlds of the second table in README.md.
var longerLimits = []named{
	{"two limits", limits(Limits{Runs: 3, Of: keyed, Crashes: 2, Writes: 2, Seconds: 1, All: 2})},
	{"two limits, a late write", limits(Limits{Runs: 3, Of: keyed, Crashes: 1, Writes: 1, Seconds: 1, All: 2, Late: true})},
	{"two limits, a slow owner, a late write", limits(Limits{Runs: 2, Crashes: 1, Writes: 1, Slow: 1, All: 3, Late: true})},
	{"two limits, three faults", limits(Limits{Runs: 2, Crashes: 2, Writes: 2, Seconds: 1, All: 3, Late: true})},
	{"two limits, four runs", limits(Limits{Runs: 4, Of: keyed, App: Bound{Limit: 2, Max: 2}, Crashes: 1, All: 1})},
	{"limits of two", limits(Limits{Runs: 3, Jobs: [3]Bound{{Limit: 2, Max: 2}}, App: Bound{Limit: 2, Max: 2}, Crashes: 1, Writes: 1,
		Seconds: 1, All: 1})},
	{"full queues", limits(Limits{Runs: 3, Of: keyed, Jobs: [3]Bound{{Limit: 1}}, App: Bound{Limit: 1}, Crashes: 1, Writes: 1, Seconds: 1,
		All: 1})},
	{"a limit that skips", limits(Limits{Runs: 3, Of: keyed, Jobs: [3]Bound{{Limit: 1, Skips: true}}, Crashes: 1, Writes: 1, All: 2,
		Late: true})},
	{"lost releases", limits(Limits{Runs: 4, Crashes: 2, All: 2})},
}

// Which limit of a job counts each run: two jobs, one of which has a key; and a limit for each.
var (
	keyed = [4]uint8{0, 0, 1, 2}
	own   = [4]uint8{0, 1, 2}
)

// limits returns a world whose limits are one unless w sets them.
func limits(w Limits) *Limits {
	for _, b := range []*Bound{&w.Jobs[0], &w.Jobs[1], &w.Jobs[2], &w.App} {
		if *b == (Bound{}) {
			*b = Bound{Limit: 1, Max: maxLimited}
		}
	}
	return &w
}

// TestProtocolHolds: no promise is broken, every state can end well, and no send
// goes outside the promises but through a window that the page names.
func TestProtocolHolds(t *testing.T) {
	worlds, most := slices.Concat(bounded, limitsWorlds), 3_000_000
	if *long {
		worlds, most = slices.Concat(longer, longerLimits), *states
	}
	if testing.Short() {
		worlds = []named{bounded[0], bounded[1], limitsWorlds[0]}
	}
	for _, c := range worlds {
		t.Run(c.name, func(t *testing.T) {
			r := searched(t, c.w, most)
			if r.Broken != nil {
				t.Errorf("broken: %v", r.Broken)
			}
			if r.Stuck != nil {
				t.Errorf("%d states cannot end well: %v", r.StuckAll, r.Stuck)
			}
			if !r.Complete && *all {
				t.Error("not complete")
			}
			for window := range r.Windows {
				if !c.w.mayReach(window) {
					t.Errorf("the window %q was reached", window)
				}
			}
		})
	}
}

// mayReach reports whether a world can lead to a window of the page's section 8.
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

func (*Limits) mayReach(string) bool { return false }

// TestEachLimitsRuleIsNeeded is TestEachRuleIsNeeded for two limits.
func TestEachLimitsRuleIsNeeded(t *testing.T) {
	if testing.Short() {
		t.Skip("the worlds of the other tests are searched the same way")
	}
	const (
		tooMany = "8: more runs are running than the limit allows"
		noEnd   = " has not ended"
	)
	two := Bound{Limit: 2, Max: 2}
	pair, dies := Limits{Runs: 2}, Limits{Runs: 2, Crashes: 1, All: 1}
	retakes := Limits{Runs: 2, Crashes: 1, Writes: 1, All: 2, Late: true}
	skips := Limits{Runs: 2, Jobs: [3]Bound{{Limit: 1, Skips: true}}, Crashes: 1, Writes: 1, All: 2, Late: true}
	broken := map[string]bool{}
	for _, c := range []struct {
		w     Limits
		rules LimitsRules
		steps int
		why   string
	}{
		{skips, LimitsRules{SkipsUnseen: true}, 6, "9: a run is skipped because of a run that has ended"},
		{dies, LimitsRules{UntilKept: true}, 15, tooMany},
		{dies, LimitsRules{FreesPlanned: true}, 23, tooMany},
		{dies, LimitsRules{TrustsSecond: true}, 10, noEnd},
		{dies, LimitsRules{ScanFreesNot: true}, 12, noEnd},
		{Limits{Runs: 3, App: two, Writes: 1, All: 1, Late: true}, LimitsRules{LateAsk: true}, 12, tooMany},
		{Limits{Runs: 2, App: two, Writes: 1, All: 1}, LimitsRules{UnknownGranted: true}, 10, tooMany},
		{retakes, LimitsRules{RetakeAsksNot: true}, 18, tooMany},
		{skips, LimitsRules{RetakeSkipped: true}, 14, "9: a run that is possibly running is skipped"},
		{pair, LimitsRules{AppsFirst: true}, 4, noEnd},
		{Limits{Runs: 2, Slow: 1, All: 1}, LimitsRules{PastUntil: true}, 11, tooMany},
		{dies, LimitsRules{TimeFrees: true}, 12, tooMany},
		{pair, LimitsRules{ReleasedFirst: true}, 13, tooMany},
		{Limits{Runs: 3, Of: own, App: Bound{Limit: 1, Max: 1}}, LimitsRules{AppSkips: true}, 13, "9: a run is skipped for the limit of its app"},
	} {
		name := addRules(broken, c.rules)
		t.Run(name, func(t *testing.T) {
			c.w.LimitsRules = c.rules
			wantFound(t, limits(c.w), c.steps, c.why)
		})
	}
	wantAll(t, broken)
}

// addRules notes the rules that there are, and which are broken; it returns one that is.
func addRules(broken map[string]bool, rules any) (name string) {
	of := reflect.ValueOf(rules)
	for i := range of.NumField() {
		field := of.Type().Field(i).Name
		if broken[field] = broken[field] || of.Field(i).Bool(); of.Field(i).Bool() {
			name = field
		}
	}
	return name
}

// wantAll asserts that each rule is broken by a test.
func wantAll(t *testing.T, broken map[string]bool) {
	t.Helper()
	for rule, is := range broken {
		if !is {
			t.Errorf("nothing shows that %s is missed", rule)
		}
	}
}

// wantFound searches a world in which a rule is broken.
func wantFound(t *testing.T, w searchable, steps int, why string) {
	t.Helper()
	r := searched(t, w, 3_000_000)
	found := r.Broken
	if found == nil {
		found = r.Stuck
	}
	if found == nil && !r.Complete && !*all {
		t.Skip("the fault lies deeper than the search: needs -model.all")
	}
	if found == nil {
		t.Fatal("not found")
	}
	if len(found.Steps) != steps || !strings.Contains(found.Why, why) {
		t.Errorf("want %d steps to %q, found %d: %v", steps, why, len(found.Steps), found)
	}
}

// TestEachRuleIsNeeded: without any one of the protocol's rules the search
// finds how it breaks, and the shortest way has this many steps.
func TestEachRuleIsNeeded(t *testing.T) {
	if testing.Short() {
		t.Skip("the worlds of the other tests are searched the same way")
	}
	trigger := one(World{Kind: Trigger, Few: true})
	fixed := one(World{Kind: FixedDelay, Crashes: 1, All: 1, Few: true})
	const (
		noRecord      = "f1 was demanded, and has neither run nor record"
		neverTried    = "f1 was demanded, and closed as lost without an attempt to send it"
		unnamedRun    = "1: an open run that nothing names: f1"
		answered      = "3: a second send of a run with an answer in a stored journal"
		twoOfOneChild = "5: two runs of one child"
		notAgain      = "5: a retry of a run that must not be retried"
		oldTrigger    = "a trigger is sent as it was before its change"
	)
	broken := map[string]bool{}
	for _, c := range []struct {
		name  string
		rules Rules
		w     *World
		steps int
		why   string
	}{
		{"V1", Rules{NoRangeAtChange: true}, one(World{Due: 1, Changes: 1, Allowed: edit, Few: true}), 2, noRecord},
		{"V2", Rules{GiveBackForgets: true}, one(World{Crashes: 1, Busy: 1, All: 2, Few: true}), 19,
			"5: the result of a sent run is not accepted"},
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
			9, "a trigger is skipped by its values before its change"},
		{"record", Rules{RecordBeforeWrite: true}, one(World{Changes: 2, EndsBy: true, Allowed: pause | resume, Few: true}),
			5, "a change is on record that was never made"},
		{"resume", Rules{ResumePlansAll: true}, one(World{Due: -1, Changes: 2, Allowed: edit | pause | resume, Few: true}),
			11, "4: a revision sends a run that was due before it"},
		{"advance", Rules{AdvanceIgnoresRev: true}, one(World{Changes: 1, Allowed: edit, Few: true}), 3, noRecord},
		{"entry first", Rules{EntryRemovedFirst: true}, with(trigger, World{Crashes: 1, All: 1}), 3, unnamedRun},
		{"entry blindly", Rules{EntryRemovedBlindly: true}, with(trigger, World{Changes: 1, Crashes: 1, All: 1}), 12, unnamedRun},
		{"chain's tail", Rules{ChainIgnoresTail: true}, &World{Kind: FixedDelay, Fires: 2, Tickers: 1, Few: true},
			18, "a job leaves a chain that has not ended"},
		{"look at tail", Rules{NoLookAtTail: true}, fixed, 11, "the schedule is not planned to its end"},
		{"claimed tail", Rules{ClaimedTailIsOut: true}, with(fixed, World{Changes: 1, Allowed: edit}), 9, "f1 is open"},
		{"a wait", Rules{WaitIsDone: true}, one(World{Waits: true, Few: true}), 6, unnamedRun},
		{"killed", Rules{KilledCloses: true}, one(World{CoverEarly: true, Crashes: 1, All: 1, Few: true}),
			20, "5: a 'killed' of our own making closes a run that runs"},
		{"a stranger", Rules{ReportEndsUnsent: true}, with(trigger, World{Strangers: true}), 3, "5: a report ends a run that no owner has"},
		{"kill race", Rules{KillIsNotSeen: true}, one(World{Kills: 1, Few: true}), 12, "5: a retry of a run that a user killed"},
		{"a timeout is a kill", Rules{TimeoutIsAKill: true}, one(World{Timeouts: true, Few: true}), 12,
			"5: a run past its timeout ends as killed"},
		{"own IDs", Rules{OwnIDs: true}, one(World{Writes: 1, Seconds: 1, All: 2, Few: true}), 17, "5: two retries of one run"},
		{"a child is noted unsent", Rules{NotedUnsent: true}, one(World{Children: 1, Few: true}), 13,
			"5: a place is left, and its child is not on its way"},
		{"a draw ignores the place", Rules{DrawIgnoresPlace: true}, one(World{Children: 1, Few: true}), 18, twoOfOneChild},
		{"a note ignores the place", Rules{NoteIgnoresPlace: true}, one(World{Children: 2, Few: true}), 25, twoOfOneChild},
		{"a word beats a kill", Rules{WordBeatsKill: true}, one(World{Words: true, Kills: 1, Few: true}), 12,
			"5: a run that was killed, or is past its timeout, ends with the result of its handler"},
		{"a word makes an attempt", Rules{WordMakesAttempt: true},
			one(World{Words: true, Spent: true, Crashes: 1, Seconds: 1, All: 2, Few: true}), 15, notAgain},
		{"a word needs retries", Rules{WordNeedsRetries: true}, one(World{Words: true, Spent: true, Few: true}), 10, "f1 has no retry"},
		{"a cancel is a failure", Rules{CancelIsAFailure: true}, one(World{Words: true, Few: true}), 11, notAgain},
		{"owes", Rules{OwesNotedFirst: true}, one(World{Few: true}), 12, "5: nothing is owed any more, and the retry is not on its way"},
	} {
		addRules(broken, c.rules)
		t.Run(c.name, func(t *testing.T) {
			c.w.Rules = c.rules
			wantFound(t, c.w, c.steps, c.why)
		})
	}
	wantAll(t, broken)
}

func with(base *World, more World) *World {
	w := *base
	w.Changes, w.Allowed, w.AppPauses, w.Strangers = more.Changes, more.Allowed, more.AppPauses, more.Strangers
	if more.All > 0 {
		w.Crashes, w.Busy, w.All = more.Crashes, more.Busy, more.All
	}
	return &w
}
