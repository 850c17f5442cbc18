package safedial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickring/tickring/internal/testkit/check"
)

func prefixes(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func TestCheck(t *testing.T) {
	var (
		strict = Policy{}
		serve  = Policy{AllowLoopback: true, AllowPrivate: true}
		listed = Policy{Allow: prefixes("10.1.0.0/16", "203.0.113.0/24", "fd12::/16")}
	)
	for _, c := range []struct {
		ip                    string
		strict, serve, listed bool
	}{
		{"8.8.8.8", true, true, false},
		{"203.0.113.9", true, true, true},
		{"2600:1f18::1", true, true, false},
		{"127.0.0.1", false, true, false},
		{"127.255.0.1", false, true, false},
		{"::1", false, true, false},
		{"10.1.2.3", false, true, true},
		{"10.2.2.3", false, true, false},
		{"172.16.0.1", false, true, false},
		{"192.168.1.1", false, true, false},
		{"100.64.0.1", false, true, false},
		{"fd12::1", false, true, true},
		{"fc00::1", false, true, false},
		// The same in other clothes.
		{"::ffff:8.8.8.8", true, true, false},
		{"::ffff:10.1.2.3", false, true, true},
		{"::ffff:127.0.0.1", false, true, false},
		{"64:ff9b::7f00:1", false, true, false},
		{"64:ff9b::a01:203", false, true, true},
		{"2002:a01:203::1", false, true, true},
		{"::127.0.0.1", false, true, false},
		{"::ffff:0:7f00:1", false, true, false},
		// Never.
		{"169.254.169.254", false, false, false},
		{"::ffff:169.254.169.254", false, false, false},
		{"64:ff9b::a9fe:a9fe", false, false, false},
		{"2002:a9fe:a9fe::", false, false, false},
		{"64:ff9b:1::a9fe:a9fe", false, false, false},
		{"::169.254.169.254", false, false, false},
		{"169.254.170.2", false, false, false},
		{"169.254.1.1", false, false, false},
		{"fe80::1", false, false, false},
		{"fe80::1%eth0", false, false, false},
		{"febf::1", false, false, false},
		{"fec0::1", false, false, false},
		{"fd00:ec2::254", false, false, false},
		{"fd20:ce::254", false, false, false},
		{"100.100.100.200", false, false, false},
		{"168.63.129.16", false, false, false},
		{"0.0.0.0", false, false, false},
		{"0.1.2.3", false, false, false},
		{"::", false, false, false},
		{"224.0.0.1", false, false, false},
		{"ff02::1", false, false, false},
		{"255.255.255.255", false, false, false},
		{"240.0.0.1", false, false, false},
		{"2001::1", false, false, false},
	} {
		ip := netip.MustParseAddr(c.ip)
		for _, p := range []struct {
			name string
			Policy
			want bool
		}{{"strict", strict, c.strict}, {"serve", serve, c.serve}, {"listed", listed, c.listed}} {
			err := p.Check(ip)
			if (err == nil) != p.want {
				t.Errorf("%s of %s: %v, want allowed %v", p.name, c.ip, err, p.want)
			}
			var refusal *NotAllowedError
			if err != nil && (!errors.Is(err, ErrNotAllowed) || !errors.As(err, &refusal) || !strings.Contains(err.Error(), ip.String()) ||
				refusal.Allowed == "") {
				t.Errorf("%s of %s: the error is unclear: %v", p.name, c.ip, err)
			}
		}
	}
	if err := serve.Check(netip.Addr{}); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("no address: %v", err)
	}
}

