// Package safedial decides which IP addresses tickring may connect to.
//
// Addresses of executors and callback URLs come from outside. A client that may register an address could make the
// scheduler connect to its own network, or to the metadata service of its machine. Checking a host name is not enough,
// because the next lookup of the name can return another address. Therefore a [net.Dialer.Control] hook checks the IP
// address after the DNS lookup, when a connection is opened. The address is checked again when a kept connection is
// reused.
//
// The package also distinguishes a lack of resources on this machine from a failure of the address ([OwnWant]). It
// imports nothing else from this repository.
package safedial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// A Policy decides which IP addresses tickring may connect to. The zero Policy allows all public unicast addresses and
// no other address.
type Policy struct {
	AllowLoopback bool // allows 127.0.0.0/8 and ::1
	ListLoopback  bool // allows loopback addresses only if a list of prefixes has them
	AllowPrivate  bool // allows 10/8, 172.16/12, 192.168/16, fc00::/7, and the shared address space 100.64/10

	// Allow, if not empty, has all allowed prefixes. Public addresses outside these prefixes are rejected.
	// Addresses that AllowLoopback and AllowPrivate allow stay allowed.
	//
	// Loopback addresses in Allow need ListLoopback, because on AWS the Lambda runtime listens on loopback.
	// Allow never allows link-local addresses, metadata services of clouds, the unspecified address, multicast,
	// broadcast or reserved ranges.
	Allow []netip.Prefix

	// Own reports whether this process listens at an address. Such an address is always rejected, because a
	// request from this process would look like a request of a local program. nil: this process listens at no
	// address.
	Own func(netip.AddrPort) bool

	extra []netip.Prefix // of For
}

// NotAllowedError is the error for an address that a Policy rejects. errors.Is reports true for ErrNotAllowed.
type NotAllowedError struct {
	IP      netip.Addr // the rejected IP address; invalid if the address was not an IP address
	Address string     // the rejected address; set only if IP is invalid
	Reason  string     // the reason for the rejection
	Allowed string     // the addresses that are allowed instead
}

func (e *NotAllowedError) Error() string {
	what := e.Address
	if e.IP.IsValid() {
		what = e.IP.String()
	}
	return fmt.Sprintf("address %s is not allowed: %s; allowed: %s", what, e.Reason, e.Allowed)
}

// Is reports whether target is ErrNotAllowed.
func (e *NotAllowedError) Is(target error) bool { return target == ErrNotAllowed }

// ErrNotAllowed matches every NotAllowedError with errors.Is.
var ErrNotAllowed = errors.New("address not allowed")

var (
	// never lists prefixes that every policy rejects.
	never = []struct {
		prefix netip.Prefix
		reason string
	}{
		{netip.MustParsePrefix("169.254.169.254/32"), "it is a metadata service"},
		{netip.MustParsePrefix("169.254.170.2/32"), "it is a metadata service"},  // ECS task role
		{netip.MustParsePrefix("169.254.170.23/32"), "it is a metadata service"}, // EKS pod identity
		{netip.MustParsePrefix("fd00:ec2::/32"), "it is a metadata service"},     // EC2: ::254 metadata, ::253 DNS, ::123 time, ::23 EKS
		{netip.MustParsePrefix("fd20:ce::254/128"), "it is a metadata service"},  // GCE
		{netip.MustParsePrefix("100.100.100.200/32"), "it is a metadata service"},
		{netip.MustParsePrefix("168.63.129.16/32"), "it is a metadata service"}, // Azure, though the range is public
		{netip.MustParsePrefix("192.0.0.192/32"), "it is a metadata service"},   // Oracle
		{netip.MustParsePrefix("169.254.0.0/16"), "it is link-local"},
		{netip.MustParsePrefix("fe80::/10"), "it is link-local"},
		{netip.MustParsePrefix("fec0::/10"), "it is site-local, which is withdrawn"},
		{netip.MustParsePrefix("0.0.0.0/8"), "it is unspecified"},
		{netip.MustParsePrefix("::/128"), "it is unspecified"},
		{netip.MustParsePrefix("224.0.0.0/4"), "it is multicast"},
		{netip.MustParsePrefix("ff00::/8"), "it is multicast"},
		{netip.MustParsePrefix("240.0.0.0/4"), "it is reserved or broadcast"},
		{netip.MustParsePrefix("192.0.0.0/24"), "it is reserved"},
		{netip.MustParsePrefix("100::/64"), "it is reserved for discarding"},
		{netip.MustParsePrefix("2001::/32"), "it is a Teredo tunnel"}, // carries an unchecked IPv4 address
		{netip.MustParsePrefix("5f00::/16"), "it is reserved for segment routing"},
	}
	shared = netip.MustParsePrefix("100.64.0.0/10")

	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	compat     = netip.MustParsePrefix("::/96")
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // SIIT
)

