package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

var noon = time.Date(2027, 1, 4, 12, 0, 0, 0, time.UTC)

// judged judges one job over ten minutes, with a kill of dispatch at 12:03 and blocked tables at 12:06; change adds the test's
// special case.
func judged(change func(l *ledger, history map[core.RunID]end, run func(minute int) core.RunID)) (all *tally) {
	j := job{"app/each-0005", 5}
	windows := []window{
		{"kill", noon.Add(3 * time.Minute), noon.Add(3*time.Minute + 10*time.Second), 30 * time.Second, false, true},
		{"shut", noon.Add(6 * time.Minute), noon.Add(7 * time.Minute), 30 * time.Second, true, false},
	}
	run := func(minute int) core.RunID {
		return core.PlannedRun(7, core.InstantOf(noon.Add(time.Duration(minute)*time.Minute+5*time.Second)))
	}
	l, history := newLedger(), map[core.RunID]end{}
	for m := range 10 {
		at, _ := run(m).Planned()
		l.add(run(m), fmt.Sprint("request ", m), at.Time().Add(100*time.Millisecond))
		history[run(m)] = end{state: "succeeded"}
	}
	change(l, history, run)
	parts := judge(map[core.JobID]job{7: j}, noon, noon.Add(10*time.Minute), l, history, windows, nil)
	return parts[len(parts)-1]
}

// TestJudge: broken promises are separated from the effects of a fault.
func TestJudge(t *testing.T) {
	type change = func(l *ledger, h map[core.RunID]end, run func(int) core.RunID)
	drop := func(minute int, e end) change {
		return func(l *ledger, h map[core.RunID]end, run func(int) core.RunID) {
			delete(l.runs, run(minute))
			h[run(minute)] = e
		}
	}
	twice := func(minute int) change {
		return func(l *ledger, _ map[core.RunID]end, run func(int) core.RunID) {
			l.add(run(minute), "another", l.of(run(minute))[0].at.Add(time.Second))
		}
	}
	misfire, refused := end{state: "skipped", reason: "misfire"}, end{state: "failed", reason: "not-accepted"}
	for name, c := range map[string]struct {
		change change
		wrong  int
		sum    func(*tally) int
	}{
		"nothing": {func(*ledger, map[core.RunID]end, func(int) core.RunID) {}, 0, func(a *tally) int { return a.once - 9 }},
		"counted twice by the same request": {func(l *ledger, _ map[core.RunID]end, run func(int) core.RunID) {
			l.add(run(1), "request 1", noon)
		}, 0, func(a *tally) int { return a.once - 9 }},
		"twice with no reason":         {twice(0), 1, func(a *tally) int { return a.twice }},
		"twice of a kill":              {twice(3), 0, func(a *tally) int { return a.twice }},
		"twice without a kill":         {twice(6), 1, func(a *tally) int { return a.twice }},
		"lost":                         {drop(0, end{}), 1, func(a *tally) int { return a.lost }},
		"lost in a fault":              {drop(6, end{}), 1, func(a *tally) int { return a.lost }},
		"skipped with no reason":       {drop(0, misfire), 1, func(a *tally) int { return a.untrue }},
		"skipped for a kill":           {drop(3, misfire), 1, func(a *tally) int { return a.untrue }},
		"skipped while shut":           {drop(6, misfire), 0, func(a *tally) int { return a.skipped["misfire"] }},
		"failed and never arrived":     {drop(0, refused), 1, func(a *tally) int { return len(a.without) }},
		"the same while shut":          {drop(6, refused), 0, func(a *tally) int { return len(a.without) }},
		"succeeded and never arrived":  {drop(6, end{state: "succeeded"}), 1, func(a *tally) int { return a.phantom }},
		"still running, never arrived": {drop(6, end{state: "running"}), 1, func(a *tally) int { return a.open }},
		"arrived and unknown": {func(_ *ledger, h map[core.RunID]end, run func(int) core.RunID) {
			delete(h, run(0))
		}, 1, func(a *tally) int { return a.unrecorded }},
		"arrived and lost": {func(_ *ledger, h map[core.RunID]end, run func(int) core.RunID) {
			h[run(0)] = end{state: "lost", reason: "no-report"}
		}, 1, func(a *tally) int { return a.unexplained }},
		"early": {func(l *ledger, _ map[core.RunID]end, run func(int) core.RunID) {
			at, _ := run(1).Planned()
			l.runs[run(1)] = nil
			l.add(run(1), "early", at.Time().Add(-time.Millisecond))
		}, 1, func(a *tally) int { return a.early }},
	} {
		all := judged(c.change)
		if all.fires != 10 || all.wrong() != c.wrong || c.sum(all) != 1 {
			t.Errorf("%s: %d fires, %d wrong (want %d), %d counted: %+v", name, all.fires, all.wrong(), c.wrong, c.sum(all), all)
		}
	}
}

