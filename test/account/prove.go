package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/internal/awsclient"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/test/harness"
)

const (
	// tag is the tag of all created resources.
	tag = "tickring-proof"
	// dueIndex is the index of the table of jobs.
	dueIndex = "due"
	// wakes is the maximum time until the first runs: the schedule begins within two minutes.
	wakes = 5 * time.Minute
	// endsWithin is the maximum time from the last scheduled run until all runs have ended.
	endsWithin = 4 * time.Minute
	kills      = 6
	// apart is how long it is left alone between two kills.
	apart = 15 * time.Second
	// throttledFor is how long the tables are throttled.
	throttledFor = time.Minute
	killed       = "killed" // the window of kills
)

// proof is one run of this command.
type proof struct {
	o         options
	root, dir string
	sdk       aws.Config
	ask       *awsclient.Client
	db        *dynamodb.Client
	sqs       *sqs.Client
	lambda    *lambda.Client

	server          harness.Server // the deployment, for the CLI
	api             *client.Client // of the deployment
	executorToken   string
	outputs, counts map[string]string // of the stacks
	apps            []app
	ledger          *ledger
	began           time.Time // before the first scheduled run
	windows         []window
	report          report
}

func prove(ctx context.Context, o options) (held bool, err error) {
	p, err := begin(ctx, o)
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(p.dir)
	if o.clean {
		return true, p.clean()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.length+around, errors.New("the time is over that a proof may take"))
	defer cancel()
	err = p.run(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	p.report.print(os.Stdout)
	return p.report.held(), errors.Join(err, p.clean())
}

// begin determines its environment, and rejects resources of other owners.
func begin(ctx context.Context, o options) (*proof, error) {
	p := &proof{o: o, ledger: newLedger(), executorToken: rand.Text()}
	var err error
	if p.root, err = harness.Repository(); err != nil {
		return nil, err
	}
	if p.sdk, err = config.LoadDefaultConfig(ctx, config.WithRegion(o.region), config.WithRetryMaxAttempts(8)); err != nil {
		return nil, fmt.Errorf("read the AWS configuration: %w", err)
	}
	p.db, p.sqs, p.lambda = dynamodb.NewFromConfig(p.sdk), sqs.NewFromConfig(p.sdk), lambda.NewFromConfig(p.sdk)
	if p.ask, err = awsclient.New(ctx, awsclient.Options{Region: o.region, Getenv: os.Getenv}); err != nil {
		return nil, err
	}
	if err := p.mine(ctx); err != nil {
		return nil, err
	}
	p.dir, err = os.MkdirTemp("", "tickring-account-")
	return p, err
}

// mine rejects credentials of an account other than the given one.
func (p *proof) mine(ctx context.Context) error {
	var out struct {
		Account string `xml:"GetCallerIdentityResult>Account"`
	}
	if err := p.ask.Query(ctx, "sts", "2011-06-15", "GetCallerIdentity", map[string][]string{}, &out); err != nil {
		return fmt.Errorf("whose credentials these are: %w", err)
	}
	if out.Account != p.o.account {
		return fmt.Errorf("these credentials are of the account %s, but -account is %s", out.Account, p.o.account)
	}
	if p.o.clean {
		return nil
	}
	for _, name := range []string{p.o.stack, p.counter()} {
		s, err := p.stackStatus(ctx, name)
		switch {
		case err == nil:
			return fmt.Errorf("there is a stack %s already, %s: say another -stack, or remove it with the command clean", name, s)
		case !awsclient.NotFound(err):
			return fmt.Errorf("look for the stack %s: %w", name, err)
		}
	}
	return nil
}

func (p *proof) counter() string { return p.o.stack + "-counter" }

func (p *proof) arn(service, name string) string {
	return fmt.Sprintf("arn:aws:%s:%s:%s:%s", service, p.o.region, p.o.account, name)
}

func (p *proof) tables() []string {
	return []string{p.outputs["JobsTable"], p.outputs["RunsTable"], p.outputs["StateTable"]}
}

func (p *proof) logf(format string, args ...any) {
	fmt.Fprintln(os.Stderr, time.Now().UTC().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// clean removes all created resources, whatever else failed.
func (p *proof) clean() error {
	ctx, cancel := context.WithTimeout(context.Background(), removing)
	defer cancel()
	p.logf("everything is removed")
	if err := p.remove(ctx); err != nil {
		return fmt.Errorf("NOT everything was removed, and the rest costs money: go run ./account clean -account %s -region %s -stack %s: %w",
			p.o.account, p.o.region, p.o.stack, err)
	}
	return nil
}

// run is the proof, from the deployment to the verdict.
func (p *proof) run(ctx context.Context) error {
	p.logf("the stack %s is deployed", p.o.stack)
	bin, err := harness.Build(p.dir) // the command line, which applies jobs as users do
	if err != nil {
		return err
	}
	if err := p.deploy(ctx, p.arn("lambda", "function:"+p.counter()), p.arn("sqs", p.counter()+"-work")); err != nil {
		return err
	}
	p.server = harness.Server{Bin: bin, URL: p.outputs["Url"]}
	if resp, err := http.Get(p.server.URL + "/healthz"); err == nil { // the API creates the token when it starts
		resp.Body.Close()
	}
	if p.server.AdminToken, err = p.ask.Secret(ctx, p.outputs["TokenParameter"]); err != nil {
		return err
	}
	if p.api, err = client.New(p.server.URL, p.server.AdminToken, client.Config{Timeout: 30 * time.Second}); err != nil {
		return err
	}
	if err := p.count(ctx); err != nil {
		return err
	}
	from, stop, err := p.start(ctx)
	defer stop()
	if err != nil {
		return err
	}
	watch := p.watchAlarms(ctx)
	to := from.Add(p.o.length)
	if err := p.weather(ctx, from); err != nil {
		return err
	}
	store.Sleep(ctx, time.Until(to))
	p.logf("runs from %s to %s are checked after their end", from.UTC().Format(time.TimeOnly), to.UTC().Format(time.TimeOnly))
	store.Sleep(ctx, endsWithin)
	if err := p.judge(ctx, from, to); err != nil {
		return err
	}
	p.report.rang = watch()
	p.examine(ctx, from, to)
	return ctx.Err()
}

// start starts the executors and creates the jobs; once runs arrive, it returns the first minute to evaluate.
func (p *proof) start(ctx context.Context) (from time.Time, stop func(), err error) {
	counting, cancel := context.WithCancel(context.Background())
	var executors sync.WaitGroup
	stop = func() {
		cancel()
		executors.Wait()
	}
	p.apps = []app{{"queue", `, executors: ["queue:` + p.counter() + `-work"]`}, {"function", `, executors: ["lambda:` + p.counter() + `"]`}}
	token, err := p.write("token", p.executorToken)
	if err != nil {
		return from, stop, err
	}
	file, err := p.write("jobs.yaml", manifest(p.apps, token, p.o.jobs))
	if err != nil {
		return from, stop, err
	}
	p.began = time.Now()
	if _, err := p.cli(ctx, "apply", "-f", file); err != nil {
		return from, stop, err
	}
	for _, counts := range []func(context.Context) error{p.byQueue, p.byFunction} {
		executors.Go(func() {
			if err := counts(counting); err != nil {
				p.logf("an executor: %v", err)
			}
		})
	}
	p.logf("%d jobs are there; the first fire is waited for", p.o.jobs)
	first, over := context.WithTimeout(ctx, wakes)
	defer over()
	select {
	case <-p.ledger.first:
	case <-first.Done():
		return from, stop, fmt.Errorf("nothing arrived within %s", wakes)
	}
	from = time.Now().Truncate(time.Minute).Add(2 * time.Minute)
	p.logf("runs from %s on are checked", from.UTC().Format(time.TimeOnly))
	return from, stop, nil
}

// weather has everything happen, in the order and at the parts of the time below.
func (p *proof) weather(ctx context.Context, from time.Time) error {
	for _, w := range []struct {
		after float64
		window
		do func(context.Context) error
	}{
		{0.25, window{name: killed, heals: 2 * time.Minute, twice: true}, p.kills},
		{0.48, window{name: "throttled", heals: 2 * time.Minute, skips: true, twice: true}, p.throttle},
		{0.70, window{name: "purged", heals: 6 * time.Minute, skips: true}, p.purge}, // as docs/how-to/recover-on-aws.md promises
	} {
		store.Sleep(ctx, time.Until(from.Add(time.Duration(w.after*float64(p.o.length)))))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.logf("now: %s", w.name)
		w.from = time.Now()
		if err := w.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		w.to = time.Now()
		p.windows = append(p.windows, w.window)
		p.logf("over: %s", w.name)
	}
	return nil
}

func (p *proof) kills(ctx context.Context) error {
	for range kills {
		if err := p.kill(ctx); err != nil {
			return err
		}
		store.Sleep(ctx, apart)
	}
	return nil
}

// throttle bounds the tables to one unit a second for a minute.
func (p *proof) throttle(ctx context.Context) error {
	err := p.bound(ctx, 1)
	if err == nil {
		store.Sleep(ctx, throttledFor)
	}
	open, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Minute)
	defer cancel()
	return errors.Join(err, p.bound(open, -1))
}

// purge deletes the messages that wait to be sent.
func (p *proof) purge(ctx context.Context) error {
	queue := p.outputs["FiresQueue"]
	_, err := p.sqs.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: &queue})
	return err
}

func (p *proof) judge(ctx context.Context, from, to time.Time) error {
	jobs, err := p.jobs(ctx, "each")
	if err != nil {
		return err
	}
	if len(jobs) != p.o.jobs {
		return fmt.Errorf("%d jobs fire, %d were applied", len(jobs), p.o.jobs)
	}
	listings := p.listings(ctx, from, to) // before the history, so that it includes every run they count
	history, err := p.history(ctx, jobs, p.began, time.Now())
	if err != nil {
		return err
	}
	p.report.fires = judge(jobs, from, to, p.ledger, history, p.windows, listed(listings))
	out, err := p.cli(ctx, "audit", "--from", from.UTC().Format(time.RFC3339), "--to", to.UTC().Format(time.RFC3339))
	p.report.says("the scheduler's own audit finds nothing unaccounted for", err == nil, "%s", oneLine(out))
	p.judgeListings(listings, jobs, history)
	return nil
}