// unwrap returns the IPv4 address inside an IPv6 one that only carries it (mapped, compatible,
// NAT64, 6to4, SIIT), else the address without its zone.
func unwrap(ip netip.Addr) netip.Addr {
	ip = ip.WithZone("").Unmap()
	if ip.Is4() || !ip.IsValid() {
		return ip
	}
	b := ip.As16()
	last := netip.AddrFrom4([4]byte(b[12:16]))
	switch {
	case ip == netip.IPv6Loopback() || ip == netip.IPv6Unspecified():
		return ip
	case nat64.Contains(ip), compat.Contains(ip), translated.Contains(ip):
		return last
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return ip
}

// Check returns nil if the policy allows connections to ip, and a [NotAllowedError] otherwise. An IPv6 address that
// contains an IPv4 address is checked as the IPv4 address.
func (p Policy) Check(ip netip.Addr) error { return p.check(ip, nil) }

func (p Policy) check(ip netip.Addr, list []netip.Prefix) error {
	real := unwrap(ip)
	if !real.IsValid() {
		return p.refuse(ip, list, "it is not an IP address")
	}
	for i := range never {
		if never[i].prefix.Contains(real) {
			return p.refuse(ip, list, never[i].reason)
		}
	}
	if nat64Local.Contains(real) {
		// The position of the IPv4 address in such a prefix depends on its length, which only
		// the local network knows, so it cannot be checked.
		return p.refuse(ip, list, "it is a local NAT64 address")
	}
	if real.IsLoopback() && !p.AllowLoopback && !p.ListLoopback {
		return p.refuse(ip, list, "it is loopback")
	}
	if contains(list, real) {
		return nil
	}
	switch {
	case contains(p.Allow, real), contains(p.extra, real):
		return nil
	case real.IsLoopback():
		if p.AllowLoopback {
			return nil
		}
		return p.refuse(ip, list, "it is loopback")
	case real.IsPrivate() || shared.Contains(real):
		if p.AllowPrivate {
			return nil
		}
		return p.refuse(ip, list, "it is private")
	case len(p.Allow) > 0:
		return p.refuse(ip, list, "it is not on the allowlist")
	}
	return nil
}

func contains(list []netip.Prefix, ip netip.Addr) bool {
	for _, p := range list {
		if p.Contains(ip) || p.Addr().Is4In6() && p.Bits() >= 96 && netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Contains(ip) {
			return true
		}
	}
	return false
}

func (p Policy) refuse(ip netip.Addr, list []netip.Prefix, reason string) error {
	return &NotAllowedError{IP: ip, Reason: reason, Allowed: p.allowed(list)}
}

// allowed describes the allowed addresses.
func (p Policy) allowed(list []netip.Prefix) string {
	var parts []string
	if len(p.Allow) == 0 {
		parts = append(parts, "public addresses")
	}
	if p.AllowLoopback {
		parts = append(parts, "loopback")
	}
	if p.AllowPrivate {
		parts = append(parts, "private ranges")
	}
	parts = appendList(appendList(parts, p.Allow), p.extra)
	parts = appendList(parts, list)
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// appendList words a list, truncated so that an error stays one line.
func appendList(parts []string, list []netip.Prefix) []string {
	const most = 8
	for i, prefix := range list {
		if i == most {
			return append(parts, fmt.Sprintf("%d more", len(list)-most))
		}
		parts = append(parts, prefix.String())
	}
	return parts
}

type allowKey struct{}

// WithAllow returns a context with additional allowed prefixes for the checks of this package. An app can widen the
// policy with this context. Prefixes in the list `never` stay rejected.
func WithAllow(ctx context.Context, list []netip.Prefix) context.Context {
	return context.WithValue(ctx, allowKey{}, list)
}

// CheckContext is Check with the additional prefixes that [WithAllow] stored in ctx.
func (p Policy) CheckContext(ctx context.Context, ip netip.Addr) error {
	list, _ := ctx.Value(allowKey{}).([]netip.Prefix)
	return p.check(ip, list)
}

// ControlContext is a hook for [net.Dialer]. It rejects a connection before it is opened if [Policy.CheckContext]
// rejects the resolved address.
func (p Policy) ControlContext(ctx context.Context, network, address string, _ syscall.RawConn) error {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return &NotAllowedError{Address: network + " " + address, Reason: "it is not TCP", Allowed: p.allowed(nil)}
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &NotAllowedError{Address: address, Reason: "it is no IP address and port", Allowed: p.allowed(nil)}
	}
	if p.Own != nil && p.Own(netip.AddrPortFrom(unwrap(ap.Addr()), ap.Port())) {
		return &NotAllowedError{Address: address, Reason: "this server itself listens there", Allowed: p.allowed(nil)}
	}
	return p.CheckContext(ctx, ap.Addr())
}

// Dialer returns a dialer that applies the policy and the additional prefixes in the context of each call. timeout
// limits one call, including the DNS lookup; 0 means no limit.
func (p Policy) Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, KeepAlive: 15 * time.Second, ControlContext: p.ControlContext}
}

// For returns a policy that also allows additional prefixes, for a dialer that serves only one app. Use [WithAllow] to
// add prefixes for a single call.
func (p Policy) For(extra []netip.Prefix) Policy {
	p.extra = append(p.extra[:len(p.extra):len(p.extra)], extra...)
	return p
}
