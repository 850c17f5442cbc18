package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core/manage"
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
	flag.DurationVar(&o.For, "for", time.Minute, "duration of each rate measurement; the soak lasts ten times as long")
	flag.StringVar(&o.Dir, "dir", "", "directory for data directories, which are kept (default: a temporary directory)")
	flag.StringVar(&binary, "tickring", "", "path of the binary to measure (default: built from this repository)")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run . [flags] [scenario ...]\nscenarios:", names())
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
		binary = filepath.Join(dir, "tickring")
		root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/tickring/tickring").Output()
		if err != nil {
			return fmt.Errorf("find the module of tickring: %w", err)
		}
		build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/tickring")
		build.Dir, build.Stdout, build.Stderr = strings.TrimSpace(string(root)), os.Stdout, os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build tickring: %w", err)
		}
	}
	return Run(ctx, o)
}

// apply creates jobs through the API of a server.
func apply(ctx context.Context, url, token string, jobs []manage.JobSpec) error {
	c, err := client.New(url, token, client.Config{})
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
