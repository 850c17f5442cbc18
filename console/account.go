package console

import (
	"net/http"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/must"
)

// accountPage shows users their own account.
type accountPage struct {
	Me     client.Me
	Token  tokenForm
	Secret string // the secret of a new token, which is shown only once
	Wrong  string
}

type tokenForm struct{ Name, Roles, For string }

func (a *ask) account() (any, error) {
	me, err := a.GetMe(a.Ctx())
	return &accountPage{Me: me, Token: tokenForm{For: "90d"}}, err
}

func (a *ask) tokenForm() tokenForm { return tokenForm{a.Form("name"), a.Form("roles"), a.Form("for")} }

func (a *ask) accountAgain(err error) (string, core.Text, error) {
	page := &accountPage{Me: must.Get(a.GetMe(a.Ctx())), Token: a.tokenForm(), Wrong: a.problemOf(err).Message}
	return a.again(err, "account", page)
}

func (a *ask) accountDo() (to string, said core.Text, err error) {
	t := a.tokenForm()
	to = Root + "account"
	switch a.Form("do") {
	case "password":
		if a.Form("password") != a.Form("twice") {
			return to, said, core.Invalid("", "", "the two new passwords differ")
		}
		must.Get(a.ChangePassword(a.Ctx(), client.NewPassword{Old: a.Form("old"), Password: a.Form("password")}))
		secret, _ := a.c.sessionOf(a.r)
		a.keep(must.Get(a.c.o.Access.Renew(a.Ctx(), secret)), a.onShared())
		return to, core.Say("the password is changed, and all other sessions have ended"), nil
	case "token":
		span, err := api.ParseDuration(t.For)
		if err != nil {
			return to, said, core.Invalid("for", t.For, "%v", err)
		}
		made := must.Get(a.CreateToken(a.Ctx(), client.NewTokenSpec{Name: t.Name, Grants: api.ParseGrants(strings.Fields(t.Roles)),
			EndsAt: time.Now().Add(span)}))
		me := must.Get(a.GetMe(a.Ctx()))
		return a.shown(http.StatusOK, "account", &accountPage{Me: me, Token: tokenForm{For: "90d"}, Secret: made.Secret})
	case "revoke-token":
		_, err = a.RevokeToken(a.Ctx(), t.Name)
		return to, core.Say("token %s is revoked", t.Name), err
	case "end-session":
		_, err = a.EndSession(a.Ctx(), a.Form("id"))
		return to, core.Say("the session has ended"), err
	case "end-sessions":
		_, err = a.EndSessions(a.Ctx())
		return to, core.Say("all other sessions have ended"), err
	}
	return to, said, core.Errorf(core.CodeInvalid, "the form cannot be read")
}

func (a *ask) Roles(list []client.Grant) string { return api.FormatGrants(list) }

func (a *ask) IsAdmin() bool { return a.who.May(peopleDeed, "") == nil }
