package access

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/bound"
)

// Passwords hashes them slowly; package internal/password does.
type Passwords interface {
	Hash(password string) (string, error)
	// Is reports whether a hash is that of a password.
	Is(hash, password string) bool
}

type Options struct {
	Passwords Passwords
	// Admin reports whether a token is the admin token; nil: nothing is.
	Admin func(token string) bool
	// Idle ends a session that nobody used for so long, 7 days; Longest each, 30 days.
	Idle, Longest time.Duration
	// Answer is how long a log-in that fails takes at least, so that what it was refused for
	// cannot be told from how fast: 500 ms.
	Answer time.Duration
	// Claims says what a provider's claims are good for.
	Claims Claims
	Now    func() time.Time
}

// Access is the use case. Any number may work on one store; the limits by address and the
// link that logs in once are each one's own.
type Access struct {
	store Store
	o     Options
	// strangers is the queue of logins from browsers that are not known, known that of all
	// others: strangers keep no known browser waiting.
	strangers, known lane
	froms            froms
	wrongly          froms // those that sent what makes no known browser
	once             once
	// blank is the hash of no password: that of an account which is not there. Nil: none was made yet.
	blank atomic.Pointer[string]
}

// New makes it.
func New(store Store, o Options) *Access {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.Idle, 7*24*time.Hour)
	def(&o.Longest, 30*24*time.Hour)
	def(&o.Answer, 500*time.Millisecond)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Access{store: store, o: o, strangers: newLane(), known: newLane()}
}

// nobodys is the hash that is compared where there is none.
func (a *Access) nobodys(ctx context.Context, in lane) (string, error) {
	if hash := a.blank.Load(); hash != nil {
		return *hash, nil
	}
	hash, err := a.hash(ctx, in, rand.Text())
	if err == nil {
		a.blank.Store(&hash)
	}
	return hash, err
}

func (a *Access) now() time.Time { return a.o.Now().UTC().Truncate(time.Millisecond) }

// hash hashes a password in a lane.
func (a *Access) hash(ctx context.Context, in lane, password string) (hash string, err error) {
	err = in.do(ctx, func() { hash, err = a.o.Passwords.Hash(password) })
	return hash, err
}

// is compares a password in a lane.
func (a *Access) is(ctx context.Context, in lane, hash, password string) (same bool, err error) {
	err = in.do(ctx, func() { same = a.o.Passwords.Is(hash, password) })
	return same, err
}

// find reads an account.
func (a *Access) find(ctx context.Context, name string) (Account, bool, error) {
	acc, found, err := a.store.Account(ctx, name)
	if err != nil {
		return Account{}, false, core.Passing(err)
	}
	return acc, found, nil
}

func (a *Access) account(ctx context.Context, name string) (Account, error) {
	acc, found, err := a.find(ctx, name)
	if err == nil && !found {
		err = noPerson(name)
	}
	return acc, err
}

func noPerson(name string) error {
	return core.Errorf(core.CodeNotFound, "user %s does not exist", name)
}

// change reads an account, has it edited and stores it, in rounds while others are faster.
// By is who does that, nil where it is nobody's business: then there is no record. An edit
// that changes nothing says so.
func (a *Access) change(
	ctx context.Context, name string, by *core.Actor, edit func(acc *Account) (changed bool, err error),
) (Account, error) {
	var last Account
	var attempts [][]byte // what may have been stored without an answer
	err := bound.Change(ctx, core.Say("could not confirm that %s was stored: reload it and try again", name), func() (bool, error) {
		old, found, err := a.find(ctx, name)
		if err != nil {
			return false, err
		}
		is := old.JSON()
		if slices.ContainsFunc(attempts, func(b []byte) bool { return bytes.Equal(b, is) }) {
			last = old
			return true, nil
		}
		next := old.clone()
		next.Name = name
		changed, err := edit(&next)
		if err != nil {
			return false, err
		}
		if last = next; !changed {
			return true, nil
		}
		now := a.now()
		next.Rev = max(core.Millis(now), old.Rev+1)
		if !found {
			next.Created = now
		}
		var c *core.Change
		if by != nil {
			next.Edited = next.Rev
			did := by.Did(core.Change{ID: next.Rev, At: now, Verb: core.VerbUpdated, Name: subject(name), New: next.record()})
			c = &did
			if found {
				c.Old = old.record()
			} else {
				c.Verb = core.VerbCreated
			}
		}
		stored := next.JSON()
		if len(stored) > MaxBytes && len(stored) > len(is) { // of all that an account has only views get as long
			return false, core.Errorf(core.CodeTooLarge, "all views together exceed %d KB: delete one first", MaxBytes/1000)
		}
		last, attempts = next, append(attempts, stored)
		return bound.Wrote(a.store.PutAccount(ctx, old.Rev, next, c))
	})
	return last, err
}

// A secret names whose it is, so that who has it is known by one read:
// prefix_name_chance.
const (
	tokenPrefix   = "tkr"
	sessionPrefix = "tks"
)

func newSecret(prefix, name string) (secret string, hash []byte) {
	secret = prefix + "_" + name + "_" + rand.Text()
	return secret, hashOf(secret)
}

