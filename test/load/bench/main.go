package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/test/harness"
)

// binary is the path of the tickring that is measured.
var binary string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := measure(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// measure builds tickring and runs the scenarios of the arguments.
func measure(ctx context.Context) error {
	var o Options
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	flags.DurationVar(&o.For, "for", time.Minute, "duration of each rate measurement; the soak lasts ten times as long")
	flags.StringVar(&o.Dir, "dir", "", "directory for data directories, which are kept (default: a temporary directory)")
	flags.StringVar(&binary, "tickring", "", "path of the binary to measure (default: built from this repository)")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: go run . [flags] [scenario ...]\nscenarios:", names())
		flags.PrintDefaults()
	}
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	o.Scenarios = flags.Args()
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

// apply creates jobs through the API of a server.
func apply(ctx context.Context, url string, jobs []manage.JobSpec) error {
	c, err := client.New(url, harness.Token, client.Config{})
	if err != nil {
		return err
	}
	for part := range slices.Chunk(jobs, api.MaxApplyJobs) {
		req := client.ApplyRequest{}
		for _, j := range part {
			req.Jobs = append(req.Jobs, api.JobSpecOf(j))
		}
		if _, err = c.Apply(ctx, req); err != nil {
			return err
		}
	}
	return nil
}
