// Package core holds the data types of tickring with their validation: App,
// Executor, Job, Fire, Run, RunID, Journal. It has no interface, context, clock
// or goroutine; the packages below and beside it act on these types.
//
// # From a scheduled time to the end of its run
//
//  1. A user saves a job. manage.Manage.Save checks it, and schedule.Compile
//     parses its schedule with cron.ParseQuartz or cron.ParseCrontab. plan.Start
//     sets its first scheduled time and when it must be planned.
//  2. tick.Ticker.Pass scans a partition of the due index and reads the jobs
//     that must be planned.
//  3. For each job, plan.Job computes the scheduled times of a window, applies
//     the misfire policy with plan.Judge, and creates fires. plan.Pack groups
//     fires by due time into messages, and ring.Encode encodes them.
//  4. The ticker puts the messages on the delay queue. Then an Advance moves the
//     job on, unless another ticker was faster.
//  5. At the due time, dispatch.Dispatcher.Handle takes the messages. It reads
//     jobs, apps and pauses, checks each fire again, and orders the addresses
//     with route.Order.
//  6. A run with a limit (core.Job.Permit) asks for a slot: core.Permits.Ask on
//     one stored item. Without a slot it is queued, skipped, or replaces another
//     run (finish.Finish.Replace).
//  7. The dispatcher claims each run by a write that succeeds for one dispatcher
//     only. It never claims before the due time, because that would take the run
//     ID from a newer revision of the job. After a failed claim it reads the run,
//     which is done, owned by another, or to be taken over. For a broadcast it
//     claims all shards with core.Run.Spread and sends nothing; then
//     finish.Finish.Spread queues a fire for each shard, which starts at step 5.
//  8. send.Sender.Send sends the run by the scheme of the address, with the
//     source of its script if it has one. For xxl-job executors,
//     wirehttp.Client.Run sends the bytes of wire.AppendRun.
//  9. The journal lists the accepted and the unconfirmed runs. It is stored
//     before the message is acked.
//  10. The executor calls back. wirehttp.NewHandler reads the bytes, and
//     callback.Translate turns each item into the end of a run.
//     callback.Callback.Callback checks the caller's permission for that run.
//     finish.Finish.End closes the run and stores its pending follow-ups.
//  11. finish.Finish.Mend creates the follow-ups, such as a retry, and can repeat
//     this. If no attempt follows, finish.Finish.Release gives the slot to a
//     waiting run. finish.Finish.Children creates the child runs, which start at
//     step 5. finish.Finish.ChainEnded schedules the next run of a fixed delay.
//     The last shard ends its broadcast (core.Shard.Verdict).
//  12. finish.Watchdog.Pass reads the journals later. It closes lost runs and
//     creates missing follow-ups.
//  13. query.Queries.Audit verifies the result: every expected scheduled time has a run
//     or a record.
//
// wiring.Assembly builds these parts on an engine.Engine with consistent
// settings. server.Server drives them in one process, functions in several.
package core
