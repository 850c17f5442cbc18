// Package executor makes a Go program an executor: something that a tickring
// server, or an xxl-job admin of any version, can send runs of jobs to. You
// write a [Handler] for each kind of job; the package registers the program,
// takes runs, queues them, calls your handler, keeps a log of each run, and
// reports how it ended.
//
//	mux := executor.NewMux()
//	mux.Register("nightly", func(ctx context.Context, run *executor.Run) error {
//		run.Printf("params %s, shard %d of %d", run.Params, run.ShardIndex, run.ShardTotal)
//		return nil
//	})
//	e, err := executor.New(mux, executor.Options{
//		App:     "reports",
//		Servers: []string{"http://127.0.0.1:7700"},
//		Token:   os.Getenv("TOKEN"),
//	})
//	if err != nil { … }
//	err = e.ListenAndServe(ctx) // until ctx ends, then stops in order
//
// [Executor] is an [net/http.Handler] too, to be mounted into a server that is
// there already. Package lambdaexec below makes a Lambda function an executor,
// queueexec one that pulls from an SQS queue; folder examples has a program for
// each. [Typed] reads params that are JSON, [Init] and [Destroy] frame a job's
// runs, [Mux.Declare] brings jobs along with the code, [Program] runs another
// program.
//
// # What it promises
//
// A run that was answered with success is in the journal in [Options].Dir
// before the answer. It is reported once it ends; if the process dies under
// it, the next process with the same folder reports it as failed, or runs it
// again where the handler was registered with [RunAgain]. A result stays in the
// journal until a server took it, but that of a run that came by
// [Executor.Submit] where there are no servers. A server may so hear of one result twice,
// and never of two different ones.
//
// A run is taken once: a second order with its ID is refused while it waits or
// runs, until a server took its result, and for [Options].Remember after its end.
//
// Runs of one job go one after another, in the order in which they came, in a
// queue that is bounded. The job's block strategy says what becomes of a run
// that finds another one at work: it waits, is refused, or replaces it.
//
// # What it cannot do
//
// Go cannot end a goroutine from outside. A timeout or a kill cancels the
// handler's context; a handler that does not heed it for [Options].CancelGrace
// is reported as ended all the same, its run's log says that it goes on, and
// the next run of the job starts beside it. [Executor.Strays] counts those.
//
// # What it refuses
//
// Names that are empty or registered twice, at [New]. A run without or with an
// unknown handler, a wrong token, a body of more than 5 MiB. Scripts, unless
// [Options].Scripts allows them, and then only with a token. Runs that cannot
// be journaled, that find the queue full, or that come when the executor stops:
// these with a code that makes a tickring server send them again, elsewhere if
// it can.
package executor
