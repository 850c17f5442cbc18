package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
)

var noon = time.Date(2027, 1, 4, 12, 0, 0, 0, time.UTC)

// judged is what is found of one job for ten minutes, with a kill of dispatch at
// 12:03 and the tables shut at 12:06, of which the test says what is special.
func judged(change func(l *ledger, history map[core.RunID]end, run func(minute int) core.RunID)) (all *tally, byName map[string]*tally) {
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
	all, byName = &tally{}, map[string]*tally{}
	for _, t := range judge(map[core.JobID]job{7: j}, noon, noon.Add(10*time.Minute), l, history, windows) {
		all.add(t)
		byName[t.name] = t
	}
	return all, byName
}

// What breaks a promise is told from what a fault explains.
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
		"twice with nobody killed":     {twice(6), 1, func(a *tally) int { return a.twice }},
		"lost":                         {drop(0, end{}), 1, func(a *tally) int { return a.lost }},
		"lost in a fault":              {drop(6, end{}), 1, func(a *tally) int { return a.lost }},
		"skipped with no reason":       {drop(0, end{"skipped", "misfire"}), 1, func(a *tally) int { return a.untrue }},
		"skipped for a kill":           {drop(3, end{"skipped", "misfire"}), 1, func(a *tally) int { return a.untrue }},
		"skipped while shut":           {drop(6, end{"skipped", "misfire"}), 0, func(a *tally) int { return a.skipped["misfire"] }},
		"failed and never arrived":     {drop(0, end{"failed", "not-accepted"}), 1, func(a *tally) int { return len(a.without) }},
		"the same while shut":          {drop(6, end{"failed", "not-accepted"}), 0, func(a *tally) int { return len(a.without) }},
		"succeeded and never arrived":  {drop(6, end{"succeeded", ""}), 1, func(a *tally) int { return a.phantom }},
		"still running, never arrived": {drop(6, end{"running", ""}), 1, func(a *tally) int { return a.open }},
		"arrived and unknown": {func(_ *ledger, h map[core.RunID]end, run func(int) core.RunID) {
			delete(h, run(0))
		}, 1, func(a *tally) int { return a.unrecorded }},
		"arrived and lost": {func(_ *ledger, h map[core.RunID]end, run func(int) core.RunID) {
			h[run(0)] = end{"lost", "no-report"}
		}, 1, func(a *tally) int { return a.unexplained }},
		"early": {func(l *ledger, _ map[core.RunID]end, run func(int) core.RunID) {
			at, _ := run(1).Planned()
			l.runs[run(1)] = nil
			l.add(run(1), "early", at.Time().Add(-time.Millisecond))
		}, 1, func(a *tally) int { return a.early }},
	} {
		all, _ := judged(c.change)
		if all.fires != 10 || all.wrong() != c.wrong || c.sum(all) != 1 {
			t.Errorf("%s: %d fires, %d wrong (want %d), %d counted: %+v", name, all.fires, all.wrong(), c.wrong, c.sum(all), all)
		}
	}
}

// Fires are counted in the window that may have touched them, once each.
func TestWindows(t *testing.T) {
	_, by := judged(func(*ledger, map[core.RunID]end, func(int) core.RunID) {})
	// A kill touches what is due a minute before it until half a minute after.
	if by["kill"].fires != 2 || by["shut"].fires != 3 || by["quiet"].fires != 5 {
		t.Errorf("kill %d, shut %d, quiet %d", by["kill"].fires, by["shut"].fires, by["quiet"].fires)
	}
}

// Nothing begins by accident, nor without a bound.
func TestRefuses(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL", "")
	for line, want := range map[string]string{
		"":                                   "-account takes",
		"-account 12345":                     "-account takes",
		"-account 123456789012":              "-yes-spend is missing",
		"-account 123456789012 -yes-spend":   "",
		"clean -account 123456789012":        "",
		"clean":                              "-account takes",
		"-emulator":                          "-emulator wants AWS_ENDPOINT_URL",
		"-account 123456789012 -yes-spend x": "is the only command",
		"-account 123456789012 -yes-spend -jobs 100000":  "-jobs 100000",
		"-account 123456789012 -yes-spend -for 24h":      "-for 24h",
		"-account 123456789012 -yes-spend -apply 100000": "-apply 100000",
		"-account 123456789012 -yes-spend -dollars 0.10": "this may cost $",
		"-account 123456789012 -yes-spend -dollars 1000": "-dollars 1000",
		"-account 123456789012 -yes-spend -stack a_b":    "-stack",
	} {
		o, err := parse(strings.Fields(line))
		if err == nil {
			err = o.check()
		}
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
	if o, _ := parse(strings.Fields("-account 123456789012 -yes-spend")); o.check() == nil {
		t.Error("an emulator was taken for an account")
	}
}

// As the README says, it costs far less than ten dollars.
func TestCosts(t *testing.T) {
	o, err := parse(strings.Fields("-account 123456789012 -yes-spend"))
	if err != nil {
		t.Fatal(err)
	}
	if most := o.most(); most < 0.3 || most > 3 {
		t.Errorf("it may cost $%.2f", most)
	}
}

// TestDownWaits: an emulator that is taken down has written its state when the
// script is done; that nobody asks how it ended changes nothing.
func TestDownWaits(t *testing.T) {
	state := t.TempDir()
	kept := filepath.Join(state, "kept")
	emulator := exec.CommandContext(t.Context(), "sh", "-c",
		`trap 'sleep 1; echo all >"$0"; exit' TERM; echo up; while :; do sleep 0.1; done`, kept)
	out, err := emulator.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := emulator.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = emulator.Wait() }()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	pid := filepath.Join(state, "ministack.pid")
	if err := os.WriteFile(pid, fmt.Append(nil, emulator.Process.Pid, "\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	down := exec.CommandContext(t.Context(), "../../localstack/down")
	down.Env = append(os.Environ(), "TICKRING_STATE="+state, "TICKRING_EMULATOR=ministack")
	if b, err := down.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("down is done before the emulator is: %v", err)
	}
	if _, err := os.Stat(pid); err == nil {
		t.Error("it is written down as running")
	}
}
