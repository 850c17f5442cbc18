package oidc

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	coreos "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/tickring/tickring/core"
)

// Paths of the console for logins through a provider.
const (
	StartPath    = "/console/oidc/start"
	CallbackPath = "/console/oidc/callback"
)

// Options has the settings of New. The zero value of a field means its default.
type Options struct {
	Log *slog.Logger // log for details that users do not see; default: slog.Default()
	// Secret reads the client secret on first use. It is not called if the Settings have the secret.
	Secret func(context.Context) (string, error)
	// Ask is the timeout of one request to the provider; default: 5 s. Rest is the pause after a failed request;
	// default: 2 s. During the pause, further callers get the error at once.
	Ask, Rest time.Duration
	Now       func() time.Time
}

// Provider is an OpenID Connect provider. Its configuration is read at the first login. If the read fails, the next
// login tries to read the configuration again. A server therefore also starts while the provider is down.
type Provider struct {
	s      Settings
	o      Options
	key    []byte
	client *http.Client
	turn   chan struct{} // full while a goroutine may use the two fields below
	found  *found
	again  time.Time
	busy   chan struct{} // slots of requests that redeem a code
}

// found is the provider's configuration.
type found struct {
	auth     oauth2.Config
	verifier *coreos.IDTokenVerifier
}

// maxBusy is the number of concurrent requests to the provider that unknown clients can cause.
const maxBusy = 10

// maxAnswer is the largest answer of a provider, in bytes.
const maxAnswer = 1 << 20

// New returns a Provider with the settings. Tickets are encrypted with a key that is derived from the admin token.
func New(s Settings, adminToken string, o Options) (*Provider, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Ask, o.Rest = cmp.Or(o.Ask, 5*time.Second), cmp.Or(o.Rest, 2*time.Second)
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 2
	return &Provider{s: s, o: o, key: newKey(adminToken), turn: make(chan struct{}, 1), busy: make(chan struct{}, maxBusy),
		client: &http.Client{Transport: bounded{t}, Timeout: o.Ask,
			// A secret goes where it is meant to go, and not on from there.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

// bounded reads no more of an answer than maxAnswer.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, maxAnswer), res.Body}
	}
	return res, err
}

func (p *Provider) now() time.Time { return p.o.Now() }

// Name returns the provider's display name.
func (p *Provider) Name() string { return p.s.Name }

// Link returns the URL at which a login starts. The URL uses the console's configured host, because the provider sends
// the browser back to this host. The user may have reached the console under another host name.
func (p *Provider) Link(to string) string {
	return p.s.URL + StartPath + "?" + url.Values{"to": {to}}.Encode()
}

// Person is the user who logged in, as described by the provider.
type Person struct {
	Issuer, Subject string
	Claims          map[string]any
}

// Start returns the URL at the provider that logs a user in. It also returns the ticket, which the browser keeps until
// it returns from the provider.
func (p *Provider) Start(ctx context.Context, to string) (where, kept string, err error) {
	f, err := p.discover(ctx)
	if err != nil {
		return "", "", err
	}
	if len(to) > maxTo {
		to = ""
	}
	t := ticket{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), To: to, End: p.now().Add(TicketFor).Unix()}
	return f.auth.AuthCodeURL(t.State, coreos.Nonce(t.Nonce), oauth2.S256ChallengeOption(t.Verifier)), p.seal(t), nil
}

