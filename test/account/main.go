// Command account checks that a deployment in a real AWS account keeps the promises of its documentation. The command counts the
// results outside of the deployment. It deploys its own stack, and runs jobs for an hour on executors that count the runs they
// receive. During this hour it kills functions, throttles functions, and purges queues. Then it reads the metrics that the bill
// depends on, deletes the stack and reports the results. README.md has the costs and requirements.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

// Limits of the options: these values cost money.
const (
	maxJobs    = 2000
	maxFor     = 2 * time.Hour
	maxApply   = 20_000
	maxDollars = 50
	// around is the maximum extra time for deploying, waiting and evaluating.
	around = time.Hour
	// removing is the maximum time for a removal, even after an interrupt.
	removing = 20 * time.Minute
)

// options are the command's flags.
type options struct {
	account string
	spend   bool
	region  string
	stack   string
	length  time.Duration
	jobs    int
	apply   int
	dollars float64
	clean   bool
}

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		err = o.check()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "account:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	held, err := prove(ctx, o)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "account:", err)
		return 1
	case !held:
		return 1
	}
	return 0
}

func parse(args []string) (options, error) {
	o := options{}
	f := flag.NewFlagSet("account", flag.ContinueOnError)
	f.StringVar(&o.account, "account", "", "the 12 digits of the account that pays; the credentials have to be of it")
	f.BoolVar(&o.spend, "yes-spend", false, "yes, it may cost money")
	f.StringVar(&o.region, "region", "us-east-1", "Region")
	f.StringVar(&o.stack, "stack", "TickringProof", "name of the stack that it makes and removes; what counts is another, NAME-counter")
	f.DurationVar(&o.length, "for", time.Hour, "how long jobs fire")
	f.IntVar(&o.jobs, "jobs", 1000, "jobs that fire each minute, each at a second of its own")
	f.IntVar(&o.apply, "apply", 10_000, "jobs of the file that is applied at once, which then fire in one second")
	f.Float64Var(&o.dollars, "dollars", 10, "it does not begin if it may cost more than this")
	if len(args) > 0 && args[0] == "clean" {
		o.clean, args = true, args[1:]
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%q: clean, before the flags, is the only command", f.Arg(0))
	}
	return o, nil
}

var (
	accounts = regexp.MustCompile(`^[0-9]{12}$`)
	stacks   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,40}$`)
)

// check rejects invalid options, and costs over the given limit.
func (o *options) check() error {
	switch {
	case !accounts.MatchString(o.account):
		return errors.New("-account takes the 12 digits of the account that pays")
	case !o.clean && !o.spend:
		return errors.New("-yes-spend is missing: this deploys, runs and costs money")
	case !stacks.MatchString(o.stack):
		return fmt.Errorf("-stack %q: letters, digits and -, at most 41", o.stack)
	case o.jobs < 2 || o.jobs > maxJobs:
		return fmt.Errorf("-jobs %d: from 2 to %d", o.jobs, maxJobs)
	case o.length < 10*time.Minute || o.length > maxFor:
		return fmt.Errorf("-for %s: from 10m to %s", o.length, maxFor)
	case o.apply < 1 || o.apply > maxApply:
		return fmt.Errorf("-apply %d: from 1 to %d", o.apply, maxApply)
	case o.dollars <= 0 || o.dollars > maxDollars:
		return fmt.Errorf("-dollars %v: more than 0, at most %d", o.dollars, maxDollars)
	case os.Getenv("AWS_ENDPOINT_URL") != "":
		return errors.New("AWS_ENDPOINT_URL is set: that is no account")
	}
	if o.clean {
		return nil
	}
	if most := o.most(); most > o.dollars {
		return fmt.Errorf("this may cost %s, more than -dollars %v", dollars(most), o.dollars)
	}
	return nil
}

// most returns the maximum cost. It takes three times the forecast for the scheduled runs, because faults cause repeated work. It
// adds the cost of a manifest whose jobs fire once, each as expensive as alone in its second.
func (o *options) most() float64 {
	const unitsOfJob = 20  // to create one, with its audit record
	const readsOfLists = 5 // of each run, by lists and histories
	const logged = 1e-6    // dollars for the log lines of one run
	n := float64(o.apply)
	scheduled, once := expected(o.jobs, o.length+around), ofRun.plus(rarely).plus(ofBatch).plus(ofPlan).times(n)
	all := scheduled.plus(once).plus(usage{writeUnits: n * unitsOfJob, readUnits: (scheduled.runs + once.runs) * readsOfLists})
	return 3 * (all.dollars() + all.runs*logged)
}
