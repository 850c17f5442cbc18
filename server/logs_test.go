package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/miniexec"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/freeport"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/wire"
)

// TestKeptLogs: the logs of failed runs, and of all runs if the job keeps them, outlive the executor, and readers learn that
// they see the kept part. Other logs of successful runs, and all logs of a job that keeps none, end with their executor.
func TestKeptLogs(t *testing.T) {
	texts := golden.New(t)
	t.Parallel()
	s := start(t, Options{})
	exec := startExecutor(t, miniexec.Options{App: "web", Admin: s.URL(),
		Listen: "127.0.0.1:" + freeport.Free(t), // a port that nothing else uses afterwards
		Handle: func(_ context.Context, r *wire.Run, logf func(string, ...any)) (int, string) {
			for n := range 1000 {
				logf("line %d of run %d", n+1, r.LogID)
			}
			if strings.HasSuffix(r.Handler, "fails") {
				return 500, "no such table"
			}
			return 200, ""
		}})
	spec := func(name, handler string, keep core.KeepLog) manage.JobSpec {
		return manage.JobSpec{Def: core.Def{App: "web", Name: name, Handler: handler, Keep: core.Keep{Log: keep},
			Retry: core.Retry{Max: 1, Delay: time.Second}}}
	}
	save(t, s, "web", spec("fails", "fails", ""), spec("never", "fails", core.KeepLogNever), spec("fine", "fine", ""),
		spec("always", "fine", core.KeepLogAlways))
	<-exec.Registered()
	ids := map[string]core.RunID{}
	names := []string{"fails", "never", "fine", "always"}
	for _, name := range names {
		ids[name] = s.trigger(t, "web/"+name)
	}
	eventually(t, time.Minute, func() error {
		for _, name := range names {
			r := s.run(t, ids[name])
			last := r
			if !r.Owing() && r.Then != 0 { // else the next attempt may not be stored yet
				last = s.run(t, r.Then)
			}
			if r.State.Open() || r.Owing() || last.State.Open() || last.Owing() {
				return fmt.Errorf("%s is %s and owes %+v", name, r.State, r.OwesPostRun())
			}
			if name == "fails" && r.Then != 0 {
				ids["fails, again"] = r.Then
			}
		}
		return nil
	})
	c := s.client(t)
	whole := map[string]string{}
	for name, id := range ids {
		log, err := c.GetLog(t.Context(), id.String(), client.GetLogParams{})
		if err != nil || log.Kept != nil || log.Text == "" {
			t.Fatalf("%s: while its executor is available: %v, %+v", name, err, log.Kept)
		}
		whole[name] = log.Text
	}
	exec.Close()
	for name, kept := range map[string]bool{"fails": true, "fails, again": true, "never": false, "fine": false, "always": true} {
		id := ids[name].String()
		log, err := c.GetLog(t.Context(), id, client.GetLogParams{})
		if !kept {
			if err == nil {
				t.Errorf("%s: %+v", name, log)
			}
			continue
		}
		if err != nil || log.Kept == nil {
			t.Errorf("%s: %v, %+v", name, err, log.Kept)
			continue
		}
		if log.Text != whole[name] || log.Kept.From != 1 || log.Kept.Why != "" || !log.End {
			t.Errorf("%s: %d bytes of %d, %+v", name, len(log.Text), len(whole[name]), log.Kept)
		}
		live, _, _ := strings.Cut(strings.ReplaceAll(log.Kept.Live, exec.URL(), "URL"), ": ") // the network's error follows
		texts.Equal(t, "executor gone", live)
		piece, err := c.GetLog(t.Context(), id, client.GetLogParams{From: 999})
		lines := strings.SplitAfter(whole[name], "\n")
		if want := strings.Join(lines[998:], ""); err != nil || piece.Text != want || piece.Next != log.Next {
			t.Errorf("%s from line 999: %v, %q, next %d; want %q, next %d", name, err, piece.Text, piece.Next, want, log.Next)
		}
	}
	check.NoError(t, s.counted(t, `tickring_logs_archived_total{outcome="kept"} 3`)())
}

// TestLostLogs: if an executor dies before its log is read, the log page, the metrics and doctor report that there is no log, and
// why.
func TestLostLogs(t *testing.T) {
	t.Parallel()
	o := Options{}
	o.PostRun.Waits = []time.Duration{100 * time.Millisecond}
	s := start(t, o)
	began, closed := make(chan struct{}), make(chan struct{})
	exec := startExecutor(t, miniexec.Options{App: "web", Admin: s.URL(),
		Listen: "127.0.0.1:" + freeport.Free(t), // a port that nothing else uses afterwards
		Handle: func(context.Context, *wire.Run, func(string, ...any)) (int, string) {
			close(began)
			<-closed
			return 500, "shot"
		}})
	save(t, s, "web", manage.JobSpec{Def: core.Def{App: "web", Name: "fails", Handler: "fails"}})
	<-exec.Registered()
	id := s.trigger(t, "web/fails").String()
	<-began
	close(closed)
	exec.Close() // reports, then accepts no connections
	c := s.client(t)
	eventually(t, 30*time.Second, func() error {
		log, err := c.GetLog(t.Context(), id, client.GetLogParams{})
		if err == nil && (log.Kept == nil || log.Kept.Why == "" || log.Text != "") {
			err = fmt.Errorf("%+v", log)
		}
		return err
	})
	eventually(t, 30*time.Second, s.counted(t, `tickring_logs_archived_total{outcome="failed"} 1`)) // once it is stored
	list, _ := s.findings(t)
	golden.New(t).Equal(t, "doctor", findingsWith(list, "logs"))
}

// TestMessageForLog: if an executor cannot serve logs, the run's message is shown instead. The answer names its source, and where
// the message was cut.
func TestMessageForLog(t *testing.T) {
	texts := golden.New(t)
	t.Parallel()
	s := start(t, Options{})
	var reports sync.WaitGroup
	defer reports.Wait()
	web := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/short" {
			http.Error(w, "no such table", http.StatusInternalServerError)
			return
		}
		back := r.Header.Get("Tickring-Callback")
		w.WriteHeader(http.StatusAccepted)
		reports.Go(func() {
			ask(t, "POST", back, `{"state":"failed","message":"`+strings.Repeat("x", core.MessageMax+1)+`"}`)
		})
	})
	s.app(t, "shop", "call:"+web.URL)
	c := s.client(t)
	for handler, cut := range map[string]bool{"short": false, "long": true} {
		spec := manage.JobSpec{Def: core.Def{App: "shop", Name: handler, Handler: "POST /" + handler}}
		saveAll(t, s, spec)
		run := s.until(t, s.trigger(t, "shop/"+handler), core.Failed)
		log, err := c.GetLog(t.Context(), run.ID.String(), client.GetLogParams{})
		if err != nil || log.Kept == nil || !log.Kept.Message || log.Kept.More != cut || !log.Kept.At.Equal(run.EndedAt) || !log.End ||
			log.Text != strings.TrimRight(run.Message, "\n")+"\n" {
			t.Fatalf("%s: %v, %+v, %d bytes", handler, err, log.Kept, len(log.Text))
		}
		texts.Equal(t, "plain endpoint", log.Kept.Live)
	}
}
