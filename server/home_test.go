package server

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/oidc"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// The ways in which an executor endpoint answers.
const (
	letIn = iota
	asksToken
	refusesPage
)

// doors lists the executor endpoints with the status and the start of the body of each answer. A client that registers at the first
// receives the params of the next run.
var doors = []struct {
	path, body string
	answers    [3]string
}{
	{"/api/registry", `{"registryGroup":"EXECUTOR","registryKey":"open","registryValue":"http://127.0.0.1:1"}`,
		[3]string{`200 {"code":200`, `200 {"code":500`, `200 {"code":500`}},
	{"/xxl-job-admin/api/registry", `{"registryGroup":"EXECUTOR","registryKey":"open","registryValue":"http://127.0.0.1:1"}`,
		[3]string{`200 {"code":200`, `200 {"code":500`, `200 {"code":500`}},
	{"/api/registryRemove", `{"registryGroup":"EXECUTOR","registryKey":"open","registryValue":"http://127.0.0.1:1"}`,
		[3]string{`200 {"code":200`, `200 {"code":500`, `200 {"code":500`}},
	{"/api/callback", `[{"logId":RUN,"logDateTim":1,"handleCode":200,"handleMsg":"m"}]`,
		[3]string{`200 {"code":200`, `200 {"code":500`, `200 {"code":500`}},
	{"/v1/queue/receive", `{"app":"open","queue":"q","max":1,"waitSeconds":0,"visibilitySeconds":60}`,
		[3]string{`200 {"runs":[]`, "401 {", "403 {"}},
	{"/v1/queue/runs", `{"app":"open","queue":"q","runs":["RUN"]}`,
		[3]string{`200 {"states"`, "401 {", "403 {"}},
	{"/v1/report/RUN?key=x", `{}`, // its key is the permission
		[3]string{"401 ", "401 ", "403 "}},
}

