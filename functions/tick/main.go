// Command tick is the Lambda function that plans runs. Each invocation runs core/tick once.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"time"
	_ "time/tzdata" // the host has no zone files

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/core/tick/partitioning"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/send"
	"github.com/tickring/tickring/store"
)

func main() {
	ctx := context.Background()
	c, sdk, store, log, err := lambdaboot.Open(ctx, lambdaboot.Needs{})
	lambdaboot.Must(log, err)
	invoke := lambda.NewFromConfig(sdk)
	c.Start(wire(&c, store.Store, store.TakeLetters, func(ctx context.Context, payload []byte) error {
		_, err := invoke.Invoke(ctx, &lambda.InvokeInput{FunctionName: &c.Function, InvocationType: types.InvocationTypeEvent, Payload: payload})
		return err
	}, log))
}

// healPage is the time limit for one page of runs to resend; several pages fit into an invocation.
const healPage = 5 * time.Second

// takeLetters takes up to ten dead-letter messages and returns how many; *dynamo.Store has it.
type takeLetters func(ctx context.Context, record func(context.Context, *core.Letter) error) (int, error)

// lettersFor limits the time in which a tick takes dead-letter messages; the others wait for the next tick.
const lettersFor = 20 * time.Second

// wire creates the handler on a store; invoke invokes this function once more.
func wire(c *lambdaboot.Config, e *store.Store, take takeLetters, invoke func(ctx context.Context, payload []byte) error,
	log *slog.Logger) func(context.Context, json.RawMessage) error {
	a := c.Assemble(e, log)
	all := a.People(nil, people.Options{Ask: query.Options{PageFor: healPage}})
	minutely := lambdaboot.Minutely(lambdaboot.NewPulse(a.Store, log), a.Watchdog(send.New(c.Send()), finish.WatchOptions{}), all.Operate,
		a.Reports(report.Options{Zone: c.ReportZone}),
		func(fires int64) { log.Warn("lost messages sent again", "fires", fires) })
	told := a.Notices(nil, notification.Options{}) // it queues the due checks for notifications and sends none
	minutely = append(minutely, tick.Task{Name: "notifications", Do: func(ctx context.Context) error {
		_, err := told.Pass(ctx)
		return err
	}})
	dead := a.Dead()
	minutely = append(minutely, tick.Task{Name: "dead letters", Do: func(ctx context.Context) error {
		var errs []error
		for began := time.Now(); time.Since(began) < lettersFor; {
			n, err := take(ctx, func(ctx context.Context, l *core.Letter) error {
				_, err := dead.Record(ctx, l)
				return err
			})
			errs = append(errs, err)
			if n == 0 {
				break
			}
			c.Metrics.Put(time.Now(), map[string]float64{lambdaboot.DeadLetters: float64(n)})
		}
		return errors.Join(errs...)
	}})
	if c.Canary != "" {
		minutely = append(minutely, canary(all, c.Canary, c.Box.Load))
	}
	return func(ctx context.Context, raw json.RawMessage) error {
		ev, err := readEvent(raw)
		if err != nil {
			return err
		}
		if _, err := a.Store.Own(ctx); core.CodeOf(err) == core.CodeRefused {
			log.Warn("planning blocked", "why", err.Error())
			return nil // a standby replica is no failure
		}
		t := a.Ticker(tick.Invoked(tick.Options{ID: rand.Text()[:12], Rates: partitioning.Rates{Max: c.Partitions}}))
		o := tick.Invocation{
			Wake: ev.wake(), Minutely: minutely,
			Tell: func(lag time.Duration, recovered int) {
				c.Metrics.Put(time.Now(), map[string]float64{lambdaboot.PlanningLag: lag.Seconds(), lambdaboot.Recovered: float64(recovered)})
			},
		}
		if c.Function != "" {
			o.Another = func(ctx context.Context, w tick.Wake) error { return invoke(ctx, encode(w)) }
		}
		return t.Beats(o).Run(ctx)
	}
}
