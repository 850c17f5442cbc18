package api

import (
	"testing"
	"time"
)

// TestQuotaComesBack: a used quota is available again after a minute, and apps with a full quota are forgotten.
func TestQuotaComesBack(t *testing.T) {
	var q quota
	now := time.Unix(1_800_000_000, 0)
	use := func(app string) (n int) {
		for q.take(app, now) == nil {
			n++
		}
		return n
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, DeclaredChanges}, {0, 0}, {time.Minute / 4, DeclaredChanges / 4}, {time.Hour, DeclaredChanges}} {
		now = now.Add(c.after)
		if n := use("shop"); n != c.want {
			t.Errorf("after %s: %d changes, want %d", c.after, n, c.want)
		}
	}
	now = now.Add(time.Hour)
	if use("pay"); len(q.of) != 1 {
		t.Errorf("%d apps are remembered", len(q.of))
	}
	if q.settle("pay", 0); use("pay") != 1 {
		t.Error("a returned one is missing")
	}
	q.settle("pay", DeclaredChanges+1) // the excess takes another minute
	now = now.Add(time.Minute)
	if n := use("pay"); n != 0 {
		t.Errorf("%d changes while some are owed", n)
	}
	now = now.Add(time.Minute)
	if n := use("pay"); n != DeclaredChanges {
		t.Errorf("%d changes when none are owed", n)
	}
}
