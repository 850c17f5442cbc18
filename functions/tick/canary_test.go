package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// The first tick creates the canary once the secrets exist. A user who deletes its job is respected by the ticks that start
// later, and a deployment with another canary function creates the job again.
func TestCanaryIsCreatedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.Open(t, memory.Options{})
		var unread error
		box := secretbox.New(core.Say("test"), func(context.Context) (string, error) { return secretbox.NewKey(), unread }, nil)
		config := func(address string) *lambdaboot.Config {
			return &lambdaboot.Config{Plan: plan.AWS(), Partitions: 16, Canary: address, Box: box}
		}
		p := config("").Assemble(e, slog.New(slog.DiscardHandler)).People(nil, people.Options{})
		starts := func(address string) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return wire(config(address), e, noLetters, nil, slog.New(slog.DiscardHandler))(ctx, []byte(`{}`))
		}
		is := func(when, address string, job bool) {
			t.Helper()
			app, _, err := p.FindApp(t.Context(), "tickring-canary")
			_, unknown := p.Job(t.Context(), "tickring-canary/alive")
			if err != nil || !slices.Equal(app.Executors, strings.Fields(address)) || (unknown == nil) != job {
				t.Errorf("%s: the app has %q, the job: %v, %v", when, app.Executors, unknown, err)
			}
		}
		unread = errors.New("the parameter does not exist")
		if err := starts("lambda:one"); !errors.Is(err, unread) {
			t.Errorf("without secrets: %v", err)
		}
		is("without secrets", "", false)
		unread = nil
		check.NoError(t, starts("lambda:one"))
		is("at first", "lambda:one", true)
		check.Call(t)(p.Delete(t.Context(), core.Actor{Name: "ann"}, "tickring-canary/alive", nil))
		check.NoError(t, starts("lambda:one"))
		is("deleted by a user", "lambda:one", false)
		check.NoError(t, starts("lambda:two"))
		is("of another deployment", "lambda:two", true)
	})
}
