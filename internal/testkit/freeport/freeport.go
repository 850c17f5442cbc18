// Package freeport finds a port for a server whose address is needed before it listens, or again.
// A server that listens at once uses port 0 instead.
package freeport

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
)

var asked atomic.Int64

// Free returns an unused port of this machine. It is below the ports that the system assigns
// for port 0, so that no such listener takes it first.
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
