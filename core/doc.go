// Package core holds the nouns of tickring as plain Go, each with its
// validation: App, Executor, Job, Fire, Run, RunID, Journal. It has no
// interface, no context, no clock and no goroutine; what is done with the nouns
// is in the packages below it and beside it.
//
// # The way of one fire
//
//  1. Somebody saves a job: manage.Manage.Save checks it, schedule.Compile
//     reads its schedule (texts by cron.ParseQuartz and cron.ParseCrontab), and
//     plan.Start sets its first instant and when it is to be planned.
//  2. A tick passes over a partition of the due index: tick.Ticker.Pass reads
//     what is due and the jobs themselves.
//  3. For each job plan.Job computes the instants of a window, judges late ones
//     with plan.Judge, and makes fires; plan.Pack groups them by slot into
//     messages, which ring.Encode writes.
//  4. The messages go on the ring; only then the job is moved on, by an Advance
//     that applies only if nobody was faster.
//  5. When the slot has come dispatch.Dispatcher.Handle takes the messages. It
//     reads jobs, apps and pauses, judges each fire anew, and chooses addresses
//     with route.Order.
//  6. A run that a limit counts (core.Job.Permit) asks for its permit first, by
//     core.Permits.Ask in one stored item: what gets none is queued, or skipped,
//     or goes in the place of another (finish.Finish.Replace).
//  7. It claims each run by a write that succeeds for one dispatcher only, and not
//     before the slot: that would keep the run's ID from the fire of a newer
//     revision at the same second. A refused claim is looked at: done, somebody
//     else's, or to be taken over. A broadcast is claimed for all its shards, by
//     core.Run.Spread, and is sent to nobody: finish.Finish.Spread puts a fire of
//     each shard on the ring, which goes this way from step 5 on.
//  8. It sends, with the source of its script where the job has one, which is read
//     by its hash: send.Sender.Send, by the scheme of the address; over the wire
//     that is wirehttp.Client.Run with the bytes of wire.AppendRun.
//  9. The journal says which runs were accepted or are unconfirmed. It is
//     stored before the message is acked.
//  10. The executor calls back: wirehttp.NewHandler takes the bytes,
//     callback.Translate makes the end of a run of each item,
//     callback.Callback.Callback asks whether its caller may end that run, and
//     finish.Finish.End closes it together with what its end owes, such as a retry.
//  11. finish.Finish.Mend makes what is owed, again if need be. Where no attempt
//     follows, finish.Finish.Release frees the permit for those that wait,
//     finish.Finish.Children makes the runs that come after this one, which begin
//     at step 5, and finish.Finish.ChainEnded the next fire of a fixed delay. The
//     end of the last shard is that of its broadcast (core.Shard.Verdict).
//  12. finish.Watchdog.Pass reads the journals later: what is lost is closed,
//     what is owed is made.
//  13. ask.Ask.Audit proves it: of what the schedules demanded nothing is
//     unaccounted for.
//
// assembly.Assembly makes what does this on an engine.Engine, and tells each part
// what all must agree on; server.Server drives it in one process, functions in several.
package core
