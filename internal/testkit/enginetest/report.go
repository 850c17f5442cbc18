package enginetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
)

// began: a run is found in the minute of its claim, or of its end if it had none, even if it
// was made long before; each once, and no run that has not begun.
func began(t *testing.T, h Harness) {
	e, ctx := openRunStore(t, h), t.Context()
	now := time.Now()
	minute := now.Unix() / 60
	instant := func(minutes, seconds int64) core.Instant { return core.Instant((minute+minutes)*60 + seconds) }
	claimed := func(id core.RunID, in int64) core.RunID {
		put(t, e, id, func(r *core.Run) { r.Journal.Minute, r.SentAt = minute+in, time.Unix((minute+in)*60+1, 0).UTC() })
		return id
	}
	skipped := func(id core.RunID, in int64) core.RunID {
		put(t, e, id, func(r *core.Run) {
			r.State, r.Reason, r.Journal, r.Owner, r.Until, r.Address = core.Skipped, core.ReasonPaused, core.JournalKey{}, "", time.Time{}, ""
			r.SentAt, r.EndedAt = time.Time{}, time.Unix((minute+in)*60+2, 0).UTC()
		})
		return id
	}
	var here, later []core.RunID
	for i := range int64(5) {
		here = append(here, claimed(core.PlannedRun(1, instant(0, i)), 0))
		later = append(later, claimed(core.PlannedRun(1, instant(30, i)), 30), claimed(core.NumberedRun(4, uint32(10+i)), 30))
	}
	here = append(here, skipped(core.PlannedRun(1, instant(0, 9)), 0), claimed(core.NumberedRun(2, 7), 0),
		claimed(core.PlannedRun(3, instant(-600, 0)), 0))
	later = append(later, skipped(core.PlannedRun(1, instant(30, 9)), 30), claimed(core.NumberedRun(5, 1), 30),
		claimed(core.NumberedRun(5, 100), 30))
	put(t, e, core.NumberedRun(1, 1), func(r *core.Run) {
		r.State, r.Journal, r.Owner, r.Until, r.Address, r.SentAt = core.Planned, core.JournalKey{}, "", time.Time{}, "", time.Time{}
	})
	// The journals that name them.
	for i, of := range []struct {
		at   int64
		runs []core.RunID
	}{{0, here}, {30, later}} {
		j := core.Journal{Key: core.JournalKey{Minute: minute + of.at, Suffix: i, Nonce: "n"}, V: 1}
		for _, id := range of.runs {
			if mustRun(t, e, id).State != core.Skipped {
				j.Entries = append(j.Entries, core.Entry{Run: id, Outcome: core.Accepted})
			}
		}
		j.Entries = append(j.Entries, j.Entries[0]) // once more
		ok(t, e.Dispatch.PutJournal(ctx, j))
	}
	for _, c := range []struct {
		name     string
		from, to core.Instant
		behind   core.JobID
		want     []core.RunID
	}{
		{"now", instant(-10, 0), instant(10, 0), 0, here}, {"later", instant(30, 0), instant(31, 0), 0, later},
		{"before", instant(-70, 0), instant(-10, 0), 0, nil}, {"between", instant(10, 0), instant(30, 0), 0, nil},
		{"all, behind the first", instant(-60, 0), instant(60, 0), 1, slices.Concat(here, later)},
	} {
		eventually(t, h, func() string {
			var got []core.RunID
			until, err := e.Runs.Began(ctx, c.from, c.to, c.behind, func(runs []core.Run) {
				for i := range runs {
					if runs[i].ID.Job() > c.behind {
						got = append(got, runs[i].ID)
					}
				}
			})
			ok(t, err)
			want := slices.DeleteFunc(slices.Clone(c.want), func(id core.RunID) bool { return id.Job() <= c.behind })
			slices.Sort(got)
			slices.Sort(want)
			if until != 0 || !slices.Equal(got, want) {
				return fmt.Sprintf("%s: until %d, got %v, want %v", c.name, until, got, want)
			}
			return ""
		})
	}
}
