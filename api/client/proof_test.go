package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// TestAConnectionThatEnds: if the server closed the connection before a request, the client repeats the request only if
// that is safe.
func TestAConnectionThatEnds(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == pathProof {
			at := HostAt(r.Context().Value(http.LocalAddrContextKey).(net.Addr))
			json.NewEncoder(w).Encode(Proofs{Proofs: []string{Proof("sesame", at, r.URL.Query().Get("nonce"))}})
			return
		}
		if len(r.Header["X-Idempotency-Key"]) > 0 {
			t.Error("an unused header is sent")
		}
		if asked.Add(1) == 1 {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
			return
		}
		fmt.Fprint(w, "{}")
	}))
	defer s.Close()
	for name, ask := range map[string]func(c *Client) error{
		"apply":   func(c *Client) error { _, err := c.Apply(t.Context(), ApplyRequest{}); return err },
		"put":     func(c *Client) error { _, err := c.PutApp(t.Context(), "a", AppSpec{}); return err },
		"trigger": func(c *Client) error { _, err := c.TriggerJob(t.Context(), "a", "b", TriggerRequest{}); return err },
	} {
		asked.Store(0)
		c, err := New(s.URL, "sesame", Config{HTTP: &http.Client{Transport: &http.Transport{}}})
		check.OK(t, err)
		want := int32(2)
		if name == "trigger" {
			want = 1
		}
		if err := ask(c); asked.Load() != want || (err == nil) != (want == 2) {
			t.Errorf("%s: asked %d times: %v", name, asked.Load(), err)
		}
	}
}

// TestTokenIsForOneServer: over http the token is sent only to a server that proves that it knows it, and never on to
// another.
func TestTokenIsForOneServer(t *testing.T) {
	texts := golden.New(t)
	proof := func(token string) func(w http.ResponseWriter, r *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			nonce := r.URL.Query().Get("nonce")
			at := HostAt(r.Context().Value(http.LocalAddrContextKey).(net.Addr))
			json.NewEncoder(w).Encode(Proofs{Proofs: []string{Proof("another of its tokens", at, nonce), Proof(token, at, nonce)}})
		}
	}
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer other.Close()
	known := httptest.NewServer(http.HandlerFunc(proof("sesame")))
	defer known.Close()
	for _, c := range []struct {
		what  string
		tls   bool
		proof http.HandlerFunc
		rest  http.HandlerFunc
		sent  bool
		is    error
		fails bool // with another error than is
	}{
		{what: "the server", proof: proof("sesame"), sent: true},
		{what: "a certificate", tls: true, sent: true},
		{what: "a stranger", proof: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"proofs":[]}`) }, is: ErrUnproven},
		{what: "one with another token", proof: proof("sesam"), is: ErrUnproven},
		{what: "one with the same answer each time", proof: func(w http.ResponseWriter, r *http.Request) {
			json.NewEncoder(w).Encode(Proofs{Proofs: []string{Proof("sesame", r.Host, "once")}})
		}, is: ErrUnproven},
		{what: "one that hands it on", proof: func(w http.ResponseWriter, r *http.Request) {
			on, _ := http.NewRequestWithContext(r.Context(), "GET", known.URL+r.RequestURI, nil)
			on.Host = r.Host
			resp, err := http.DefaultClient.Do(on)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			io.Copy(w, resp.Body)
		}, is: ErrUnproven},
		{what: "a header with its name", proof: func(w http.ResponseWriter, r *http.Request) {
			json.NewEncoder(w).Encode(Proofs{Proofs: []string{Proof("sesame", r.Host, r.URL.Query().Get("nonce"))}})
		}, sent: true},
		{what: "another program", proof: http.NotFound, is: ErrUnproven},
		{what: "an older server", proof: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"code":"unauthorized","message":"the token is missing"}}`)
		}, is: ErrUnproven},
		{what: "one that stands by", proof: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"error":{"code":"unavailable","message":"standing by"}}`)
		}, fails: true},
		{what: "a redirect of the proof",
			proof: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) },
			is:    ErrUnproven},
		{what: "a redirect", proof: proof("sesame"),
			rest: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
			},
			sent: true, fails: true},
	} {
		t.Run(c.what, func(t *testing.T) {
			sent, proofs := 0, 0
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == pathProof {
					proofs++
					check.Equal(t, r.Header.Get("Authorization"), "", "the token came before the proof")
					c.proof(w, r)
					return
				}
				if sent++; c.rest != nil {
					c.rest(w, r)
					return
				}
				fmt.Fprint(w, "{}")
			})
			var s *httptest.Server
			if c.tls {
				s = httptest.NewTLSServer(h)
			} else {
				s = httptest.NewServer(h)
			}
			defer s.Close()
			cl, err := New(s.URL, "sesame", Config{HTTP: s.Client()})
			check.OK(t, err)
			_, err = cl.PauseAll(t.Context(), PauseRequest{})
			if errors.Is(err, ErrUnproven) != (c.is != nil) || (err == nil) != (c.is == nil && !c.fails) {
				t.Errorf("%v; want %v", err, c.is)
			}
			if err != nil {
				texts.Equal(t, c.what, err.Error(), s.Listener.Addr().String(), "HOST", other.Listener.Addr().String(), "OTHER")
			}
			if (sent == 1) != c.sent {
				t.Errorf("it was asked %d times", sent)
			}
			if err == nil {
				if _, err := cl.GetFacts(t.Context()); err != nil {
					t.Error(err)
				}
				if proofs > 1 {
					t.Errorf("%d proofs for two calls", proofs)
				}
			}
		})
	}
}

// TestNobodyIsLocalhost: localhost is another address for each client, so only the address of the connection counts.
func TestNobodyIsLocalhost(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		check.Equal(t, r.Header.Get("Authorization"), "", "the token was sent")
		json.NewEncoder(w).Encode(Proofs{Proofs: []string{Proof("sesame", strings.ToLower(r.Host), r.URL.Query().Get("nonce"))}})
	}))
	defer s.Close()
	c, err := New(strings.Replace(s.URL, "127.0.0.1", "LOCALHOST", 1), "sesame", Config{HTTP: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, s.Listener.Addr().String())
		}}}})
	check.OK(t, err)
	if _, err := c.GetFacts(t.Context()); !errors.Is(err, ErrUnproven) {
		t.Errorf("%v", err)
	}
}
