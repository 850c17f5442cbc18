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
//  6. It claims each run by a write that succeeds for one dispatcher only, and not
//     before the slot: that would keep the run's ID from the fire of a newer
//     revision at the same second. A refused claim is looked at: done, somebody
//     else's, or to be taken over.
//  7. It sends: send.Sender.Send, by the scheme of the address; over the wire
//     that is wirehttp.Client.Run with the bytes of wire.AppendRun.
//  8. The journal says which runs were accepted or are unconfirmed. It is
//     stored before the message is acked.
//  9. The executor calls back: wirehttp.NewHandler takes the bytes,
//     callback.Translate makes the end of a run of each item,
//     callback.Callback.Callback asks whether its caller may end that run, and
//     finish.Finish.End closes it together with what its end owes, such as a retry.
//  10. finish.Finish.Mend makes what is owed, again if need be;
//     finish.Finish.ChainEnded makes the next fire of a fixed delay.
//  11. finish.Watchdog.Pass reads the journals later: what is lost is closed,
//     what is owed is made.
//  12. ask.Ask.Audit proves it: of what the schedules demanded nothing is
//     unaccounted for.
//
// assembly.Assembly makes what does this on an engine.Engine, and tells each part
// what all must agree on; server.Server drives it in one process, functions in several.
package core
