// Command aside is the function that does the work after the end of a run which need not be punctual, and sends notifications. Its
// only source is the post-run queue, and it runs core/aside.
package main

import (
	"context"
	"log/slog"
	"time"
	_ "time/tzdata" // the host has no zone files

	awslambda "github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sns"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/aside"
	"github.com/tickring/tickring/core/notice"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/boot"
	"github.com/tickring/tickring/notify"
	"github.com/tickring/tickring/notify/awsnotify"
	"github.com/tickring/tickring/send"
)

func main() {
	c, sdk, store, log, err := boot.Open(context.Background(), boot.Needs{})
	boot.Must(log, err)
	topics := awsnotify.Of(sns.NewFromConfig(sdk), sdk.Credentials)
	to := notify.New(notify.Options{Policy: c.Policy, Topics: topics, Deployment: c.Deployment})
	awslambda.Start(assemble(&c, store.Engine(), store.BuryRaw, to, log).handle)
}

// assemble creates the handler on an engine.
func assemble(c *boot.Config, e *engine.Engine, bury func(ctx context.Context, body, reason string) error, to notice.Sender,
	log *slog.Logger) *handler {
	a := c.Assemble(e, log)
	told := a.Notices(to, notice.Options{Link: c.RunURL, Went: func(o notice.Outcome) {
		if o == notice.GivenUp {
			c.Metrics.Put(time.Now(), map[string]float64{boot.NotificationsDropped: 1})
		}
	}})
	lane := a.Lane(send.New(c.Send()), aside.Options{Notices: told, Made: func(_ *core.Run, o aside.Outcome) {
		if o == aside.Failed {
			c.Metrics.Put(time.Now(), map[string]float64{boot.LogsLost: 1})
		}
	}})
	return &handler{look: boot.NewPulse(a.Engine, log).Look, make: lane.Handle, bury: bury, log: log}
}
