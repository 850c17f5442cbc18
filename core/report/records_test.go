package report

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// TestRecords: records are read in order, by time and by job, stored again, and removed.
func TestRecords(t *testing.T) {
	r, ctx := New(memory.Open(t, memory.Options{}), Options{}), t.Context()
	rec := func(list string, at core.Instant, first core.JobID) record {
		return record{recordKey{list, at, first}, fmt.Appendf(nil, "%s %d %d \x00", list, at, first)}
	}
	same := func(what string, err error, got []record, want ...record) {
		t.Helper()
		check.OK(t, err)
		if d := cmp.Diff(want, got, cmp.AllowUnexported(record{}, recordKey{})); d != "" {
			t.Errorf("%s: (-want +got)\n%s", what, d)
		}
	}
	var all []record
	for i := range core.Instant(3) {
		for _, first := range []core.JobID{1, 9, 10, 2_000_000_000} {
			all = append(all, rec("a", 1_800_000_000+i*3600, first))
		}
	}
	other := rec("b", 1_800_000_000, 5)
	old := rec("a", 1_800_000_000, 1)
	old.body = []byte("old")
	check.OK(t, r.write(ctx, []record{old}, false))
	check.OK(t, r.write(ctx, slices.Concat([]record{other}, all), false))
	for _, c := range []struct {
		list     string
		from, to core.Instant
		want     []record
	}{
		{"a", 0, core.Horizon, all}, {"a", 1_800_003_600, 1_800_003_601, all[4:8]}, {"a", 1_800_000_001, 1_800_007_200, all[4:8]},
		{"b", 0, core.Horizon, []record{other}},
	} {
		got, err := r.records(ctx, c.list, c.from, c.to)
		same(fmt.Sprint(c.list, c.from, c.to), err, got, c.want...)
	}
	of, err := r.recordsOf(ctx, "a", 9, []core.Instant{1_800_000_000, 1_800_000_001, 1_800_007_200})
	same("of job 9", err, of, all[1], all[9])
	of, err = r.recordsOf(ctx, "a", 500, []core.Instant{1_800_000_000})
	same("of job 500", err, of, all[2])
	of, err = r.recordsOf(ctx, "b", 4, []core.Instant{1_800_000_000})
	same("of a job before the first", err, of)
	check.OK(t, r.write(ctx, all[:11], true))
	check.OK(t, r.write(ctx, all[:1], true)) // again
	left, err := r.records(ctx, "a", 0, core.Horizon)
	same("after the removal", err, left, all[11])
	check.OK(t, r.writeState(ctx, 0, &state{Done: 1}))
	if err := r.writeState(ctx, 0, &state{Done: 2}); !errors.Is(err, core.ErrRefused) {
		t.Errorf("a state that another process wrote is overwritten: %v", err)
	}
}
