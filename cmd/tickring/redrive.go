package main

import (
	"cmp"
	"fmt"

	"github.com/tickring/tickring/api/client"
)

type redriveCmd struct {
	DryRun bool `help:"List the messages and what would happen to each message, without resending any."`
	Drop   bool `help:"Also delete messages that have nothing left to send."`
	Unread bool `name:"drop-unread" help:"Also delete unreadable messages. To see their content first, run 'tickring redrive --dry-run -o json'."`
}

func (c *redriveCmd) Run(e *conn) error {
	sum := client.RedriveResult{Letters: []client.DeadLetter{}}
	for after := ""; ; {
		res, err := e.Redrive(e.Ctx, client.RedriveRequest{DryRun: c.DryRun, Drop: c.Drop, Unread: c.Unread, After: after})
		if err != nil {
			return err
		}
		sum.Letters = append(sum.Letters, res.Letters...)
		sum.Sent, sum.Left, sum.Dropped = sum.Sent+res.Sent, sum.Left+res.Left, sum.Dropped+res.Dropped
		if after = res.Next; after == "" {
			break
		}
	}
	return e.show(sum, nil, func() {
		if len(sum.Letters) == 0 {
			e.printf("no dead-letter messages\n")
			return
		}
		sent := "resent"
		if c.DryRun {
			sent = "would be resent"
		}
		unreadable := 0
		for i := range sum.Letters {
			l := &sum.Letters[i]
			e.printf("%s   %s\n", e.full(l.At, ""), l.Reason)
			if l.Asks != "" {
				e.printf("   %s   %s\n", l.Asks, sent)
			} else if len(l.Fires) == 0 {
				unreadable++
				e.printf("   unreadable: %s\n", e.firstLine(l.Text))
			}
			for _, f := range l.Fires {
				what := sent
				if f.Why != "" {
					what = "kept: " + f.Why
				}
				e.printf("   %s   %s   %s\n", cmp.Or(f.Job, fmt.Sprintf("job %d", f.JobID)), e.full(f.ScheduledAt, ""), what)
			}
		}
		e.printf("%s: %d %s, %d kept", plural(len(sum.Letters), "dead-letter message"), sum.Sent, sent, sum.Left)
		if unreadable > 0 {
			e.printf(", %d unreadable", unreadable)
		}
		if sum.Dropped > 0 {
			e.printf("; %d deleted", sum.Dropped)
		}
		e.printf("\n")
	})
}
