// Package memlistener has an in-memory listener for servers in a testing/synctest bubble.
package memlistener

import "net"

// Listener is an in-memory network listener. Clients connect to the listener with its method Dial.
type Listener chan net.Conn

// Listen returns a new open Listener.
func Listen() Listener { return make(Listener, 10) }

// Dial connects to the listener. A write on the connection blocks until the peer reads the data.
func (l Listener) Dial() net.Conn {
	here, there := net.Pipe()
	l <- there
	return here
}

// Accept implements net.Listener.
func (l Listener) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (l Listener) Close() error { close(l); return nil }

// Addr implements net.Listener.
func (l Listener) Addr() net.Addr { return &net.TCPAddr{} }
