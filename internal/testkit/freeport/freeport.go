// Package freeport finds an unused port for a server whose address must be known before the server listens, or that
// must listen on one port twice. For other servers, use port 0 instead.
package freeport

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
)

var asked atomic.Int64

// Free returns an unused port of this machine. The port is lower than the ports that the system assigns for port 0, so
// a listener on port 0 cannot take this port first.
func Free(tb testing.TB) string {
	tb.Helper()
	var err error
	for range 1000 {
		port := fmt.Sprint(10_000 + (37*int64(os.Getpid())+7*asked.Add(1))%20_000)
		var ln net.Listener
		if ln, err = net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			ln.Close()
			return port
		}
	}
	tb.Fatalf("no port is free: %v", err)
	return ""
}
