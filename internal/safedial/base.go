package safedial

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// MaxBase is the maximum length of a base URL in bytes.
const MaxBase = 512

// A Base is the base URL of an executor: the scheme, host, port, and the path of its endpoints.
type Base struct {
	// Raw is the original text of the URL. Registrations are compared by Raw, so it is not normalized.
	Raw string
	// HTTPS reports whether the scheme is https; false means http.
	HTTPS bool
	// Host is the host and port to connect to, such as "10.0.0.1:9999" or "[fd00::1]:80". If Raw has no port,
	// the port is the default port of the scheme.
	Host string
	// Authority is the host as written in Raw, and the value of the Host header.
	Authority string
	// Path is the escaped path without a slash at its end. Append the path of an endpoint, such as "/run".
	Path string
}

// ParseBase parses the base URL of an executor. The URL has the scheme http or https, a host, optionally a port from 1
// to 65535, and optionally a path. Its maximum length is MaxBase.
//
// ParseBase rejects user info, a query, a fragment, and hosts that are neither a name nor an IP address. It also
// rejects IPv4 addresses written as one number, in octal or in hexadecimal, because some resolvers accept these forms.
// The error has the problem and the allowed form.
//
// ParseBase does not resolve the host. [Policy] checks the IP address when a connection is opened.
func ParseBase(raw string) (Base, error) {
	b, err := parseBase(raw)
	if err != nil {
		if len(raw) > 80 {
			raw = raw[:80] + "…"
		}
		return Base{}, fmt.Errorf("address %q: %w; allowed: http:// or https://, a host, an optional port and path, at most %d bytes", raw, err,
			MaxBase)
	}
	return b, nil
}

func parseBase(raw string) (Base, error) {
	if len(raw) > MaxBase {
		return Base{}, fmt.Errorf("the URL has %d bytes", len(raw))
	}
	for i := range len(raw) {
		if c := raw[i]; c <= ' ' || c >= 0x7f || c == '\\' {
			return Base{}, errors.New("the URL has a space, a backslash, or a character that is not printable ASCII")
		}
	}
	u, err := url.Parse(raw)
	if err != nil {
		var e *url.Error
		if errors.As(err, &e) {
			err = e.Err
		}
		return Base{}, err
	}
	b := Base{Raw: raw, HTTPS: u.Scheme == "https", Authority: u.Host, Path: strings.TrimRight(u.EscapedPath(), "/")}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return Base{}, fmt.Errorf("the scheme is %q", u.Scheme)
	case u.User != nil:
		return Base{}, errors.New("the URL has a user name or password")
	case u.Opaque != "" || u.Hostname() == "":
		return Base{}, errors.New("the URL has no host")
	case u.RawQuery != "" || u.ForceQuery:
		return Base{}, errors.New("the URL has a query")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return Base{}, errors.New("the URL has a fragment")
	}
	host, port := u.Hostname(), u.Port()
	if err := checkHost(host); err != nil {
		return Base{}, err
	}
	if port == "" {
		if strings.HasSuffix(u.Host, ":") {
			return Base{}, errors.New("the port is empty")
		}
		port = "80"
		if b.HTTPS {
			port = "443"
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return Base{}, fmt.Errorf("the port is %s, not 1 to 65535", port)
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	b.Host = host + ":" + port
	return b, nil
}

// checkHost accepts DNS names (with the underscores that containers use) and IP addresses in
// their usual form.
func checkHost(host string) error {
	if strings.Contains(host, ":") {
		ip, err := netip.ParseAddr(host)
		if err != nil || ip.Zone() != "" {
			return errors.New("the host is not an IPv6 address without a zone")
		}
		return nil
	}
	name := strings.TrimSuffix(host, ".")
	if len(name) > 253 {
		return errors.New("the host is too long")
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 {
			return errors.New("a label of the host is empty or longer than 63 bytes")
		}
		for i := range len(label) {
			c := label[i]
			if (c|0x20 < 'a' || c|0x20 > 'z') && c-'0' > 9 && c != '-' && c != '_' {
				return fmt.Errorf("the host has the character %q", c)
			}
		}
	}
	// A last label that is a number makes it an IP address, see the WHATWG URL
	// standard; then it must be four decimals.
	last := strings.ToLower(labels[len(labels)-1])
	if _, err := strconv.ParseUint(last, 0, 64); err == nil || isDigits(last) || strings.HasPrefix(last, "0x") {
		if _, err := netip.ParseAddr(host); err != nil {
			return errors.New("the host is not an IPv4 address of four decimal numbers")
		}
	}
	return nil
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i]-'0' > 9 {
			return false
		}
	}
	return true
}
