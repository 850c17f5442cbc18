package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// near is a sender to this machine that trusts a test server.
func near(t *testing.T, srv *httptest.Server, timeout time.Duration) *Sender {
	s := New(Options{Policy: safedial.Policy{AllowLoopback: true}, Timeout: timeout, Now: func() time.Time { return noon }})
	t.Cleanup(s.Close)
	if srv != nil && srv.Certificate() != nil {
		trust(s, srv.Certificate())
	}
	return s
}

func trust(s *Sender, cert *x509.Certificate) {
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	s.tls = &tls.Config{RootCAs: pool}
	s.http.Transport.(*http.Transport).TLSClientConfig = s.tls.Clone()
}

// sent sends a message to a server with the given answer, and returns the error.
func sent(t *testing.T, kind core.ChannelKind, answer http.HandlerFunc) *core.Undelivered {
	t.Helper()
	srv := httptest.NewTLSServer(answer)
	t.Cleanup(srv.Close)
	ch := channel(kind, core.English)
	ch.URL = srv.URL + "/services/T0/B0/secretpath?key=secretkey"
	err := near(t, srv, 10*time.Second).Send(t.Context(), ch, failed())
	if err == nil {
		return nil
	}
	u, ok := err.(*core.Undelivered)
	if !ok {
		t.Fatalf("%T: %v", err, err)
	}
	if kind != core.ChannelWebhook && (strings.Contains(u.Reason, "secretpath") || strings.Contains(u.Reason, "secretkey")) {
		t.Errorf("a secret in %q", u.Reason)
	}
	return u
}

func says(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// TestAnswers: each service's answers are read as it documents them, those with HTTP 200 by their bodies.
func TestAnswers(t *testing.T) {
	const arrived, again, never = 0, 1, 2
	texts := golden.New(t)
	for _, c := range []struct {
		kind   core.ChannelKind
		status int
		body   string
		header string // Retry-After
		want   int
		after  time.Duration
	}{
		{core.ChannelWebhook, 200, "", "", arrived, 0},
		{core.ChannelWebhook, 204, "", "", arrived, 0},
		{core.ChannelWebhook, 500, "oh no", "", again, 0},
		{core.ChannelWebhook, 503, "", "120", again, 2 * time.Minute},
		{core.ChannelWebhook, 503, "", "Wed, 25 Nov 2026 12:00:30 GMT", again, 30 * time.Second},
		{core.ChannelWebhook, 429, "", "86400", again, time.Hour},
		{core.ChannelWebhook, 429, "", "-5", again, 0},
		{core.ChannelWebhook, 408, "", "", again, 0},
		{core.ChannelWebhook, 404, "", "", never, 0},
		{core.ChannelWebhook, 302, "", "", never, 0},
		{core.ChannelSlack, 200, "ok", "", arrived, 0},
		{core.ChannelSlack, 200, "<html>login", "", never, 0},
		{core.ChannelSlack, 410, "channel_is_archived", "", never, 0},
		{core.ChannelSlack, 404, "no_service", "", never, 0},
		{core.ChannelSlack, 429, "rate_limited", "30", again, 30 * time.Second},
		{core.ChannelFeishu, 200, `{"code":0,"msg":"success","data":{}}`, "", arrived, 0},
		{core.ChannelFeishu, 200, `{"StatusCode":0,"StatusMessage":"success"}`, "", arrived, 0},
		{core.ChannelFeishu, 200, `{"code":19021,"msg":"sign match fail or timestamp is not within one hour from current time"}`, "", never, 0},
		{core.ChannelFeishu, 200, `{"code":19024,"msg":"Key Words Not Found"}`, "", never, 0},
		{core.ChannelFeishu, 200, `{"code":11232,"msg":"frequency limited"}`, "", again, time.Minute},
		{core.ChannelFeishu, 200, `{"code":7,"msg":"internal"}`, "", again, 0},
		{core.ChannelFeishu, 200, `ok`, "", never, 0},
		{core.ChannelDingTalk, 200, `{"errcode":0,"errmsg":"ok"}`, "", arrived, 0},
		{core.ChannelDingTalk, 200, `{"errcode":310000,"errmsg":"keywords not in content"}`, "", never, 0},
		{core.ChannelDingTalk, 200, `{"errcode":300005,"errmsg":"token is not exist"}`, "", never, 0},
		{core.ChannelDingTalk, 200, `{"errcode":130101,"errmsg":"send too fast"}`, "", again, 10 * time.Minute},
		{core.ChannelDingTalk, 200, `{"errcode":-1,"errmsg":"system busy"}`, "", again, 0},
		{core.ChannelDingTalk, 200, `{"ok":true}`, "", never, 0},
		{core.ChannelWeCom, 200, `{"errcode":0,"errmsg":"ok"}`, "", arrived, 0},
		{core.ChannelWeCom, 200, `{"errcode":93000,"errmsg":"invalid webhook url, secretkey"}`, "", never, 0},
		{core.ChannelWeCom, 200, `{"errcode":45009,"errmsg":"api freq out of limit"}`, "", again, time.Minute},
	} {
		var header []string
		if c.header != "" {
			header = []string{"Retry-After", c.header}
		}
		if c.status == 302 {
			header = []string{"Location", "http://169.254.169.254/"}
		}
		u := sent(t, c.kind, says(c.status, c.body, header...))
		if (u == nil) != (c.want == arrived) || u != nil && (u.Permanent != (c.want == never) || u.After != c.after) {
			t.Errorf("%s %d %s: %+v", c.kind, c.status, c.body, u)
		} else if u != nil {
			key := fmt.Sprint(c.kind, " ", c.status, " ", c.header, c.body)
			texts.Equal(t, strings.TrimSpace(key), u.Reason, strings.TrimSuffix(strings.Fields(u.Reason)[0], ":"), "HOST")
		}
	}
}

// TestRedirect: redirects are not followed.
func TestRedirect(t *testing.T) {
	followed := false
	there := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed = true }))
	defer there.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		if u := sent(t, core.ChannelWebhook, says(status, "", "Location", there.URL)); u == nil || !u.Permanent || followed {
			t.Errorf("%d: %v, followed: %t", status, u, followed)
		}
	}
}

