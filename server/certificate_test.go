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
	if until := s.facts(t.Context(), s.parts, core.English, s.log).CertificateUntil; !until.Equal(s.cert.get(time.Now()).Leaf.NotAfter) {
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

// TestTLSName: the URL is one that the certificate is for.
func TestTLSName(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for _, c := range []struct {
		listen string
		names  []string
		want   string
	}{
		{"127.0.0.1:0", []string{"jobs.example"}, "https://jobs.example:"},
		{"localhost:0", []string{"jobs.example", "localhost"}, "https://localhost:"},
		{"127.0.0.1:0", []string{"*.example", "jobs.example"}, "https://jobs.example:"},
		{"127.0.0.1:0", []string{"*.example"}, "https://127.0.0.1:"},
	} {
		writePair(t, cert, key, 1, nil, c.names...)
		s, err := New(Options{Dir: t.TempDir(), Listen: c.listen, TLSCert: cert, TLSKey: key, Log: slog.New(slog.DiscardHandler)})
		check.OK(t, err)
		s.ln.Close()
		if !strings.HasPrefix(s.URL(), c.want) {
			t.Errorf("%s, %v: %s", c.listen, c.names, s.URL())
		}
	}
	for _, files := range [][2]string{{cert, ""}, {"", key}, {cert, cert}, {filepath.Join(dir, "none"), key}} {
		_, err := New(Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", TLSCert: files[0], TLSKey: files[1], Log: slog.New(slog.DiscardHandler)})
		if core.CodeOf(err) != core.CodeInvalid || !strings.Contains(err.Error(), "tls-cert") {
			t.Errorf("%v: %v", files, err)
		}
	}
}

// TestInClear: it is known when tokens cross a network in clear.
func TestInClear(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePair(t, cert, key, 1, nil, "jobs.example")
	for _, c := range []struct {
		o    Options
		want bool
	}{
		{Options{Listen: "127.0.0.1:0"}, false},
		{Options{Listen: "0.0.0.0:0"}, true},
		{Options{Listen: "0.0.0.0:0", ReportURL: "http://jobs.example"}, true},
		{Options{Listen: "0.0.0.0:0", ReportURL: "https://jobs.example"}, false},
		{Options{Listen: "0.0.0.0:0", TLSCert: cert, TLSKey: key}, false},
	} {
		c.o.Dir, c.o.Log = t.TempDir(), slog.New(slog.DiscardHandler)
		s, err := New(c.o)
		check.OK(t, err)
		s.ln.Close()
		check.Equal(t, s.InClear(), c.want, "%+v", c.o)
	}
}
