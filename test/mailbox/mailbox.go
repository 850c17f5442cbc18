// Package mailbox has an SMTP server for tests that send mails. The server is not tickring's code, and mails are read with the
// standard library.
package mailbox

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"mime"
	"mime/multipart"
	"net"
	netmail "net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

// User and Password are the login that a Server with login methods accepts.
const User, Password = "jobs", "correct horse"

// A Letter is a received mail, with its connection's properties.
type Letter struct {
	From, User string
	To         []string
	Secure     bool
	Raw        []byte
}

// A Server is an SMTP server on a port of this machine.
type Server struct {
	Ways    []string                   // login methods; none: no login is needed
	Refuses map[string]*smtp.SMTPError // by address
	Port    int

	mu      sync.Mutex
	letters []Letter
	tried   []string
}

// Start starts a server, which stops with the test.
func (s *Server) Start(t testing.TB, how core.SMTPTLS, cert tls.Certificate) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	s.Port = l.Addr().(*net.TCPAddr).Port
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
	served.Go(func() { _ = srv.Serve(l) }) // until the cleanup closes it
	t.Cleanup(func() { srv.Close(); served.Wait() })
	return s
}

// Letters returns the received mails.
func (s *Server) Letters() []Letter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.letters)
}

// Tried returns the received passwords.
func (s *Server) Tried() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tried)
}

// session is one connection of a server.
type session struct {
	server *Server
	conn   *smtp.Conn
	user   string
	letter Letter
}

func (s *session) AuthMechanisms() []string { return s.server.Ways }

func (s *session) Auth(way string) (sasl.Server, error) {
	check := func(_, name, secret string) error {
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		s.server.tried = append(s.server.tried, secret)
		if name != User || secret != Password {
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
	if len(s.server.Ways) > 0 && s.user == "" {
		return smtp.ErrAuthRequired
	}
	_, secure := s.conn.TLSConnectionState()
	s.letter = Letter{From: from, User: s.user, Secure: secure}
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if err := s.server.Refuses[to]; err != nil {
		return err
	}
	s.letter.To = append(s.letter.To, to)
	return nil
}

func (s *session) Data(r io.Reader) (err error) {
	if s.letter.Raw, err = io.ReadAll(r); err == nil {
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		s.server.letters = append(s.server.letters, s.letter)
	}
	return err
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }

// Read reads a letter as a mail program does: its header, and the parts by their types.
func (l *Letter) Read(t testing.TB) (netmail.Header, map[string]string) {
	t.Helper()
	m, err := netmail.ReadMessage(bytes.NewReader(l.Raw))
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
