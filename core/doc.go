// Package core defines the data types of tickring, such as App, Job, Run and Journal, and validates them. It has no
// interface, context, clock or goroutine. The other packages act on these types.
//
// # From a scheduled time to the end of its run
//
//  1. A user saves a job. manage.Manage.Save checks the job, and schedule.Compile
//     parses its schedule with cron.ParseQuartz or cron.ParseCrontab. plan.Start
//     sets the first scheduled time, and when the ticker must plan the job.
//  2. tick.Ticker.Pass scans a partition of the due index and reads the jobs
//     that must be planned.
//  3. For each job, plan.Job computes the scheduled times of a time window, applies
//     the misfire policy with plan.Judge, and creates fires. plan.Pack groups
//     fires by due time into messages, and ring.Encode encodes the messages.
//  4. The ticker puts the messages on the delay queue. Then the ticker stores an
//     Advance with the next scheduled time, unless another ticker stored one first.
//  5. At the due time, dispatch.Dispatcher.Handle receives the messages. The
//     dispatcher reads jobs, apps and pauses, and checks each fire again.
//     route.Order sorts the executor addresses by the route of the job.
//  6. If a concurrency limit applies to the run (core.Job.Permit), the dispatcher
//     requests a slot with core.Permits.Ask. If no slot is free, the run waits, is
//     skipped, or replaces another run (finish.Finish.Replace).
//  7. The dispatcher claims each run with a write that succeeds for one dispatcher
//     only. The dispatcher never claims a run early, because a newer revision of
//     the job may still need the run ID. If the claim fails, the dispatcher reads
//     the run: it is closed, has another owner, or must be taken over. A broadcast
//     is not sent. core.Run.Spread records its shards, and finish.Finish.Spread
//     queues a fire for each shard, which starts at step 5.
//  8. send.Sender.Send sends the run with the protocol of the address. If the job
//     has a script, the request includes the source of the script. For xxl-job
//     executors, wirehttp.Client.Run sends the request that wire.AppendRun encodes.
//  9. The dispatcher stores a journal that lists the accepted and the unconfirmed
//     runs. Then the dispatcher acknowledges the message.
//  10. The executor reports results. wirehttp.NewHandler decodes the request, and
//     callback.Translate turns each item into the end of a run.
//     callback.Callback.Callback checks the executor's permission for that run.
//     finish.Finish.End closes the run and stores its pending follow-ups.
//  11. finish.Finish.Mend creates the follow-ups, such as a retry. If a step fails,
//     Mend is called again. If no attempt follows, finish.Finish.Release gives the
//     slot to a waiting run. Mend creates the child runs, which start at step 5.
//     finish.Finish.ChainEnded schedules the next run of a fixed delay. The end of
//     the last shard ends the broadcast (core.Shard.Verdict).
//  12. finish.Watchdog.Pass reads the journals later. The watchdog closes lost runs
//     and creates missing follow-ups.
//  13. query.Queries.AuditPage verifies the result: each expected scheduled time has a
//     run or a recorded skip.
//
// wiring.Assembly builds these parts on a store.Store. server.Server runs all
// parts in one process. The programs in directory functions run the parts on AWS Lambda.
package core
