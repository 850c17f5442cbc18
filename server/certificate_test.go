package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

// writePair writes a certificate for names and its key, and answers it.
func writePair(t *testing.T, cert, key string, serial int64, ip net.IP, names ...string) *x509.Certificate {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.OK(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: names, IsCA: true, BasicConstraintsValid: true}
	if ip != nil {
		template.IPAddresses = []net.IP{ip}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	check.OK(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	check.OK(t, err)
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		check.OK(t, os.WriteFile(name, pem.EncodeToMemory(block), 0o600))
	}
	made, err := x509.ParseCertificate(der)
	check.OK(t, err)
	return made
}

// TestTLS: the server speaks TLS with the files as they are now; new ones that cannot
// be used leave the old ones in use.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	roots := x509.NewCertPool()
	local := net.IPv4(127, 0, 0, 1)
	roots.AddCert(writePair(t, cert, key, 1, local))
	s := start(t, Options{TLSCert: cert, TLSKey: key, Log: slog.New(slog.DiscardHandler)})
	if !strings.HasPrefix(s.URL(), "https://127.0.0.1:") || s.ReportURL() != s.URL() {
		t.Errorf("%s, reports to %s", s.URL(), s.ReportURL())
	}
	serial := func() int64 {
		t.Helper()
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
		defer tr.CloseIdleConnections()
		resp, err := (&http.Client{Transport: tr}).Get(s.URL() + "/healthz")
		check.OK(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 1 { // its bound on connections knows no other
			t.Error(resp.Status, resp.Proto)
		}
		return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	check.Equal(t, serial(), 1, "serial")
	facts := s.facts(t.Context(), s.parts.Load(), core.English, s.log)
	if until := facts.CertificateUntil; !until.Equal(s.cert.get(time.Now()).Leaf.NotAfter) {
		t.Errorf("doctor gets the end %s", until)
	}
	if got := answer(t, s.ln.Addr().String(), "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got,
		"400 ") {
		t.Errorf("in clear: %s", got)
	}
	look := time.Now()
	later := func() int64 { // a second later each time
		look = look.Add(2 * lookAgain)
		return s.cert.get(look).Leaf.SerialNumber.Int64()
	}
	roots.AddCert(writePair(t, cert, filepath.Join(dir, "other.pem"), 2, local))
	check.Equal(t, later(), 1, "half of a new pair: serial")
	check.OK(t, os.Remove(cert))
	check.Equal(t, later(), 1, "none: serial")
	roots.AddCert(writePair(t, cert, key, 3, local))
	check.Equal(t, s.cert.get(look.Add(lookAgain/2)).Leaf.SerialNumber.Int64(), 1, "checked again at once: serial")
	check.Equal(t, later(), 3, "a new pair: serial")
	check.Equal(t, serial(), 3, "a new pair, over the network: serial")
}

// TestURLOfAServer: the URL is one that the certificate is for. A server on all networks gives executors an address that they can
// dial, and this machine its own. It is known when tokens cross a network in clear.
func TestURLOfAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	made := func(o Options) (*Server, error) {
		o.Dir, o.Log = t.TempDir(), slog.New(slog.DiscardHandler)
		return New(o)
	}
	for _, c := range []struct {
		listen, report string
		names          []string // of its certificate; none: it has none
		want           string
		clear          bool
	}{
		{"127.0.0.1:0", "", nil, "http://127.0.0.1:", false},
		{"0.0.0.0:0", "", nil, "http://127.0.0.1:", true},
		{"0.0.0.0:0", "http://jobs.example", nil, "http://127.0.0.1:", true},
		{"0.0.0.0:0", "https://jobs.example", nil, "http://127.0.0.1:", false},
		{"0.0.0.0:0", "", []string{"jobs.example"}, "https://jobs.example:", false},
		{"127.0.0.1:0", "", []string{"jobs.example"}, "https://jobs.example:", false},
		{"localhost:0", "", []string{"jobs.example", "localhost"}, "https://localhost:", false},
		{"127.0.0.1:0", "", []string{"*.example", "jobs.example"}, "https://jobs.example:", false},
		{"127.0.0.1:0", "", []string{"*.example"}, "https://127.0.0.1:", false},
	} {
		o := Options{Listen: c.listen, ReportURL: c.report}
		if c.names != nil {
			o.TLSCert, o.TLSKey = cert, key
			writePair(t, cert, key, 1, nil, c.names...)
		}
		s, err := made(o)
		check.OK(t, err)
		s.ln.Close()
		if !strings.HasPrefix(s.URL(), c.want) || s.InClear() != c.clear || s.OnAllNetworks() != strings.HasPrefix(c.listen, "0.") ||
			strings.Contains(s.ReportURL(), "::]") || strings.Contains(s.ReportURL(), "//0.0.0.0") {
			t.Errorf("%+v: %s, reports to %s, in clear %t", c, s.URL(), s.ReportURL(), s.InClear())
		}
	}
	for _, o := range []Options{{TLSCert: cert}, {TLSKey: key}, {TLSCert: cert, TLSKey: cert},
		{TLSCert: filepath.Join(dir, "none"), TLSKey: key}, {ReportURL: "nonsense"},
		{ReportURL: "ftp://host"}, {ReportURL: "http://"}, {ReportURL: "http://host?x=1"}} {
		o.Listen = "127.0.0.1:0"
		if _, err := made(o); core.CodeOf(err) != core.CodeInvalid || o.ReportURL == "" && !strings.Contains(err.Error(), "tls-cert") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
