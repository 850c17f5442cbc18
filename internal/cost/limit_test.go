package cost

import (
	"fmt"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
)

// TestLimit compares docs/internals/aws-units.md with the usage of a run under concurrency limits if no run waits.
func TestLimit(t *testing.T) {
	with := func(of core.Overlap, limits core.Limits) measured {
		specs := orders(1, "limit-")
		specs[0].Def.Overlap, specs[0].Def.Params = of, `{"tenant": 1}`
		return fireOf(t, 1, specs, func(a *manage.AppSpec) { a.Limits = limits })
	}
	plain := with(core.Overlap{}, core.Limits{})
	job := core.Overlap{Limit: 3}
	for _, c := range []struct {
		name   string
		of     core.Overlap
		limits core.Limits
		n      float64 // of limits
	}{
		{"of its job", job, core.Limits{}, 1},
		{"of a group", core.Overlap{Limit: 3, Group: "g"}, core.Limits{}, 1},
		{"with a key", core.Overlap{Limit: 1, Key: "/tenant"}, core.Limits{}, 1},
		{"that replaces", core.Overlap{Limit: 1, Full: core.FullReplace}, core.Limits{}, 1},
		{"that skips", core.Overlap{Limit: 1, Full: core.FullSkip}, core.Limits{}, 1},
		{"of its app", core.Overlap{}, core.Limits{InFlight: 200}, 1},
		{"of its app, by the second", core.Overlap{}, core.Limits{PerSecond: 50}, 1},
		{"of its job and of its app", job, core.Limits{InFlight: 200, PerSecond: 50}, 2},
	} {
		m := with(c.of, c.limits)
		write, read := (m.write-plain.write)/c.n, (m.read-plain.read)/c.n
		if write != 2 || read != 2 {
			t.Errorf("%s: %.1f units written and %.1f read more for each limit, want 2 and 2", c.name, write, read)
		}
		holds(t, "internals/aws-units.md", fmt.Sprintf("| Each limit that counts the run (`overlap`, `limits`) | %.0f | %.0f |", write, read))
	}
}
