package executor

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

// overNet asks over the network.
func overNet(t *testing.T, client *http.Client, url string, body []byte) wire.Reply {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, io.MultiReader(bytes.NewReader(body))) // of unknown length
	check.OK(t, err)
	req.Header.Set(wire.HeaderToken, "secret")
	res, err := client.Do(req)
	check.OK(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	check.OK(t, err)
	reply, err := wire.DecodeReply(b)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("HTTP %d %q: %v", res.StatusCode, b, err)
	}
	return reply
}

// TestServe: the whole life on its own port, with and without TLS. The executor registers its address, accepts runs, and
// while it stops answers so that runs go to other executors.
func TestServe(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			w := newWaiting()
			mux := muxOf("w", w.handle)
			f := newFake()
			client := &http.Client{Transport: &http.Transport{}}
			var config *tls.Config
			if scheme == "https" {
				cert := httptest.NewTLSServer(http.NotFoundHandler())
				cert.Close()
				roots := x509.NewCertPool()
				roots.AddCert(cert.Certificate())
				client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
				config = &tls.Config{Certificates: cert.TLS.Certificates}
			}
			defer client.CloseIdleConnections()
			e := prepare(t, mux, f, func(o *Options) {
				o.Address, o.Listen, o.Token, o.TLS, o.StopGrace = "", "127.0.0.1:0", "secret", config, time.Hour
			})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- e.ListenAndServe(ctx) }()
			f.until(t, func() bool { return len(f.regs) > 0 })
			address := f.regs[0].Address
			if !strings.HasPrefix(address, scheme+"://127.0.0.1:") {
				t.Fatalf("registered %s", address)
			}
			run := order(1, 1, "w")
			if r := overNet(t, client, address+"/beat", nil); !r.OK() {
				t.Errorf("beat: %q", r.Msg)
			}
			if r := overNet(t, client, address+"/run", wire.AppendRun(nil, &run)); !r.OK() {
				t.Fatalf("run: %q", r.Msg)
			}
			<-w.began
			refused(t, overNet(t, client, address+"/run", make([]byte, wire.MaxBody+1)), 500, "The body is larger") // of unknown length
			cancel()
			f.until(t, func() bool { return f.calls[len(f.calls)-1] == "one"+wire.PathRegistryRemove })
			run.LogID = 2
			if r := overNet(t, client, address+"/run", wire.AppendRun(nil, &run)); r.Verdict() != wire.VerdictQueueFull {
				t.Errorf("a run while it stops: %d %q", r.Code, r.Msg)
			}
			w.word <- nil
			check.NoError(t, <-ended)
			f.want(t, 1, 200, "")
			if c, err := net.Dial("tcp", strings.TrimPrefix(address, scheme+"://")); err == nil {
				c.Close()
				t.Error("it listens still")
			}
		})
	}
}

func TestListenRefused(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	defer ln.Close()
	e := prepare(t, okMux(), newFake(), func(o *Options) { o.Listen = ln.Addr().String() })
	if err := e.ListenAndServe(t.Context()); err == nil || !strings.Contains(err.Error(), "listen") {
		t.Errorf("a port that is taken: %v", err)
	}
}

