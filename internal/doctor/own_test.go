package doctor

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/words"
)

// TestUncomparedFrom: uncompared time reaches back at most to the first job, because nothing was due before. Unreadable
// jobs are named.
func TestUncomparedFrom(t *testing.T) {
	none, early, late := time.Time{}, now.Add(-time.Hour), now.Add(-time.Minute)
	for name, c := range map[string]struct {
		behind  time.Time
		first   time.Time // job's making; zero: there is no job
		err     error
		want    time.Time
		unknown bool
	}{
		"not behind":               {behind: none, first: early, want: none},
		"behind since after it":    {behind: late, first: early, want: late},
		"behind since long before": {behind: early, first: late, want: late},
		"behind, and there's none": {behind: early, want: early},
		"how far cannot be read":   {err: errors.New("no answer"), first: early, want: none, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := fixture.New(t, memory.Options{Now: func() time.Time { return now }})
			s.App("shop")
			if !c.first.IsZero() {
				s.Job(core.Job{Def: core.Def{ID: 1, App: "shop", Name: "sweep", Handler: "demo", Created: c.first},
					Sched: core.Sched{Rev: 1, RevAt: c.first}})
			}
			late := hook.Over(s.Store, func(_ context.Context, x *hook.Call, next func() []error) []error {
				if !x.Oldest {
					return next()
				}
				x.GotOldest = ring.Oldest{Due: c.behind}
				return []error{c.err}
			})
			var f client.Facts
			var log strings.Builder
			Gather(t.Context(), late, now, words.English, &f, slog.New(slog.NewTextHandler(&log, nil)), nil)
			if !f.UncomparedFrom.Equal(c.want) || slices.Contains(f.Unread, "oldest message") != c.unknown ||
				strings.Contains(log.String(), `fact="oldest message" err=`) != c.unknown {
				t.Errorf("from %s, unread %v, log %s; want %s", f.UncomparedFrom, f.Unread, log.String(), c.want)
			}
		})
	}
}

// TestApps: an unreadable app is named and hides no other app. An app with a well-known token is named too.
func TestApps(t *testing.T) {
	s := fixture.New(t, memory.Options{Now: func() time.Time { return now }})
	for name, token := range map[string]string{"moved": "default_token", "own": "token-of-chance", "open": "", "broken": "x"} {
		s.SaveApp(core.App{Name: name, Token: token, Rev: 1})
	}
	s.Must(s.PutExecutor(t.Context(), core.Executor{App: "own", Address: "http://10.0.0.1:9999/", Beat: now}))
	memory.DamageApp(t, s.Records, "broken")
	f := here()
	Gather(t.Context(), s.Store, now, words.English, f.Own, slog.New(slog.DiscardHandler), nil)
	var levels []Level
	list := slices.DeleteFunc(Judge(f), func(x Finding) bool { return x.Check.String() != "apps" })
	for _, x := range list {
		levels = append(levels, x.Level)
	}
	if len(f.Own.Unread) > 0 || !slices.ContainsFunc(f.Own.Executors, func(x client.Executor) bool { return x.App == "own" && x.Live }) {
		t.Errorf("unread %v, executors %v", f.Own.Unread, f.Own.Executors)
	}
	if !slices.Equal(levels, []Level{Wrong, Warning}) {
		t.Errorf("%+v", list)
	}
	golden.New(t).Equal(t, "apps", findingTexts(list))
}

// TestDueSinceSkipsUnreadableJobs: a job that cannot be read stays due for ever, which is no sign of a slow planning.
func TestDueSinceSkipsUnreadableJobs(t *testing.T) {
	for bad, want := range map[core.JobID]time.Duration{0: time.Minute, 1: time.Second} {
		s := fixture.New(t, memory.Options{Now: func() time.Time { return now }})
		s.App("shop")
		for id, ago := range map[core.JobID]time.Duration{1: time.Minute, 2: time.Second} {
			at := core.InstantOf(now.Add(-ago))
			s.Job(core.Job{Def: core.Def{ID: id, App: "shop", Name: "j" + id.String(), Handler: "demo"},
				Sched: core.Sched{Rev: 1, RevAt: now, Next: at, PlanAt: at}})
		}
		damaged := hook.Over(s.Store, func(_ context.Context, c *hook.Call, next func() []error) []error {
			errs := next()
			if _, is := c.GotJobs[bad]; is {
				c.GotJobs[bad] = store.Got[*core.Job]{Err: errors.New("no key")}
			}
			return errs
		})
		var f client.Facts
		Gather(t.Context(), damaged, now, words.English, &f, slog.New(slog.DiscardHandler), nil)
		if age := now.Sub(f.DueSince); age.Round(time.Second) != want {
			t.Errorf("job %d cannot be read: the earliest job has waited for %s, want %s", bad, age, want)
		}
	}
}
