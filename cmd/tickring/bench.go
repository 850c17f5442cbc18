package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/awsload"
	"github.com/tickring/tickring/internal/bench"
)

// BenchCmd measures.
type BenchCmd struct {
	Serve BenchServeCmd `cmd:"" default:"withargs" help:"Measure a server on this machine: what was received, when, and what the server used."`
	AWS   BenchAWSCmd   `cmd:"" help:"Run the functions over DynamoDB Local and an SQS server, and kill them under load: correctness and units, not speed."`
}

// BenchServeCmd measures a server.
type BenchServeCmd struct {
	Scenario []string      `arg:"" optional:"" help:"Of second-100, second-1000, second-10000, burst-10000, burst-50000, highest, hang, apply, idle, soak; all but soak if none is named."`
	For      time.Duration `help:"How long a rate is measured." default:"60s"`
	SoakFor  time.Duration `help:"How long the soak is." default:"10m"`
	SoakKeep time.Duration `help:"How long runs are kept in the soak." default:"2m"`
	Dir      string        `help:"Where data folders are made and left (default: a temporary folder, removed at the end)." type:"path"`
}

// Run measures: the server and the executor are processes of their own, on
// this machine.
func (c *BenchServeCmd) Run(e *Env) error {
	out := e.Stdout
	if e.json() {
		out = e.Stderr
	}
	rows, err := bench.Run(e.Ctx, bench.Options{Scenarios: c.Scenario, For: c.For, SoakFor: c.SoakFor, SoakKeep: c.SoakKeep, Dir: c.Dir, Out: out, Apply: applyBench})
	if err != nil {
		return err
	}
	if e.json() {
		return e.printJSON(rows)
	}
	return nil
}

// BenchAWSCmd loads the functions over stand-ins for AWS.
type BenchAWSCmd struct {
	Dynamodb  string        `required:"" placeholder:"URL" help:"DynamoDB Local, as test/standins/start.sh prints it: http://127.0.0.1:PORT. Other machines are refused."`
	Sqs       string        `required:"" placeholder:"URL" help:"The SQS server, likewise."`
	Functions string        `required:"" type:"existingdir" help:"Folder with the functions' binaries: tick, dispatch, callback, registry, api (go build -o FOLDER ./functions/...)."`
	Fires     int           `default:"10000" help:"About how many fires are asked for, up to 1,000,000."`
	Kill      time.Duration `default:"1500ms" help:"How long between two kills of a dispatching process, on average; 0: none."`
	TickKills int           `help:"How often the planning process is killed; each holds up planning for 45 s."`
	Dir       string        `type:"path" help:"Where the functions' logs are left (default: a temporary folder, removed at the end)."`
}

// Run loads them, and fails when anything was lost, early or sent twice.
func (c *BenchAWSCmd) Run(e *Env) error {
	place, err := awsload.NewPlace(c.Dynamodb, c.Sqs)
	switch {
	case err != nil:
		return err
	case c.Fires < 100 || c.Fires > 1_000_000:
		return core.Invalid("fires", strconv.Itoa(c.Fires), "allowed: 100 to 1000000")
	case c.Kill < 0 || c.TickKills < 0:
		return core.Invalid("kill", c.Kill.String(), "less than nothing cannot be waited for or killed")
	}
	dir := c.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "tickring-bench-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	r, err := awsload.Run(e.Ctx, awsload.Options{Place: place, Functions: c.Functions, Dir: dir, Prefix: fmt.Sprintf("bench%d", time.Now().UnixMilli()), Fires: c.Fires, Kill: c.Kill, TickKills: c.TickKills,
		Log: func(format string, args ...any) { fmt.Fprintf(e.Stderr, format+"\n", args...) }})
	if err != nil {
		return err
	}
	if e.json() {
		err = e.printJSON(r)
	} else {
		r.Print(e.Stdout)
	}
	if err == nil && len(r.Faults) > 0 {
		err = core.Errorf(core.CodeInternal, "%d faults", len(r.Faults))
	}
	return err
}

func applyBench(ctx context.Context, url, token string, jobs []manage.JobSpec) error {
	c, err := client.New(url, token, client.Config{Actor: "bench"})
	if err != nil {
		return err
	}
	req := api.ApplyRequest{}
	for _, j := range jobs {
		req.Jobs = append(req.Jobs, api.JobSpecOf(j))
	}
	_, err = client.Decode[api.ApplyResult](c.Apply(ctx, req))
	return err
}

// benchExecCmd is the executor of a bench, in a process of its own.
type benchExecCmd struct {
	App   string `required:""`
	Admin string `required:""`
	Hang  bool
}

// Run receives until standard input ends.
func (c *benchExecCmd) Run(e *Env) error {
	return bench.RunExecutor(bench.ExecutorOptions{App: c.App, Admin: c.Admin, Token: e.Token, Hang: c.Hang}, e.Stdin, e.Stdout)
}
