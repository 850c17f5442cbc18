package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// Tokens checks whether a token belongs to any app, before a request is read. Later checks verify the permissions for a
// certain app. Tokens caches the tokens, so that unknown clients cannot cause many reads of the store.
type Tokens struct {
	s *store.Store
	o TokensOptions

	mu      sync.Mutex
	of      map[string][sha256.Size]byte // by app that has a token
	all     map[[sha256.Size]byte]bool
	without map[string]bool // apps without a token
	bad     map[string]bool // apps that cannot be read
	asked   time.Time       // the start of the last read
	paid    time.Time       // unknown clients have used up their reads until then
	failed  error           // the error of the last read
	reading chan struct{}   // closed at the end of the current read; nil: none
}

// spareReadings is how many reads unknown clients can cause at once after a quiet time.
const spareReadings = 10

// TokensOptions are the options of Tokens. A duration of zero means the default in its comment.
type TokensOptions struct {
	// Now returns the current time. nil: time.Now.
	Now func() time.Time
	// AllowNoToken reports whether the caller may use an app that has no token. nil: never.
	AllowNoToken func(ctx context.Context) bool
	// For is how long a revoked token may still be accepted. Every is the average interval between reads that unknown clients
	// cause. ReadFor is the timeout of one read.
	For, Every, ReadFor time.Duration // defaults: 5 min, 1 s and 3 s
}

// NewTokens returns Tokens. NewTokens does not read the apps.
func NewTokens(s *store.Store, o TokensOptions) *Tokens {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.For, o.Every, o.ReadFor = cmp.Or(o.For, 5*time.Minute), cmp.Or(o.Every, time.Second), cmp.Or(o.ReadFor, 3*time.Second)
	return &Tokens{s: s, o: o}
}

// Admit returns nil if the token belongs to the given app, or to any app if app is empty. For an unknown token, it reads the
// apps again, so that executors of a new app are accepted immediately. The number of such reads is limited.
func (t *Tokens) Admit(ctx context.Context, app, token string) error {
	free := t.o.AllowNoToken != nil && t.o.AllowNoToken(ctx)
	bare := free && token == "" // a token that is sent is never ignored
	if token == "" && !free {
		return t.refuse(app, token, free)
	}
	sum, now := sha256.Sum256([]byte(token)), t.o.Now()
	opens := func() bool {
		if app == "" {
			return t.all[sum] || bare && len(t.without) > 0
		}
		of, has := t.of[app] // comparing hashes reveals nothing about a token
		return has && of == sum || bare && t.without[app]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var late error
	if opens() {
		if t.reading == nil && since(now, t.asked) >= t.o.For {
			t.read(ctx, now)
		}
	} else if began, reading := t.asked, t.reading; reading != nil { // it may find the token
		late = t.await(ctx, reading)
		if began.Before(now) && !opens() { // or have begun too early
			late = t.readFor(ctx)
		}
	} else {
		late = t.readFor(ctx)
	}
	switch {
	case opens():
		return nil
	case t.failed != nil:
		return core.Retryable(t.failed)
	case late != nil:
		return passing(late)
	case ctx.Err() != nil:
		return passing(ctx.Err())
	case token != "" && (t.bad[app] || app == "" && len(t.bad) > 0): // do not reveal which apps
		return core.Errorf(core.CodeUnauthorized, "the access token cannot be verified: the stored secrets of some apps cannot be read; "+
			"tickring doctor lists these apps")
	}
	return t.refuse(app, token, free)
}

// await waits for the current read. The caller holds the lock.
func (t *Tokens) await(ctx context.Context, reading <-chan struct{}) error {
	t.mu.Unlock()
	defer t.mu.Lock()
	ctx, cancel := context.WithTimeout(ctx, t.o.ReadFor)
	defer cancel()
	select {
	case <-reading:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readFor reads the list for an unknown token: once per Every, and more often after a quiet time, because
// apps are often created together. The caller holds the lock.
func (t *Tokens) readFor(ctx context.Context) error {
	if t.reading != nil {
		return t.await(ctx, t.reading)
	}
	now := t.o.Now().Round(0) // the wall clock, because a frozen process does not advance the other
	if from := now.Add(-spareReadings * t.o.Every); t.paid.Before(from) || t.paid.After(now) {
		t.paid = from
	}
	if now.Sub(t.paid) >= t.o.Every {
		t.paid = t.paid.Add(t.o.Every)
		t.read(ctx, now)
	}
	return nil
}

// read reads the list for all waiting callers, so it ignores the cancellation of this one. The caller holds
// the lock, which is held again at the end, even after a panic. If it takes longer than ReadFor, the last
// list stays and new tokens are rejected.
func (t *Tokens) read(ctx context.Context, now time.Time) {
	done := make(chan struct{})
	t.reading, t.asked = done, now
	t.mu.Unlock()
	reads, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.o.ReadFor)
	defer cancel()
	var list []store.Value[core.App]
	err := errors.New("the reading of the apps broke off")
	defer func() {
		t.mu.Lock()
		close(done)
		if t.reading, t.failed = nil, err; err == nil {
			t.learn(list)
		}
	}()
	list, err = t.s.ListApps(reads)
}

// learn stores the tokens of all apps. An app that cannot be read keeps its last token and does not affect other apps.
func (t *Tokens) learn(list []store.Value[core.App]) {
	before := t.of
	t.of, t.all = map[string][sha256.Size]byte{}, map[[sha256.Size]byte]bool{}
	t.without, t.bad = map[string]bool{}, map[string]bool{}
	for _, a := range list {
		of, has := before[a.Name]
		switch {
		case a.Err != nil:
			t.bad[a.Name] = true
		case a.Is.Token == "":
			t.without[a.Name], has = true, false
		default:
			of, has = sha256.Sum256([]byte(a.Is.Token)), true
		}
		if has {
			t.of[a.Name], t.all[of] = of, true
		}
	}
}

// since returns the larger difference of the monotonic and the wall clock: a frozen process stops the
// first, and the second may be set.
func since(now, then time.Time) time.Duration {
	return max(now.Round(0).Sub(then.Round(0)).Abs(), now.Sub(then))
}

func (t *Tokens) refuse(app, token string, free bool) error {
	whose := core.Say("not the token of any app")
	if app != "" {
		whose = core.Say("not the token of app %s (if this app exists)", core.Truncate(app))
	}
	switch {
	case token != "" && free:
		return core.Errorf(core.CodeUnauthorized, "the access token is %s: %s; for an app without a token, leave the access token of the "+
			"executor empty",
			whose, writeToken)
	case token != "":
		return core.Errorf(core.CodeUnauthorized, "the access token is %s: %s", whose, writeToken)
	case free:
		return core.Errorf(core.CodeUnauthorized, "the access token is missing, and every app has a token: create the app "+
			"first, or %s", writeToken)
	}
	return core.Errorf(core.CodeUnauthorized, "the access token is missing: %s", withoutToken)
}