// No list opens an address that is never allowed.
func TestNoListOpensWhatIsNeverAllowed(t *testing.T) {
	all := prefixes("0.0.0.0/0", "::/0")
	p := Policy{AllowLoopback: true, AllowPrivate: true, Allow: all}.For(all)
	contexts := []context.Context{t.Context(), WithAllow(t.Context(), all)}
	rapid.Check(t, func(rt *rapid.T) {
		n := never[rapid.IntRange(0, len(never)-1).Draw(rt, "range")].prefix
		ip := n.Addr().As16()
		off := 0
		if n.Addr().Is4() {
			off = 96
		}
		for bit := off + n.Bits(); bit < 128; bit++ {
			if rapid.Bool().Draw(rt, "bit") {
				ip[bit/8] |= 0x80 >> (bit % 8)
			}
		}
		addr := netip.AddrFrom16(ip)
		for _, ctx := range contexts {
			if p.CheckContext(ctx, addr) == nil {
				rt.Fatalf("%s is allowed", addr)
			}
		}
	})
	if err := (Policy{Allow: all}).CheckContext(WithAllow(t.Context(), all), netip.MustParseAddr("127.0.0.1")); err == nil {
		t.Error("a list opened loopback")
	}
}

func TestListsOfACall(t *testing.T) {
	ip, other, public := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("8.8.8.8")
	list := prefixes("10.0.0.1/32")
	for _, c := range []struct {
		name   string
		policy Policy
		ctx    context.Context
		want   [3]bool
	}{
		{"none", Policy{}, t.Context(), [3]bool{false, false, true}},
		{"allow", Policy{}, WithAllow(t.Context(), list), [3]bool{true, false, true}},
		{"bound", Policy{}.For(list), t.Context(), [3]bool{true, false, true}},
		{"bound and listed", Policy{Allow: prefixes("10.0.0.2/32")}.For(list), t.Context(), [3]bool{true, true, false}},
		{"mapped prefix", Policy{}.For(prefixes("::ffff:10.0.0.1/128")), t.Context(), [3]bool{true, false, true}},
	} {
		for i, ip := range []netip.Addr{ip, other, public} {
			if err := c.policy.CheckContext(c.ctx, ip); (err == nil) != c.want[i] {
				t.Errorf("%s: %s: %v, want allowed %v", c.name, ip, err, c.want[i])
			}
		}
	}
}

func TestControl(t *testing.T) {
	p := Policy{AllowLoopback: true}
	for _, c := range []struct {
		network, address string
		want             bool
	}{
		{"tcp4", "127.0.0.1:80", true},
		{"tcp6", "[::1]:80", true},
		{"tcp6", "[fe80::1%eth0]:80", false},
		{"tcp4", "10.0.0.1:80", false},
		{"udp4", "127.0.0.1:80", false},
		{"unix", "/run/docker.sock", false},
		{"tcp4", "localhost:80", false},
	} {
		if err := p.ControlContext(t.Context(), c.network, c.address, nil); (err == nil) != c.want || err != nil &&
			!errors.Is(err, ErrNotAllowed) {
			t.Errorf("%s %s: %v, want allowed %v", c.network, c.address, err, c.want)
		}
	}
}

// A name that leads to loopback is rejected at connect, and the error survives the wrapping of
// package net.
func TestDialerChecksAfterDNS(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	for _, host := range []string{"localhost", "127.0.0.1"} {
		_, err = Policy{}.Dialer(time.Second).DialContext(t.Context(), "tcp4", net.JoinHostPort(host, port))
		if !errors.Is(err, ErrNotAllowed) {
			t.Errorf("%s under the zero policy: %v", host, err)
		}
	}
	conn, err := Policy{AllowLoopback: true}.Dialer(time.Second).DialContext(t.Context(), "tcp4", ln.Addr().String())
	check.OK(t, err)
	conn.Close()
}

// TestListLoopback: loopback and private ranges only where a list has them.
func TestListLoopback(t *testing.T) {
	p := Policy{ListLoopback: true}
	named := WithAllow(t.Context(), prefixes("127.0.0.5/32", "10.1.0.0/16", "169.254.0.0/16"))
	for ip, want := range map[string]struct{ plain, named bool }{
		"127.0.0.5": {false, true}, "127.0.0.1": {}, "::1": {}, "::ffff:127.0.0.5": {false, true}, "10.1.2.3": {false, true}, "10.2.2.3": {},
		"8.8.8.8": {true, true}, "169.254.169.254": {},
	} {
		ip := netip.MustParseAddr(ip)
		if err := p.Check(ip); (err == nil) != want.plain {
			t.Errorf("%s: %v", ip, err)
		}
		if err := p.CheckContext(named, ip); (err == nil) != want.named {
			t.Errorf("%s, named: %v", ip, err)
		}
		if err := p.For(prefixes("127.0.0.5/32", "10.1.0.0/16")).Check(ip); (err == nil) != want.named {
			t.Errorf("%s, with the app's list: %v", ip, err)
		}
		if err := (Policy{}).CheckContext(named, ip); ip.Unmap().IsLoopback() && err == nil {
			t.Errorf("%s is opened by a list alone", ip)
		}
	}
}

