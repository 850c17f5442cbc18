package safedial

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
)

// TestOwnWant: a shortage of this machine is distinguished from a failure of the address,
// however a dial wraps it.
func TestOwnWant(t *testing.T) {
	dial := func(ip string, err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: 9}, Err: err}
	}
	sys := os.NewSyscallError
	for _, err := range []error{
		dial("10.0.0.1", sys("socket", syscall.EMFILE)), dial("10.0.0.1", sys("socket", syscall.ENFILE)),
		dial("10.0.0.1", sys("connect", syscall.ENOBUFS)), dial("10.0.0.1", sys("connect", syscall.ENOMEM)),
		dial("10.0.0.1", sys("connect", syscall.EADDRNOTAVAIL)), fmt.Errorf("x: %w", syscall.EADDRNOTAVAIL),
		&net.OpError{Op: "dial", Err: &net.DNSError{Err: "dial udp 10.0.0.2:53: socket: too many open files", Name: "x"}},
	} {
		if !OwnWant(err) {
			t.Errorf("%v is taken for the address's", err)
		}
	}
	for _, err := range []error{
		nil, errors.New("too many open files"), dial("10.0.0.1", sys("connect", syscall.ECONNREFUSED)),
		dial("10.0.0.1", sys("connect", syscall.EHOSTUNREACH)), &NotAllowedError{Address: "x"},
		&net.DNSError{Err: "no such host", Name: "x"},
	} {
		if OwnWant(err) {
			t.Errorf("%v is taken for ours", err)
		}
	}
	// Without IPv6, an IPv6 address gives the error of missing ports.
	six := dial("::1", sys("connect", syscall.EADDRNOTAVAIL))
	c, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: net.IPv6loopback, Port: 9})
	if err == nil {
		c.Close()
	}
	if ours := OwnWant(six); ours != !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("ours: %t, and a socket without ports gives %v", ours, err)
	}
}
