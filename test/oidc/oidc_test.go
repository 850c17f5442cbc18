// Package oidc_test logs people in to the console of the real binary by a provider that we did not write.
package oidc_test

import (
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oauth2-proxy/mockoidc"

	"github.com/tickring/tickring/internal/oidc"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/freeport"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/test/harness"
)

var bin string

func TestMain(m *testing.M) { harness.Main(m, &bin) }

// place is a server and a provider that it knows.
type place struct {
	t *testing.T
	s *harness.Server
	m *mockoidc.MockOIDC
}

// newPlace starts both; with away the provider is not there.
func newPlace(t *testing.T, away bool) *place {
	t.Helper()
	m, err := mockoidc.NewServer(nil)
	check.OK(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:"+freeport.Free(t)) // its port stays free while it is away
	check.OK(t, err)
	p := &place{t: t, m: m}
	if away {
		ln.Close()
	} else {
		check.OK(t, m.Start(ln, nil))
		t.Cleanup(func() { m.Shutdown() })
	}
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	check.OK(t, os.WriteFile(secret, []byte(m.ClientSecret+"\n"), 0o600))
	p.s = harness.Start(t, bin, filepath.Join(dir, "data"), "--oidc-issuer", "http://"+ln.Addr().String()+mockoidc.IssuerBase,
		"--oidc-client-id="+m.ClientID, // it is random, and can begin with a hyphen
		"--oidc-client-secret-file", secret, "--oidc-name", "Mock", "--oidc-scope", "profile", "--oidc-scope", "groups",
		"--oidc-role-claim", "groups", "--oidc-role", "devs=shop:editor", "--oidc-role", "ops=admin")
	return p
}

// browser returns a client that keeps cookies and follows redirects until stop returns true.
func browser() (*http.Client, *func(*http.Request) bool) {
	jar, _ := cookiejar.New(nil)
	stop := func(*http.Request) bool { return false }
	return &http.Client{Jar: jar, Timeout: time.Minute, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if stop(r) || len(via) > 9 {
			return http.ErrUseLastResponse
		}
		return nil
	}}, &stop
}

// get requests a page and returns its status, final address and text.
func (p *place) get(b *http.Client, at string) (int, string, string) {
	p.t.Helper()
	r, err := b.Get(at)
	check.OK(p.t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	check.OK(p.t, err)
	return r.StatusCode, r.Request.URL.RequestURI(), html.UnescapeString(string(text))
}

// link returns the provider's link on the login page that is shown instead of page.
func (p *place) link(b *http.Client, page string) string {
	p.t.Helper()
	status, _, text := p.get(b, p.s.URL+page)
	_, after, found := strings.Cut(text, `href="`+p.s.URL+oidc.StartPath)
	rest, _, _ := strings.Cut(after, `"`)
	if status != http.StatusUnauthorized || !found || !strings.Contains(text, "Mock</a>") {
		p.t.Fatalf("%d %s", status, text)
	}
	return p.s.URL + oidc.StartPath + rest
}

func person(name string, groups ...string) *mockoidc.MockUser {
	return &mockoidc.MockUser{Subject: "sub-" + name, PreferredUsername: name, Groups: groups}
}

var alert = regexp.MustCompile(`role="alert">([^<]*)<`)

// rejected logs in again, expects a status and no session, and returns the text of the alert.
func (p *place) rejected(b *http.Client, at string, status int) string {
	p.t.Helper()
	got, where, text := p.get(b, at)
	shown := alert.FindStringSubmatch(text)
	if got != status || shown == nil {
		p.t.Fatalf("%s: %d, want %d and an alert: %s", where, got, status, text)
	}
	if got, _, _ := p.get(b, p.s.URL+"/console/jobs"); got != http.StatusUnauthorized {
		p.t.Errorf("%s: there is a session", where)
	}
	return shown[1]
}

// TestLogIn: by the link of the page that was asked for, on to that page, with the role that the claims give; and out.
func TestLogIn(t *testing.T) {
	p, texts := newPlace(t, false), golden.New(t)
	p.m.QueueUser(person("Lina", "devs", "others"))
	b, _ := browser()
	if status, at, text := p.get(b, p.link(b, "/console/jobs?state=paused")); status != http.StatusOK || at != "/console/jobs?state=paused" ||
		!strings.Contains(text, ">lina</a>") {
		t.Fatalf("%d at %s: %s", status, at, text)
	}
	if out := p.s.OK(t, "", "users"); !strings.Contains(out, "lina") || !strings.Contains(out, "shop:editor") {
		t.Errorf("%s", out)
	}
	r, err := b.Post(p.s.URL+"/console/logout", "application/x-www-form-urlencoded", nil)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r, err)
	}
	r.Body.Close()
	if status, _, _ := p.get(b, p.s.URL+"/console/jobs"); status != http.StatusUnauthorized {
		t.Errorf("logged out: %d", status)
	}
	// A user whom an admin disables stays out, whatever the provider answers.
	p.s.OK(t, "", "users", "set", "lina", "--disable")
	p.m.QueueUser(person("Lina", "ops"))
	texts.Equal(t, "disabled user", p.rejected(b, p.link(b, "/console/jobs"), http.StatusForbidden))
	// Another account of the provider with the same name is another user.
	p.m.QueueUser(&mockoidc.MockUser{Subject: "other", PreferredUsername: "lina", Groups: []string{"ops"}})
	texts.Equal(t, "another account", p.rejected(b, p.link(b, "/console/jobs"), http.StatusForbidden))
	p.m.QueueUser(person("max", "others"))
	texts.Equal(t, "no role", p.rejected(b, p.link(b, "/console/jobs"), http.StatusForbidden))
}

