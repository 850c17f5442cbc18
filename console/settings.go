package console

import (
	"net/http"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/words"
)

// settings stores the time zone and the language of a browser. It also stores them in the account of a logged-in
// user, for other browsers.
func (c *Console) settings(w http.ResponseWriter, r *http.Request) {
	a := c.askOf(w, r)
	if err := r.ParseForm(); err != nil {
		a.fail(badForm(err))
		return
	}
	zone, lang := a.zone.mode, string(a.Lang)
	if z := a.Form("zone"); z == "job" || z == "mine" || z == "utc" {
		zone = z
		a.choose(zoneCookie, z)
	}
	if l := a.Form("lang"); words.Known(words.Language(l)) {
		lang = l
		a.choose(langCookie, l)
	}
	if who, err := c.whoIs(r); err == nil {
		look := client.UserSettings{Language: lang, Zone: map[string]string{"utc": time.UTC.String(), "mine": a.Mine()}[zone]}
		if _, err := a.PutSettings(api.As(r.Context(), who), look); err != nil {
			a.who = who
			a.fail(err)
			return
		}
	}
	http.Redirect(w, r, here(a.Form("to")), http.StatusSeeOther)
}

func (a *ask) choose(cookie, value string) {
	http.SetCookie(a.w, a.cookie(cookie, value, 366*24*3600))
}

// look applies the settings in a user's account to a browser without settings. Any zone but UTC means the browser's
// own zone.
func (c *Console) look(a *ask, session string) {
	who, err := c.o.Access.Session(a.Ctx(), session)
	if err != nil {
		return // the session is valid, and the browser's own language will do
	}
	acc, err := c.o.Access.Account(a.Ctx(), who)
	if err != nil {
		return
	}
	if _, err := a.r.Cookie(langCookie); err != nil && acc.Language != "" {
		a.Lang = acc.Language
		a.choose(langCookie, string(acc.Language))
	}
	if _, err := a.r.Cookie(zoneCookie); err != nil && acc.Zone != "" {
		mode := "mine"
		if acc.Zone == time.UTC.String() {
			mode = "utc"
		}
		a.choose(zoneCookie, mode)
	}
}