// TestListenAt: every client that reaches an executor without a token can start runs. So it listens only on this machine
// unless configured, and returns an error if its server could not reach it there.
func TestListenAt(t *testing.T) {
	here := "http://127.0.0.1:7700"
	for _, c := range []struct {
		o    Options
		want string // empty: rejected
	}{
		{Options{Servers: []string{here}}, "127.0.0.1:9999"},
		{Options{Servers: []string{"http://localhost:7700/xxl-job-admin", "http://[::1]"}}, "127.0.0.1:9999"},
		{Options{}, "127.0.0.1:9999"},
		{Options{Servers: []string{here}, Token: "secret"}, ":9999"},
		{Options{Servers: []string{"http://192.0.2.77:7700"}, Token: "secret"}, ":9999"},
		{Options{Servers: []string{here}, Listen: ":9999"}, ":9999"},
		{Options{Servers: []string{"http://192.0.2.77:7700"}}, ""},
		{Options{Servers: []string{here, "http://192.0.2.77:7700"}}, ""},
		{Options{Servers: []string{"http://nowhere.invalid:7700"}}, ""},
		{Options{Servers: []string{"http://192.0.2.77:7700"}, Listen: "0.0.0.0:1234"}, "0.0.0.0:1234"},
		{Options{Servers: []string{"http://192.0.2.77:7700"}, Address: "http://tunnel.example"}, "127.0.0.1:9999"},
	} {
		e := prepare(t, okMux(), newFake(), func(o *Options) {
			o.Servers, o.Token, o.Listen, o.Address = c.o.Servers, c.o.Token, c.o.Listen, c.o.Address
		})
		got, err := e.listenAt()
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: %q, %v; want %q", c.o, got, err, c.want)
		}
		if err != nil {
			if err := e.ListenAndServe(t.Context()); err == nil || !strings.Contains(err.Error(), "--app-token") {
				t.Errorf("the error names a fix: %v", err)
			}
		}
	}
}

// TestPageStartsNothing: a web page in a browser can reach local listeners, but cannot start runs.
func TestPageStartsNothing(t *testing.T) {
	e := start(t, okMux(), newFake(), nil)
	run := order(1, 1, "ok")
	for _, header := range [][2]string{{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}} {
		r := post(e, "/run", wire.AppendRun(nil, &run), header[0], header[1])
		check.Contains(t, r.Msg, "web pages", "%v", header)
	}
}

func TestFindAddress(t *testing.T) {
	for _, c := range []struct {
		listen, want string
		tls          bool
	}{
		{"127.0.0.1:9999", "http://127.0.0.1:9999", false},
		{"10.1.2.3:443", "https://10.1.2.3", true},
		{"[::1]:80", "http://[::1]", false},
		{"[::1]:8080", "http://[::1]:8080", false},
		{"0.0.0.0:9999", "http://127.0.0.1:9999", false}, // the way to the server
		{"[::]:9999", "http://127.0.0.1:9999", false},
	} {
		e := prepare(t, okMux(), newFake(), func(o *Options) {
			o.Servers = []string{"http://127.0.0.1:8080"}
			if c.tls {
				o.TLS = &tls.Config{}
			}
		})
		addr, err := net.ResolveTCPAddr("tcp", c.listen)
		check.OK(t, err)
		check.Equal(t, e.findAddress(addr), c.want, "%s", c.listen)
	}
}

// TestSilentServer: a server that accepts connections and never answers delays no other server.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.answer = oneGives(silence)
		e := start(t, okMux(), f, twoServers)
		pass(6 * time.Second)
		f.locked(func() { check.Equal(t, len(f.regs), 1, "registrations") })
		began := time.Now()
		mustSend(t, e, order(1, 1, "ok"))
		f.want(t, 1, 200, "")
		if d := time.Since(began); d < 5*time.Second || d > 5*time.Second+gather {
			t.Errorf("the result took %v", d)
		}
		synctest.Wait()
	})
}

// TestGarbageServers: a server with an invalid answer takes no result: the next server gets it.
func TestGarbageServers(t *testing.T) {
	for name, garbage := range map[string]string{
		"html": "<html>", "empty object": "{}", "an array": "[1]", "null": "null", "deep": strings.Repeat("[", 60_000),
		"wrong types": `{"code":"yes"}`,
		"long":        `{"code":200,"msg":"` + strings.Repeat("x", 1<<20), "zero": `{"code":0}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.answer = oneGives(garbage)
				e := start(t, okMux(), f, twoServers)
				mustSend(t, e, order(1, 1, "ok"))
				f.want(t, 1, 200, "")
				synctest.Wait()
				if e.Unreported() != 0 || len(f.regs) != 1 {
					t.Errorf("%d unreported, %d registrations", e.Unreported(), len(f.regs))
				}
			})
		})
	}
}
