package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
)

// putJobs stores the jobs of manyRuns.
func putJobs(b *testing.B, e *store.Store, now time.Time) {
	b.Helper()
	for n := range manyApps {
		putApp(b, e, fmt.Sprintf("app%02d", n))
	}
	putApp(b, e, "rare")
	list, puts := make([]core.Job, manyJobs), make([]store.JobPut, manyJobs)
	for i := range list {
		id := core.JobID(i + 1)
		j := &list[i]
		j.Def = core.Def{ID: id, App: manyApp(i + 1), Name: fmt.Sprintf("job-%d", id), Title: fmt.Sprintf("The job of number %d", id),
			Author: "lina",
			Labels: map[string]string{"team": fmt.Sprint(id % 5)}, Handler: "POST /reports/daily", Params: `{"kind": "daily"}`, Created: now}
		j.Sched = core.Sched{ID: id, App: j.Def.App, State: core.Started, Rev: 1, RevAt: now.Add(-overTime),
			Next:   core.InstantOf(now) + core.Instant(i),
			PlanAt: core.InstantOf(now) + core.Instant(i), Seq: 1,
			Schedule: core.Schedule{Any: []core.When{{Kind: core.KindCron, Expr: "0 */5 * * * ?"}}, Timezone: "Europe/Berlin"}}
		j.Normalize()
		puts[i] = store.JobPut{Create: j, Changes: []core.Change{{ID: 1,
			At: now, By: "lina", Verb: core.VerbCreated, App: j.Def.App, Job: id, Name: j.Def.Name}}}
	}
	for _, err := range e.Jobs.Put(b.Context(), puts) {
		check.OK(b, err)
	}
}

func putApp(b *testing.B, e *store.Store, name string) {
	b.Helper()
	check.OK(b, e.PutApp(b.Context(), 0, core.App{Name: name, Rev: 1}, core.Change{ID: 1, By: "lina", Verb: core.VerbCreated,
		App: name}))
}

// BenchmarkJobs lists a page of ten thousand jobs with a million runs, first by a process
// that knows nothing yet.
func BenchmarkJobs(b *testing.B) {
	e, now := openMany(b)
	putJobs(b, e, now)
	fresh := func() *query.Queries { return query.New(e, query.Options{Now: func() time.Time { return now }}) }
	page := func(b *testing.B, q *query.Queries, a query.JobsAsk) {
		a.Limit, a.Recent = 50, 30
		if p, err := q.JobsNow(b.Context(), a); err != nil || p.All == 0 {
			b.Fatal(p.All, err)
		}
	}
	ms := func(b *testing.B) { b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/page") }
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			page(b, fresh(), query.JobsAsk{})
		}
		ms(b)
	})
	q := fresh()
	for partial := true; partial; {
		p, err := q.JobsNow(b.Context(), query.JobsAsk{})
		check.OK(b, err)
		partial = p.Partial
	}
	b.Run("home", func(b *testing.B) {
		for b.Loop() {
			now = now.Add(time.Second)
			if h, err := q.Home(b.Context(), nil); err != nil || h.Soon == 0 {
				b.Fatal(h, err)
			}
		}
		ms(b)
	})
	for _, of := range []struct {
		name string
		a    query.JobsAsk
	}{
		{"number", query.JobsAsk{}},
		{"name", query.JobsAsk{By: query.ByName}},
		{"next-down", query.JobsAsk{By: query.ByNext, Down: true}},
		{"last", query.JobsAsk{By: query.ByLast}},
		{"failing", query.JobsAsk{Is: []query.Standing{query.IsFailing}}},
		{"text", query.JobsAsk{JobFilter: query.JobFilter{Text: "of number 7"}}},
		{"app", query.JobsAsk{JobFilter: query.JobFilter{App: "app07"}}},
	} {
		b.Run(of.name, func(b *testing.B) {
			for b.Loop() {
				now = now.Add(time.Second) // cached data is outdated each time
				page(b, q, of.a)
			}
			ms(b)
		})
	}
}
