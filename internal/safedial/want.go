package safedial

import (
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
)

// wants lists the errors for missing descriptors and memory of this process or its machine.
// OwnWant checks ports separately.
var wants = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS}

// OwnWant reports whether the error err means that this machine had no file descriptors, ports or memory left for a
// connection. Such a failure does not mean that the address is unreachable.
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
	// Either all ports are in use, or the address is IPv6 and this machine has none. A UDP
	// socket, which shares no port and sends nothing, distinguishes them.
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
