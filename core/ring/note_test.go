package ring_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestNotedIsReadable checks that the maximum of notes with the longest texts can be read back, and that
// short ones need few messages.
func TestNotedIsReadable(t *testing.T) {
	now := time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		why           string
		notes, atMost int
	}{{"", 2 * ring.MaxNotes, 2}, {strings.Repeat("x", 300), 500, 2}, {strings.Repeat("x", 9000), 500, 2},
		{strings.Repeat("\x00", 300), 500, 5}, {strings.Repeat("ü", 299), 500, 2}} {
		var notes []ring.Note
		for i := range c.notes {
			job := core.JobID(i + 1)
			notes = append(notes, ring.Note{Job: job, Event: core.EventUnplanned, Run: core.NumberedRun(job, 1), Why: c.why, When: now})
		}
		out := ring.Noted(notes, now)
		got := 0
		for _, o := range out {
			b := ring.Encode(o.Message)
			m, err := ring.Decode(b)
			if err != nil {
				t.Fatalf("%d notes of %.5q: %v", c.notes, c.why, err)
			}
			for _, n := range m.PostRun.Notes {
				if got++; n.Job != core.JobID(got) {
					t.Fatal(fmt.Sprint("note ", got, " is of job ", n.Job))
				}
			}
		}
		if got != c.notes || len(out) > c.atMost {
			t.Errorf("%d notes of %.5q: %d came, in %d messages", c.notes, c.why, got, len(out))
		}
	}
}

// TestNoteOfTheReleaseBefore checks that the number of occurrences keeps its stored name, for writing and reading.
func TestNoteOfTheReleaseBefore(t *testing.T) {
	n := ring.Note{Job: 7, Event: core.EventSkipped, Run: core.PlannedRun(7, 1_800_000_000), At: 1_800_000_000, Reason: core.ReasonMisfire,
		Times: 61, When: time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)}
	b := string(ring.Encode(ring.Noted([]ring.Note{n}, n.When)[0].Message))
	check.Contains(t, b, `"reason":"misfire","count":61,"when":`, "it is written")
	if m, err := ring.Decode([]byte(b)); err != nil || m.PostRun.Notes[0] != n {
		t.Errorf("%+v, %v", m.PostRun, err)
	}
}

// TestCutWhy checks that a text ends with a whole rune.
func TestCutWhy(t *testing.T) {
	for text, want := range map[string]string{"": "", "why": "why", strings.Repeat("é", 150): strings.Repeat("é", 150),
		"a" + strings.Repeat("é", 150): "a" + strings.Repeat("é", 149), strings.Repeat("长", 101): strings.Repeat("长", 100),
		"ab" + strings.Repeat("长", 101): "ab" + strings.Repeat("长", 99)} {
		if got := ring.TruncateReason(text); got != want {
			t.Errorf("%d bytes become %q", len(text), got)
		}
	}
}
