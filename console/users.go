package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/must"
	"github.com/tickring/tickring/manifest"
)

// peopleDeed is the permission for the page of users; the API checks it too.
const peopleDeed = access.Administer

type peoplePage struct {
	People []client.User
	All    int    // number of users before filters apply
	Text   string // filter: a part of the user name
	Role   string // filter: a role that the user has in any app
	Form   url.Values
	Tokens []client.UserToken // tokens of the user in the form
	Clash  *clash
}

// users shows the users that match the filters.
func (a *ask) users() (any, error) {
	list := must.Get(a.ListUsers(a.Ctx())).Users
	p := &peoplePage{All: len(list), Text: strings.TrimSpace(a.Q("text")), Role: a.Q("role"), Form: a.typedOr(nil)}
	p.People = slices.DeleteFunc(list, func(one client.User) bool {
		return !has(one.Name, p.Text) || p.Role != "" && !slices.ContainsFunc(one.Grants, func(g client.Grant) bool { return g.Role == p.Role })
	})
	name := a.Or("name", a.Q("name"))
	if name == "" || a.Panel() == "" {
		return p, nil
	}
	now, err := a.GetUser(a.Ctx(), name)
	switch typed := a.Form("do") == "save"; {
	case a.rejection == nil, !typed && err == nil:
		p.Form, p.Tokens = personForm(must.Get(now, err)), now.Tokens
	case !typed, p.Form.Get("rev") == "", !isConflict(a.rejection):
	case status(err) == http.StatusNotFound: // another save creates the user
		p.Form.Del("rev")
		p.Form.Del("haspassword")
		a.wrong = a.Say("%s was already deleted", name)
	case err != nil:
		return nil, err
	case itoa(now.Rev) != p.Form.Get("rev"):
		mine := now
		mine.Grants, mine.Disabled = api.ParseGrants(strings.Fields(p.Form.Get("roles"))), p.Form.Get("disabled") != ""
		mine.Issuer, mine.Subject = p.Form.Get("issuer"), p.Form.Get("subject")
		p.Clash, a.wrong, p.Tokens = &clash{Differs: manifest.DiffUser(&now, &mine)}, "", now.Tokens
		p.Form.Set("rev", itoa(now.Rev))
		mark(p.Form, "haspassword", now.HasPassword)
	}
	return p, nil
}

// personForm returns the values of a user's form; the form of a new user has no rev.
func personForm(one client.User) url.Values {
	f := url.Values{"name": {one.Name}, "rev": {itoa(one.Rev)}, "roles": {strings.ReplaceAll(api.FormatGrants(one.Grants), " ", "\n")},
		"issuer": {one.Issuer}, "subject": {one.Subject}}
	mark(f, "disabled", one.Disabled)
	mark(f, "haspassword", one.HasPassword)
	return f
}

func (a *ask) usersDo() (to string, said core.Text, err error) {
	name, rev := a.Form("name"), a.Form("rev")
	to = Root + "users"
	switch a.Form("do") {
	case "delete":
		now, gone := a.GetUser(a.Ctx(), name)
		switch {
		case gone != nil && status(gone) != http.StatusNotFound:
			return to, said, gone
		case gone == nil && rev != "" && rev != itoa(now.Rev): // the panel showed an older version of the user
			return to, said, core.Errorf(core.CodeConflict, "%s was changed after you opened this page: the current values are shown", name)
		}
		_, err = a.DeleteUser(a.Ctx(), name)
		return to, core.Say("%s is deleted", name), err
	case "revoke-token":
		_, err = a.RevokeUserToken(a.Ctx(), name, a.Form("token"))
		return a.PersonPath(name), core.Say("token %s is revoked", a.Form("token")), err
	}
	grants := api.ParseGrants(strings.Fields(a.Form("roles")))
	spec := client.UserSpec{Grants: &grants, Disabled: new(a.Form("disabled") != ""), Issuer: new(a.Form("issuer")),
		Subject: new(a.Form("subject")), IfRev: new(int64)}
	if password := a.Form("password"); password != "" {
		spec.Password = &password
	}
	if rev != "" {
		if *spec.IfRev, err = strconv.ParseInt(rev, 10, 64); err != nil {
			return to, said, core.Errorf(core.CodeInvalid, "the form cannot be read")
		}
	}
	_, err = a.PutUser(a.Ctx(), name, spec)
	return to, core.Say("%s is saved", name), err
}

func (a *ask) PersonPath(name string) string {
	return Root + "users?" + url.Values{"panel": {"user"}, "name": {name}}.Encode()
}