// TestListsByPhase: a list that lacks a run, or has one too many, differs in its phase.
func TestListsByPhase(t *testing.T) {
	at := func(minute int) time.Time { return noon.Add(time.Duration(minute)*time.Minute + 5*time.Second) }
	run := func(minute int) core.RunID { return core.PlannedRun(7, core.InstantOf(at(minute))) }
	l := newLedger()
	l.add(run(0), "request", at(0))
	history := map[core.RunID]end{
		run(0): {state: "succeeded", began: at(0)}, run(1): {state: "skipped"}, run(2): {state: "failed", began: at(2)},
	}
	shut := window{"shut", noon.Add(3 * time.Minute), noon.Add(4 * time.Minute), 0, true, false} // covers minutes 2 and 3
	for name, c := range map[string]struct {
		listed      []int
		quiet, shut int // that differ
	}{
		"equal": {[]int{0, 2}, 0, 0}, "one is missing": {[]int{0}, 0, 1}, "a skipped range is listed": {[]int{0, 1, 2}, 1, 0},
		"none": {nil, 1, 1},
	} {
		listed := map[core.RunID]bool{}
		for _, minute := range c.listed {
			listed[run(minute)] = true
		}
		all := judge(map[core.JobID]job{7: {"app/each-0005", 5}}, noon, noon.Add(3*time.Minute), l, history, []window{shut}, listed)
		if q, s := all[0], all[1]; q.unlisted != c.quiet || s.unlisted != c.shut || q.runs != 1 || s.runs != 1 || s.wrong() != c.shut {
			t.Errorf("%s: quiet %+v, shut %+v", name, q, s)
		}
	}
}

// Nothing begins by accident, nor without a bound.
func TestRefuses(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL", "")
	texts := golden.New(t)
	for line, accepted := range map[string]bool{
		"": false, "-account 12345": false, "-account 123456789012": false, "-account 123456789012 -yes-spend": true,
		"clean": false, "clean -account 123456789012": true, "-account 123456789012 -yes-spend x": false,
		"-account 123456789012 -yes-spend -jobs 100000": false, "-account 123456789012 -yes-spend -for 24h": false,
		"-account 123456789012 -yes-spend -apply 100000": false, "-account 123456789012 -yes-spend -dollars 0.10": false,
		"-account 123456789012 -yes-spend -dollars 1000": false, "-account 123456789012 -yes-spend -stack a_b": false,
	} {
		o, err := parse(strings.Fields(line))
		if err == nil {
			err = o.check()
		}
		check.Equal(t, err == nil, accepted, "%q: %v", line, err)
		if err != nil {
			texts.Equal(t, strings.TrimSpace("account "+line), err.Error())
		}
	}
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
	if o, _ := parse(strings.Fields("-account 123456789012 -yes-spend")); o.check() == nil {
		t.Error("an emulator was taken for an account")
	}
}

