// Command tick is the function that plans: woken each minute, it beats once a
// second until nothing is due to be planned. core/tick is what it drives.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"
	_ "time/tzdata" // the host has no zone files

	awslambda "github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/internal/boot"
	"github.com/tickring/tickring/send"
)

// maxLeases is how many partitions one invocation plans.
const maxLeases = 2

func main() {
	ctx := context.Background()
	c, sdk, store, log, err := boot.Open(ctx, boot.Needs{})
	boot.Must(log, err)
	sender := send.New(send.Options{Policy: c.Policy})
	end := finish.New(store, store, finish.Options{Plan: c.Plan, Log: log})
	watch := finish.NewWatchdog(end, store, sender, finish.WatchOptions{})
	invoke := lambda.NewFromConfig(sdk)
	awslambda.Start(func(ctx context.Context, raw json.RawMessage) error {
		ev, err := readEvent(raw)
		if err != nil {
			return err
		}
		t := tick.New(store, store, store, end, tick.Options{ID: rand.Text()[:12], Plan: c.Plan, MaxLeases: maxLeases, MaxPartitions: c.Partitions, Log: log})
		b := &beats{pass: t.Pass, release: t.Release, every: time.Second, reserve: 10 * time.Second, log: log}
		if ev.Chain == 0 { // the one that the clock woke
			b.minutely = []task{
				{"watchdog", func(ctx context.Context) error { _, err := watch.Pass(ctx); return err }},
				{"sign of life", func(ctx context.Context) error { _, err := store.Alive(ctx, time.Now()); return err }},
			}
		}
		if ev.Chain < c.Partitions && c.Function != "" {
			b.another = func(ctx context.Context) error {
				_, err := invoke.Invoke(ctx, &lambda.InvokeInput{FunctionName: &c.Function, InvocationType: types.InvocationTypeEvent,
					Payload: fmt.Appendf(nil, `{"chain":%d}`, ev.Chain+1)})
				return err
			}
		}
		return b.run(ctx)
	})
}
