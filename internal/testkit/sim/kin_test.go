package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
)

// afterAll is a job that comes after others of its app.
func afterAll(name string, when core.ParentCondition, parents ...string) manage.JobSpec {
	s := byHand("gamma", name)
	for _, p := range parents {
		s.Def.After = append(s.Def.After, core.Parent{Job: "gamma/" + p, When: when})
	}
	return s
}

// TestKilledOnTheWayToChildren: the actor that closes a run is killed, or gets no answer, at
// each of the steps that its children take.
func TestKilledOnTheWayToChildren(t *testing.T) {
	first, second, third := byHand("alpha", "one"), byHand("alpha", "two"), byHand("alpha", "three")
	second.Def.After = []core.Parent{{Job: "alpha/one", When: core.UponClose}}
	third.Def.After = []core.Parent{{Job: "alpha/one", When: core.UponFailure}, {Job: "alpha/two", When: core.UponClose}}
	atEachStep(t, "callback", Config{Jobs: []manage.JobSpec{first, second, third}, Act: trigger("alpha/one"), Behave: failing},
		func(t *testing.T, r Report) { r.want(t, "child", 3) }, "CloseRuns", "Draw", "Create", "Enqueue", "ClearOwed") // F1, C1, F2 to F4
}

// TestLongChain: a chain of a thousand jobs, each after the one before.
func TestLongChain(t *testing.T) {
	const n = 1000
	jobs := []manage.JobSpec{byHand("gamma", "j-0")}
	for i := 1; i < n; i++ {
		jobs = append(jobs, afterAll(fmt.Sprintf("j-%d", i), core.UponSuccess, fmt.Sprintf("j-%d", i-1)))
	}
	r := directed(t, Config{Jobs: jobs, Act: trigger("gamma/j-0"), Behave: well(0)})
	r.want(t, "child", n-1)
	r.want(t, "state succeeded", n)
}

// TestWideFanOut: a thousand jobs after one, and one after all of the first twenty.
func TestWideFanOut(t *testing.T) {
	jobs := []manage.JobSpec{byHand("gamma", "root")}
	var twenty []string
	for i := range core.MaxChildren {
		name := fmt.Sprintf("c-%d", i)
		jobs = append(jobs, afterAll(name, core.UponSuccess, "root"))
		if i < core.MaxParents {
			twenty = append(twenty, name)
		}
	}
	jobs = append(jobs, afterAll("last", core.UponClose, twenty...))
	r := directed(t, Config{Jobs: jobs, Act: trigger("gamma/root"), Behave: well(0), For: time.Minute})
	r.want(t, "child", core.MaxChildren+core.MaxParents)
	r.want(t, "state succeeded", 1+core.MaxChildren+core.MaxParents)
}
