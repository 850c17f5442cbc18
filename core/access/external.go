package access

import (
	"context"
	"strings"

	"github.com/tickring/tickring/core"
)

// Claims sets which claims of an identity provider give the name and the grants of a user.
type Claims struct {
	// Name is the name of the claim with the user name, which is converted to lower case; empty:
	// "preferred_username". For claim "email", the provider must confirm that the address is verified.
	Name string
	// Role is the name of the claim with the roles of a user, as one text or a list of texts. Roles maps these texts
	// to grants. If Role is empty, a new user has no grants, and an admin must assign grants.
	Role  string
	Roles map[string][]Grant
}

// ByProvider is the author, in change records, of users that a login at an identity provider created.
const ByProvider = "oidc"

// nameOf returns the user name in the claims.
func (c *Claims) nameOf(claims map[string]any) (string, error) {
	claim := c.Name
	if claim == "" {
		claim = "preferred_username"
	}
	name, _ := claims[claim].(string)
	name = strings.ToLower(strings.TrimSpace(name))
	if verified, _ := claims["email_verified"].(bool); claim == "email" && !verified {
		return "", core.Errorf(core.CodeForbidden, "the provider does not confirm that the email address is verified")
	}
	// Lower case of some letters beyond ASCII, as the Kelvin sign, is an ASCII letter: another user's name.
	if said, _ := claims[claim].(string); CheckName("", name) != nil || strings.ContainsFunc(said, func(r rune) bool { return r > '~' }) {
		return "", core.Errorf(core.CodeForbidden, "the provider's claim %s is not a valid user name: %q", claim, core.Truncate(name))
	}
	return name, nil
}

// grantsOf returns the grants of the claims; false: an admin assigns grants.
func (c *Claims) grantsOf(claims map[string]any) ([]Grant, bool) {
	if c.Role == "" {
		return nil, false
	}
	var values []string
	switch v := claims[c.Role].(type) {
	case string:
		values = []string{v} // splitting it would give "not ops" the roles of ops
	case []any:
		for _, one := range v {
			if s, is := one.(string); is {
				values = append(values, s)
			}
		}
	}
	var all []Grant
	for _, v := range values {
		for _, g := range c.Roles[v] {
			all = join(all, g)
		}
	}
	return all, true
}

// join adds a grant. Two grants for one app become the higher role with the permissions of both.
func join(list []Grant, g Grant) []Grant {
	for i := range list {
		if list[i].App == g.App {
			if g.Role.rank() > list[i].Role.rank() {
				list[i].Role = g.Role
			}
			list[i].Rights = append(list[i].Rights[:len(list[i].Rights):len(list[i].Rights)], g.Rights...)
			return list
		}
	}
	return append(list, g)
}

// External logs in a user of an identity provider and returns the secret of the new session. If the user does not
// exist, External creates the user. If a user with this name is not linked to this issuer and subject, the login
// fails. At each login, the grants from Claims.Role replace the user's grants. If Claims.Role gives no grants, the
// user loses all grants and the login fails.
func (a *Access) External(ctx context.Context, issuer, sub string, claims map[string]any, from Origin) (string, error) {
	if err := checkExternal(issuer, sub); err != nil {
		return "", err
	}
	name, err := a.o.Claims.nameOf(claims)
	if err != nil {
		return "", err
	}
	grants, byClaim := a.o.Claims.grantsOf(claims)
	if byClaim {
		if grants, err = checkGrants(a.o.Claims.Role, grants); err != nil {
			return "", err
		}
	}
	by := core.Actor{Name: ByProvider, From: clip(from.Address, maxFrom)}
	if byClaim && len(grants) == 0 {
		// Existing sessions and tokens lose their role too.
		if _, err := a.change(ctx, name, &by, func(acc *Account) (bool, error) {
			had := acc.Issuer == issuer && acc.Subject == sub && len(acc.Grants) > 0
			if had {
				acc.Grants = nil
			}
			return had, nil
		}); err != nil {
			return "", err
		}
		return "", core.Errorf(core.CodeForbidden, "the provider's claim %s gives %s no role", a.o.Claims.Role, name)
	}
	if _, err := a.change(ctx, name, &by, func(acc *Account) (bool, error) {
		switch {
		case acc.Rev == 0 && name != FirstAdmin: // the name admin is reserved for logins with the admin token
			if err := a.room(ctx); err != nil {
				return false, err
			}
			acc.Issuer, acc.Subject, acc.Grants = issuer, sub, grants
			return true, nil
		case acc.Issuer != issuer || acc.Subject != sub:
			return false, core.Errorf(core.CodeForbidden, "user %s exists, but is not linked to this account of the provider: "+
				"an admin can link the user to the account", name)
		case acc.Disabled:
			return false, core.Errorf(core.CodeForbidden, "user %s is disabled", name)
		case byClaim && !sameGrants(acc.Grants, grants):
			acc.Grants = grants
			return true, nil
		}
		return false, nil
	}); err != nil {
		return "", err
	}
	return a.begin(ctx, name, from, func(acc *Account, _ *Session) error {
		if acc.Issuer != issuer || acc.Subject != sub {
			return errLogIn
		}
		return nil
	})
}

// ParseClaimRole parses an entry of Claims.Roles: "value=app:role", "value=app:role+right" or, for all apps,
// "value=role".
func ParseClaimRole(text string) (value string, g Grant, err error) {
	// The value ends at the last =, because group names of providers can contain one.
	i := strings.LastIndexByte(text, '=')
	if i <= 0 {
		return "", g, core.Invalid("role", text, "expected VALUE=ROLE, a value of the claim and the role for this value, such "+
			"as devs=shop:editor or ops=admin")
	}
	value, what := text[:i], text[i+1:]
	if app, rest, is := strings.Cut(what, ":"); is {
		g.App, what = app, rest
	}
	parts := strings.Split(what, "+")
	g.Role = Role(parts[0])
	for _, r := range parts[1:] {
		g.Rights = append(g.Rights, Right(r))
	}
	list, err := checkGrants("role", []Grant{g})
	if err != nil {
		return "", g, err
	}
	return value, list[0], nil
}
