package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/restore"
	"github.com/tickring/tickring/internal/doctor"
	"github.com/tickring/tickring/words"
)

// facts are what doctor judges.
func (s *Server) facts(ctx context.Context, p *parts, l words.Language) client.Facts {
	f := client.Facts{Version: s.o.Version, UpSince: p.upAt, LastTick: core.FromMillis(p.lastPass.Load()),
		Data: &client.DataFolder{Folder: s.o.Dir}}
	for _, name := range []string{"tickring.db", "tickring.db-wal"} {
		if info, err := os.Stat(filepath.Join(s.o.Dir, name)); err == nil {
			f.Data.Bytes += info.Size()
		}
	}
	var err error
	if f.Data.Free, err = freeBytes(s.o.Dir); err != nil {
		f.Data.Free = -1
		f.Unread = append(f.Unread, core.Phrase("free room on the disk").String())
	}
	if s.cert != nil {
		f.CertificateUntil = s.cert.get(time.Now()).Leaf.NotAfter
	}
	f.Refused = api.RefusedExecutors(p.refused, "")
	f.LogsLost, f.NoticesLost = s.m.logsLost.Load(), s.m.untold.Load()
	doctor.Gather(ctx, p.engine, time.Now(), l, &f, p.probe.Answer)
	return f
}

// restore makes a copy of the data fit to work with, before anything is planned
// or anybody can ask for anything. It comes before the note that this server
// lives: broken off it is begun again, from the same moment.
func (s *Server) restore(ctx context.Context, p *parts, r *restore.Restorer) error {
	last, err := p.engine.Upkeep.LastAlive(ctx)
	if err != nil {
		return fmt.Errorf("read the last sign of life: %w", err)
	}
	if last.IsZero() {
		fmt.Fprintln(s.o.Notice, "restored: nothing ever worked on this data, so there is nothing to do")
		return nil
	}
	var sum restore.Result
	for req := (restore.Request{By: "serve --restored", From: last.Truncate(time.Second), Again: true}); ; {
		res, err := r.Do(ctx, req)
		if err != nil {
			return fmt.Errorf("restore: %w", err)
		}
		sum.Jobs, sum.Waiting, sum.Watched, sum.Full = sum.Jobs+res.Jobs, sum.Waiting+res.Waiting, sum.Watched+res.Watched,
			append(sum.Full, res.Full...)
		if res.Next == 0 {
			fmt.Fprintf(s.o.Notice, "restored: the data is of %s ago; numbers of new jobs begin %d higher, those of runs of %d jobs %d higher; "+
				"%d runs that waited are sent, %d that may be with an executor are asked after\n",
				Span(p.upAt.Sub(last)), res.LiftJobs, sum.Jobs, res.LiftRuns, sum.Waiting, sum.Watched)
			for _, id := range sum.Full {
				fmt.Fprintf(s.o.Notice, "job %s has no run numbers left: make it anew\n", id)
			}
			return nil
		}
		req.After, req.LiftJobs, req.LiftRuns = res.Next, res.LiftJobs, res.LiftRuns
	}
}
