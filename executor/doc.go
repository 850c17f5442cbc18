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
// [Executor] is also an [net/http.Handler] that you can mount into an existing server. With the package lambdaexec, an AWS
// Lambda function is an executor. With queueexec, a program receives runs from a queue. The directory examples of the
// repository has programs.
//
// [Typed] decodes JSON params. [Init] and [Destroy] set functions to call before and after a job's runs. [Mux.Declare]
// declares jobs in code. [Program] runs another program.
//
// # Guarantees
//
// Before the executor confirms that it accepted a run, it writes the run to the journal in [Options].Dir. When the run ends,
// the executor reports it. If the process dies during a run, the next process with the same directory reports the run as
// failed. If the handler was registered with [RerunAfterCrash], the next process runs it again instead.
//
// A result stays in the journal until a server has accepted it. Without servers, results of [Executor.Submit] are not kept. A
// server may therefore receive one result twice, but never two different results of one run.
//
// A run is accepted once. The executor rejects a second order with the ID of a run that waits, is running, or has a result
// that no server accepted. The executor also rejects the ID for [Options].Remember after the end of the run.
//
// Runs of one job run one after another, in the order of arrival, from a queue of limited length. A run may arrive while
// another run of its job is running. The job's block strategy decides whether the new run waits, is rejected, or replaces the
// older run.
//
// # Limits
//
// Go cannot end a goroutine from outside. A timeout or a kill cancels the handler's context. If the handler does not return
// within [Options].CancelGrace, the run is reported as ended, and its log records that the handler is still running. The next
// run of the job starts while the old handler is running. [Executor.Strays] counts such handlers.
//
// # Rejected requests
//
// [New] rejects handler names that are empty or registered twice. The executor rejects requests with a wrong token or a body
// of more than 5 MiB. The executor rejects a run without a handler name, or with a name that is not registered. Scripts are
// rejected unless [Options].Scripts allows them and a token is set.
//
// The executor also rejects runs if the journal cannot be written, the queue is full, or the executor is stopping. In these
// cases, the code of the reply makes a tickring server send the run again, to another executor if possible.
package executor
