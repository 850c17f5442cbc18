package safedial

import (
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
)

// wants are what a connection takes of this process and its machine: descriptors
// and memory. Ports are besides, see OwnWant.
var wants = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS}

// OwnWant reports whether a connection failed for want of our own descriptors,
// ports or memory. That says nothing of the address.
func OwnWant(err error) bool {
	if err == nil {
		return false
	}
	for _, want := range wants {
		if errors.Is(err, want) {
			return true
		}
	}
	if d, ok := errors.AsType[*net.DNSError](err); ok { // which keeps the text alone
		return slices.ContainsFunc(wants, func(want error) bool { return strings.HasSuffix(d.Err, want.Error()) })
	}
	if !errors.Is(err, syscall.EADDRNOTAVAIL) {
		return false
	}
	// All ports are in use; or the address is one of IPv6 and this machine has none,
	// which a socket that shares no port with it tells, and sends nothing.
	to, _ := errors.AsType[*net.OpError](err)
	if to == nil {
		return true
	}
	addr, ok := to.Addr.(*net.TCPAddr)
	if !ok || addr.IP.To4() != nil {
		return true
	}
	c, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: addr.IP, Port: addr.Port, Zone: addr.Zone})
	if err != nil {
		return !errors.Is(err, syscall.EADDRNOTAVAIL)
	}
	c.Close()
	return true
}
