package console

import (
	"net/http"

	"github.com/tickring/tickring/core"
)

// settings keeps by whose clock and in which language a browser is told.
func (a *ask) settings() (string, core.Text, error) {
	for name, allowed := range map[string][]string{zoneCookie: {"job", "mine", "utc"}, langCookie: {"en", "zh"}} {
		field := map[string]string{zoneCookie: "zone", langCookie: "lang"}[name]
		for _, value := range allowed {
			if a.Form(field) == value {
				http.SetCookie(a.w, &http.Cookie{Name: name, Value: value, Path: Root, MaxAge: 366 * 24 * 3600, HttpOnly: true,
					SameSite: http.SameSiteLaxMode, Secure: a.secure()})
			}
		}
	}
	return a.Form("to"), core.Text{}, nil
}