func TestParseBase(t *testing.T) {
	for _, c := range []struct{ raw, host, path string }{
		{"http://10.0.0.1:9999/", "10.0.0.1:9999", ""},
		{"http://10.0.0.1:9999", "10.0.0.1:9999", ""},
		{"https://exec.example.com", "exec.example.com:443", ""},
		{"http://exec_1.local/a/b//", "exec_1.local:80", "/a/b"},
		{"HTTP://Exec:80/a%2fb", "Exec:80", "/a%2fb"},
		{"http://[fd00::1]:80", "[fd00::1]:80", ""},
		{"http://[::1]", "[::1]:80", ""},
		{"http://host.:65535", "host.:65535", ""},
	} {
		b, err := ParseBase(c.raw)
		if err != nil || b.Host != c.host || b.Path != c.path || b.Raw != c.raw || b.HTTPS != strings.HasPrefix(c.raw, "https") {
			t.Errorf("%s: %+v, %v", c.raw, b, err)
		}
	}
	for _, raw := range []string{
		"", "http://", "http://:80", "10.0.0.1:80", "ftp://h", "file:///etc/passwd", "gopher://h", "http:h", "//h",
		"http://u:p@h", "http://u@h", "http://h#f", "http://h/#", "http://h?q", "http://h/?", "http://h:0", "http://h:65536", "http://h:-1",
		"http://h:", "http://h:80a",
		"http://h h", "http://h/a b", "http://h\r\nX: y", "http://h/\x00", "http://h\\@x", "http://é", "http://a..b", "http://[fe80::1%25eth0]",
		"http://[::1", "http://h%41",
		"http://2130706433", "http://0x7f000001", "http://0177.0.0.1", "http://127.1", "http://1.2.3.4.5", "http://1.2.3.0x4",
		"http://127.0.0.1.",
		"http://" + strings.Repeat("a", MaxBase),
	} {
		if b, err := ParseBase(raw); err == nil {
			t.Errorf("%.60q was taken: %+v", raw, b)
		} else if !strings.Contains(err.Error(), "allowed: http://") {
			t.Errorf("%.60q: the error does not list allowed values: %v", raw, err)
		}
	}
}

func FuzzParseBase(f *testing.F) {
	for _, s := range []string{"http://10.0.0.1:9999/", "https://h/a%2fb", "http://[::1]:80", "http://u@h", "http://h#f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		b, err := ParseBase(raw)
		if err != nil {
			return
		}
		if b.Raw != raw || strings.ContainsAny(b.Host+b.Authority+b.Path, " \r\n\t?#\\") || strings.Contains(b.Host+b.Authority, "@") ||
			strings.HasSuffix(b.Path, "/") {
			t.Fatalf("%q became %+v", raw, b)
		}
		host, port, err := net.SplitHostPort(b.Host)
		if err != nil || host == "" || port == "" {
			t.Fatalf("%q: host %q: %v", raw, b.Host, err)
		}
		scheme := "http://"
		if b.HTTPS {
			scheme = "https://"
		}
		if again, err := ParseBase(scheme + b.Authority + b.Path); err != nil || again.Host != b.Host || again.Path != b.Path {
			t.Fatalf("%q: again %+v, %v", raw, again, err)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	p, ip, ctx := Policy{AllowPrivate: true}, netip.MustParseAddr("10.0.0.1"), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		check.OK(b, p.CheckContext(ctx, ip))
	}
}