// TestLoopbackIsNoPass: a server on loopback admits executors of an app without a token, and rejects web pages in a browser,
// foreign names that resolve to loopback, and proxies.
func TestLoopbackIsNoPass(t *testing.T) {
	texts := golden.New(t)
	t.Parallel()
	type request struct {
		name  string
		proto string // empty: 1.1
		head  string // lines; $ is the server's host and port, # its port
		want  int
	}
	for _, c := range []struct {
		name string
		o    Options
		asks []request
	}{
		{"on this machine", Options{}, []request{
			{"a program", "", "Host: $", letIn},
			{"by name", "", "Host: LocalHost:#", letIn},
			{"by another loopback address", "", "Host: 127.8.9.1:#", letIn},
			{"by the IPv6 address", "", "Host: [::1]:#", letIn},
			{"typed into a browser", "", "Host: $\r\nSec-Fetch-Site: none", letIn},

			{"a page of a site", "", "Host: $\r\nOrigin: https://evil.example\r\nSec-Fetch-Site: cross-site", refusesPage},
			{"a page in an old browser", "", "Host: $\r\nOrigin: https://evil.example", refusesPage},
			{"a page without an origin", "", "Host: $\r\nOrigin: null", refusesPage},
			{"a page with an empty one", "", "Host: $\r\nOrigin:", refusesPage},
			{"a page of another port here", "", "Host: $\r\nSec-Fetch-Site: same-site", refusesPage},
			{"a page whose name was led here", "", "Host: evil.example:#\r\nOrigin: http://evil.example:#", refusesPage},
			{"a page of this address", "", "Host: $\r\nOrigin: http://$\r\nSec-Fetch-Site: same-origin", refusesPage},

			{"a name led here", "", "Host: evil.example:#", asksToken},
			{"a name that begins right", "", "Host: localhost.evil.example:#", asksToken},
			{"a name that begins with the address", "", "Host: 127.0.0.1.evil.example:#", asksToken},
			{"an address of the network", "", "Host: 192.168.1.7:#", asksToken},
			{"all addresses", "", "Host: 0.0.0.0:#", asksToken},
			{"no name", "", "Host: ", asksToken},

			{"Forwarded", "", "Host: $\r\nForwarded: for=203.0.113.7", asksToken},
			{"X-Forwarded-For", "", "Host: $\r\nX-Forwarded-For: 203.0.113.7", asksToken},
			{"X-Forwarded-Host, empty", "", "Host: $\r\nx-forwarded-host:", asksToken},
			{"X-Forwarded-Proto", "", "Host: $\r\nX-Forwarded-Proto: https", asksToken},
			{"X-Real-IP", "", "Host: $\r\nX-Real-IP: 203.0.113.7", asksToken},
			{"CF-Connecting-IP", "", "Host: $\r\nCF-Connecting-IP: 203.0.113.7", asksToken},
			{"True-Client-IP", "", "Host: $\r\nTrue-Client-IP: 203.0.113.7", asksToken},
			{"X-Client-IP", "", "Host: $\r\nX-Client-IP: 203.0.113.7", asksToken},
			{"X-Cluster-Client-IP", "", "Host: $\r\nX-Cluster-Client-IP: 203.0.113.7", asksToken},
			{"X-Azure-ClientIP", "", "Host: $\r\nX-Azure-ClientIP: 203.0.113.7", asksToken},
			{"X-Envoy-External-Address", "", "Host: $\r\nX-Envoy-External-Address: 203.0.113.7", asksToken},
			{"Fastly-Client-IP", "", "Host: $\r\nfastly-client-ip: 203.0.113.7", asksToken},
			{"CDN-Loop", "", "Host: $\r\nCDN-Loop: cdn", asksToken},
			{"Via", "", "Host: $\r\nVia: 1.1 proxy", asksToken},
			{"a proxy without headers", "1.0", "Host: $", asksToken},
		}},
		{"with a URL elsewhere", Options{ReportURL: "https://jobs.example"}, []request{
			{"a program", "", "Host: $", asksToken},
			{"by that URL", "", "Host: jobs.example", asksToken},
		}},
		{"with a URL here", Options{ReportURL: "http://localhost:7700"}, []request{
			{"a program", "", "Host: $", letIn},
			{"a name led here", "", "Host: evil.example:#", asksToken},
		}},
		{"tokens required", Options{RequireToken: true}, []request{
			{"a program", "", "Host: $", asksToken},
		}},
		{"no tokens on purpose", Options{AllowNoToken: true, ReportURL: "https://jobs.example"}, []request{
			{"a program", "", "Host: $", letIn},
			{"a proxy", "", "Host: jobs.example\r\nX-Forwarded-For: 203.0.113.7", letIn},
			{"a page of a site", "", "Host: $\r\nOrigin: https://evil.example", refusesPage},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.RefusedWait = time.Nanosecond
			s := start(t, c.o)
			if s.AsksTokens() != (c.asks[0].want == asksToken) {
				t.Errorf("AsksTokens is %v", s.AsksTokens())
			}
			s.app(t, "open", "queue:q")
			at := s.ln.Addr().String()
			_, port, _ := net.SplitHostPort(at)
			for n, r := range c.asks {
				run := core.NumberedRun(7, uint32(n+1))
				sent := core.Run{ID: run, App: "open", State: core.Running, Cause: core.CauseManual, Owner: "me", Attempt: 1, First: run,
					Address: "http://127.0.0.1:1", SentAt: time.Now()}
				check.OK(t, s.parts.Load().store.CreateRuns(t.Context(), []core.Run{sent})[0])
				head := strings.NewReplacer("$", at, "#", port).Replace(r.head)
				for _, d := range doors {
					fill := strings.NewReplacer("RUN", run.String())
					body := fill.Replace(d.body)
					got := answer(t, at, fmt.Sprintf("POST %s HTTP/%s\r\n%s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
						fill.Replace(d.path), cmp.Or(r.proto, "1.1"), head, len(body), body))
					if !strings.HasPrefix(got, d.answers[r.want]) {
						t.Errorf("%s at %s: %s, want %s", r.name, d.path, got, d.answers[r.want])
					}
					if r.want != letIn {
						texts.Equal(t, d.path+[]string{asksToken: " asks for a token", refusesPage: " rejects a page"}[r.want], got, run.String(), "RUN")
					}
				}
				state := memory.Run(t, s.parts.Load().store, run).State
				check.Equal(t, state == core.Succeeded, r.want == letIn, "%s: its run is %s, ended", r.name, state)
			}
		})
	}
}

