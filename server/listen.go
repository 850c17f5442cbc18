package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/wirehttp"
)

// waitingFor returns the maximum number of connections that may wait for a delayed rejection.
func waitingFor(conns int) int { return min(64, max(1, conns/8)) }

// listen opens the address, or returns an error that explains the problem and its fix.
func listen(address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return nil, core.Invalid("listen", address,
			"write an address as HOST:PORT: 127.0.0.1:7700 for this machine only, 0.0.0.0:7700 for all networks, port 0 for a free port")
	}
	ln, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return ln, nil
	case !errors.Is(err, syscall.EADDRINUSE):
		return nil, core.Invalid("listen", address, "cannot listen on this address: %s; choose another address with --listen", reason(err))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	host, _, _ := net.SplitHostPort(address)
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	if who, err := WhoIs(ctx, "http://"+net.JoinHostPort(host, port)); err == nil {
		return nil, core.Invalid("listen", address,
			"%s already listens on this address: use that server, stop it (kill %d), or choose another address with --listen", who, who.PID)
	}
	return nil, core.Invalid("listen", address,
		"another program already listens on this address: choose another address with --listen, such as 127.0.0.1:7701")
}

// HTTP headers of /healthz that identify a tickring server.
const (
	HeaderVersion = "Tickring-Version"
	headerPID     = "Tickring-Pid"
)

// Names of the files in a data directory with which programs find the server.
const (
	EndpointFile = "endpoint"    // contains the URL that the server listens at
	TokenFile    = "admin-token" // contains the admin token of the API
)

// serve passes requests to the current handler; /healthz also identifies this process.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	r = wirehttp.CleanPath(r)
	if r.URL.Path == "/healthz" {
		w.Header().Set(HeaderVersion, s.o.Version)
		w.Header().Set(headerPID, strconv.Itoa(os.Getpid()))
	}
	if s.home && s.fromHere(r) {
		r = r.WithContext(context.WithValue(r.Context(), hereKey{}, true))
	}
	s.setClient(r)
	if counts(r) {
		s.under.reports.Add(1)
		defer s.under.reports.Add(-1)
		s.under.yield(r.Context())
	}
	(*s.handler.Load()).ServeHTTP(w, r)
}

// setClient sets the remote address of a request through trusted proxies to that client's address: the last hop in X-Forwarded-For
// that is not a trusted proxy. Entries before that hop are written by the client and ignored.
func (s *Server) setClient(r *http.Request) {
	forwarded := r.Header.Values("X-Forwarded-For")
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || len(forwarded) == 0 {
		return
	}
	trusted := func(ip netip.Addr) bool {
		return slices.ContainsFunc(s.o.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(ip) })
	}
	client := peer.Addr().Unmap()
	if !trusted(client) {
		s.untrusted.Do(func() {
			s.log.Warn("request with X-Forwarded-For received from an address outside --trusted-proxy", "from", client.String())
		})
		return
	}
	hops := strings.Split(strings.Join(forwarded, ","), ",")
	for i := len(hops) - 1; i >= 0 && trusted(client); i-- {
		text := strings.TrimSpace(hops[i])
		hop, err := netip.ParseAddr(text)
		if at, e := netip.ParseAddrPort(text); e == nil {
			hop, err = at.Addr(), nil
		}
		if err != nil {
			break
		}
		client = hop.Unmap().WithZone("")
	}
	r.RemoteAddr = netip.AddrPortFrom(client, 0).String()
}

// Identity identifies the tickring server at an address.
type Identity struct {
	Version string
	PID     int
}

func (i Identity) String() string {
	return fmt.Sprintf("tickring %s (process %d)", i.Version, i.PID)
}

// WhoIs returns the identity of the tickring server at a base URL. If no tickring server answers, the error has the
// reason, for example that another program listens at the address.
func WhoIs(ctx context.Context, base string) (Identity, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/healthz", nil)
	if err != nil {
		return Identity{}, err
	}
	resp, err := http.DefaultClient.Do(r)
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if err != nil {
		return Identity{}, err
	}
	resp.Body.Close()
	pid, _ := strconv.Atoi(resp.Header.Get(headerPID))
	who := Identity{resp.Header.Get(HeaderVersion), pid}
	if who.Version == "" {
		return who, errors.New("another program answers at this address")
	}
	return who, nil
}

// other describes the server that holds the data directory.
func (s *Server) other(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	b, err := os.ReadFile(filepath.Join(s.o.Dir, EndpointFile))
	if at := strings.TrimSpace(string(b)); err == nil && at != s.URL() {
		if who, err := WhoIs(ctx, at); err == nil {
			return who.String()
		}
	}
	return "another tickring serve"
}

// isBase reports whether text is a base URL to which a path can be appended.
func isBase(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.RawQuery == "" && u.Fragment == ""
}

// OnAllNetworks reports whether the server listens at all network addresses of the machine.
func (s *Server) OnAllNetworks() bool {
	a, ok := s.ln.Addr().(*net.TCPAddr)
	return ok && a.IP.IsUnspecified()
}

// reachable guesses the URL under which other machines reach the server: its listen address, or, if it listens on all addresses,
// the first one that is not loopback. Users override it with --report-url.
func (s *Server) reachable() string {
	if !s.OnAllNetworks() {
		return s.URL()
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return s.URL()
	}
	_, port, _ := net.SplitHostPort(s.ln.Addr().String())
	for _, six := range []bool{false, true} {
		for _, a := range addresses {
			p, err := netip.ParsePrefix(a.String())
			if ip := p.Addr(); err == nil && ip.Is6() == six && ip.IsGlobalUnicast() {
				return s.base(ip.String(), port)
			}
		}
	}
	return s.URL()
}

// standbyHandler answers everything with 503 and the reason, so that executors
// try the next address.
type standbyHandler struct{}

func (standbyHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"code": string(core.CodeUnavailable),
		"message": "standing by: another tickring serve uses this data directory, or this one is still opening it"}})
}
