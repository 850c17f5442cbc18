package console

import (
	"net/http"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
)

// sessionCookie has the session of the logged-in user.
const sessionCookie = "tickring_session"

// knownCookie marks a browser in which a user has logged in before.
const knownCookie = "tickring_known"

// sharedCookie marks a browser that several people use, until it is closed.
const sharedCookie = "tickring_shared"

// sessionOf returns the secret of a request's session, and the name of its cookie. Over TLS the browser accepts the
// cookie only from this host, not from another one of the domain.
func (c *Console) sessionOf(r *http.Request) (secret, cookie string) {
	cookie = sessionCookie
	if c.secure(r) {
		cookie = "__Host-" + sessionCookie
	}
	if k, err := r.Cookie(cookie); err == nil {
		secret = k.Value
	}
	return secret, cookie
}

// whoIs returns the user of a request, by its session cookie.
func (c *Console) whoIs(r *http.Request) (access.Who, error) {
	secret, _ := c.sessionOf(r)
	who, err := c.o.Access.Session(r.Context(), secret)
	who.From = from(r).Address
	return who, err
}

// from returns the origin of a request.
func from(r *http.Request) access.Origin {
	f := access.Origin{Address: access.Host(r.RemoteAddr), Agent: r.UserAgent()}
	if k, err := r.Cookie(knownCookie); err == nil {
		f.Known = k.Value
	}
	return f
}

type login struct {
	To     string // path of the page after the login
	Name   string // user name as typed by the user
	Wrong  string
	Unsent *unsent // the form that the user sent after the session had ended
	Shared bool    // whether several users share this browser
}

func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) {
	a := c.askOf(w, r)
	a.out = true
	a.render(http.StatusOK, "login", a.way(here(a.Q("to"))))
}

// askLogin answers with the login page.
func (c *Console) askLogin(a *ask) {
	a.out = true
	k, err := a.unsentForm()
	if err != nil {
		a.fail(err)
		return
	}
	to := a.cameFrom()
	if a.r.Method == http.MethodGet {
		to = here(a.r.URL.RequestURI())
	}
	l := a.way(to)
	l.Unsent = k
	a.render(http.StatusUnauthorized, "login", l)
}

func (c *Console) logIn(w http.ResponseWriter, r *http.Request) {
	a := c.askOf(w, r)
	if err := r.ParseForm(); err != nil {
		a.fail(badForm(err))
		return
	}
	k, err := unsentOf(a.Form("unsent-at"), a.Form("unsent"))
	if err != nil {
		a.out = true
		a.fail(err)
		return
	}
	secret, shared := "", a.Form("shared") != ""
	if token := a.Form("token"); token != "" {
		secret, err = c.o.Access.LogInByToken(r.Context(), token, from(r))
	} else if a.Form("elsewhere") != "" { // the user has logged in in another tab, by the provider
		if _, err = c.whoIs(r); err == nil {
			secret, _ = c.sessionOf(r)
			shared = a.onShared()
		}
	} else {
		secret, err = c.o.Access.LogIn(r.Context(), a.Form("name"), a.Form("password"), from(r))
	}
	c.enter(a, secret, err, login{To: a.Form("to"), Unsent: k, Shared: shared})
}

// oncePage is the target of the link that a server prints at its start. The page sends its form by itself, so that a
// HEAD, or a GET for a preview, does not use up the link.
func (c *Console) oncePage(w http.ResponseWriter, r *http.Request) {
	a := c.askOf(w, r)
	if _, err := c.whoIs(r); err == nil { // a second click
		http.Redirect(w, r, Root, http.StatusSeeOther)
		return
	}
	a.out = true
	a.render(http.StatusOK, "once", nil)
}

func (c *Console) logInOnce(w http.ResponseWriter, r *http.Request) {
	a := c.askOf(w, r)
	secret, err := c.o.Access.LogInOnce(r.Context(), a.Path("secret"), from(r))
	c.enter(a, secret, err, a.way(Root))
}

// way returns the login form for a page; Shared stays as it was in this browser.
func (a *ask) way(to string) login { return login{To: to, Shared: a.onShared()} }

// onShared reports whether the last login in this browser marked it as shared.
func (a *ask) onShared() bool {
	_, none := a.r.Cookie(sharedCookie)
	return none == nil
}

// enter continues with a new session to a page or to an unsent form, or shows why the login failed.
func (c *Console) enter(a *ask, secret string, err error, l login) {
	l.To = here(l.To)
	if err != nil {
		p := a.problemOf(err)
		a.out = true
		l.Name, l.Wrong = a.Form("name"), p.Message
		a.render(p.Status, "login", l)
		return
	}
	if l.Shared {
		http.SetCookie(a.w, a.cookie(sharedCookie, "1", 0))
	} else if a.onShared() {
		http.SetCookie(a.w, a.cookie(sharedCookie, "", -1))
	}
	a.keep(secret, l.Shared)
	c.look(a, secret)
	if l.Unsent != nil {
		a.out = true // its menu would lead away from the input
		a.render(http.StatusOK, "unsent", unsentPage{l.Unsent, l.To})
		return
	}
	http.Redirect(a.w, a.r, l.To, http.StatusSeeOther)
}

// keep sets the session cookie. A shared browser deletes it when it is closed, and gets no known cookie.
func (a *ask) keep(secret string, shared bool) {
	_, name := a.c.sessionOf(a.r)
	if shared {
		http.SetCookie(a.w, a.cookie(name, secret, 0))
		return
	}
	http.SetCookie(a.w, a.cookie(name, secret, int((30*24*time.Hour).Seconds())))
	a.known(secret)
}

// cookie returns a cookie of the console: scripts cannot read it, and forms of other sites do not send it.
func (a *ask) cookie(name, value string, maxAge int) *http.Cookie {
	k := &http.Cookie{Name: name, Value: value, Path: Root, HttpOnly: true, Secure: a.secure(), SameSite: http.SameSiteLaxMode, MaxAge: maxAge}
	switch {
	case name == knownCookie:
		k.Path, k.SameSite = Root+"login", http.SameSiteStrictMode
	case name == ticketCookie:
		k.Path = Root + "oidc/"
	case strings.HasPrefix(name, "__Host-"): // the prefix requires it
		k.Path = "/"
	}
	return k
}

// known marks a browser whose session began with a password. A failure matters only while unknown clients try that
// name.
func (a *ask) known(secret string) {
	if known, err := a.c.o.Access.TrustedBrowser(a.Ctx(), secret); err == nil && known != "" {
		http.SetCookie(a.w, a.cookie(knownCookie, known, int(access.KnownFor.Seconds())))
	}
}

func (c *Console) logOut(w http.ResponseWriter, r *http.Request) {
	a := c.askOf(w, r)
	secret, name := c.sessionOf(r)
	if err := c.o.Access.LogOut(r.Context(), secret); err != nil {
		a.fail(err) // the session is still valid, and the user has to know
		return
	}
	http.SetCookie(w, a.cookie(name, "", -1))
	w.Header().Set("Clear-Site-Data", `"cache"`)
	a.remember(core.Say("you are logged out"))
	http.Redirect(w, r, Root+"login", http.StatusSeeOther)
}
