package main

import (
	"context"
	"slices"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/bench"
)

type BenchCmd struct {
	Serve BenchServeCmd `cmd:"" default:"withargs" help:"Measure a server on this machine: received runs, lateness, and resources used."`
}

type BenchServeCmd struct {
	Scenario []string      `arg:"" optional:"" help:"Scenarios: second-100, second-1000, second-10000, burst-10000, burst-50000, highest, hang, children, overlap, apply, idle, soak (default: all except soak)."`
	For      time.Duration `help:"Duration of each rate measurement." default:"60s"`
	SoakFor  time.Duration `help:"Duration of the soak." default:"10m"`
	SoakKeep time.Duration `help:"How long runs are kept during the soak." default:"2m"`
	Dir      string        `help:"Directory for data directories, which are kept (default: a temporary directory, removed at the end)." type:"path"`
}

// Run measures: the server and the executor are processes of their own, on
// this machine.
func (c *BenchServeCmd) Run(e *Env) error {
	out := e.Stdout
	if e.json() {
		out = e.Stderr
	}
	rows, err := bench.Run(e.Ctx, bench.Options{Scenarios: c.Scenario, For: c.For, SoakFor: c.SoakFor, SoakKeep: c.SoakKeep, Dir: c.Dir,
		Out: out, Apply: applyBench})
	return e.show(rows, err, func() {}) // Run has already printed the table row by row
}

func applyBench(ctx context.Context, url, token string, jobs []manage.JobSpec) error {
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

// benchExecCmd is the executor of a bench, in a process of its own.
type benchExecCmd struct {
	App   string    `required:""`
	Admin string    `required:""`
	Hang  time.Time `name:"hang-from"`
}

// Run receives until standard input ends.
func (c *benchExecCmd) Run(e *Env) error {
	return bench.RunExecutor(bench.ExecutorOptions{App: c.App, Admin: c.Admin, Token: e.Token, HangFrom: c.Hang}, e.Stdin, e.Stdout)
}
