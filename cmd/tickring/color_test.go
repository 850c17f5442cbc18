package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

// A table that is colored is the same table.
func TestColorMovesNothing(t *testing.T) {
	codes := regexp.MustCompile("\x1b\\[[0-9]*m")
	rapid.Check(t, func(t *rapid.T) {
		cell := rapid.OneOf(rapid.SampledFrom([]string{"", " ", "-", "failed", "failed 1/3: handler", "shop/failed", "ü…"}), rapid.String())
		rows := rapid.SliceOfN(rapid.SliceOfN(cell, 1, 4), 1, 5).Draw(t, "rows")
		var colors paints
		for row := range rows {
			for col := range rows[row] {
				text := rapid.SampledFrom([]string{"", "failed", rows[row][col]}).Draw(t, "text")
				colors = append(colors, paint{row, col, text, rapid.SampledFrom([]color{"", red}).Draw(t, "color")})
			}
		}
		var plain, colored bytes.Buffer
		table(&plain, rows)
		table(&colored, rows, colors...)
		if got := codes.ReplaceAllString(colored.String(), ""); got != plain.String() {
			t.Fatalf("%q\nwant\n%q", got, plain.String())
		}
	})
}

func TestColorOfStates(t *testing.T) {
	for s, want := range map[core.State]color{core.Failed: red, core.Lost: red, core.TimedOut: red, core.Running: cyan, core.Succeeded: "",
		core.Queued: "", core.Killed: "", core.Skipped: "", core.Planned: ""} {
		check.Equal(t, stateColor(string(s)), want, "%s", s)
	}
	var b bytes.Buffer
	e := &Env{Globals: &Globals{Output: "text", Color: "always"}, Stdout: &b}
	for late, want := range map[int64]string{1000: " +1.0 s ", 1001: " \x1b[33m+1.0 s\x1b[0m "} {
		b.Reset()
		e.printRuns(&client.RunPage{Runs: []client.Run{{ID: "17", Job: "shop/x", State: "succeeded", LatenessMs: &late}}}, "")
		check.Contains(t, b.String(), want, "%d ms", late)
	}
}

func TestColorIsForPeople(t *testing.T) {
	for _, output := range []string{"json", "yaml"} {
		if (&Env{Globals: &Globals{Output: output, Color: "always"}}).colors() {
			t.Errorf("%s has colors", output)
		}
	}
}

func TestColorOfACell(t *testing.T) {
	var b bytes.Buffer
	table(&b, [][]string{{"APP/JOB", "STATE", "WHY"}, {"shop/failed", "failed", "failed again"}}, paint{1, 1, "", red})
	if want := "shop/failed   \x1b[31mfailed\x1b[0m   failed again\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("%q", b.String())
	}
}
