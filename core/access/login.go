package access

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
)

// Origin describes the client of a login.
type Origin struct {
	Address string // address of the client, without a port
	Agent   string // the User-Agent header
	Known   string // value from Access.TrustedBrowser that the browser sent; empty: an unknown browser
}

// errLogIn is the same for each reason, so that it does not reveal whether a user exists.
var errLogIn = core.Errorf(core.CodeUnauthorized, "the user name or the password is wrong, or there were too many attempts: "+
	"after five failed attempts, wait before the next attempt, up to 15 minutes")

// FreeTries is the number of logins of a user that can fail without a wait. After that number, the wait before the
// next login begins at 15 s and doubles with each failure, up to LongestWait.
const (
	FreeTries   = 5
	firstWait   = 15 * time.Second
	LongestWait = 15 * time.Minute
)

// try counts a login before its result is known; false: it comes too early.
func (f *Failures) try(now time.Time) bool {
	if f.Count >= FreeTries {
		wait := LongestWait
		if n := f.Count - FreeTries; n < 6 { // 15 s · 2^6 is more
			wait = firstWait << n
		}
		if now.Before(f.At.Add(wait)) {
			return false
		}
	}
	*f = Failures{Count: f.Count + 1, At: now}
	return true
}

// LogIn logs in a user with a password and returns the secret of the new session. LogIn counts each login as failed
// before it checks the password, so that parallel logins cannot evade the limit. A failed login hashes a password and
// takes at least Options.Answer, even if the user does not exist or must wait.
func (a *Access) LogIn(ctx context.Context, name, password string, from Origin) (secret string, err error) {
	places, known, err := a.placesOf(ctx, name, &from)
	if err != nil {
		return "", err
	}
	in := a.strangers
	if known {
		in = a.known
	}
	if in.full() { // before the try is counted
		return "", errFull
	}
	took, err := a.froms.take(places, a.now())
	if err != nil {
		return "", err
	}
	least := time.NewTimer(a.o.Answer)
	defer least.Stop()
	secret, err = a.logIn(ctx, in, name, password, from)
	if err == nil {
		a.froms.giveBack(took)
		return secret, nil
	}
	select {
	case <-least.C:
	case <-ctx.Done():
	}
	return "", err
}

// placesOf returns where a login is counted: a known browser by its user, all others by address. It reads the
// store only for a well-formed known-browser value, and limits invalid ones by address.
func (a *Access) placesOf(ctx context.Context, name string, from *Origin) (places []string, known bool, err error) {
	if !mayBeKnown(from.Known, a.now()) || CheckName("", name) != nil {
		return placesOf(from.Address), false, nil
	}
	took, err := a.wrongly.take(placesOf(from.Address), a.now())
	if err != nil {
		return placesOf(from.Address), false, nil
	}
	acc, _, err := a.find(ctx, name)
	if err == nil && acc.isKnown(from.Known, a.now()) {
		a.wrongly.giveBack(took)
		return []string{"known " + name}, true, nil
	}
	return placesOf(from.Address), false, err
}

// Try counts a login at an identity provider as failed, before its result is known. If too many logins from the
// address have failed, Try returns an error. If the login succeeds, the caller must call undo.
func (a *Access) Try(from Origin) (undo func(), err error) {
	took, err := a.froms.take(placesOf(from.Address), a.now())
	if err != nil {
		return nil, err
	}
	return func() { a.froms.giveBack(took) }, nil
}

func (a *Access) logIn(ctx context.Context, in lane, name, password string, from Origin) (string, error) {
	hash, err := a.nobodys(ctx, in)
	if err != nil {
		return "", err
	}
	counted, known := false, false
	if CheckName("", name) == nil && len(password) <= MaxPassword {
		acc, err := a.change(ctx, name, nil, func(acc *Account) (bool, error) {
			now := a.now()
			known = acc.isKnown(from.Known, now)
			counted = acc.Rev != 0 && !acc.Disabled && acc.Password != "" && acc.failures(known).try(now)
			return counted, nil
		})
		if err != nil {
			return "", err
		}
		if counted {
			hash = acc.Password
		}
	}
	same, err := a.is(ctx, in, hash, password[:min(len(password), MaxPassword)])
	if err != nil {
		return "", err
	}
	if !same || !counted {
		return "", errLogIn
	}
	return a.begin(ctx, name, from, func(acc *Account, s *Session) error {
		if acc.Password != hash { // the password was changed in between
			return errLogIn
		}
		s.ByPassword = true
		*acc.failures(known) = Failures{}
		return nil
	})
}

