// Command api is the function that people and programs ask: jobs, apps, runs,
// executors. core/manage is what it drives.
package main

import (
	"context"
	"time"
	_ "time/tzdata" // the host has no zone files

	awslambda "github.com/aws/aws-lambda-go/lambda"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/boot"
	"github.com/tickring/tickring/internal/doors"
	"github.com/tickring/tickring/send"
)

func main() {
	c, _, store, log, err := boot.Open(context.Background(), boot.Needs{AdminToken: true})
	boot.Must(log, err)
	sender := send.New(send.Options{Policy: c.Policy, ReportURL: c.Report(), ReportKey: c.ReportKey()})
	end := finish.New(store, store, finish.Options{Plan: c.Plan, Log: log})
	m := manage.New(store, store, end, sender, manage.Options{Plan: c.Plan})
	up := time.Now().UTC()
	h := api.NewHandler(m, &doors.Logs{Manage: m, Sender: sender}, api.Options{Token: c.AdminToken, Log: log, Status: func() api.Status {
		return api.Status{Now: time.Now().UTC(), UpSince: up}
	}})
	awslambda.Start(boot.HTTP(h, log))
}
