// Command dispatch is the function that sends runs. It takes batches from the delay queue and its slow queue, holds each run until
// its due time, claims it and sends it to an executor. It also processes the checks of open runs. A deployment has two such
// functions, one for the slow queue only, so that neither uses the other's capacity. It runs core/dispatch.
package main

import (
	"context"
	"log/slog"
	"time"
	_ "time/tzdata" // the host has no zone files

	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/send"
)

func main() {
	c, _, store, log, err := lambdaboot.Open(context.Background(), lambdaboot.Needs{})
	lambdaboot.Must(log, err)
	h := wire(&c, store.Engine(), store.BuryRaw, log)
	h.again, h.done, h.returned, h.visibility = store.ComeAgain, store.Done, store.Returned, c.Visibility
	c.Start(h.handle)
}

func wire(c *lambdaboot.Config, e *engine.Engine, bury func(ctx context.Context, body, reason string) error,
	log *slog.Logger) *handler {
	a := c.Assemble(e, log)
	sender := send.New(c.Send())
	late := &late{}
	d := a.Dispatcher(c.Traces.Sender(sender), dispatch.Options{Sent: late.sent})
	watch := a.Watchdog(sender, finish.WatchOptions{})
	return &handler{ended: func() { c.Metrics.Put(time.Now(), late.take()) },
		look: lambdaboot.NewPulse(a.Engine, log).Look, slow: queueName(c.Names.Slow), fires: d.Handle, check: watch.Check, bury: bury, log: log}
}
