package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/tickring/tickring/test/harness"
)

// binary is the path of the tickring that is measured.
var binary string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if len(os.Args) == 3 && os.Args[1] == "executor" { // in a process of its own
		err = RunExecutor(os.Args[2], os.Stdin, os.Stdout)
	} else {
		err = measure(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// measure builds tickring and runs the scenarios of the arguments.
func measure(ctx context.Context) error {
	o := Options{Out: os.Stdout}
	flag.DurationVar(&o.For, "for", time.Minute, "duration of each rate measurement")
	flag.StringVar(&o.Dir, "dir", "", "directory for data directories, which are kept (default: a temporary directory)")
	flag.StringVar(&binary, "tickring", "", "path of the binary to measure (default: built from this repository)")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run . [flags] [scenario ...]\nscenarios:", Names)
		flag.PrintDefaults()
	}
	flag.Parse()
	o.Scenarios = flag.Args()
	if binary == "" {
		dir, err := os.MkdirTemp("", "tickring-bench-")
		if err != nil {
			return fmt.Errorf("make a directory for the binary: %w", err)
		}
		defer os.RemoveAll(dir)
		if binary, err = harness.Build(dir); err != nil {
			return err
		}
	}
	return Run(ctx, o)
}
