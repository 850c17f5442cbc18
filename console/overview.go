package console

import (
	"context"
	"fmt"
	"html/template"
	"sync"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/doctor"
	"github.com/tickring/tickring/internal/must"
)

// homeRows is the number of rows shown of each kind.
const homeRows = 6

// homePage lists problems and upcoming runs.
type homePage struct {
	client.Overview
	Findings []finding // findings about the scheduler that report a problem
	Verdict  string
	Shape    string // shape of the status mark for Verdict
	Empty    bool   // whether no jobs exist
}

// Calm reports whether the page has no problems to show.
func (p *homePage) Calm() bool {
	return p.Failing.Count+p.Late.Count+p.Long.Count+p.AppsWithoutExecutorCount+len(p.Findings)+p.Unchecked == 0
}

// overview lists the current problems; each one links to its page.
func (a *ask) overview() (any, error) {
	began := time.Now()
	home := must.Get(a.GetOverview(a.Ctx()))
	p := &homePage{Overview: home}
	if home.Partial {
		a.unsure()
	}
	a.c.alarms.put(a, p.AppsWithoutExecutorCount)
	p.Failing.Jobs, p.Late.Jobs, p.Long.Runs = first(p.Failing.Jobs), first(p.Late.Jobs), first(p.Long.Runs)
	p.AppsWithoutExecutor, p.Coming.First = first(p.AppsWithoutExecutor), first(p.Coming.First)
	if p.Scheduler != nil {
		var o operatingPage
		a.judge(&o, &doctor.Facts{Now: a.Now, Took: time.Since(began), Endpoint: a.address(), Own: p.Scheduler})
		p.Findings, p.Verdict, p.Shape = o.Findings, o.Verdict, o.Shape
	}
	if p.Calm() && p.Coming.Jobs == 0 {
		p.Empty = len(must.Get(a.ListJobs(a.Ctx(), client.ListJobsParams{Limit: 1})).Jobs) == 0
	}
	return p, nil
}

// first returns the rows of a list that the overview shows.
func first[T any](list []T) []T { return list[:min(len(list), homeRows)] }

// Rest returns the number of rows that a list leaves out.
func (a *ask) Rest(all, shown int) int { return max(0, all-shown) }

// Limits of the problem count in the menu.
const (
	alarmFor    = 30 * time.Second // age at which a count is repeated
	alarmLong   = 5 * time.Minute  // the same, if the store charges for reads
	alarmWait   = time.Second      // how long a page waits for a count
	alarmPeople = 1000             // users whose counts are kept
)

// alarms has the number of apps without executors that each user sees, from the last count. Every page shows it in
// the menu, and must not wait long for a count.
type alarms struct {
	mu sync.Mutex
	of map[string]alarm
}

type alarm struct {
	at   time.Time
	apps int
}

func (l *alarms) put(a *ask, apps int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil || len(l.of) >= alarmPeople {
		l.of = map[string]alarm{}
	}
	l.of[a.who.Name] = alarm{a.Now, apps}
}

// get returns the last count, and whether it is recent enough.
func (l *alarms) get(a *ask) (apps int, young bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, known := l.of[a.who.Name]
	lasts := alarmFor
	if a.c.o.Newest != nil {
		lasts = alarmLong
	}
	return last.apps, known && a.Now.Sub(last.at).Abs() < lasts
}

// Alarm returns the number of apps without executors, which the menu shows.
func (a *ask) Alarm(e entry) template.HTML {
	if e.Name != "executors" || a.who.Kind == access.Nobody {
		return ""
	}
	apps, young := a.c.alarms.get(a)
	if !young {
		ctx, cancel := context.WithTimeout(a.Ctx(), alarmWait)
		defer cancel()
		home, err := a.GetOverview(ctx)
		if err == nil { // else the last known count is shown
			apps = home.AppsWithoutExecutorCount
		}
		a.c.alarms.put(a, apps)
	}
	if apps == 0 {
		return ""
	}
	return html(` <span class=bad title="%s">%s</span>`, a.Say("Apps without executors: %d", apps), fmt.Sprint(apps))
}
