package console

import (
	"net/http"
	"net/url"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/oidc"
)

// ticketCookie keeps the login state while the browser is at the provider. The browser sends it when a link from another
// site opens the page, but not with a form or a frame.
const ticketCookie = "tickring_oidc"

// Provider returns the identity provider for single sign-on; nil if none is set.
func (a *ask) Provider() *oidc.Provider { return a.c.o.Provider }

func (c *Console) toProvider(w http.ResponseWriter, r *http.Request) {
	a := c.askOf(w, r)
	to := here(a.Q("to"))
	where, kept, err := c.o.Provider.Start(r.Context(), to)
	if err != nil {
		c.enter(a, "", err, a.way(to))
		return
	}
	http.SetCookie(w, a.cookie(ticketCookie, kept, int(oidc.TicketFor.Seconds())))
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, where, http.StatusSeeOther)
}

func (c *Console) fromProvider(w http.ResponseWriter, r *http.Request) {
	a := c.askOf(w, r)
	kept := ""
	if k, err := r.Cookie(ticketCookie); err == nil {
		kept = k.Value
	}
	http.SetCookie(w, a.cookie(ticketCookie, "", -1)) // valid for one login
	w.Header().Set("Cache-Control", "no-store")
	undo := func() {}
	who, to, err := c.o.Provider.Finish(r.Context(), kept, r.URL.Query(), func() (err error) {
		undo, err = c.o.Access.Try(from(r))
		return err
	})
	if err == nil || core.CodeOf(err) == core.CodeUnavailable {
		undo()
	}
	a.r = r.Clone(r.Context())
	a.r.URL = &url.URL{Path: Root + "login", RawQuery: url.Values{"to": {here(to)}}.Encode()} // shown URL: the code works once
	secret := ""
	if err == nil {
		secret, err = c.o.Access.External(r.Context(), who.Issuer, who.Subject, who.Claims, from(r))
	}
	c.enter(a, secret, err, a.way(to))
}
