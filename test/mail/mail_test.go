//go:build unix && !darwin

// Package mail_test sends notifications over SMTP: to an independent server, whose mails are read with the standard library, and to
// servers that break the protocol. It needs a system on which SSL_CERT_FILE sets the trusted certificates.
package mail_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"mime"
	"mime/multipart"
	"net"
	netmail "net/mail"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/notify"
)

// trusted and untrusted are certificates for this machine, which trusts the first and not the second.
var trusted, untrusted tls.Certificate

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "mail")
	if err == nil {
		var authority []byte
		if trusted, authority, err = certificate(); err == nil {
			// Read once, at the first certificate that is checked.
			file := filepath.Join(dir, "authority.pem")
			os.Setenv("SSL_CERT_FILE", file)
			err = os.WriteFile(file, authority, 0o600)
		}
	}
	if err == nil {
		untrusted, _, err = certificate()
	}
	if err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// certificate makes one for this machine, and as PEM the authority that signed it.
func certificate() (cert tls.Certificate, authority []byte, err error) {
	sign := func(of, by *x509.Certificate, key, with *ecdsa.PrivateKey) []byte {
		var der []byte
		if err == nil {
			der, err = x509.CreateCertificate(rand.Reader, of, by, &key.PublicKey, with)
		}
		return der
	}
	root, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return cert, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return cert, nil, err
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: ca.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: sign(ca, ca, root, root)})
	return tls.Certificate{Certificate: [][]byte{sign(leaf, ca, key, root)}, PrivateKey: key}, authority, err
}

const user, password = "jobs", "correct horse"

// letter is a received mail, with its connection's properties.
type letter struct {
	from, user string
	to         []string
	secure     bool
	raw        []byte
}

// server is an SMTP server on a port of this machine.
type server struct {
	ways    []string                   // login methods; none: no login is needed
	refuses map[string]*smtp.SMTPError // by address
	port    int

	mu      sync.Mutex
	letters []letter
	tried   []string // the received passwords
}

func (s *server) start(t *testing.T, how core.SMTPTLS, cert tls.Certificate) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	s.port = l.Addr().(*net.TCPAddr).Port
	srv := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) { return &session{server: s, conn: c}, nil }))
	srv.Domain, srv.AllowInsecureAuth = "127.0.0.1", true
	srv.ReadTimeout, srv.WriteTimeout = 30*time.Second, 30*time.Second
	srv.ErrorLog = log.New(io.Discard, "", 0)
	switch c := (&tls.Config{Certificates: []tls.Certificate{cert}}); how {
	case core.TLSStart:
		srv.TLSConfig = c
	case core.TLSImplicit:
		l = tls.NewListener(l, c)
	}
	var served sync.WaitGroup
	served.Go(func() { srv.Serve(l) })
	t.Cleanup(func() { srv.Close(); served.Wait() })
	return s
}

// got returns the received mails.
func (s *server) got() []letter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.letters)
}

// session is one connection of a server.
type session struct {
	server *server
	conn   *smtp.Conn
	user   string
	letter letter
}

func (s *session) AuthMechanisms() []string { return s.server.ways }

func (s *session) Auth(way string) (sasl.Server, error) {
	check := func(_, name, secret string) error {
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		s.server.tried = append(s.server.tried, secret)
		if name != user || secret != password {
			return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "no such user with " + secret}
		}
		s.user = name
		return nil
	}
	if way == sasl.Login {
		return &login{check: check}, nil
	}
	return sasl.NewPlainServer(check), nil
}

// login is the server's side of LOGIN: it asks for the user, then for the password.
type login struct {
	check func(_, name, secret string) error
	step  int
	name  string
}

func (l *login) Next(said []byte) (ask []byte, done bool, err error) {
	l.step++
	switch l.step {
	case 1:
		return []byte("Username:"), false, nil
	case 2:
		l.name = string(said)
		return []byte("Password:"), false, nil
	}
	return nil, true, l.check("", l.name, string(said))
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if len(s.server.ways) > 0 && s.user == "" {
		return smtp.ErrAuthRequired
	}
	_, secure := s.conn.TLSConnectionState()
	s.letter = letter{from: from, user: s.user, secure: secure}
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if err := s.server.refuses[to]; err != nil {
		return err
	}
	s.letter.to = append(s.letter.to, to)
	return nil
}

