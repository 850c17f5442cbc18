package paging

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

// After the first part, a temporary failure is retried, four tries in all; before that, and
// after a lasting failure, there is one try.
func TestAskedAgain(t *testing.T) {
	busy, refused := &client.Error{Code: string(core.CodeUnavailable)}, &client.Error{Code: string(core.CodeRefused)}
	away := fmt.Errorf("%w: reset", client.ErrNoAnswer)
	for name, c := range map[string]struct {
		fails []error // of the tries of the second page, in turn; then it is there
		first bool    // the request is the first
		tries int
		took  time.Duration
		at    string // where the earlier pages continue; empty: all pages were read
	}{
		"all there":             {tries: 1},
		"busy, then there":      {fails: []error{busy, away, busy}, tries: 4, took: 6 * time.Second},
		"busy for too long":     {fails: []error{busy, busy, busy, busy}, tries: 4, took: 6 * time.Second, at: "1"},
		"refused":               {fails: []error{refused}, tries: 1, at: "1"},
		"answer of none":        {fails: []error{errors.New("no JSON")}, tries: 1, at: "1"},
		"busy at the beginning": {fails: []error{busy}, first: true, tries: 1, at: "0"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, tries, sum := time.Now(), 0, []string{}
				p := Pages[string]{
					Ask: func(after string) (string, error) {
						if (after == "0") != c.first {
							return "page after " + after, nil
						}
						if tries++; tries <= len(c.fails) {
							return "", c.fails[tries-1]
						}
						return "page after " + after, nil
					},
					Add: func(page *string) string {
						sum = append(sum, *page)
						return []string{"1", ""}[len(sum)-1]
					},
					Progress: func() string { return "on its way" },
				}
				at, err := p.From(t.Context(), "0", func(string) {})
				if at != c.at || (err != nil) != (c.at != "") || tries != c.tries || time.Since(began) != c.took {
					t.Errorf("at %q, %v, after %d tries and %s; want %+v", at, err, tries, time.Since(began), c)
				}
				if want := []string{"page after 0", "page after 1"}; err == nil && !slices.Equal(sum, want) {
					t.Errorf("%q", sum)
				}
			})
		})
	}
}

// A wait for another try ends with its context.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		began, tries := time.Now(), 0
		_, err := one(ctx, false, func() (int, error) {
			tries++
			return 0, client.ErrNoAnswer
		})
		if took := time.Since(began); tries != 2 || took != 1500*time.Millisecond || !errors.Is(err, client.ErrNoAnswer) {
			t.Errorf("%d tries in %s: %v", tries, took, err)
		}
	})
}

// TestSums: a run that two pages of a kill name is killed once. Upcoming instants are sorted by
// time and bounded, and so are the jobs that a sum names.
func TestSums(t *testing.T) {
	var stop client.StopResult
	for _, page := range []client.StopResult{
		{Changed: true, Killed: []string{"1", "2"}, Next: "2", Job: "shop/sweep"},
		{Killed: []string{"2", "3"}, Partial: true, Job: "shop/sweep"},
	} {
		check.Equal(t, AddStop(&stop, &page), page.Next, "next")
	}
	if !slices.Equal(stop.Killed, []string{"1", "2", "3"}) || !stop.Changed || !stop.Partial || stop.Job != "shop/sweep" {
		t.Errorf("%+v", stop)
	}
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var coming client.Upcoming
	for _, page := range []client.Upcoming{{Upcoming: []client.Coming{{Job: "b", ScheduledAt: at.Add(time.Minute)}}},
		{Upcoming: []client.Coming{{Job: "a", ScheduledAt: at}, {Job: "c", ScheduledAt: at.Add(time.Hour)}}}} {
		AddUpcoming(&coming, &page, 2)
	}
	if len(coming.Upcoming) != 2 || coming.Upcoming[0].Job != "a" || coming.Upcoming[1].Job != "b" || !coming.Partial {
		t.Errorf("%+v", coming)
	}
	sum := client.Audit{Skipped: map[string]int64{}}
	page := client.Audit{Jobs: 60, Expected: 2, Skipped: map[string]int64{"misfire": 1}, WorstMs: 5, Failed: make([]string, 60), Next: "x"}
	for _, worst := range []int64{5, 3} {
		page.WorstMs = worst
		AddAudit(&sum, &page)
	}
	if sum.Jobs != 120 || sum.Expected != 4 || sum.Skipped["misfire"] != 2 || sum.WorstMs != 5 || len(sum.Failed) != shownJobs ||
		sum.Next != "x" {
		t.Errorf("%+v", sum)
	}
}
