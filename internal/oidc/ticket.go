package oidc

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// TicketFor is the maximum duration of a login at the provider.
const TicketFor = 10 * time.Minute

// ticket is kept by a browser while it is at the provider. Any process of a deployment can
// continue the login with it, but only for the browser that began it.
type ticket struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"` // the PKCE code verifier
	To       string `json:"t"` // the page that the user sees after the login
	End      int64  `json:"e"` // expiry time of the ticket in Unix seconds
}

// Bounds for the size of a cookie, which browsers limit to 4096 bytes.
const (
	maxTo     = 1500
	maxTicket = 4000
)

// newKey returns the key that seals tickets; all processes of a deployment derive the same key.
func newKey(adminToken string) []byte {
	m := hmac.New(sha256.New, []byte(adminToken))
	m.Write([]byte("oidc"))
	return m.Sum(nil)
}

// seal returns a signed ticket, which clients cannot forge.
func (p *Provider) seal(t ticket) string {
	b, _ := json.Marshal(t)
	text := base64.RawURLEncoding.EncodeToString(b)
	return text + "." + base64.RawURLEncoding.EncodeToString(p.mac(text))
}

func (p *Provider) mac(text string) []byte {
	m := hmac.New(sha256.New, p.key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

// open reads a ticket that is ours and has not ended.
func (p *Provider) open(cookie string) (t ticket, ok bool) {
	text, mac, _ := strings.Cut(cookie, ".")
	got, err := base64.RawURLEncoding.DecodeString(mac)
	if len(cookie) > maxTicket || err != nil || !hmac.Equal(got, p.mac(text)) {
		return ticket{}, false
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(b, &t) != nil {
		return ticket{}, false
	}
	return t, p.now().Unix() < t.End
}
