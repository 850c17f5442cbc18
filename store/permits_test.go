package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// TestPermitRecords: an item without holders and waiters expires, unless it has a join. A damaged item is an error.
func TestPermitRecords(t *testing.T) {
	now := time.Unix(1_800_000_000, 0).UTC()
	s := memory.New(t, memory.Options{Now: func() time.Time { return now }})
	for _, c := range []struct {
		name string
		p    core.Permits
		keep time.Duration
	}{
		{"free", core.Permits{Limit: 1}, 48 * time.Hour},
		{"held", core.Permits{Limit: 1, Holders: []core.Holder{{First: 9}}}, 0},
		{"waited for", core.Permits{Limit: 1, Queue: []core.RunID{9}, Second: 7}, 0},
		{"join", core.Permits{Join: &core.Join{Round: 9}}, 0},
	} {
		c.p.Name, c.p.V = c.name, 1
		check.OK(t, s.PutPermits(t.Context(), []core.Permits{c.p})[0])
		key := store.Key{Kind: "permit#" + c.name, Name: "-"}
		found, err := s.Get(t.Context(), key)
		check.OK(t, err)
		r, want := found[key], time.Time{}
		if c.keep > 0 {
			want = now.Add(c.keep)
		}
		if !r.Expires.Equal(want) {
			t.Errorf("%s: expires %s, want %s", c.name, r.Expires, want)
		}
		got, err := s.Permits(t.Context(), []string{c.name})
		if d := cmp.Diff(map[string]core.Permits{c.name: c.p}, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", c.name, err, d)
		}
		for body := r.Body; len(r.Body) > 0 && (c.p.Join == nil || len(r.Body) == len(body)); {
			r.Body = r.Body[:len(r.Body)-1]
			s.Write(t.Context(), store.Group{Writes: []store.Write{{Record: r, Was: store.Any}}})
			if got, err = s.Permits(t.Context(), []string{c.name}); err == nil {
				t.Errorf("%s: read from %d bytes: %+v", c.name, len(r.Body), got)
			}
		}
	}
}
