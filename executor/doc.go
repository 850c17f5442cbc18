// Package executor makes a Go program an executor: a tickring server, or an xxl-job admin of any version, can send runs of
// jobs to it. You write a [Handler] for each kind of job. The package registers the program, accepts runs, queues them,
// calls your handler, keeps a log of each run, and reports the result.
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
// [Executor] is also an [net/http.Handler], to be mounted into an existing server. Package lambdaexec below makes a Lambda
// function an executor, and queueexec a program that pulls from a queue. Directory examples of the repository has programs.
// [Typed] decodes JSON params, [Init] and [Destroy] run before and after a job's runs, [Mux.Declare] declares jobs in
// code, [Program] runs another program.
//
// # Guarantees
//
// A run that was answered with success is in the journal in [Options].Dir before the answer. It is reported once it ends.
// If the process dies during a run, the next process with the same directory reports it as failed. With [RerunAfterCrash] at
// registration, the next process runs it again. A result stays in the journal until a server took it; without servers, results of
// [Executor.Submit] are not kept. So a server may get one result twice, but never two different ones.
//
// A run is accepted once: a second order with its ID is rejected while it waits or runs, until a server took its result,
// and for [Options].Remember after its end.
//
// Runs of one job run one after another, in the order of arrival, from a queue of limited length. If a run arrives while
// another is running, the job's block strategy decides: it waits, is rejected, or replaces the other.
//
// # Limits
//
// Go cannot end a goroutine from outside. A timeout or a kill cancels the handler's context. If the handler ignores that
// for [Options].CancelGrace, the run is reported as ended, and its log records that the handler goes on. The next run of
// the job starts beside it. [Executor.Strays] counts such handlers.
//
// # Rejected requests
//
// [New] rejects empty names and names that are registered twice. The executor rejects a run without or with an unknown
// handler, a wrong token, and a body of more than 5 MiB. It rejects scripts unless [Options].Scripts allows them and a
// token is set. It also rejects runs that cannot be journaled, that find the queue full, or that arrive while it stops.
// Their code makes a tickring server send them again, to another executor if possible.
package executor
