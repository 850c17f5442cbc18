package report

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// TestRecords: sheets are read by time, from the start of a span up to its end, and stored again.
func TestRecords(t *testing.T) {
	r, ctx := New(memory.Open(t, memory.Options{}), Options{}), t.Context()
	const first = 1_800_000_000
	var all []sheet
	for at := core.Instant(first); at < first+3*hour; at += hour {
		all = append(all, sheet{list: "a", at: at, Rows: []Row{{At: at, Job: 7, App: "shop", Open: 1, Unsettled: []core.RunID{9}}}})
	}
	check.OK(t, r.write(ctx, sheet{list: "a", at: first}, sheet{list: "b", at: first + hour}))
	check.OK(t, r.write(ctx, all...))
	reads := func(from, to core.Instant, want ...sheet) {
		t.Helper()
		got, err := r.read(ctx, "a", from, to)
		check.OK(t, err)
		if d := cmp.Diff(want, got, cmp.AllowUnexported(sheet{})); d != "" {
			t.Errorf("from %d to %d: (-want +got)\n%s", from, to, d)
		}
	}
	reads(0, core.Horizon, all...)
	reads(first+hour, first+hour+1, all[1])
	reads(first+1, first+2*hour, all[1])
	check.OK(t, r.writeState(ctx, 0, &state{Done: 1}))
	if err := r.writeState(ctx, 0, &state{Done: 2}); !errors.Is(err, core.ErrRefused) {
		t.Errorf("a state that another process wrote is overwritten: %v", err)
	}
}
