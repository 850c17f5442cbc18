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
	"log"
	"maps"
	"math/big"
	"mime"
	"net"
	netmail "net/mail"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/notify"
	"github.com/tickring/tickring/test/mailbox"
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

// certificate makes one for this machine that is its own authority, and returns it as PEM too.
func certificate() (cert tls.Certificate, authority []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return cert, nil, err
	}
	own := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true,
		NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, own, own, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

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
		c.Email.SMTP.User, c.Email.SMTP.Password = mailbox.User, mailbox.Password
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
			s := (&mailbox.Server{Ways: c.ways}).Start(t, c.how, trusted)
			m := failed()
			if u := send(t, channel(s.Port, c.how, c.l), m, 0); u != nil {
				t.Fatal(u)
			}
			letters := s.Letters()
			if len(letters) != 1 {
				t.Fatalf("%d letters", len(letters))
			}
			l := letters[0]
			if l.From != "jobs@example.com" || !slices.Equal(l.To, []string{"ops@example.com", "lina@example.com"}) ||
				l.Secure != (c.how != core.TLSNone) || (l.User == mailbox.User) != (c.ways != nil) {
				t.Errorf("from %q to %q, user %q, TLS: %t", l.From, l.To, l.User, l.Secure)
			}
			header, parts := l.Read(t)
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
			for _, line := range bytes.Split(l.Raw, []byte("\r\n")) {
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
		s := (&mailbox.Server{Ways: []string{way}}).Start(t, core.TLSStart, trusted)
		ch := channel(s.Port, core.TLSStart, core.English)
		ch.Email.SMTP.Password = "battery staple"
		u := send(t, ch, failed(), 0)
		if u == nil || !u.Permanent || strings.Contains(u.Reason, "staple") || len(s.Letters()) > 0 {
			t.Fatalf("%s: %+v", way, u)
		}
		texts.Equal(t, way, u.Reason, strconv.Itoa(s.Port), "PORT")
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
		s := (&mailbox.Server{Ways: []string{sasl.Plain}}).Start(t, c.offers, c.cert)
		u := send(t, channel(s.Port, c.asked, core.English), failed(), 0)
		if u == nil || u.Permanent != c.permanent {
			t.Fatalf("%s: %+v", c.name, u)
		}
		texts.Equal(t, c.name, u.Reason, strconv.Itoa(s.Port), "PORT")
		if len(s.Tried()) > 0 || len(s.Letters()) > 0 {
			t.Errorf("%s: passwords %q, %d letters", c.name, s.Tried(), len(s.Letters()))
		}
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
		s := (&mailbox.Server{Refuses: c.refuses}).Start(t, core.TLSNone, trusted)
		ch := channel(s.Port, core.TLSNone, core.English)
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
		for _, l := range s.Letters() {
			to = append(to, l.To...)
		}
		if !slices.Equal(to, c.to) {
			t.Errorf("%v: it went to %q", c.refuses, to)
		}
	}
}

// TestNoTextIsACommand: no text of a job adds a header, another recipient, or another mail.
func TestNoTextIsACommand(t *testing.T) {
	s := (&mailbox.Server{}).Start(t, core.TLSNone, trusted)
	plain := failed()
	bad := plain
	for _, text := range []*string{&bad.ID, &bad.App, &bad.Job, &bad.Title, &bad.Zone, &bad.Text, &bad.Link, &bad.Deployment} {
		*text += "\r\nBcc: eve@example.com\r\nX-Evil: 1\u2028X-Evil: 2\r\n\r\n.\r\nMAIL FROM:<eve@example.com>\r\nRCPT TO:<eve@example.com>\r\n"
	}
	bad.Lines = []string{".", "\r\n.\r\nRCPT TO:<eve@example.com>\r\n", ".\nQUIT"}
	for _, m := range []notify.Message{plain, bad} {
		if u := send(t, channel(s.Port, core.TLSNone, core.Chinese), m, 0); u != nil {
			t.Fatal(u)
		}
	}
	letters := s.Letters()
	if len(letters) != 2 {
		t.Fatalf("%d letters", len(letters))
	}
	want, _ := letters[0].Read(t)
	got, parts := letters[1].Read(t)
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, slices.Sorted(maps.Keys(want))) {
		t.Errorf("headers %q", names)
	}
	for name, values := range got {
		if len(values) != 1 || strings.ContainsAny(decoded(t, values[0]), "\r\n\u2028") {
			t.Errorf("%s: %q", name, values)
		}
	}
	if l := letters[1]; l.From != "jobs@example.com" || !slices.Equal(l.To, letters[0].To) {
		t.Errorf("from %q to %q", l.From, l.To)
	}
	check.Contains(t, parts["text/plain; charset=UTF-8"], "\n.\nRCPT TO:<eve@example.com>\n\n.\nQUIT\n", "a text cut short")
}
