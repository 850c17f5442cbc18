package console

import (
	"net"
	"net/http"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
)

// sessionCookie is that of who is logged in.
const sessionCookie = "tickring_session"

// whoIs is who sent a request, by the session of its cookie.
func (c *Console) whoIs(r *http.Request) (access.Who, error) {
	secret := ""
	if k, err := r.Cookie(sessionCookie); err == nil {
		secret = k.Value
	}
	return c.o.Access.Session(r.Context(), secret)
}

// from is where a request comes from.
func from(r *http.Request) access.From {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return access.From{Address: host, Agent: r.UserAgent()}
}

// login is what the page shows.
type login struct {
	To     string // the page to go on to
	Name   string // as it was typed
	Wrong  string
	Unsent string // a form that was sent when nobody was logged in any more
}

func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) {
	a := c.askOf(w, r)
	a.out = true
	a.render(http.StatusOK, "login", login{To: here(a.Q("to"))})
}

// askLogin answers with the way in.
func (c *Console) askLogin(a *ask) {
	a.out = true
	p := login{To: Root}
	if a.r.Method == http.MethodGet {
		p.To = here(a.r.URL.RequestURI())
	} else {
		p.Unsent = keepUnsent(a.r)
	}
	a.render(http.StatusUnauthorized, "login", p)
}

func (c *Console) logIn(w http.ResponseWriter, r *http.Request) {
	a := c.askOf(w, r)
	if err := r.ParseForm(); err != nil {
		a.fail(badForm(err))
		return
	}
	var secret string
	var err error
	if token := a.Form("token"); token != "" {
		secret, err = c.o.Access.LogInByToken(r.Context(), token, from(r))
	} else {
		secret, err = c.o.Access.LogIn(r.Context(), a.Form("name"), a.Form("password"), from(r))
	}
	c.enter(a, secret, err, a.Form("to"))
}

// logInOnce takes the link that a server prints when it starts.
func (c *Console) logInOnce(w http.ResponseWriter, r *http.Request) {
	a := c.askOf(w, r)
	if _, err := c.whoIs(r); err == nil { // a second click
		http.Redirect(w, r, Root, http.StatusSeeOther)
		return
	}
	secret, err := c.o.Access.LogInOnce(r.Context(), a.Path("secret"), from(r))
	c.enter(a, secret, err, Root)
}

// enter goes on to a page with a session, or says why there is none.
func (c *Console) enter(a *ask, secret string, err error, to string) {
	if err != nil {
		p := a.problemOf(err)
		a.out = true
		a.render(p.Status, "login", login{To: here(to), Name: a.Form("name"), Wrong: p.Message, Unsent: a.Form("unsent")})
		return
	}
	http.SetCookie(a.w, a.session(secret, int((30*24*time.Hour).Seconds())))
	if u, ok := unsentOf(a.Form("unsent")); ok {
		a.out = true // on this page
		a.render(http.StatusOK, "unsent", u)
		return
	}
	http.Redirect(a.w, a.r, here(to), http.StatusSeeOther)
}

// session is the cookie of one: no script reads it, and no other site has it sent with a form.
func (a *ask) session(secret string, maxAge int) *http.Cookie {
	return &http.Cookie{Name: sessionCookie, Value: secret, Path: Root, HttpOnly: true, Secure: a.secure(), SameSite: http.SameSiteLaxMode,
		MaxAge: maxAge}
}

func (c *Console) logOut(w http.ResponseWriter, r *http.Request) {
	a := c.askOf(w, r)
	if k, err := r.Cookie(sessionCookie); err == nil {
		if err := c.o.Access.LogOut(r.Context(), k.Value); err != nil {
			a.fail(err) // it is still good: who wants to be out has to know
			return
		}
	}
	http.SetCookie(w, a.session("", -1))
	w.Header().Set("Clear-Site-Data", `"cache"`)
	a.remember(core.Say("you are logged out"))
	http.Redirect(w, r, Root+"login", http.StatusSeeOther)
}
