// Tickring is the scheduler's server and its command line in one: every command
// but serve is a client of the API.
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
