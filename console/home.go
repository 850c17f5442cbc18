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
)

// homeRows are shown of each kind.
const homeRows = 6

// homePage is what needs somebody now, and what comes.
type homePage struct {
	client.Home
	Findings []finding // of the scheduler, that are not well
	Verdict  string
	Shape    string // of Verdict
	Empty    bool   // there is no job
}

// Calm reports whether nothing needs anybody.
func (p *homePage) Calm() bool {
	return p.Failing.Count+p.Late.Count+p.Long.Count+p.DesertedCount+len(p.Findings)+p.Unchecked == 0
}

// home is what needs somebody now: each is a link to where it is seen.
func (a *ask) home() (any, error) {
	began := time.Now()
	home, err := a.GetHome(a.Ctx())
	if err != nil {
		return nil, err
	}
	p := &homePage{Home: home}
	if home.Partial {
		a.unsure()
	}
	a.c.alarms.put(a, p.DesertedCount)
	p.Failing.Jobs, p.Late.Jobs, p.Long.Runs = first(p.Failing.Jobs), first(p.Late.Jobs), first(p.Long.Runs)
	p.Deserted, p.Coming.First = first(p.Deserted), first(p.Coming.First)
	if p.Scheduler != nil {
		var o operatingPage
		a.judge(&o, &doctor.Facts{Now: a.Now, Took: time.Since(began), Endpoint: a.address(), Own: p.Scheduler})
		p.Findings, p.Verdict, p.Shape = o.Findings, o.Verdict, o.Shape
	}
	if p.Calm() && p.Coming.Jobs == 0 {
		jobs, err := a.ListJobs(a.Ctx(), client.ListJobsParams{Limit: 1})
		if err != nil {
			return nil, err
		}
		p.Empty = len(jobs.Jobs) == 0
	}
	return p, nil
}

// first are as many of a list as home shows.
func first[T any](list []T) []T { return list[:min(len(list), homeRows)] }

// Rest is how many are not among those that are shown.
func (a *ask) Rest(all, shown int) int { return max(0, all-shown) }

// Bounds of what is counted for the menu.
const (
	alarmFor    = 30 * time.Second // how old a count may be
	alarmLong   = 5 * time.Minute  // the same, where reads are paid
	alarmWait   = time.Second      // how long a page waits for one
	alarmPeople = 1000             // whose counts are known
)

// alarms are how many apps need somebody, of those that each person sees, as they were last
// counted: each page has the menu, and none is to wait long for a count.
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

// get is the last count, and whether it is young enough.
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

// Alarm is how many apps need somebody, beside their entry of the menu.
func (a *ask) Alarm(e entry) template.HTML {
	if e.Name != "executors" || a.who.Kind == access.Nobody {
		return ""
	}
	apps, young := a.c.alarms.get(a)
	if !young {
		ctx, cancel := context.WithTimeout(a.Ctx(), alarmWait)
		defer cancel()
		home, err := a.GetHome(ctx)
		if err == nil { // else what was known last
			apps = home.DesertedCount
		}
		a.c.alarms.put(a, apps)
	}
	if apps == 0 {
		return ""
	}
	return html(` <span class=bad title="%s">%s</span>`, a.Say("Apps without executors: %d", apps), fmt.Sprint(apps))
}
