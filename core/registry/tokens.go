package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

// Lister lists all apps; those that cannot be read it names beside the others, as
// core.UnreadableApps.
type Lister interface {
	ListApps(ctx context.Context) ([]core.App, error)
}

// Tokens tells whose token opens a door at all: it is that of some app. What it opens
// behind the door is judged there, by the app itself; here strangers are kept from being
// listened to, and from having the store asked about what they say.
type Tokens struct {
	store Lister
	o     TokensOptions

	mu      sync.Mutex
	of      map[string][sha256.Size]byte // by app that has one
	all     map[[sha256.Size]byte]bool
	without map[string]bool // apps that have none
	bad     core.UnreadableApps
	asked   time.Time     // when the list was asked for last
	paid    time.Time     // until then strangers have used up their readings
	failed  error         // of the last reading
	reading chan struct{} // closed when the one that is under way is over; nil: none is
}

// spareReadings is how many readings strangers can have at once, who had none for a while.
const spareReadings = 10

// TokensOptions of Tokens. The zero value of a duration is its default.
type TokensOptions struct {
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// AllowNoToken says whether who asks is let in where an app has no token; nil:
	// nobody is.
	AllowNoToken func(ctx context.Context) bool
	// For is how long a token that was taken away may open the door still, Every how
	// often strangers can have the list read in the long run, ReadFor how long a reading
	// may take.
	For, Every, ReadFor time.Duration // 5 min, 1 s, 3 s
}

// NewTokens makes Tokens, which have read nothing yet.
func NewTokens(store Lister, o TokensOptions) *Tokens {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.For, o.Every, o.ReadFor = cmp.Or(o.For, 5*time.Minute), cmp.Or(o.Every, time.Second), cmp.Or(o.ReadFor, 3*time.Second)
	return &Tokens{store: store, o: o}
}

// Admit lets a token in that is one of the apps', and where the caller names its app,
// of that one. A token that is not known has the list read again, so that a new app's
// executors come in at once; but not for each stranger.
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
		of, has := t.of[app] // hashes: how long it takes tells nothing of a token
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
		if began.Before(now) && !opens() { // or have begun too soon
			late = t.readFor(ctx)
		}
	} else {
		late = t.readFor(ctx)
	}
	switch {
	case opens():
		return nil
	case t.failed != nil:
		return core.Passing(t.failed)
	case late != nil:
		return passing(late)
	case ctx.Err() != nil:
		return passing(ctx.Err())
	case token != "" && (t.bad[app] != nil || app == "" && len(t.bad) > 0): // which ones is not for strangers
		return core.Errorf(core.CodeUnauthorized, "the access token cannot be verified: the stored secrets of some apps cannot be read; "+
			"tickring doctor lists these apps")
	}
	return t.refuse(app, token, free)
}

// await waits for a reading that is under way. It is called with the lock.
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

// readFor has the list read for somebody who is not known: once in Every, and some more
// where nobody has asked for a while, for apps are made in numbers. It is called with
// the lock.
func (t *Tokens) readFor(ctx context.Context) error {
	if t.reading != nil {
		return t.await(ctx, t.reading)
	}
	now := t.o.Now().Round(0) // a function that was frozen has its readings all the same
	if from := now.Add(-spareReadings * t.o.Every); t.paid.Before(from) || t.paid.After(now) {
		t.paid = from
	}
	if now.Sub(t.paid) >= t.o.Every {
		t.paid = t.paid.Add(t.o.Every)
		t.read(ctx, now)
	}
	return nil
}

// read reads the list, for others too: a caller that goes does not end it. It is
// called with the lock, and leaves with it, also where the store panics. A list that
// takes longer than ReadFor fails, and the last one that was read stays; there are no
// pages, so then no new token comes in.
func (t *Tokens) read(ctx context.Context, now time.Time) {
	done := make(chan struct{})
	t.reading, t.asked = done, now
	t.mu.Unlock()
	reads, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.o.ReadFor)
	defer cancel()
	var list []core.App
	err := errors.New("the reading of the apps broke off")
	defer func() {
		// An app that cannot be read shuts out nobody of another: its own token is what it was.
		bad, err := core.BesidesApps(err)
		t.mu.Lock()
		close(done)
		if t.reading, t.failed = nil, err; err == nil {
			t.learn(list, bad)
		}
	}()
	list, err = t.store.ListApps(reads)
}

func (t *Tokens) learn(list []core.App, bad core.UnreadableApps) {
	before := t.of
	t.bad = bad
	t.of, t.all, t.without = map[string][sha256.Size]byte{}, map[[sha256.Size]byte]bool{}, map[string]bool{}
	for name := range bad {
		if of, had := before[name]; had {
			t.of[name], t.all[of] = of, true
		}
	}
	for _, a := range list {
		if a.Token == "" {
			t.without[a.Name] = true
			continue
		}
		of := sha256.Sum256([]byte(a.Token))
		t.of[a.Name], t.all[of] = of, true
	}
}

// since is how long ago a moment was by both clocks: a function that was frozen does
// not notice, and the wall clock may be set.
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
		return core.Errorf(core.CodeUnauthorized, "no access token was sent, and every app has a token: create the app first, or %s", writeToken)
	}
	return core.Errorf(core.CodeUnauthorized, "no access token was sent: %s", withoutToken)
}
