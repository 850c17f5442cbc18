package send

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/safedial"
)

const (
	maxTokens   = 1000             // that are kept
	tokenSpare  = 30 * time.Second // before its end a token is not used any more, or a tenth of its life
	tokenKept   = 5 * time.Minute  // one that has no end
	tokenFailed = 2 * time.Second  // how long a failure applies to all callers
)

// tokens gets tokens for client credentials, one request at a time for each, and keeps them.
type tokens struct {
	client  *http.Client
	timeout time.Duration

	mu sync.Mutex
	of map[tokenFor]*token
}

// tokenFor is the key of a token. It includes the app, because apps can reach different addresses.
type tokenFor struct {
	app string
	core.OAuth
}

type token struct {
	config clientcredentials.Config
	turn   chan struct{} // its holder can read and write the fields below
	text   string
	err    error
	until  time.Time
}

func newTokens(p safedial.Policy, timeout time.Duration) *tokens {
	return &tokens{timeout: timeout, of: map[tokenFor]*token{}, client: &http.Client{
		// no connection is kept: each is judged by the app that it is dialed for
		Transport: &http.Transport{DialContext: p.Dialer(timeout).DialContext, TLSHandshakeTimeout: timeout, DisableKeepAlives: true,
			MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// find returns the entry of a token. If there are too many entries, it drops all of them.
func (t *tokens) find(of tokenFor) *token {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[of] == nil {
		if len(t.of) >= maxTokens {
			clear(t.of)
		}
		one := &token{turn: make(chan struct{}, 1), config: clientcredentials.Config{ClientID: of.ClientID, ClientSecret: of.ClientSecret,
			TokenURL: of.TokenURL}}
		if of.Scope != "" {
			one.config.Scopes = strings.Fields(of.Scope)
		}
		t.of[of] = one
	}
	return t.of[of]
}

// get returns a token. Its error has no secret, and of the answer nothing but a code.
func (t *tokens) get(ctx context.Context, of tokenFor) (string, error) {
	bound, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	one := t.find(of)
	select {
	case one.turn <- struct{}{}:
		defer func() { <-one.turn }()
	case <-bound.Done():
		return "", tokenError(of, context.Cause(bound))
	}
	if now := time.Now(); now.Before(one.until) {
		return one.text, one.err
	}
	got, err := one.config.Token(context.WithValue(bound, oauth2.HTTPClient, t.client))
	now := time.Now()
	if err != nil {
		err = tokenError(of, err)
		if ctx.Err() == nil { // otherwise the token server is not to blame
			one.text, one.err, one.until = "", err, now.Add(tokenFailed)
		}
		return "", err
	}
	one.text, one.err, one.until = got.AccessToken, nil, now.Add(tokenKept)
	if !got.Expiry.IsZero() {
		one.until = got.Expiry.Add(-min(tokenSpare, got.Expiry.Sub(now)/10))
	}
	return one.text, nil
}

// refused invalidates a token that an endpoint rejected, so that the next call gets a new one.
func (t *tokens) refused(ctx context.Context, of tokenFor, text string) {
	one := t.find(of)
	select {
	case one.turn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	if one.text == text {
		one.until = time.Time{}
	}
	<-one.turn
}

func tokenError(of tokenFor, err error) error {
	if r, is := errors.AsType[*oauth2.RetrieveError](err); is {
		// the rest of the answer can contain the secret
		err = fmt.Errorf("%s %s", r.Response.Status, strings.Map(func(c rune) rune {
			if c < ' ' || c > '~' {
				return -1
			}
			return c
		}, r.ErrorCode[:min(len(r.ErrorCode), 64)]))
	} else if u, is := errors.AsType[*url.Error](err); is {
		err = u.Err
	}
	return fmt.Errorf("get a token at %s: %w", of.TokenURL, err)
}