// TestCosts: as the README promises, a proof costs far less than ten dollars.
func TestCosts(t *testing.T) {
	o, err := parse(strings.Fields("-account 123456789012 -yes-spend"))
	check.OK(t, err)
	most := o.most()
	if most < 0.3 || most > 3 {
		t.Errorf("it may cost $%.2f", most)
	}
	o.apply = 1
	if least := o.most(); least > most-0.5 {
		t.Errorf("the burst, and the jobs for it, cost $%.2f", most-least)
	}
}

// A burst is held to its promise: each run once, none early, none later than grace.
func TestBurst(t *testing.T) {
	for name, c := range map[string]struct {
		tally tally
		held  bool
	}{
		"all":             {tally{fires: 2, once: 2, lateness: []time.Duration{0, grace}}, true},
		"one later":       {tally{fires: 2, once: 2, lateness: []time.Duration{0, grace + time.Second}}, false},
		"one early":       {tally{fires: 2, once: 2, early: 1}, false},
		"one twice":       {tally{fires: 2, once: 1, twice: 1, unexplained: 1}, false},
		"one lost":        {tally{fires: 2, once: 1, lost: 1}, false},
		"one not applied": {tally{fires: 1, once: 1}, false},
	} {
		if held, found := inOneSecond(&c.tally, 2); held != c.held {
			t.Errorf("%s: held is %t: %s", name, held, found)
		}
	}
	file := many(2, "queue", noon)
	if strings.Count(file, "schedule: {at: 2027-01-04T12:00:00Z}") != 2 || !strings.Contains(file, "{app: queue, name: once-00001,") {
		t.Error(file)
	}
}

// Lists and sums have what arrived or is recorded, of their app, span and state.
func TestListings(t *testing.T) {
	jobs := map[core.JobID]job{7: {"app/each-0005", 5}, 8: {"app2/each-0005", 5}}
	at := func(minute int) time.Time { return noon.Add(time.Duration(minute)*time.Minute + 5*time.Second) }
	run := func(id core.JobID, minute int) core.RunID { return core.PlannedRun(id, core.InstantOf(at(minute))) }
	l := newLedger()
	l.add(run(7, 0), "not recorded", at(0))
	l.add(run(7, 3), "recorded", at(3))
	l.add(run(7, 10), "since the history was read", at(10))
	history := map[core.RunID]end{
		run(7, 1): {state: "skipped", began: at(1)}, run(7, 2): {state: "skipped"}, // the latter is no run
		run(7, 3): {state: "succeeded", began: at(3)}, run(7, 4): {state: "lost", began: at(4)},
		run(7, 9): {state: "failed", began: at(9)}, run(8, 1): {state: "failed", began: at(1)},
	}
	for _, c := range []struct {
		command     string
		until       time.Time
		least, most int
	}{
		{"runs APP", time.Time{}, 4, 4}, {"runs APP --failed", time.Time{}, 1, 1}, {"runs APP --state skipped", time.Time{}, 1, 1},
		{"report APP", at(5), 4, 4}, {"report APP", at(4), 3, 4}, {"lateness APP", at(5), 2, 3}, {"lateness APP", at(2), 1, 1},
	} {
		of := listing{command: c.command, app: "app", until: c.until, from: noon, to: at(9)}
		if least, most := of.outside(jobs, history, l); least != c.least || most != c.most {
			t.Errorf("%s until %s: %d to %d, want %d to %d", c.command, c.until, least, most, c.least, c.most)
		}
	}
	p := &proof{ledger: l}
	for _, runs := range []int{4, 3, 5} {
		for _, noWaiting := range []bool{true, false} {
			p.report = report{}
			p.judgeListings([]listing{{command: "runs APP", app: "app", runs: runs, noWaiting: noWaiting, from: noon, to: at(9)}}, jobs, history)
			if v := p.report.verdicts[0]; v.held != (runs == 4 && noWaiting) {
				t.Errorf("held is %t: %s", v.held, v.found)
			}
		}
	}
}
