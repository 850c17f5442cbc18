// Package ports finds a port for what is told of it and listens later, or again. What
// listens at once takes port 0 instead.
package ports

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
)

var asked atomic.Int64

// Free is a port of this machine on which nobody listens. It is below those that the system
// gives to whoever asks for any, so that none of them comes first.
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
