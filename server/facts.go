package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/restore"
	"github.com/tickring/tickring/internal/doctor"
	"github.com/tickring/tickring/words"
)

// onHold explains why a server with Options.Hold does nothing.
var onHold = core.Say("restored copy on hold: the server plans, sends and checks no runs; to start the copy, "+
	"stop this server and run: %s",
	"tickring serve --restored --start-now")

func (s *Server) facts(ctx context.Context, p *parts, l words.Language, log *slog.Logger) client.Facts {
	f := client.Facts{Version: s.o.Version, UpSince: p.upAt, LastTick: core.FromMillis(p.lastPass.Load()),
		Data: &client.DataFolder{Folder: s.o.Dir}}
	for _, name := range []string{"tickring.db", "tickring.db-wal"} {
		if info, err := os.Stat(filepath.Join(s.o.Dir, name)); err == nil {
			f.Data.Bytes += info.Size()
		}
	}
	var err error
	if f.Data.Free, err = freeBytes(s.o.Dir); err != nil {
		log.Warn("fact not read", "fact", "free disk space", "err", err)
		f.Data.Free = -1
		f.Unread = append(f.Unread, core.Phrase("free disk space").String())
	}
	if s.cert != nil {
		f.CertificateUntil = s.cert.get(time.Now()).Leaf.NotAfter
	}
	f.Refused = api.RefusedExecutors(p.refused, "")
	if s.o.Hold {
		f.Fenced = words.Say(l, onHold)
	}
	f.LogsLost, f.NotificationsDropped = s.m.logsLost.Load(), s.m.untold.Load()
	doctor.Gather(ctx, p.store, time.Now(), l, &f, log, p.probe.Answer)
	return f
}

// verdict is the last one of doctor that /healthz showed. Everyone may ask /healthz, so a
// verdict is shown for verdictFor, and one that takes longer than verdictIn is not waited for.
type verdict struct {
	turn sync.Mutex // held while one is made; the others get the last one
	at   time.Time
	text atomic.Pointer[string]
}

const verdictFor, verdictIn = 30 * time.Second, 500 * time.Millisecond

// verdict sums up how the scheduler and the jobs are; "": that is not known yet.
func (s *Server) verdict(ctx context.Context, p *parts) string {
	v := &p.verdict
	if v.turn.TryLock() {
		if now := time.Now(); now.Sub(v.at).Abs() >= verdictFor {
			v.at = now
			ctx, cancel := context.WithTimeout(ctx, verdictIn)
			f := s.facts(ctx, p, words.English, slog.New(slog.DiscardHandler))
			f.Failing = api.CountFailing(ctx, p.manage, nil)
			if ctx.Err() == nil {
				text := doctor.Verdict(&f, doctor.Judge(&doctor.Facts{Now: now, Own: &f})).String()
				v.text.Store(&text)
			}
			cancel()
		}
		v.turn.Unlock()
	}
	if text := v.text.Load(); text != nil {
		return *text
	}
	return ""
}

// restore prepares a restored copy of the data before planning begins and endpoints open. It runs before the server records that it
// is alive: an interrupted restore starts again from the same moment.
func (s *Server) restore(ctx context.Context, p *parts, r *restore.Restorer) error {
	last, err := p.store.LastAlive(ctx)
	if err != nil {
		return fmt.Errorf("read the last heartbeat of the server: %w", err)
	}
	if last.IsZero() {
		fmt.Fprintln(s.o.Notice, "restored: the data was never used, so no changes were made")
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
			fmt.Fprintf(s.o.Notice, "restored: the backup is %s old\nID counters advanced: job IDs by %d, run IDs of %d jobs by %d\n"+
				"%s: sends %d waiting runs, checks %d runs that executors may have\n",
				Span(p.upAt.Sub(last)), res.LiftJobs, sum.Jobs, res.LiftRuns,
				map[bool]string{true: "after the start", false: "the server"}[s.o.Hold], sum.Waiting, sum.Watched)
			for _, id := range sum.Full {
				fmt.Fprintf(s.o.Notice, "job %s has no run IDs left: create the job again\n", id)
			}
			return nil
		}
		req.After, req.LiftJobs, req.LiftRuns = res.Next, res.LiftJobs, res.LiftRuns
	}
}
