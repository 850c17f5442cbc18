// Command dispatch is the Lambda function that sends runs. It receives batches from the delay queue and the slow
// queue, and holds each run until its due time. It then claims the run and sends the run to an executor. It also
// processes the checks of open runs. A deployment has two of these functions. One receives only from the slow queue,
// so that slow runs do not use the capacity of the other function. The function runs core/dispatch.
package main

import (
	"context"
	"log/slog"
	"time"
	_ "time/tzdata" // the host has no zone files

	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/send"
	"github.com/tickring/tickring/store"
)

func main() {
	c, _, store, log, err := lambdaboot.Open(context.Background(), lambdaboot.Needs{})
	lambdaboot.Must(log, err)
	h := wire(&c, store.Store, store.BuryRaw, log)
	h.again, h.done, h.returned, h.visibility = store.ComeAgain, store.Done, store.Returned, c.Visibility
	c.Start(h.handle)
}

func wire(c *lambdaboot.Config, e *store.Store, bury func(ctx context.Context, body, reason string) error,
	log *slog.Logger) *handler {
	a := c.Assemble(e, log)
	sender := send.New(c.Send())
	late := &late{}
	d := a.Dispatcher(c.Traces.Sender(sender), dispatch.Options{Sent: late.sent})
	watch := a.Watchdog(sender, finish.WatchOptions{})
	return &handler{ended: func() { c.Metrics.Put(time.Now(), late.take()) },
		look: lambdaboot.NewPulse(a.Store, log).Look, slow: queueName(c.Names.Slow), fires: d.Handle,
		check: watch.Check, bury: bury, log: log}
}