// TestForeignHostNamesAreRejected: a page whose host name resolves to loopback reads neither the metrics, which need no token, nor
// a page of the console, which could log in and post as the user of this machine. The server's own names are its address and
// its configured URLs, also the URL to which an identity provider redirects browsers.
func TestForeignHostNamesAreRejected(t *testing.T) {
	t.Parallel()
	texts := golden.New(t)
	for _, c := range []struct {
		o       Options
		in, out []string
	}{
		{Options{ReportURL: "https://jobs.example:8443"}, []string{"$", "localhost:#", "localhost:1", "[::1]:#", "jobs.example:8443"},
			[]string{"jobs.example", "evil.example:#", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:#", "0.0.0.0:#",
				"192.168.1.7:#", ""}},
		{Options{Provider: oidc.Settings{Issuer: "https://id.example", ClientID: "c", URL: "https://jobs.example"}},
			[]string{"$", "jobs.example"}, []string{"evil.example"}},
	} {
		c.o.RefusedWait = time.Nanosecond
		s := start(t, c.o)
		check.Equal(t, s.AsksTokens(), true, "others can come by its URL: it asks for tokens")
		at := s.ln.Addr().String()
		_, port, _ := net.SplitHostPort(at)
		for _, ask := range []string{"GET /console/login", "GET /console/", "GET /console/live", "GET /console/static/0/app.css",
			"GET /console/once/x", "POST /console/login", "POST /console/settings", "POST /console/jobs/new", "GET /metrics"} {
			for i, host := range slices.Concat(c.in, c.out) {
				host = strings.NewReplacer("$", at, "#", port).Replace(host)
				got := answer(t, at, ask+" HTTP/1.1\r\nHost: "+host+"\r\nOrigin: http://"+host+"\r\nSec-Fetch-Site: same-origin\r\n"+
					"Content-Length: 0\r\nConnection: close\r\n\r\n")
				if in := i < len(c.in); strings.HasPrefix(got, "403 ") == in {
					t.Errorf("%s by %q: %.200s", ask, host, got)
				} else if !in {
					texts.Equal(t, map[bool]string{true: "without the port", false: "another host"}[host == "jobs.example"], got,
						strconv.Quote(host), "HOST")
				}
			}
		}
	}
}

