package api

import (
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
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
		check.Equal(t, use("shop"), c.want, "after %s N changes", c.after)
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
	check.Equal(t, use("pay"), 0, "changes while some are owed")
	now = now.Add(time.Minute)
	check.Equal(t, use("pay"), DeclaredChanges, "changes when none are owed")
}