// TestSharedMachine: if an earlier user marked the browser as shared, the session of a provider login ends with the browser.
func TestSharedMachine(t *testing.T) {
	p := newPlace(t, false)
	for _, shared := range []bool{false, true} {
		b, stop := browser()
		if at, _ := url.Parse(p.s.URL + "/console/"); shared {
			b.Jar.SetCookies(at, []*http.Cookie{{Name: "tickring_shared", Value: "1", Path: "/console/"}})
		}
		p.m.QueueUser(person("Lina", "devs"))
		start := p.link(b, "/console/jobs")
		*stop = func(r *http.Request) bool { return r.URL.Path == "/console/jobs" }
		r, err := b.Get(start)
		check.OK(t, err)
		r.Body.Close()
		ages := map[string]int{}
		for _, k := range r.Cookies() {
			ages[k.Name] = k.MaxAge
		}
		if age, is := ages["tickring_session"]; !is || (age == 0) != shared {
			t.Errorf("shared %t: %v", shared, ages)
		}
	}
}

// TestWhatIsNotOurs: another state, a missing cookie, another nonce, a code used twice: no session, and words.
func TestWhatIsNotOurs(t *testing.T) {
	p, texts := newPlace(t, false), golden.New(t)
	callback := func(b *http.Client, stop *func(*http.Request) bool) (back *url.URL) {
		t.Helper()
		p.m.QueueUser(person("lina", "devs"))
		*stop = func(r *http.Request) bool {
			if r.URL.Path == oidc.CallbackPath {
				back = r.URL
			}
			return back != nil
		}
		p.get(b, p.link(b, "/console/jobs"))
		*stop = func(*http.Request) bool { return false }
		if back == nil {
			t.Fatal("the provider did not redirect the user")
		}
		return back
	}
	with := func(u *url.URL, name, value string) string {
		q := u.Query()
		q.Set(name, value)
		return u.Scheme + "://" + u.Host + u.Path + "?" + q.Encode()
	}
	b, stop := browser()
	texts.Equal(t, "another browser, or too late", p.rejected(b, with(callback(b, stop), "state", "other"), http.StatusUnauthorized))
	texts.Equal(t, "not verified", p.rejected(b, with(callback(b, stop), "code", "other"), http.StatusUnauthorized))

	back := callback(b, stop)
	stranger, _ := browser() // got the link of another user
	texts.Equal(t, "another browser, or too late", p.rejected(stranger, back.String(), http.StatusUnauthorized))
	p.m.SessionStore.Store[back.Query().Get("code")].OIDCNonce = "other"
	texts.Equal(t, "not verified", p.rejected(b, back.String(), http.StatusUnauthorized))
}

// TestProviderAway: the server starts without its provider, reports that to users of it, and other logins work.
func TestProviderAway(t *testing.T) {
	p := newPlace(t, true)
	b, _ := browser()
	golden.New(t).Equal(t, "provider away", p.rejected(b, p.link(b, "/console/jobs"), http.StatusServiceUnavailable))
	r, err := b.PostForm(p.s.URL+"/console/login", url.Values{"token": {harness.Token}, "to": {"/console/jobs"}})
	check.OK(t, err)
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK || r.Request.URL.Path != "/console/jobs" {
		t.Errorf("by the token: %d at %s", r.StatusCode, r.Request.URL)
	}
}

// TestBadSettings: invalid settings are reported at the start.
func TestBadSettings(t *testing.T) {
	for want, args := range map[string][]string{
		"oidc-url":       {"--listen", "0.0.0.0:0", "--oidc-issuer", "https://id.example.com", "--oidc-client-id", "c"},
		"oidc-issuer":    {"--oidc-issuer", "http://id.example.com", "--oidc-client-id", "c"},
		"oidc-client-id": {"--oidc-issuer", "https://id.example.com"},
		"devs=king": {"--oidc-issuer", "https://id.example.com", "--oidc-client-id", "c", "--oidc-role-claim", "groups",
			"--oidc-role", "devs=king"},
	} {
		cmd := exec.CommandContext(t.Context(), bin, append([]string{"serve", "--data", t.TempDir()}, args...)...)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v %s", want, err, out)
		}
	}
}
