package server

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/send"
	"github.com/tickring/tickring/wire"
)

// hereKey marks the context of a request that came from this machine, directly.
type hereKey struct{}

// AsksTokens reports whether every executor must send a token, including executors on this machine and executors of
// apps without a token.
func (s *Server) AsksTokens() bool { return !s.o.AllowNoToken && !s.home }

// letsIn reports whether a request is let in for an app that has no token.
func (s *Server) letsIn(ctx context.Context) bool {
	return s.o.AllowNoToken || isHere(ctx)
}

// isHere reports whether a request came from this machine, directly.
func isHere(ctx context.Context) bool { return ctx.Value(hereKey{}) != nil }

// atHome reports whether only this machine is expected to send requests: the server listens on loopback, and no configured URL
// leads here from elsewhere.
func (s *Server) atHome() bool {
	if s.o.RequireToken || s.o.AllowNoToken || !s.onLoopback() {
		return false
	}
	for _, text := range []string{s.reportURL, cmp.Or(s.o.Provider.URL, s.reportURL)} {
		if u, err := url.Parse(text); err != nil || !isLoopback(u.Hostname()) && u.Hostname() != s.listenHost() {
			return false
		}
	}
	return true
}

// fromHere reports whether a request comes directly from a program on this machine that uses the server's own address. It rejects
// requests through proxies, which can come from anywhere. It rejects other host names, because a web site's name can be made to
// resolve to loopback. It rejects HTTP/1.0, which only proxies use for their upstreams.
func (s *Server) fromHere(r *http.Request) bool {
	if !r.ProtoAtLeast(1, 1) || !s.isOwn(r.Host) {
		return false
	}
	for name := range r.Header {
		switch {
		case name == send.HeaderRun, name == wire.HeaderScheduledAt: // a call that a server sends for a job
			return false
		case name == "Forwarded", name == "Via", name == "Cdn-Loop", strings.HasPrefix(name, "X-Forwarded-"),
			strings.HasPrefix(name, "X-Envoy-"),
			strings.HasSuffix(name, "-Ip"), strings.HasSuffix(name, "-Clientip"): // X-Real-IP, CF-Connecting-IP, True-Client-IP …
			return false
		}
	}
	return true
}

// isOwn reports whether the host that a request names is this machine.
func (s *Server) isOwn(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return isLoopback(strings.Trim(host, "[]")) || strings.EqualFold(host, s.listenHost())
}

// ownName rejects requests to a server on loopback under any host name except its own and the names in its configured URLs. Otherwise
// a web page whose name resolves to loopback could read answers that need no token.
func (s *Server) ownName(next http.Handler) http.Handler {
	names := []string{}
	for _, text := range []string{s.reportURL, s.o.Provider.URL} { // New has validated them
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			names = append(names, u.Host)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.onLoopback() && !s.isOwn(r.Host) && !slices.Contains(names, r.Host) {
			help := "use the server's own address, or start the server with --report-url set to this URL"
			if i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, r.Host+":") }); i >= 0 && r.Host != "" {
				help = "the port is missing, " + names[i] + " is expected: a proxy must send the port in Host ($http_host in nginx)"
			}
			http.Error(w, fmt.Sprintf("Host: %q: not a name of this server: ", core.Truncate(r.Host))+help, http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// onLoopback reports whether the server listens on this machine only.
func (s *Server) onLoopback() bool {
	a, ok := s.ln.Addr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// listensAt reports whether a connection to an address would reach this server.
func (s *Server) listensAt(ap netip.AddrPort) bool {
	a, ok := s.ln.Addr().(*net.TCPAddr)
	if !ok || int(ap.Port()) != a.Port {
		return false
	}
	if !a.IP.IsUnspecified() || ap.Addr().IsLoopback() {
		return a.IP.IsUnspecified() || a.IP.Equal(ap.Addr().AsSlice())
	}
	list, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(list, func(of net.Addr) bool {
		n, is := of.(*net.IPNet)
		return is && n.IP.Equal(ap.Addr().AsSlice())
	})
}

// listenHost is the host of the address to listen on, as it was given.
func (s *Server) listenHost() string {
	host, _, _ := net.SplitHostPort(s.o.Listen)
	return host
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}
