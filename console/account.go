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
	Secret string // the secret of a new token, which is shown only once
}

func (a *ask) account() (any, error) {
	me, err := a.GetMe(a.Ctx())
	return &accountPage{Me: me}, err
}

func (a *ask) accountDo() (to string, said core.Text, err error) {
	name := a.Form("name")
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
		span, err := api.ParseDuration(a.Form("for"))
		if err != nil {
			return to, said, core.Invalid("for", a.Form("for"), "%v", err)
		}
		grants := api.ParseGrants(strings.Fields(a.Form("roles")))
		made := must.Get(a.CreateToken(a.Ctx(), client.NewTokenSpec{Name: name, Grants: grants, EndsAt: time.Now().Add(span)}))
		return a.shown(http.StatusOK, "account", &accountPage{Me: must.Get(a.GetMe(a.Ctx())), Secret: made.Secret})
	case "revoke-token":
		_, err = a.RevokeToken(a.Ctx(), name)
		return to, core.Say("token %s is revoked", name), err
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
