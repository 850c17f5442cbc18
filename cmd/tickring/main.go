// Tickring is the server of the scheduler and its CLI in one program. `tickring serve` is the server. Every other
// command is a client of the API.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.LookupEnv)
	stop()
	os.Exit(code)
}
