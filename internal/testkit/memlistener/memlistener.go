// Package memlistener has a listener in memory, for servers in a bubble of synctest.
package memlistener

import "net"

// Listener is a listener in memory. Every holder of its value can dial it.
type Listener chan net.Conn

// Listen returns a new Listener.
func Listen() Listener { return make(Listener, 10) }

// Dial connects. Data that is sent waits until it is read.
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
