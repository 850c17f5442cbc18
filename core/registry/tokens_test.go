package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// apps is a store of apps that counts its reads.
type apps struct {
	store.Store
	t     testing.TB
	data  store.Records
	mu    sync.Mutex
	err   error
	takes time.Duration
	reads atomic.Int32
}

func newApps(t testing.TB, list ...core.App) *apps {
	e := memory.Open(t, memory.Options{})
	a := &apps{t: t, data: e.Records}
	a.Store = *hook.Over(e, func(ctx context.Context, c *hook.Call, next func() []error) []error {
		if c.List == "" {
			return next()
		}
		a.reads.Add(1)
		a.mu.Lock()
		err, takes := a.err, a.takes
		a.mu.Unlock()
		errs := next() // a list from the start of the read
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return []error{ctx.Err()}
		}
		return []error{errors.Join(err, errs[0])}
	})
	a.add(list...)
	return a
}

func (a *apps) add(list ...core.App) {
	for _, of := range list {
		of.Rev = 1
		check.OK(a.t, a.PutApp(ctx, 0, of, core.Change{ID: 1, App: of.Name}))
	}
}

func (a *apps) remove(of core.App) {
	check.OK(a.t, a.DeleteApp(ctx, 1, of.Name, core.Change{ID: 1, App: of.Name}))
}

func (a *apps) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

var shop, pay, open = core.App{Name: "shop", Token: "secret"}, core.App{Name: "pay", Token: "other"}, core.App{Name: "open"}

func everybody(context.Context) bool { return true }

func TestTokens(t *testing.T) {
	a := newApps(t, shop, pay, open)
	tokens := registry.NewTokens(&a.Store, registry.TokensOptions{})
	free := registry.NewTokens(&a.Store, registry.TokensOptions{AllowNoToken: everybody})
	for _, c := range []struct {
		app, token string
		in, free   bool
	}{
		{"", "secret", true, true},
		{"", "other", true, true},
		{"", "wrong", false, false}, // also by an executor of open, which sends none
		{"open", "wrong", false, false},
		{"", "", false, true},
		{"shop", "secret", true, true},
		{"shop", "other", false, false},
		{"shop", "", false, false},
		{"open", "", false, true},
		{"none", "secret", false, false},
	} {
		for of, want := range map[*registry.Tokens]bool{tokens: c.in, free: c.free} {
			err := of.Admit(ctx, c.app, c.token)
			if (err == nil) != want || !want && core.CodeOf(err) != core.CodeUnauthorized {
				t.Errorf("%q of %q: %v; let in is %t", c.token, c.app, err, want)
			}
		}
	}
	a.remove(pay)
	a.remove(open)
	free = registry.NewTokens(&a.Store, registry.TokensOptions{AllowNoToken: everybody})
	if err := free.Admit(ctx, "", ""); core.CodeOf(err) != core.CodeUnauthorized || !strings.Contains(err.Error(), "create the app first") {
		t.Errorf("no token where all apps have one: %v", err)
	}
}

// TestStrangersDoNotHaveTheStoreRead checks that unknown tokens cause at most one read a second after the
// first ten, and do not delay known ones.
func TestStrangersDoNotHaveTheStoreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApps(t, shop)
		a.takes = 100 * time.Millisecond
		tokens := registry.NewTokens(&a.Store, registry.TokensOptions{})
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				if i%2 == 0 { // at first no token is known: all wait for one read
					check.NoError(t, tokens.Admit(t.Context(), "", "secret"))
				} else if err := tokens.Admit(t.Context(), "", fmt.Sprint(i)); core.CodeOf(err) != core.CodeUnauthorized {
					t.Error(err)
				}
			})
		}
		all.Wait()
		check.Equal(t, a.reads.Load(), 1, "1,000 callers had the list read N times")
		for i := range 1000 { // in ten seconds
			all.Go(func() { tokens.Admit(t.Context(), "", fmt.Sprint(i)) })
			time.Sleep(10 * time.Millisecond)
			began := time.Now()
			if err := tokens.Admit(t.Context(), "", "secret"); err != nil || time.Since(began) != 0 {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		}
		all.Wait()
		if n := a.reads.Load(); n > 22 { // ten at once, and one a second
			t.Errorf("requests of unknown clients read the list %d times in 10 s", n)
		}
	})
}