// Finish reads the parameters with which a browser returns from the provider. It returns the user and the page that
// the user requested. Finish exchanges the code at the provider only if the function `try` allows the exchange.
func (p *Provider) Finish(ctx context.Context, kept string, q url.Values, try func() error) (who Person, to string, err error) {
	t, ok := p.open(kept)
	if !ok || !same(q.Get("state"), t.State) {
		return Person{}, t.To, core.Errorf(core.CodeUnauthorized, "this login started in another browser or too long ago: "+
			"start the login again")
	}
	if said := q.Get("error"); said != "" {
		p.o.Log.Warn("login rejected by the provider", "error", core.Truncate(said), "description",
			core.Truncate(q.Get("error_description")))
		return Person{}, t.To, core.Errorf(core.CodeForbidden, "%s rejected the login", p.s.Name)
	}
	f, err := p.discover(ctx)
	if err == nil {
		err = try()
	}
	if err != nil {
		return Person{}, t.To, err
	}
	if who, err = p.redeem(ctx, f, t, q.Get("code")); err == nil {
		return who, t.To, nil
	}
	p.o.Log.Warn("login with the provider failed", "err", err)
	refused, answered := errors.AsType[*oauth2.RetrieveError](err)
	if _, silent := errors.AsType[*url.Error](err); silent || ctx.Err() != nil || answered && refused.Response.StatusCode >= 500 {
		return Person{}, t.To, p.away()
	}
	return Person{}, t.To, core.Errorf(core.CodeUnauthorized, "the answer of the login provider %s could not be verified; the "+
		"server's log has the reason",
		p.s.Name)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// away is the error of a provider that does not answer.
func (p *Provider) away() error {
	return core.Errorf(core.CodeUnavailable, "%s returned an unexpected answer: try again, or log in with a password", p.s.Name)
}

// redeem returns the user of a code, as the provider reports it.
func (p *Provider) redeem(ctx context.Context, f *found, t ticket, code string) (Person, error) {
	ctx, cancel := context.WithTimeout(coreos.ClientContext(ctx, p.client), 3*p.o.Ask) // for the tokens, and keys twice
	defer cancel()
	select {
	case p.busy <- struct{}{}:
		defer func() { <-p.busy }()
	case <-ctx.Done():
		return Person{}, ctx.Err()
	}
	tokens, err := f.auth.Exchange(ctx, code, oauth2.VerifierOption(t.Verifier))
	if err != nil {
		return Person{}, err
	}
	raw, _ := tokens.Extra("id_token").(string)
	id, err := f.verifier.Verify(ctx, raw)
	if err != nil {
		return Person{}, err
	}
	if !same(id.Nonce, t.Nonce) {
		return Person{}, errors.New("the token belongs to another login: its nonce differs from the nonce of this login")
	}
	who := Person{Issuer: id.Issuer, Subject: id.Subject}
	if err := id.Claims(&who.Claims); err != nil {
		return Person{}, err
	}
	if azp, is := who.Claims["azp"]; is && azp != p.s.ClientID {
		return Person{}, fmt.Errorf("the token was issued for another client: azp is %q", azp)
	}
	return who, nil
}

// discover reads the provider's configuration, until a read succeeds.
func (p *Provider) discover(ctx context.Context) (*found, error) {
	ctx, cancel := context.WithTimeout(coreos.ClientContext(ctx, p.client), p.o.Ask)
	defer cancel()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, p.away()
	}
	if p.found != nil {
		return p.found, nil
	}
	if p.now().Before(p.again) {
		return nil, p.away()
	}
	f, err := p.ask(ctx)
	if err != nil {
		p.again = p.now().Add(p.o.Rest)
		p.o.Log.Warn("discovery of the login provider failed", "issuer", p.s.Issuer, "err", err)
		return nil, p.away()
	}
	p.found = f
	return f, nil
}

func (p *Provider) ask(ctx context.Context) (*found, error) {
	is, err := coreos.NewProvider(ctx, p.s.Issuer)
	if err != nil {
		return nil, err
	}
	secret := p.s.Secret
	if p.o.Secret != nil {
		if secret, err = p.o.Secret(ctx); err != nil {
			return nil, err
		}
	}
	f := &found{auth: oauth2.Config{ClientID: p.s.ClientID, ClientSecret: secret, Endpoint: is.Endpoint(), Scopes: p.s.Scopes,
		RedirectURL: p.s.URL + CallbackPath}, verifier: is.Verifier(&coreos.Config{ClientID: p.s.ClientID, Now: p.now})}
	if secret == "" {
		f.auth.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	if !private(f.auth.Endpoint.TokenURL) {
		return nil, errors.New("its token URL is not encrypted: the client secret and the code would be sent in plain text")
	}
	return f, nil
}