func (s *session) Data(r io.Reader) (err error) {
	if s.letter.raw, err = io.ReadAll(r); err == nil {
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		s.server.letters = append(s.server.letters, s.letter)
	}
	return err
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }

// failed returns a notification with every field set.
func failed() notify.Message {
	return notify.Message{ID: "n-17179869185-failed", Event: "failed", App: "报表", Job: "nightly", Title: "每日报表", Run: 17179869185,
		Instant: 1_790_000_000, Due: 1_790_000_120, Zone: "Asia/Shanghai", State: core.Failed, Reason: core.ReasonHandler, Code: 500,
		Text: "division by zero: 除以零", Lines: []string{"step 1", ".", "步骤 2 & <b>3</b>"}, At: time.Unix(1_790_000_300, 0), Times: 3,
		Count: 4, Since: time.Unix(1_789_999_000, 0), Link: "https://sched.example.com/runs/17179869185", Deployment: "finance-prod"}
}

// channel is one to a server of this machine.
func channel(port int, how core.SMTPTLS, l core.Language) core.Channel {
	c := core.Channel{Name: "mail", Kind: core.ChannelEmail, Language: l, Email: core.Email{From: "调度 <jobs@example.com>",
		To: []string{"ops@example.com", "Lina <lina@example.com>"}, SMTP: core.SMTP{Host: "127.0.0.1", Port: port, TLS: how}}}
	if how != core.TLSNone {
		c.Email.SMTP.User, c.Email.SMTP.Password = user, password
	}
	return c
}

// send sends a message to this machine and returns the error; nil if it arrived.
func send(t *testing.T, ch core.Channel, m notify.Message, timeout time.Duration) *core.Undelivered {
	t.Helper()
	check.OK(t, ch.Validate())
	s := notify.New(notify.Options{Policy: safedial.Policy{AllowLoopback: true}, Timeout: timeout})
	defer s.Close()
	err := s.Send(t.Context(), ch, m)
	if err == nil {
		return nil
	}
	u, ok := errors.AsType[*core.Undelivered](err)
	if !ok {
		t.Fatalf("%T: %v", err, err)
	}
	return u
}

// read reads a letter as a mail program does: its header, and the parts by their types.
func read(t *testing.T, raw []byte) (netmail.Header, map[string]string) {
	t.Helper()
	m, err := netmail.ReadMessage(bytes.NewReader(raw))
	check.OK(t, err)
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("%s: %v", kind, err)
	}
	parts := map[string]string{}
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return m.Header, parts
		}
		check.OK(t, err)
		text, err := io.ReadAll(p) // quoted-printable is undone by the reader
		check.OK(t, err)
		parts[p.Header.Get("Content-Type")] = strings.ReplaceAll(string(text), "\r\n", "\n")
	}
}

func decoded(t *testing.T, text string) string {
	t.Helper()
	plain, err := new(mime.WordDecoder).DecodeHeader(text)
	check.OK(t, err)
	return plain
}

