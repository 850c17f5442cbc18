// Package paging makes requests that consist of several parts. For a paged answer, it requests all pages and combines
// them into one answer. For a manifest with any number of jobs, it first checks all parts, and then stores them.
//
// After the first part, temporary errors of the server are retried. The package prints nothing. If a request stops
// early, the error reports which parts were done.
package paging

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

// tries is the number of requests for a part that fails temporarily, after another part was
// done.
const tries = 4

// one requests one part. If it is not the first, it is retried when the server, or the way to
// it, fails for a moment: a repeated request must do no harm.
func one[T any](ctx context.Context, first bool, ask func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		v, err := ask()
		if err == nil || first || try == tries || !passes(err) {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, err
		case <-time.After(time.Duration(try) * time.Second):
		}
	}
}

// passes reports whether a retry may succeed in a moment. An answer from a proxy in front of
// the server means that the request was too large or took too long.
func passes(err error) bool {
	if r, ok := errors.AsType[*client.Error](err); ok {
		return r.Code == string(core.CodeUnavailable) || r.Code == string(core.CodeInternal)
	}
	return errors.Is(err, client.ErrNoAnswer)
}

// Pages requests the pages of an answer one by one. The caller combines the pages.
type Pages[T any] struct {
	Ask      func(after string) (T, error)
	Add      func(page *T) (next string)
	Progress func() string // is called with a text about the progress
}

// From requests the pages one by one, starting after the given position. If a request fails, the result `next` is the
// start of the failed page.
func (p Pages[T]) From(ctx context.Context, after string, say func(text string)) (next string, err error) {
	for first := true; ; first = false {
		page, err := one(ctx, first, func() (T, error) { return p.Ask(after) })
		if err != nil {
			return after, err
		}
		if after = p.Add(&page); after == "" {
			return "", nil
		}
		say(p.Progress())
	}
}

// AddAudit adds a page to the sum of the previous pages.
func AddAudit(sum, page *client.Audit) (next string) {
	sum.Jobs += page.Jobs
	sum.Expected += page.Expected
	sum.OnTime += page.OnTime
	sum.Late += page.Late
	sum.WorstMs = max(sum.WorstMs, page.WorstMs)
	sum.NotSent += page.NotSent
	sum.Pending += page.Pending
	sum.Overdue += page.Overdue
	sum.OutOfReach += page.OutOfReach
	sum.Unaccounted += page.Unaccounted
	for reason, n := range page.Skipped {
		sum.Skipped[reason] += n
	}
	sum.Missing = named(sum.Missing, page.Missing)
	if !page.Behind.IsZero() {
		sum.Behind = page.Behind
	}
	sum.Failed = named(sum.Failed, page.Failed)
	sum.Partial = sum.Partial || page.Partial
	sum.From, sum.To, sum.Next = page.From, page.To, page.Next
	return page.Next
}

// shownJobs bounds how many jobs with missing instants, or that failed, are named.
const shownJobs = 100

func named[T any](sum, page []T) []T {
	return append(sum, page[:min(len(page), shownJobs-len(sum))]...)
}

// AddReplan adds a page to the sum of the previous pages.
func AddReplan(sum, page *client.ReplanResult) (next string) {
	sum.Jobs += page.Jobs
	sum.Expected += page.Expected
	sum.Missing += page.Missing
	sum.Sent += page.Sent
	sum.OutOfReach += page.OutOfReach
	sum.Failed = named(sum.Failed, page.Failed)
	sum.Partial = sum.Partial || page.Partial
	sum.From, sum.To, sum.Next = page.From, page.To, page.Next
	return page.Next
}

// AddUpcoming adds the scheduled times of a page to the sum, sorted by time.
func AddUpcoming(sum, page *client.Upcoming, limit int) {
	sum.Upcoming = append(sum.Upcoming, page.Upcoming...)
	slices.SortStableFunc(sum.Upcoming, func(a, b client.Coming) int { return a.ScheduledAt.Compare(b.ScheduledAt) })
	sum.Partial = sum.Partial || page.Partial || len(sum.Upcoming) > limit
	sum.Upcoming = sum.Upcoming[:min(len(sum.Upcoming), limit)]
}

// AddStop adds a page of a kill to the sum of the previous pages. A run that is in two pages counts once.
func AddStop(sum, page *client.StopResult) (next string) {
	sum.Changed, sum.Partial = sum.Changed || page.Changed, sum.Partial || page.Partial
	sum.Job = page.Job
	sum.Cancelled, sum.Sent = append(sum.Cancelled, page.Cancelled...), append(sum.Sent, page.Sent...)
	there := make(map[string]bool, len(sum.Killed))
	for _, id := range sum.Killed {
		there[id] = true
	}
	for _, id := range page.Killed {
		if !there[id] {
			sum.Killed = append(sum.Killed, id)
		}
	}
	return page.Next
}