// TestOneUnreadableAppShutsNobodyOut checks that an unreadable app and all others keep their tokens.
func TestOneUnreadableAppShutsNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApps(t, shop, pay)
		memory.DamageApp(t, a.data, "pay")
		tokens := registry.NewTokens(&a.Store, registry.TokensOptions{})
		if err := tokens.Admit(t.Context(), "", "secret"); err != nil {
			t.Errorf("another's: %v", err)
		}
		if err := tokens.Admit(t.Context(), "", "unknown"); core.CodeOf(err) != core.CodeUnauthorized {
			t.Errorf("a stranger: %v", err)
		}
		a.remove(pay)
		a.add(pay)
		time.Sleep(time.Second)
		if err := tokens.Admit(t.Context(), "", "other"); err != nil {
			t.Errorf("mended: %v", err)
		}
		memory.DamageApp(t, a.data, "pay")
		time.Sleep(time.Hour)
		for range 2 {
			if err := tokens.Admit(t.Context(), "pay", "other"); err != nil {
				t.Errorf("one that was known: %v", err)
			}
		}
	})
}

func TestTokensFollowTheApps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApps(t, shop)
		tokens := registry.NewTokens(&a.Store, registry.TokensOptions{})
		check.OK(t, tokens.Admit(t.Context(), "", "secret"))
		time.Sleep(time.Second)
		a.add(pay)
		if err := tokens.Admit(t.Context(), "", "other"); err != nil {
			t.Errorf("a new app's: %v", err)
		}
		a.remove(shop)
		time.Sleep(5 * time.Minute)
		if err := tokens.Admit(t.Context(), "", "secret"); core.CodeOf(err) != core.CodeUnauthorized {
			t.Errorf("one that was taken away: %v", err)
		}
		a.fail(errors.New("boom"))
		time.Sleep(time.Hour)
		if err := tokens.Admit(t.Context(), "", "other"); err != nil {
			t.Errorf("a known one while the store does not answer: %v", err)
		}
		time.Sleep(time.Second)
		if err := tokens.Admit(t.Context(), "", "new"); core.CodeOf(err) != core.CodeUnavailable {
			t.Errorf("an unknown one while the store does not answer: %v", err)
		}
		// A cancelled caller does not end a read that others wait for.
		a.fail(nil)
		a.add(shop)
		a.takes = time.Millisecond
		time.Sleep(time.Second)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		tokens.Admit(gone, "", "stranger")
		check.NoError(t, tokens.Admit(t.Context(), "", "secret"))
	})
}

// TestNewAppsComeInAtOnce checks that executors of new apps are accepted at once, even during a read that
// began before.
func TestNewAppsComeInAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApps(t, shop)
		a.takes = 50 * time.Millisecond
		tokens := registry.NewTokens(&a.Store, registry.TokensOptions{})
		var all sync.WaitGroup
		defer all.Wait()
		for i := range 8 {
			all.Go(func() { tokens.Admit(t.Context(), "", "stranger") })
			time.Sleep(20 * time.Millisecond)
			of := core.App{Name: fmt.Sprint("app", i), Token: fmt.Sprint("of ", i)}
			a.add(of)
			if err := tokens.Admit(t.Context(), of.Name, of.Token); err != nil {
				t.Errorf("app %d: %v", i, err)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestPanicOfAReading checks that a panic in a read blocks no caller.
func TestPanicOfAReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panics := hook.Over(&store.Store{}, func(context.Context, *hook.Call, func() []error) []error {
			time.Sleep(time.Second)
			panic("boom")
		})
		tokens := registry.NewTokens(panics, registry.TokensOptions{})
		var all sync.WaitGroup
		all.Go(func() {
			defer func() { recover() }()
			tokens.Admit(t.Context(), "", "secret")
		})
		synctest.Wait()
		began := time.Now()
		if err := tokens.Admit(t.Context(), "", "secret"); core.CodeOf(err) != core.CodeUnavailable || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		all.Wait()
	})
}