// TestArrives: over STARTTLS and over TLS from the first byte, with each login method, a notification arrives completely: subject,
// both parts, ID, sender and recipients.
func TestArrives(t *testing.T) {
	texts, style := golden.New(t), regexp.MustCompile(` style="[^"]*"`)
	for _, c := range []struct {
		how  core.SMTPTLS
		ways []string
		l    core.Language
	}{
		{core.TLSStart, []string{sasl.Plain}, core.Chinese},
		{core.TLSStart, []string{sasl.Login}, core.Chinese},
		{core.TLSImplicit, []string{sasl.Plain}, core.Chinese},
		{core.TLSImplicit, []string{sasl.Login}, core.English},
		{core.TLSNone, nil, core.English},
	} {
		t.Run(fmt.Sprint(c.how, c.ways), func(t *testing.T) {
			s := (&server{ways: c.ways}).start(t, c.how, trusted)
			m := failed()
			if u := send(t, channel(s.port, c.how, c.l), m, 0); u != nil {
				t.Fatal(u)
			}
			letters := s.got()
			if len(letters) != 1 {
				t.Fatalf("%d letters", len(letters))
			}
			l := letters[0]
			if l.from != "jobs@example.com" || !slices.Equal(l.to, []string{"ops@example.com", "lina@example.com"}) ||
				l.secure != (c.how != core.TLSNone) || (l.user == user) != (c.ways != nil) {
				t.Errorf("from %q to %q, user %q, TLS: %t", l.from, l.to, l.user, l.secure)
			}
			header, parts := read(t, l.raw)
			texts.Equal(t, string(c.l)+" subject", decoded(t, header.Get("Subject")))
			check.Equal(t, header.Get("Message-ID"), "<n-17179869185-failed@example.com>", "ID")
			from, err := header.AddressList("From")
			if err != nil || len(from) != 1 || *from[0] != (netmail.Address{Name: "调度", Address: "jobs@example.com"}) {
				t.Errorf("from %v: %v", from, err)
			}
			to, err := header.AddressList("To")
			if err != nil || len(to) != 2 || to[0].Address != "ops@example.com" ||
				*to[1] != (netmail.Address{Name: "Lina", Address: "lina@example.com"}) {
				t.Errorf("to %v: %v", to, err)
			}
			if at, err := header.Date(); err != nil || time.Since(at).Abs() > time.Minute {
				t.Errorf("date %s: %v", at, err)
			}
			for _, line := range bytes.Split(l.raw, []byte("\r\n")) {
				if len(line) > 998 || bytes.ContainsFunc(line, func(r rune) bool { return r > 0x7e || r == '\n' || r == '\r' }) {
					t.Errorf("a line that not every server takes: %q", line)
				}
			}
			texts.Equal(t, string(c.l)+" text", parts["text/plain; charset=UTF-8"])
			texts.Equal(t, string(c.l)+" page", style.ReplaceAllString(parts["text/html; charset=UTF-8"], ""))
			check.Equal(t, len(parts), 2, "parts")
		})
	}
}

// TestPassword: a wrong password is a permanent error, and is hidden even if the server repeats it.
func TestPassword(t *testing.T) {
	texts := golden.New(t)
	for _, way := range []string{sasl.Plain, sasl.Login} {
		s := (&server{ways: []string{way}}).start(t, core.TLSStart, trusted)
		ch := channel(s.port, core.TLSStart, core.English)
		ch.Email.SMTP.Password = "battery staple"
		u := send(t, ch, failed(), 0)
		if u == nil || !u.Permanent || strings.Contains(u.Reason, "staple") || len(s.got()) > 0 {
			t.Fatalf("%s: %+v", way, u)
		}
		texts.Equal(t, way, u.Reason, strconv.Itoa(s.port), "PORT")
	}
}

// TestNotToBeRead: on an unprotected connection neither password nor mail is sent: to a server without STARTTLS, or without a
// certificate that the machine trusts.
func TestNotToBeRead(t *testing.T) {
	texts := golden.New(t)
	for _, c := range []struct {
		name      string
		asked     core.SMTPTLS
		offers    core.SMTPTLS
		cert      tls.Certificate
		permanent bool
	}{
		{"no STARTTLS", core.TLSStart, core.TLSNone, trusted, true},
		{"an unknown server with STARTTLS", core.TLSStart, core.TLSStart, untrusted, false},
		{"an unknown server with TLS", core.TLSImplicit, core.TLSImplicit, untrusted, false},
	} {
		s := (&server{ways: []string{sasl.Plain}}).start(t, c.offers, c.cert)
		u := send(t, channel(s.port, c.asked, core.English), failed(), 0)
		if u == nil || u.Permanent != c.permanent {
			t.Fatalf("%s: %+v", c.name, u)
		}
		texts.Equal(t, c.name, u.Reason, strconv.Itoa(s.port), "PORT")
		if s.mu.Lock(); len(s.tried) > 0 || len(s.letters) > 0 {
			t.Errorf("%s: passwords %q, %d letters", c.name, s.tried, len(s.letters))
		}
		s.mu.Unlock()
	}
}

