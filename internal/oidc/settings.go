package oidc

import (
	"cmp"
	"net/netip"
	"net/url"
	"strings"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
)

// Settings has the settings of the identity provider as text. The zero value means no provider.
type Settings struct {
	Issuer   string // the issuer, written exactly as in the provider's tokens
	ClientID string
	Secret   string // the client secret; empty: the client is public, and only PKCE protects the login
	// URL is the console's address for browsers, without a path. The provider sends browsers back to this
	// address. The address is never taken from a request.
	URL    string
	Name   string   // the provider's display name; empty: the host of the issuer
	Scopes []string // requested scopes; empty: openid profile email
	// NameClaim and RoleClaim are the fields Name and Role of access.Claims. Roles has values of RoleClaim, in
	// the format of access.ParseClaimRole.
	NameClaim, RoleClaim string
	Roles                []string
}

// Environment reads the settings from environment variables. List entries are separated by ";", because group names
// may contain commas and spaces.
func Environment(getenv func(string) string) Settings {
	list := func(name string) (parts []string) {
		for part := range strings.SplitSeq(getenv(name), ";") {
			if part = strings.TrimSpace(part); part != "" {
				parts = append(parts, part)
			}
		}
		return parts
	}
	return Settings{Issuer: getenv("TICKRING_OIDC_ISSUER"), ClientID: getenv("TICKRING_OIDC_CLIENT_ID"),
		Secret: getenv("TICKRING_OIDC_CLIENT_SECRET"), URL: getenv("TICKRING_OIDC_URL"), Name: getenv("TICKRING_OIDC_NAME"),
		Scopes: strings.Fields(getenv("TICKRING_OIDC_SCOPES")), NameClaim: getenv("TICKRING_OIDC_NAME_CLAIM"),
		RoleClaim: getenv("TICKRING_OIDC_ROLE_CLAIM"), Roles: list("TICKRING_OIDC_ROLES")}
}

func (s *Settings) Set() bool {
	return cmp.Or(s.Issuer, s.ClientID, s.Secret, s.URL, s.Name, s.NameClaim, s.RoleClaim) != "" || len(s.Scopes)+len(s.Roles) > 0
}

const (
	maxText  = 2000
	maxName  = 60
	maxRoles = 200
)

// Check sets empty fields to their defaults, and returns an error for invalid fields.
func (s *Settings) Check() error {
	for field, text := range map[string]string{"oidc-issuer": s.Issuer, "oidc-client-id": s.ClientID, "oidc-client-secret": s.Secret,
		"oidc-url": s.URL, "oidc-name-claim": s.NameClaim, "oidc-role-claim": s.RoleClaim, "oidc-scopes": strings.Join(s.Scopes, " ")} {
		if len(text) > maxText {
			return core.Invalid(field, "", "at most %d bytes are allowed", maxText)
		}
	}
	if u, err := url.Parse(s.Issuer); !private(s.Issuer) || err != nil || u.RawQuery != "" {
		return core.Invalid("oidc-issuer", s.Issuer, "expected a URL that begins with https:// or points to this machine")
	}
	if s.ClientID == "" {
		return core.Invalid("oidc-client-id", "", "required: the value that the provider issued for this console")
	}
	s.URL = strings.TrimSuffix(s.URL, "/")
	if u, err := url.Parse(s.URL); !private(s.URL) || err != nil || u.Path != "" || u.RawQuery != "" {
		return core.Invalid("oidc-url", s.URL, "expected the URL at which browsers reach this console: https:// or an address "+
			"of this machine, without a path")
	}
	if s.Name == "" {
		u, _ := url.Parse(s.Issuer)
		s.Name = core.Truncate(u.Host)
	}
	if len(s.Name) > 4*maxName || len([]rune(s.Name)) > maxName {
		return core.Invalid("oidc-name", s.Name, "at most %d characters are allowed", maxName)
	}
	if len(s.Scopes) == 0 {
		s.Scopes = []string{"openid", "profile", "email"}
	}
	if !strings.Contains(" "+strings.Join(s.Scopes, " ")+" ", " openid ") {
		s.Scopes = append([]string{"openid"}, s.Scopes...)
	}
	if (s.RoleClaim == "") != (len(s.Roles) == 0) {
		return core.Invalid("oidc-role", "", "set both the roles claim and the mapping of its values to roles, or neither")
	}
	_, err := s.Claims()
	return err
}

// Claims returns the mapping from the provider's claims to a user name and roles.
func (s *Settings) Claims() (access.Claims, error) {
	c := access.Claims{Name: s.NameClaim, Role: s.RoleClaim}
	if len(s.Roles) > maxRoles {
		return c, core.Invalid("oidc-role", "", "at most %d are allowed", maxRoles)
	}
	for _, text := range s.Roles {
		value, g, err := access.ParseClaimRole(text)
		if err != nil {
			return c, core.Invalid("oidc-role", text, "%s", err)
		}
		if c.Roles == nil {
			c.Roles = map[string][]access.Grant{}
		}
		c.Roles[value] = append(c.Roles[value], g)
	}
	return c, nil
}

// private reports whether requests to a URL cannot be read on their way: because of TLS, or
// because they do not leave this machine.
func private(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && ip.IsLoopback())
}