// answer sends a raw request and returns status and body.
func answer(t *testing.T, at, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", at)
	check.OK(t, err)
	defer c.Close()
	check.Call(t)(io.WriteString(c, request))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	check.OK(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	check.OK(t, err)
	return fmt.Sprint(resp.StatusCode, " ", string(b))
}

// TestConsoleNamesItsHost: pages for logged-in users name the host, so several servers can be told apart. Pages for unknown clients
// do not.
func TestConsoleNamesItsHost(t *testing.T) {
	host, err := os.Hostname()
	if err != nil || host == "" {
		t.Skip("this machine has no name")
	}
	s := start(t, Options{})
	jar, err := cookiejar.New(nil)
	check.OK(t, err)
	c := &http.Client{Jar: jar}
	page := func(res *http.Response, err error) string {
		t.Helper()
		check.OK(t, err)
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		check.OK(t, err)
		return string(b)
	}
	at := s.URL() + "/console/login"
	name := `<span class="env" title="` + host
	if strings.Contains(page(c.Get(at)), name) {
		t.Error("an unknown client gets its name")
	}
	check.Contains(t, page(c.PostForm(at, url.Values{"token": {s.token}})), name, "its name is missing")
}

// TestClientBehindTrustedProxies: the client is the last hop that is no trusted proxy, whatever it
// writes itself; from any other peer the header counts for nothing.
func TestClientBehindTrustedProxies(t *testing.T) {
	s := &Server{log: slog.New(slog.DiscardHandler), o: Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"),
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}}}
	for _, c := range []struct {
		peer, want string
		forwarded  []string
	}{
		{"127.0.0.1:5", "203.0.113.7:0", []string{"203.0.113.7"}},
		{"[::ffff:127.0.0.1]:5", "203.0.113.7:0", []string{"203.0.113.7"}},
		{"127.0.0.1:5", "203.0.113.7:0", []string{"1.1.1.1, 203.0.113.7"}},
		{"127.0.0.1:5", "203.0.113.7:0", []string{"1.1.1.1", "203.0.113.7:4711, 10.1.2.3"}},
		{"[2001:db8::1]:5", "[2a00::7]:0", []string{"[2a00::7]:99,10.0.0.1"}},
		{"127.0.0.1:5", "10.1.2.3:0", []string{"unknown, 10.1.2.3"}},
		{"127.0.0.1:5", "10.9.9.9:0", []string{"10.9.9.9, 10.1.2.3"}},
		{"127.0.0.1:5", "127.0.0.1:5", nil},
		{"127.0.0.1:5", "127.0.0.1:0", []string{""}},
		{"192.0.2.1:5", "192.0.2.1:5", []string{"203.0.113.7"}},
	} {
		got := ""
		h := http.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.RemoteAddr }))
		s.handler.Store(&h)
		r := httptest.NewRequest(http.MethodGet, "/v1/status", nil)
		r.RemoteAddr, r.Header["X-Forwarded-For"] = c.peer, c.forwarded
		if s.serve(httptest.NewRecorder(), r); got != c.want {
			t.Errorf("%s with %q: %s, want %s", c.peer, c.forwarded, got, c.want)
		}
	}
}

// TestServerNeverCallsItself: if an app's executor is the server's own address, the run fails before anything is sent. A request
// with the headers of a call does not count as one from a local program.
func TestServerNeverCallsItself(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Policy: LocalPolicy()})
	s.app(t, "web", "call:"+s.URL())
	job := manage.JobSpec{Def: core.Def{App: "web", Name: "self", Handler: "POST /api/callback"}}
	saveAll(t, s, job)
	run := s.until(t, s.trigger(t, "web/self"), core.Failed)
	check.Equal(t, run.Reason, core.ReasonNotAccepted, "the run")
	golden.New(t).Equal(t, "run", run.Message, "dial tcp "+s.ln.Addr().String()+": ", "", s.ln.Addr().String(), "HOST")
	for name, here := range map[string]bool{"X-Custom": true, "Tickring-Run": false, "Tickring-Scheduled-At": false} {
		req := httptest.NewRequest(http.MethodPost, s.URL()+"/api/callback", nil)
		req.Header.Set(name, "1")
		if s.fromHere(req) != here {
			t.Errorf("with the header %s it comes from here: %v", name, !here)
		}
	}
}

// TestListensAtKnowsOwnAddresses checks each kind of address to listen on.
func TestListensAtKnowsOwnAddresses(t *testing.T) {
	for listen, own := range map[string]map[string]bool{
		"127.0.0.1:0": {"127.0.0.1": true, "127.0.0.2": false, "::1": false, "192.0.2.1": false},
		"0.0.0.0:0":   {"127.0.0.1": true, "127.0.0.2": true, "192.0.2.1": false},
	} {
		ln, err := net.Listen("tcp", listen)
		check.OK(t, err)
		defer ln.Close()
		s := &Server{ln: ln}
		port := uint16(ln.Addr().(*net.TCPAddr).Port)
		for ip, want := range own {
			check.Equal(t, s.listensAt(netip.AddrPortFrom(netip.MustParseAddr(ip), port)), want, "a server on %s listens at %s", listen, ip)
			if s.listensAt(netip.AddrPortFrom(netip.MustParseAddr(ip), port-1)) {
				t.Errorf("a server on %s listens at another port", listen)
			}
		}
	}
}
