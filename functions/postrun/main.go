// Command post-run is the Lambda function that does the work after the end of a run that can be late, such as storing
// logs, and sends notifications. It receives messages only from the post-run queue, and runs core/postrun.
package main

import (
	"context"
	"log/slog"
	"time"
	_ "time/tzdata" // the host has no zone files

	awslambda "github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sns"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/postrun"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/notify"
	"github.com/tickring/tickring/notify/awsnotify"
	"github.com/tickring/tickring/send"
	"github.com/tickring/tickring/store"
)

func main() {
	c, sdk, store, log, err := lambdaboot.Open(context.Background(), lambdaboot.Needs{})
	lambdaboot.Must(log, err)
	topics := awsnotify.Of(sns.NewFromConfig(sdk), sdk.Credentials)
	to := notify.New(notify.Options{Policy: c.Policy, Topics: topics, Deployment: c.Deployment})
	awslambda.Start(assemble(&c, store.Store, store.BuryRaw, to, log).handle)
}

// assemble creates the handler on a store.
func assemble(c *lambdaboot.Config, e *store.Store, bury func(ctx context.Context, body, reason string) error, to notification.Sender,
	log *slog.Logger) *handler {
	a := c.Assemble(e, log)
	told := a.Notices(to, notification.Options{Link: c.RunURL, Went: func(o notification.Outcome) {
		if o == notification.GivenUp {
			c.Metrics.Put(time.Now(), map[string]float64{lambdaboot.NotificationsDropped: 1})
		}
	}})
	lane := a.Lane(send.New(c.Send()), postrun.Options{Notices: told, Made: func(_ *core.Run, o postrun.Outcome) {
		if o == postrun.Failed {
			c.Metrics.Put(time.Now(), map[string]float64{lambdaboot.LogsLost: 1})
		}
	}})
	return &handler{look: lambdaboot.NewPulse(a.Store, log).Look, make: lane.Handle, bury: bury, log: log}
}
