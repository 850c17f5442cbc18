package console

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
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

func (a *ask) accountDo() (string, core.Text, error) {
	token := tokenForm{a.Form("name"), a.Form("roles"), a.Form("for")}
	to, said, err := a.accountTo(token)
	if err == nil || errors.Is(err, errShown) {
		return to, said, err
	}
	page := &accountPage{Me: need(a.GetMe(a.Ctx())), Token: token, Wrong: a.problemOf(err).Message}
	return a.again(err, "account", page)
}

func (a *ask) accountTo(t tokenForm) (to string, said core.Text, err error) {
	to = Root + "account"
	switch a.Form("do") {
	case "password":
		if a.Form("password") != a.Form("twice") {
			return to, said, core.Invalid("", "", "the two new passwords differ")
		}
		_, err = a.ChangePassword(a.Ctx(), client.NewPassword{Old: a.Form("old"), Password: a.Form("password")})
		if secret, _ := a.c.sessionOf(a.r); err == nil {
			if secret, err = a.c.o.Access.Renew(a.Ctx(), secret); err == nil {
				a.keep(secret, a.onShared())
			}
		}
		return to, core.Say("the password is changed, and all other sessions have ended"), err
	case "token":
		span, err := api.ParseDuration(t.For)
		if err != nil {
			return to, said, core.Invalid("for", t.For, "%v", err)
		}
		made, err := a.CreateToken(a.Ctx(), client.NewTokenSpec{Name: t.Name, Grants: api.ParseGrants(strings.Fields(t.Roles)),
			EndsAt: time.Now().Add(span)})
		if err != nil {
			return to, said, err
		}
		me := need(a.GetMe(a.Ctx()))
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