// TestEndless: of an answer without an end a bounded part is read, and the sender does not wait for more.
func TestEndless(t *testing.T) {
	chunk := bytes.Repeat([]byte("x"), 32<<10)
	for _, status := range []int{200, 500} {
		wrote := make(chan int64, 1)
		u := sent(t, core.ChannelSlack, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(status)
			n := int64(0)
			for r.Context().Err() == nil && n < 1<<30 {
				k, err := w.Write(chunk)
				if n += int64(k); err != nil {
					break
				}
			}
			wrote <- n
		})
		if u == nil || u.Permanent != (status == 200) || len(u.Reason) > 1000 {
			t.Errorf("%d: %+v", status, u)
		}
		if n := <-wrote; n >= 1<<30 {
			t.Errorf("%d: all %d bytes were taken", status, n)
		}
	}
}

// TestHangs: a server that never answers costs the time of one message, and is tried again.
func TestHangs(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"at once": func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // else the end of the connection is not seen
			<-r.Context().Done()
		},
		"in its answer": func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		srv := httptest.NewTLSServer(answer)
		ch := channel(core.ChannelWeCom, core.English)
		ch.URL = srv.URL + "/send?key=0"
		started := time.Now()
		err := near(t, srv, 200*time.Millisecond).Send(context.Background(), ch, failed())
		if u, ok := errors.AsType[*core.Undelivered](err); !ok || u.Permanent || time.Since(started) > 5*time.Second {
			t.Errorf("%s: %v after %s", name, err, time.Since(started))
		}
		srv.CloseClientConnections()
		srv.Close()
	}
}

// TestRefusedAddresses: a name that resolves to loopback is not connected to, nor is the metadata service under any policy; such
// failures are permanent.
func TestRefusedAddresses(t *testing.T) {
	reached, texts := false, golden.New(t)
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer srv.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(srv.URL, "http://"), ":")
	for _, c := range []struct {
		policy safedial.Policy
		kind   core.ChannelKind
		host   string
	}{
		{safedial.Policy{}, core.ChannelWebhook, "localhost"},
		{safedial.Policy{}, core.ChannelWebhook, "127.0.0.1"},
		{safedial.Policy{}, core.ChannelEmail, "localhost"},
		{safedial.Policy{AllowLoopback: true, AllowPrivate: true}, core.ChannelWebhook, "169.254.169.254"},
		{safedial.Policy{AllowLoopback: true, AllowPrivate: true}, core.ChannelEmail, "169.254.169.254"},
	} {
		ch := channel(c.kind, core.English)
		ch.URL = "http://" + c.host + ":" + port + "/"
		ch.Email.SMTP.Host = c.host
		s := New(Options{Policy: c.policy})
		err := s.Send(t.Context(), ch, failed())
		s.Close()
		if u, ok := err.(*core.Undelivered); !ok || !u.Permanent || reached {
			t.Errorf("%+v: %v, reached: %t", c, err, reached)
		}
		texts.Equal(t, fmt.Sprint(c.kind, " ", c.host), fmt.Sprint(err), port, "PORT", "[::1]", "127.0.0.1", "::1", "127.0.0.1")
	}
}

// TestUnreached: an unreachable server is retried.
func TestUnreached(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	url := srv.URL
	srv.Close()
	ch := channel(core.ChannelWebhook, core.English)
	ch.URL = url
	err := near(t, nil, 10*time.Second).Send(t.Context(), ch, failed())
	if u, ok := err.(*core.Undelivered); !ok || u.Permanent || !errors.Is(u, syscall.ECONNREFUSED) {
		t.Errorf("%v", err)
	}
}

// TestTopicsNeedAWS: without credentials a topic is refused, when it is saved and when it is sent to.
func TestTopicsNeedAWS(t *testing.T) {
	s := New(Options{})
	ch := channel(core.ChannelSNS, core.English)
	if err := s.Takes(t.Context(), ch); err == nil {
		t.Error("taken")
	}
	if u, ok := s.Send(t.Context(), ch, failed()).(*core.Undelivered); !ok || !u.Permanent {
		t.Errorf("%v", u)
	}
	check.NoError(t, s.Takes(t.Context(), channel(core.ChannelEmail, core.English)))
}