// hashOf is enough for what is all chance.
func hashOf(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

func sameHash(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }

// ownerOf is whose secret something says to be.
func ownerOf(prefix, secret string) (string, bool) {
	rest, is := strings.CutPrefix(secret, prefix+"_")
	i := strings.LastIndexByte(rest, '_')
	if !is || i < 0 || len(secret) > 200 {
		return "", false
	}
	name := rest[:i]
	return name, CheckName("", name) == nil
}

// errUnknown is what whoever sends a secret that is none is told.
var errUnknown = core.Errorf(core.CodeUnauthorized, "the session or token is unknown or has expired")

// Bearer is who has a person's token. What is none is nobody, without an error.
func (a *Access) Bearer(ctx context.Context, token string) (Who, error) {
	name, is := ownerOf(tokenPrefix, token)
	if !is {
		return Who{}, nil
	}
	acc, found, err := a.find(ctx, name)
	if err != nil || !found || acc.Disabled {
		return Who{}, err
	}
	hash, now := hashOf(token), a.now()
	for i := range acc.Tokens {
		if t := &acc.Tokens[i]; sameHash(t.Hash, hash) && now.Before(t.End) {
			who := acc.who(PersonToken)
			who.Token, who.Within = t.Name, slices.Clone(t.Grants)
			return who, nil
		}
	}
	return Who{}, nil
}

// ProofKey is what a server proves with that it knows a person's token, without a secret that
// it does not have: the hex hash of the token, by whose it is and the beginning of the hash of
// that. Who has no token cannot name one. Empty: there is none; that takes as long as a login that fails, so that how long it
// takes reveals no user.
func (a *Access) ProofKey(ctx context.Context, of string) (string, error) {
	name, id, _ := strings.Cut(of, ":")
	if CheckName("", name) != nil || len(id) != 16 {
		return "", nil
	}
	least := time.NewTimer(a.o.Answer)
	defer least.Stop()
	acc, _, err := a.find(ctx, name)
	if err != nil {
		return "", err
	}
	for i := range acc.Tokens {
		key := hex.EncodeToString(acc.Tokens[i].Hash)
		if sameHash([]byte(hex.EncodeToString(hashOf(key))[:16]), []byte(id)) {
			return key, nil
		}
	}
	select {
	case <-least.C:
	case <-ctx.Done():
	}
	return "", nil
}

// session reads the account and the place in it of the session of a secret.
func (a *Access) session(ctx context.Context, secret string) (acc Account, i int, err error) {
	name, is := ownerOf(sessionPrefix, secret)
	if !is {
		return acc, 0, errUnknown
	}
	acc, found, err := a.find(ctx, name)
	if err != nil {
		return acc, 0, err
	}
	hash := hashOf(secret)
	i = slices.IndexFunc(acc.Sessions, func(s Session) bool { return sameHash(s.Hash, hash) })
	if !found || acc.Disabled || i < 0 || a.over(&acc.Sessions[i], a.now()) {
		return acc, 0, errUnknown
	}
	return acc, i, nil
}

// Ended reports whether the session of a secret has ended. It does not keep the session from ending.
func (a *Access) Ended(ctx context.Context, secret string) bool {
	_, _, err := a.session(ctx, secret)
	return core.CodeOf(err) == core.CodeUnauthorized
}

// Renew replaces the secret of a session, so that who knew the old one is logged out.
func (a *Access) Renew(ctx context.Context, secret string) (renewed string, err error) {
	acc, _, err := a.session(ctx, secret)
	if err != nil {
		return "", err
	}
	old := hashOf(secret)
	renewed, hash := newSecret(sessionPrefix, acc.Name)
	_, err = a.change(ctx, acc.Name, nil, func(acc *Account) (bool, error) {
		for i := range acc.Sessions {
			if sameHash(acc.Sessions[i].Hash, old) {
				acc.Sessions[i].Hash = hash
				return true, nil
			}
		}
		return false, errUnknown
	})
	return renewed, err
}

// Session is who has the secret of a session, which it keeps from ending.
func (a *Access) Session(ctx context.Context, secret string) (Who, error) {
	acc, i, err := a.session(ctx, secret)
	if err != nil {
		return Who{}, err
	}
	now := a.now()
	who := acc.who(Person)
	who.Session, who.MustChange = acc.Sessions[i].ID, acc.MustChange && acc.Sessions[i].ByPassword
	if minute := now.Truncate(time.Minute); minute.After(acc.Sessions[i].Seen) {
		next := acc.clone()
		next.Sessions[i].Seen, next.Rev = minute, max(core.Millis(now), acc.Rev+1)
		_ = a.store.PutAccount(ctx, acc.Rev, next, nil) // else it is noted with the next request
	}
	return who, nil
}

// over reports whether a session has ended by itself.
func (a *Access) over(s *Session, now time.Time) bool {
	return now.Sub(s.Seen) > a.o.Idle || now.Sub(s.Created) > a.o.Longest
}

// Account is what somebody may see of his own.
func (a *Access) Account(ctx context.Context, who Who) (Account, error) {
	if err := who.May(OwnSee, ""); err != nil {
		return Account{}, err
	}
	acc, err := a.account(ctx, who.Name)
	now := a.now()
	acc.Sessions = slices.DeleteFunc(acc.Sessions, func(s Session) bool { return a.over(&s, now) })
	return acc.Shown(), err
}

// Shown is an account without what is hashed.
func (a Account) Shown() Account {
	a = a.clone()
	if a.Password != "" {
		a.Password = core.AsStored
	}
	for i := range a.Sessions {
		a.Sessions[i].Hash = nil
	}
	for i := range a.Tokens {
		a.Tokens[i].Hash = nil
	}
	return a
}
