package access

import (
	"bytes"
	"cmp"
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
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/store"
)

// Passwords hashes passwords with a slow hash function. Package internal/password implements the interface.
type Passwords interface {
	Hash(password string) (string, error)
	// Is reports whether hash is the hash of password.
	Is(hash, password string) bool
}

type Options struct {
	Passwords Passwords
	// Admin reports whether a token is the admin token; nil: the deployment has no admin token.
	Admin func(token string) bool
	// Answer is the minimum duration of a failed login, so that the duration does not reveal the reason; 0: 500 ms.
	Answer time.Duration
	// Claims maps the claims of an identity provider to a user name and grants.
	Claims Claims
	Now    func() time.Time
}

// Access implements logins, sessions, tokens and users. Several Access values can share one store. Each Access counts
// failed logins by address separately, and has its own one-time login link.
type Access struct {
	s *store.Store
	o Options
	// strangers queues logins from unknown browsers, known queues all others: unknown browsers do not delay
	// known ones.
	strangers, known lane
	froms            froms
	wrongly          froms // addresses that sent an invalid known-browser value
	once             once
	// blank is the hash of a random password, compared if an account does not exist; nil: not computed yet.
	blank atomic.Pointer[string]
}

// New returns an Access with defaults for unset options.
func New(s *store.Store, o Options) *Access {
	o.Answer = cmp.Or(o.Answer, 500*time.Millisecond)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Access{s: s, o: o, strangers: newLane(), known: newLane()}
}

// nobodys returns the hash that is compared if an account has no password or does not exist.
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

// hash hashes a password after it waited in a lane.
func (a *Access) hash(ctx context.Context, in lane, password string) (hash string, err error) {
	err = in.do(ctx, func() { hash, err = a.o.Passwords.Hash(password) })
	return hash, err
}

// is compares a password with a hash after it waited in a lane.
func (a *Access) is(ctx context.Context, in lane, hash, password string) (same bool, err error) {
	err = in.do(ctx, func() { same = a.o.Passwords.Is(hash, password) })
	return same, err
}

// find reads an account; false: it does not exist.
func (a *Access) find(ctx context.Context, name string) (Account, bool, error) {
	values, err := Accounts.Read(ctx, a.s, name)
	acc, found := values[name]
	return acc, found, core.Retryable(err)
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

// change reads an account, edits and stores it, and starts over if another writer was faster. by is the author
// in the change record; nil writes no record. edit reports whether it changed anything.
func (a *Access) change(
	ctx context.Context, name string, by *core.Actor, edit func(acc *Account) (changed bool, err error),
) (Account, error) {
	var last Account
	var attempts [][]byte // versions that may be stored although no answer came
	err := budget.UpdateWithRetry(ctx, core.Say("could not confirm that %s was stored: check the stored value, then try again",
		name), func() (bool, error) {
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
		var changes []core.Change // none for a change such as a login
		if by != nil {
			next.Edited = next.Rev
			c := by.Did(core.Change{ID: next.Rev, At: now, Verb: core.VerbUpdated, Name: subject(name), New: next.record()})
			if found {
				c.Old = old.record()
			} else {
				c.Verb = core.VerbCreated
			}
			changes = append(changes, c)
		}
		stored := next.JSON()
		if len(stored) > MaxBytes && len(stored) > len(is) { // only the views of an account can get this long
			return false, core.Errorf(core.CodeTooLarge, "all views together exceed %d KB: delete one first", MaxBytes/1000)
		}
		last, attempts = next, append(attempts, stored)
		return budget.WriteResult(Accounts.Save(ctx, a.s, old.Rev, next, changes...))
	})
	return last, err
}

// A secret contains the name of its user, so that one read finds the account: prefix_name_random.
const (
	tokenPrefix   = "tkr"
	sessionPrefix = "tks"
)

func newSecret(prefix, name string) (secret string, hash []byte) {
	secret = prefix + "_" + name + "_" + rand.Text()
	return secret, hashOf(secret)
}

// hashOf hashes a secret. A fast hash suffices, because a secret is random.
func hashOf(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

func sameHash(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }

// ownerOf returns the user name inside a secret; false: it is not a valid secret.
func ownerOf(prefix, secret string) (string, bool) {
	rest, is := strings.CutPrefix(secret, prefix+"_")
	i := strings.LastIndexByte(rest, '_')
	if !is || i < 0 || len(secret) > 200 {
		return "", false
	}
	name := rest[:i]
	return name, CheckName("", name) == nil
}

// errUnknown rejects an invalid secret.
var errUnknown = core.Errorf(core.CodeUnauthorized, "the session or token is unknown or has expired")

// Bearer returns the user who owns a token. For an unknown token, it returns the zero Who without an error.
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

// ProofKey returns the key with which a server proves to a client that the server knows the client's token. The key
// is the hash of the token, in hex. The argument has the form NAME:ID, where ID is the first 16 hex digits of the
// key's hash. If no token matches, ProofKey returns an empty key after Options.Answer, so that the duration does not
// reveal which users exist.
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

// session reads the account of a session secret and the index of the session in it.
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
	if !found || acc.Disabled || i < 0 || acc.Sessions[i].over(a.now()) {
		return acc, 0, errUnknown
	}
	return acc, i, nil
}

// Ended reports whether the session with this secret has ended. The check does not extend the session.
func (a *Access) Ended(ctx context.Context, secret string) bool {
	_, _, err := a.session(ctx, secret)
	return core.CodeOf(err) == core.CodeUnauthorized
}

// Renew replaces the secret of a session and returns the new secret. The old secret becomes invalid.
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

// Session returns the user of the session with this secret, and extends the session's validity.
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
		_ = Accounts.Save(ctx, a.s, acc.Rev, next) // if this fails, the next request tries again
	}
	return who, nil
}

const (
	idleFor        = 7 * 24 * time.Hour  // time for which an unused session stays valid
	longestSession = 30 * 24 * time.Hour // maximum lifetime of a session
)

// over reports whether the session has expired.
func (s *Session) over(now time.Time) bool {
	return now.Sub(s.Seen) > idleFor || now.Sub(s.Created) > longestSession
}

// Account returns the caller's own account, without hashes of secrets.
func (a *Access) Account(ctx context.Context, who Who) (Account, error) {
	if err := who.May(OwnSee, ""); err != nil {
		return Account{}, err
	}
	acc, err := a.account(ctx, who.Name)
	now := a.now()
	acc.Sessions = slices.DeleteFunc(acc.Sessions, func(s Session) bool { return s.over(now) })
	return acc.Shown(), err
}

// Shown returns a copy of an account without hashes of secrets.
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
