package access

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/schedule"
)

// Spec is a request of an admin to create or change a user. A nil field leaves the stored value unchanged.
type Spec struct {
	Name     string
	Grants   *[]Grant
	Disabled *bool
	// Password is the new password, which the user must change after the next login. An empty text removes the
	// password.
	Password *string
	// Issuer and Subject identify the user at an identity provider.
	Issuer, Subject *string
	IfRev           *int64
}

// Results of a change to a user.
const (
	Created   = "created"
	Updated   = "updated"
	Unchanged = "unchanged"
	Deleted   = "deleted"
)

// People returns all users, sorted by name, without hashes of secrets.
func (a *Access) People(ctx context.Context, who Who) ([]Account, error) {
	if err := who.May(Administer, ""); err != nil {
		return nil, err
	}
	list, err := a.list(ctx)
	for i := range list {
		list[i] = list[i].Shown()
	}
	return list, err
}

func (a *Access) list(ctx context.Context) ([]Account, error) {
	list, err := Accounts.ReadAll(ctx, a.s)
	if err != nil {
		return nil, core.Retryable(err)
	}
	list = slices.DeleteFunc(list, func(a Account) bool { return a.Name == sharedName })
	slices.SortFunc(list, func(a, b Account) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Person returns one user, without hashes of secrets.
func (a *Access) Person(ctx context.Context, who Who, name string) (Account, error) {
	if err := who.May(Administer, ""); err != nil {
		return Account{}, err
	}
	if err := CheckName("user", name); err != nil {
		return Account{}, err
	}
	acc, err := a.account(ctx, name)
	return acc.Shown(), err
}

// Save creates or changes a user. If Save disables a user or changes the password, all sessions of the user end.
func (a *Access) Save(ctx context.Context, who Who, s Spec) (acc Account, change string, err error) {
	if err := who.May(Administer, ""); err != nil {
		return acc, "", err
	}
	if err := CheckName("name", s.Name); err != nil {
		return acc, "", err
	}
	var grants []Grant
	if s.Grants != nil {
		if grants, err = checkGrants("grants", *s.Grants); err != nil {
			return acc, "", err
		}
	}
	hash := ""
	if s.Password != nil && *s.Password != "" {
		if err := checkPassword("password", s.Name, *s.Password); err != nil {
			return acc, "", err
		}
		if hash, err = a.hash(ctx, a.known, *s.Password); err != nil {
			return acc, "", err
		}
	}
	if s.Issuer != nil || s.Subject != nil {
		switch {
		case s.Issuer == nil || s.Subject == nil:
			return acc, "", core.Invalid("subject", "", "set both the issuer and the subject of the provider, or neither")
		case *s.Issuer == "" && *s.Subject == "":
		default:
			if err := checkExternal(*s.Issuer, *s.Subject); err != nil {
				return acc, "", err
			}
		}
	}
	by := who.Actor()
	acc, err = a.change(ctx, s.Name, &by, func(acc *Account) (bool, error) {
		found := acc.Rev != 0
		if s.IfRev != nil && *s.IfRev != acc.Edited {
			return false, core.Errorf(core.CodeConflict, "user %s was changed in the meantime: reload the user and try again", s.Name)
		}
		if !found {
			if err := a.room(ctx); err != nil {
				return false, err
			}
		}
		change = Updated
		if !found {
			change = Created
		}
		edited := !found
		if s.Grants != nil && !sameGrants(acc.Grants, grants) {
			acc.Grants, edited = grants, true
		}
		if s.Disabled != nil && acc.Disabled != *s.Disabled {
			acc.Disabled, edited = *s.Disabled, true
			if acc.Disabled {
				acc.Sessions = nil
			}
		}
		if s.Password != nil && (hash != "" || acc.Password != "") && acc.Password != hash {
			acc.Password, acc.MustChange, acc.Sessions, edited = hash, hash != "", nil, true
			acc.Failures, acc.FailuresKnown = Failures{}, Failures{}
		}
		if s.Issuer != nil && (acc.Issuer != *s.Issuer || acc.Subject != *s.Subject) {
			acc.Issuer, acc.Subject, edited = *s.Issuer, *s.Subject, true
		}
		if !edited {
			change = Unchanged
		}
		return edited, nil
	})
	return acc.Shown(), change, err
}

func sameGrants(a, b []Grant) bool {
	return slices.EqualFunc(a, b, func(x, y Grant) bool {
		return x.App == y.App && x.Role == y.Role && slices.Equal(x.Rights, y.Rights)
	})
}

// room rejects a new user if MaxPeople is reached. Concurrent calls can exceed it slightly.
func (a *Access) room(ctx context.Context) error {
	list, err := a.list(ctx)
	if err == nil && len(list) >= MaxPeople {
		err = core.Errorf(core.CodeTooLarge, "the maximum of %d users is reached", len(list))
	}
	return err
}

// Delete deletes a user, including the user's sessions, tokens and own views.
func (a *Access) Delete(ctx context.Context, who Who, name string) error {
	if err := who.May(Administer, ""); err != nil {
		return err
	}
	if err := CheckName("user", name); err != nil {
		return err
	}
	tried := false
	return budget.UpdateWithRetry(ctx, core.Say("could not confirm that user %s was deleted: try again", name), func() (bool, error) {
		old, found, err := a.find(ctx, name)
		switch {
		case err != nil:
			return false, err
		case !found && tried:
			return true, nil
		case !found:
			return false, noPerson(name)
		}
		tried = true
		now := a.now()
		c := who.Actor().Did(core.Change{ID: max(core.Millis(now), old.Rev+1), At: now, Verb: core.VerbDeleted, Name: subject(name),
			Old: old.record()})
		return budget.WriteResult(a.s.Write(ctx, Accounts.Delete(name, old.Rev), c))
	})
}

// ChangePassword changes the caller's own password if the parameter old is the current password, and ends all other
// sessions of the caller.
func (a *Access) ChangePassword(ctx context.Context, who Who, old, password string) error {
	if err := who.May(Own, ""); err != nil {
		return err
	}
	if err := checkPassword("password", who.Name, password); err != nil {
		return err
	}
	acc, err := a.account(ctx, who.Name)
	if err != nil {
		return err
	}
	if acc.Password != "" {
		if err := a.knows(ctx, who.Name, old); err != nil {
			return err
		}
		if acc.MustChange && password == old {
			return core.Invalid("password", "", "another user gave you this password: choose another one")
		}
	} else if who.Kind != Person {
		return core.Errorf(core.CodeForbidden, "%s has no password, and a token cannot set a password: set the password in the console", who.Name)
	}
	hash, err := a.hash(ctx, a.known, password)
	if err != nil {
		return err
	}
	by := who.Actor()
	_, err = a.change(ctx, who.Name, &by, func(now *Account) (bool, error) {
		if now.Rev == 0 || now.Password != acc.Password && now.Password != hash {
			return false, core.Errorf(core.CodeConflict, "the password was changed by another request: log in again")
		}
		now.Password, now.MustChange, now.Failures, now.FailuresKnown = hash, false, Failures{}, Failures{}
		now.Sessions = slices.DeleteFunc(now.Sessions, func(s Session) bool { return s.ID != who.Session })
		return true, nil
	})
	return err
}

// knows checks a password and counts the try with known browsers, so that failures of unknown clients do not
// keep a logged-in user from changing it.
func (a *Access) knows(ctx context.Context, name, password string) error {
	wrong := core.Invalid("old", "", "the password is wrong, or there were too many attempts: after five failed attempts, "+
		"wait before the next attempt")
	counted := false
	acc, err := a.change(ctx, name, nil, func(acc *Account) (bool, error) {
		if acc.Rev == 0 { // deleted since: do not create it again
			return false, noPerson(name)
		}
		counted = acc.FailuresKnown.try(a.now())
		return counted, nil
	})
	if err != nil {
		return err
	}
	if !counted || len(password) > MaxPassword {
		return wrong
	}
	same, err := a.is(ctx, a.known, acc.Password, password)
	if err == nil && !same {
		err = wrong
	}
	return err
}

// SetLook sets the language and the time zone in which the caller sees the console. For an empty value, the console
// uses the browser's value.
func (a *Access) SetLook(ctx context.Context, who Who, language core.Language, zone string) error {
	if err := who.May(Own, ""); err != nil {
		return err
	}
	if err := schedule.CheckZone("zone", zone); err != nil {
		return err
	}
	_, err := a.change(ctx, who.Name, nil, func(acc *Account) (bool, error) {
		if acc.Rev == 0 {
			return false, noPerson(who.Name)
		}
		changed := acc.Language != language || acc.Zone != zone
		acc.Language, acc.Zone = language, zone
		return changed, nil
	})
	return err
}

// LongestToken is the maximum lifetime of a user's token.
const LongestToken = 366 * 24 * time.Hour

// TokenSpec is a request of a user to create a token.
type TokenSpec struct {
	Name   string
	Grants []Grant   // empty: the token has all permissions that its owner has at the time of use
	End    time.Time // when the token expires; zero: in 90 days, but not later than the token with which the token is created
}

// MakeToken creates a token for the caller and returns the secret of the token. The secret cannot be read again.
func (a *Access) MakeToken(ctx context.Context, who Who, s TokenSpec) (Token, string, error) {
	if err := who.May(Own, ""); err != nil {
		return Token{}, "", err
	}
	if who.MustChange { // else the token would allow access without a new password
		return Token{}, "", errMustChange
	}
	if len(s.Name) > maxName || !tokenForm.MatchString(s.Name) {
		return Token{}, "", core.Invalid("name", s.Name, "a token name has 1 to %d characters of a-z 0-9 . _ - and starts and ends with a "+
			"letter or digit", maxName)
	}
	grants, err := checkGrants("grants", s.Grants)
	if err != nil {
		return Token{}, "", err
	}
	if len(grants) > MaxTokenGrants {
		return Token{}, "", core.Invalid("grants", "", "at most %d are allowed", MaxTokenGrants)
	}
	for _, g := range grants {
		if who.Role(g.App).rank() < g.Role.rank() {
			return Token{}, "", core.Errorf(core.CodeForbidden, "a token cannot have a higher role than its owner: %s for %s", g.Role, named(g.App))
		}
		for _, r := range g.Rights {
			if !who.has(r, g.App) {
				return Token{}, "", core.Errorf(core.CodeForbidden, "a token cannot have a permission that its owner does not have: %s for %s",
					r, named(g.App))
			}
		}
	}
	now := a.now()
	longest := now.Add(LongestToken)
	end := s.End.UTC().Truncate(time.Millisecond)
	if s.End.IsZero() {
		end = now.Add(90 * 24 * time.Hour)
	}
	if !end.After(now) || end.After(longest) {
		return Token{}, "", core.Invalid("end", end.Format(time.RFC3339), "a token must expire between now and %s", longest.Format(time.RFC3339))
	}
	secret, hash := newSecret(tokenPrefix, who.Name)
	t := Token{Name: s.Name, Hash: hash, Grants: grants, Created: now, End: end}
	by := who.Actor()
	_, err = a.change(ctx, who.Name, &by, func(acc *Account) (bool, error) {
		if acc.Rev == 0 {
			return false, noPerson(who.Name)
		}
		acc.Tokens = slices.DeleteFunc(acc.Tokens, func(t Token) bool { return !now.Before(t.End) || sameHash(t.Hash, hash) })
		for _, o := range acc.Tokens {
			switch {
			case o.Name == s.Name:
				return false, core.Errorf(core.CodeConflict, "token %s already exists: revoke it first, or choose another name", s.Name)
			case o.Name == who.Token && t.End.After(o.End):
				if !s.End.IsZero() {
					return false, core.Invalid("end", end.Format(time.RFC3339), "a token cannot create a token that expires later: this token expires "+
						"at %s",
						o.End.Format(time.RFC3339))
				}
				t.End = o.End
			}
		}
		if len(acc.Tokens) >= MaxTokens {
			return false, core.Errorf(core.CodeTooLarge, "the maximum of %d tokens is reached: revoke an unused token", len(acc.Tokens))
		}
		acc.Tokens = append(acc.Tokens, t)
		return true, nil
	})
	if err != nil {
		return Token{}, "", err
	}
	t.Hash = nil
	return t, secret, nil
}

// named names an app, or all apps, in a sentence.
func named(app string) core.Text {
	if app == "" {
		return core.Say("all apps")
	}
	return core.Say("app %s", app)
}

// EndToken revokes a token of the user person. Only an admin can revoke tokens of other users.
func (a *Access) EndToken(ctx context.Context, who Who, person, name string) error {
	deed := Own
	if person != who.Name {
		deed = Administer
	}
	if err := who.May(deed, ""); err != nil {
		return err
	}
	if err := CheckName("user", person); err != nil {
		return err
	}
	tried := false
	by := who.Actor()
	_, err := a.change(ctx, person, &by, func(acc *Account) (bool, error) {
		before := len(acc.Tokens)
		acc.Tokens = slices.DeleteFunc(acc.Tokens, func(t Token) bool { return t.Name == name })
		switch {
		case len(acc.Tokens) < before:
			tried = true
			return true, nil
		case tried:
			return false, nil
		}
		return false, core.Errorf(core.CodeNotFound, "token %s of %s does not exist", name, person)
	})
	return err
}
