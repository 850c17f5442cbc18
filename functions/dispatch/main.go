// Command dispatch is the function that sends: it takes batches from the ring,
// holds each fire until its slot, claims it and sends it to an executor. Checks
// of open runs come to it too. core/dispatch is what it drives.
package main

import (
	"context"
	_ "time/tzdata" // the host has no zone files

	awslambda "github.com/aws/aws-lambda-go/lambda"

	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/internal/boot"
	"github.com/tickring/tickring/send"
)

func main() {
	c, _, store, log, err := boot.Open(context.Background(), boot.Needs{})
	boot.Must(log, err)
	sender := send.New(send.Options{Policy: c.Policy, ReportURL: c.Report(), ReportKey: c.ReportKey()})
	end := finish.New(store, store, finish.Options{Plan: c.Plan, Log: log})
	d := dispatch.New(store, store, sender, end, dispatch.Options{MaxAhead: c.Plan.MaxAhead, Log: log})
	watch := finish.NewWatchdog(end, store, sender, finish.WatchOptions{})
	h := &handler{fires: d.Handle, check: watch.Check, bury: store.BuryRaw, log: log}
	awslambda.Start(h.handle)
}