// begin adds a session to an existing account.
func (a *Access) begin(ctx context.Context, name string, from Origin, edit func(*Account, *Session) error) (string, error) {
	secret, hash := newSecret(sessionPrefix, name)
	_, err := a.change(ctx, name, nil, func(acc *Account) (bool, error) {
		if acc.Rev == 0 || acc.Disabled {
			return false, errLogIn
		}
		now := a.now()
		s := Session{ID: rand.Text()[:10], Hash: hash, Created: now, Seen: now.Truncate(time.Minute), From: clip(from.Address, maxFrom),
			Agent: clip(from.Agent, maxAgent)}
		if err := edit(acc, &s); err != nil {
			return false, err
		}
		acc.LastSeen = now
		acc.Sessions = slices.DeleteFunc(acc.Sessions, func(s Session) bool { return sameHash(s.Hash, hash) || s.over(now) })
		if len(acc.Sessions) >= MaxSessions {
			slices.SortStableFunc(acc.Sessions, func(x, y Session) int { return y.Seen.Compare(x.Seen) })
			acc.Sessions = acc.Sessions[:MaxSessions-1]
		}
		acc.Sessions = append(acc.Sessions, s)
		return true, nil
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

// FirstAdmin is the name of the user for logins with the admin token, or with the one-time login link that the server
// prints.
const FirstAdmin = "admin"

// LogInByToken starts a session of user "admin" for a caller with the admin token, and creates the user if needed. A
// login with the correct token never has to wait, even if other clients behind the same proxy try wrong passwords.
func (a *Access) LogInByToken(ctx context.Context, token string, from Origin) (string, error) {
	if a.o.Admin == nil || !a.o.Admin(token) {
		if _, err := a.froms.take(placesOf(from.Address), a.now()); err != nil {
			return "", err
		}
		return "", core.Errorf(core.CodeUnauthorized, "this is not the admin token")
	}
	return a.asFirst(ctx, ByAdminToken, from)
}

// asFirst starts a session of the user admin, and creates the user if needed.
func (a *Access) asFirst(ctx context.Context, by string, from Origin) (string, error) {
	acc, found, err := a.find(ctx, FirstAdmin)
	if err != nil {
		return "", err
	}
	if !found {
		if _, err := a.change(ctx, FirstAdmin, &core.Actor{Name: by, From: clip(from.Address, maxFrom)}, func(acc *Account) (bool, error) {
			if acc.Rev != 0 {
				return false, nil
			}
			acc.Grants = []Grant{{Role: Admin}}
			return true, nil
		}); err != nil {
			return "", err
		}
	} else if acc.Disabled {
		return "", core.Errorf(core.CodeForbidden, "user %s is disabled: enable the user with the admin token (tickring users)", FirstAdmin)
	}
	return a.begin(ctx, FirstAdmin, from, func(*Account, *Session) error { return nil })
}

// LogOut ends the session with this secret. An unknown secret is not an error.
func (a *Access) LogOut(ctx context.Context, secret string) error {
	name, is := ownerOf(sessionPrefix, secret)
	if !is {
		return nil
	}
	hash := hashOf(secret)
	return a.endSessions(ctx, name, func(s *Session) bool { return sameHash(s.Hash, hash) })
}

// endSessions ends the sessions of a user for which end returns true.
func (a *Access) endSessions(ctx context.Context, name string, end func(*Session) bool) error {
	_, err := a.change(ctx, name, nil, func(acc *Account) (bool, error) {
		before := len(acc.Sessions)
		acc.Sessions = slices.DeleteFunc(acc.Sessions, func(s Session) bool { return end(&s) })
		return len(acc.Sessions) < before, nil
	})
	return err
}

// EndSession ends one of the caller's own sessions. If id is empty, EndSession ends all of the caller's sessions
// except the current session.
func (a *Access) EndSession(ctx context.Context, who Who, id string) error {
	if err := who.May(Own, ""); err != nil {
		return err
	}
	found := id == ""
	err := a.endSessions(ctx, who.Name, func(s *Session) bool {
		found = found || s.ID == id
		return s.ID == id || id == "" && s.ID != who.Session
	})
	if err == nil && !found {
		err = core.Errorf(core.CodeNotFound, "session %s does not exist", id)
	}
	return err
}
