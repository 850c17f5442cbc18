package server

import (
	"crypto/tls"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

// A certificate serves the TLS certificate of two files and reloads the files when they change.
type certificate struct {
	files [2]string // certificate with its chain, and key
	log   *slog.Logger

	mu     sync.Mutex
	pair   *tls.Certificate
	looked time.Time
	seen   [2]fileState // when the pair was read, or tried to be
}

type fileState struct {
	changed time.Time
	size    int64
}

// lookAgain is the minimum time between two checks of the files.
const lookAgain = time.Second

// newCertificate reads the files; without any the server speaks no TLS.
func newCertificate(cert, key string, log *slog.Logger) (*certificate, error) {
	if cert == "" && key == "" {
		return nil, nil
	}
	c := &certificate{files: [2]string{cert, key}, log: log}
	if err := c.read(c.states()); err != nil {
		return nil, core.Invalid("tls-cert", cert, "certificate and key (%s) cannot be used: %v", key, err)
	}
	return c, nil
}

func (c *certificate) states() (states [2]fileState) {
	for i, name := range c.files {
		if info, err := os.Stat(name); err == nil {
			states[i] = fileState{info.ModTime(), info.Size()}
		}
	}
	return states
}

// read loads the pair of files and records states as the version it tried. Callers hold mu.
func (c *certificate) read(states [2]fileState) error {
	c.seen = states
	pair, err := tls.LoadX509KeyPair(c.files[0], c.files[1])
	if err == nil {
		c.pair = &pair
	}
	return err
}

// get is the pair to show at now. Files that cannot be used, as between the writing of
// one and the other, leave the last pair in use.
func (c *certificate) get(now time.Time) *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if since := now.Sub(c.looked); since >= 0 && since < lookAgain {
		return c.pair
	}
	c.looked = now
	if states := c.states(); states != c.seen {
		if err := c.read(states); err != nil {
			c.log.Error("new certificate not usable: the old one stays in use", "certificate", c.files[0], "key", c.files[1], "err", err)
		} else {
			c.log.Info("certificate reloaded", "certificate", c.files[0], "until", c.pair.Leaf.NotAfter)
		}
	}
	return c.pair
}

func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return c.get(time.Now()), nil
	}}
}

// name returns the first of hosts that the certificate covers, or else the certificate's own first name, which clients must use, or
// else the last of hosts.
func (c *certificate) name(hosts ...string) string {
	leaf := c.get(time.Now()).Leaf
	for _, host := range hosts {
		if leaf.VerifyHostname(host) == nil {
			return host
		}
	}
	for _, name := range leaf.DNSNames {
		if !strings.HasPrefix(name, "*") {
			return name
		}
	}
	return hosts[len(hosts)-1]
}
