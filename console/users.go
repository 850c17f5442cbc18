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
	Panel  string
	Form   personForm
	Wrong  string
	Clash  *clash
}

// personForm is the form of a user; Rev is empty for a new user.
type personForm struct {
	Name, Rev, Roles, Issuer, Subject string
	Disabled, HasPassword             bool
	Tokens                            []client.UserToken
}

// peoplePage returns the page of the users that match the filters.
func (a *ask) peoplePage() *peoplePage {
	list := must.Get(a.ListUsers(a.Ctx())).Users
	p := &peoplePage{All: len(list), Text: strings.TrimSpace(a.Q("text")), Role: a.Q("role"), Panel: a.Q("panel")}
	p.People = slices.DeleteFunc(list, func(one client.User) bool {
		return !has(one.Name, p.Text) || p.Role != "" && !slices.ContainsFunc(one.Grants, func(g client.Grant) bool { return g.Role == p.Role })
	})
	return p
}

func (p *peoplePage) RoleNames() []access.Role { return access.Roles }

func (a *ask) users() (any, error) {
	p := a.peoplePage()
	if name := a.Q("name"); name != "" && p.Panel != "" {
		p.Form = personFormOf(must.Get(a.GetUser(a.Ctx(), name)))
	}
	return p, nil
}

func personFormOf(one client.User) personForm {
	return personForm{Name: one.Name, Rev: itoa(one.Rev), Roles: strings.ReplaceAll(api.FormatGrants(one.Grants), " ", "\n"),
		Issuer: one.Issuer, Subject: one.Subject, Disabled: one.Disabled, HasPassword: one.HasPassword, Tokens: one.Tokens}
}

// differs returns the differences between the stored user and the form.
func (f personForm) differs(now client.User) []manifest.FieldChange {
	mine := now
	mine.Grants, mine.Issuer, mine.Subject, mine.Disabled = api.ParseGrants(strings.Fields(f.Roles)), f.Issuer, f.Subject, f.Disabled
	return manifest.DiffUser(&now, &mine)
}

func (a *ask) personForm() personForm {
	return personForm{Name: a.Form("name"), Rev: a.Form("rev"), Roles: a.Form("roles"), Issuer: a.Form("issuer"), Subject: a.Form("subject"),
		Disabled: a.Form("disabled") != "", HasPassword: a.Form("haspassword") != ""}
}

func (a *ask) usersAgain(err error) (string, core.Text, error) {
	f, p := a.personForm(), a.peoplePage()
	p.Form, p.Wrong = f, a.problemOf(err).Message
	if a.Form("do") == "delete" {
		if now, gone := a.GetUser(a.Ctx(), f.Name); gone == nil {
			p.Form = personFormOf(now)
		}
		return a.again(err, "users", p)
	}
	if f.Rev == "" || !isConflict(err) {
		return a.again(err, "users", p)
	}
	switch now, gone := a.GetUser(a.Ctx(), f.Name); {
	case gone != nil && a.problemOf(gone).Status == http.StatusNotFound: // another save creates the user
		p.Form.Rev, p.Form.HasPassword, p.Wrong = "", false, a.Say("%s was already deleted", f.Name)
	case gone != nil:
		return "", core.Text{}, gone
	case itoa(now.Rev) != f.Rev:
		p.Clash, p.Wrong = &clash{Differs: f.differs(now)}, ""
		p.Form.Rev, p.Form.HasPassword, p.Form.Tokens = itoa(now.Rev), now.HasPassword, now.Tokens
	}
	return a.again(err, "users", p)
}

func (a *ask) usersDo() (to string, said core.Text, err error) {
	f := a.personForm()
	to = Root + "users"
	switch a.Form("do") {
	case "delete":
		now, gone := a.GetUser(a.Ctx(), f.Name)
		switch {
		case gone != nil && a.problemOf(gone).Status != http.StatusNotFound:
			return to, said, gone
		case gone == nil && f.Rev != "" && f.Rev != itoa(now.Rev): // the panel showed an older version of the user
			return to, said, core.Errorf(core.CodeConflict, "%s was changed after you opened this page: the current values are shown", f.Name)
		}
		_, err = a.DeleteUser(a.Ctx(), f.Name)
		return to, core.Say("%s is deleted", f.Name), err
	case "revoke-token":
		_, err = a.RevokeUserToken(a.Ctx(), f.Name, a.Form("token"))
		return a.PersonPath(f.Name), core.Say("token %s is revoked", a.Form("token")), err
	}
	grants := api.ParseGrants(strings.Fields(f.Roles))
	spec := client.UserSpec{Grants: &grants, Disabled: &f.Disabled, Issuer: &f.Issuer, Subject: &f.Subject, IfRev: new(int64)}
	if password := a.Form("password"); password != "" {
		spec.Password = &password
	}
	if f.Rev != "" {
		if *spec.IfRev, err = strconv.ParseInt(f.Rev, 10, 64); err != nil {
			return to, said, core.Errorf(core.CodeInvalid, "the form cannot be read")
		}
	}
	_, err = a.PutUser(a.Ctx(), f.Name, spec)
	return to, core.Say("%s is saved", f.Name), err
}

func (a *ask) PersonPath(name string) string {
	return Root + "users?" + url.Values{"panel": {"user"}, "name": {name}}.Encode()
}