// TestRefusedAddresses: accepted addresses get the mail, and the error names the others. If no address is accepted, the error is
// temporary as long as one rejection is.
func TestRefusedAddresses(t *testing.T) {
	later := &smtp.SMTPError{Code: 450, EnhancedCode: smtp.EnhancedCode{4, 2, 1}, Message: "greylisted"}
	never := &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
	const ops, lina, li = "ops@example.com", "lina@example.com", "li@example.com"
	for _, c := range []struct {
		refuses   map[string]*smtp.SMTPError
		to        []string
		permanent bool
		names     []string
	}{
		{map[string]*smtp.SMTPError{ops: later}, []string{lina, li}, true, []string{ops, "450"}},
		{map[string]*smtp.SMTPError{lina: never}, []string{ops, li}, true, []string{lina, "550"}},
		{map[string]*smtp.SMTPError{lina: never, ops: later}, []string{li}, true, []string{ops, "450", lina, "550"}},
		{map[string]*smtp.SMTPError{ops: never, lina: later, li: never}, nil, false, []string{"450"}},
		{map[string]*smtp.SMTPError{ops: later, lina: never, li: never}, nil, false, []string{"450"}},
		{map[string]*smtp.SMTPError{ops: never, lina: never, li: never}, nil, true, []string{"550"}},
	} {
		s := (&server{refuses: c.refuses}).start(t, core.TLSNone, trusted)
		ch := channel(s.port, core.TLSNone, core.English)
		ch.Email.To = []string{ops, lina, li}
		u := send(t, ch, failed(), 0)
		if u == nil || u.Permanent != c.permanent {
			t.Errorf("%v: %+v", c.refuses, u)
			continue
		}
		for _, name := range c.names {
			if !strings.Contains(u.Reason, name) {
				t.Errorf("%v: no %s in %q", c.refuses, name, u.Reason)
			}
		}
		var to []string
		for _, l := range s.got() {
			to = append(to, l.to...)
		}
		if !slices.Equal(to, c.to) {
			t.Errorf("%v: it went to %q", c.refuses, to)
		}
	}
}

// TestNoTextIsACommand: no text of a job adds a header, another recipient, or another mail.
func TestNoTextIsACommand(t *testing.T) {
	s := (&server{}).start(t, core.TLSNone, trusted)
	plain := failed()
	bad := plain
	for _, text := range []*string{&bad.ID, &bad.App, &bad.Job, &bad.Title, &bad.Zone, &bad.Text, &bad.Link, &bad.Deployment} {
		*text += "\r\nBcc: eve@example.com\r\nX-Evil: 1\u2028X-Evil: 2\r\n\r\n.\r\nMAIL FROM:<eve@example.com>\r\nRCPT TO:<eve@example.com>\r\n"
	}
	bad.Lines = []string{".", "\r\n.\r\nRCPT TO:<eve@example.com>\r\n", ".\nQUIT"}
	for _, m := range []notify.Message{plain, bad} {
		if u := send(t, channel(s.port, core.TLSNone, core.Chinese), m, 0); u != nil {
			t.Fatal(u)
		}
	}
	letters := s.got()
	if len(letters) != 2 {
		t.Fatalf("%d letters", len(letters))
	}
	want, _ := read(t, letters[0].raw)
	got, parts := read(t, letters[1].raw)
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, slices.Sorted(maps.Keys(want))) {
		t.Errorf("headers %q", names)
	}
	for name, values := range got {
		if len(values) != 1 || strings.ContainsAny(decoded(t, values[0]), "\r\n\u2028") {
			t.Errorf("%s: %q", name, values)
		}
	}
	if l := letters[1]; l.from != "jobs@example.com" || !slices.Equal(l.to, letters[0].to) {
		t.Errorf("from %q to %q", l.from, l.to)
	}
	check.Contains(t, parts["text/plain; charset=UTF-8"], "\n.\nRCPT TO:<eve@example.com>\n\n.\nQUIT\n", "a text cut short")
}
