package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/doctor"
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
	exec, err := miniexec.Start(miniexec.Options{App: "web", Admin: s.URL(), Token: "executors-of-web",
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
	check.OK(t, err)
	defer exec.Close()
	spec := func(name, handler string, keep core.KeepLog) manage.JobSpec {
		return manage.JobSpec{Def: core.Def{App: "web", Name: name, Handler: handler, Keep: core.Keep{Log: keep},
			Retry: core.Retry{Max: 1, Delay: time.Second}}}
	}
	save(t, s, "web", spec("fails", "fails", ""), spec("never", "fails", core.KeepLogNever), spec("fine", "fine", ""),
		spec("always", "fine", core.KeepLogAlways), spec("always-fails", "fails", core.KeepLogAlways))
	<-exec.Registered()
	ids := map[string]core.RunID{}
	for _, name := range []string{"fails", "never", "fine", "always", "always-fails"} {
		ids[name] = s.trigger(t, "web/"+name)
	}
	eventually(t, time.Minute, func() error {
		for _, name := range []string{"fails", "never", "fine", "always", "always-fails"} {
			r := s.run(t, ids[name])
			last := r
			if !r.Owing() && r.Then != 0 { // else the next attempt may not be stored yet
				last = s.run(t, r.Then)
			}
			if r.State.Open() || r.Owing() || last.State.Open() || last.Owing() {
				return fmt.Errorf("%s is %s and owes %+v", name, r.State, r.OwesPostRun())
			}
			if strings.HasSuffix(name, "fails") && r.Then != 0 {
				ids[name+", again"] = r.Then
			}
		}
		return nil
	})
	// The setting of the job applies to its scheduled runs too.
	beat := secondly("web", "beat")
	beat.Def.Keep.Log = core.KeepLogAlways
	saveAll(t, s, beat)
	eventually(t, 30*time.Second, func() error {
		page, err := s.Manage().Runs(t.Context(), query.RunFilter{Job: "web/beat", States: []core.State{core.Succeeded}})
		if err != nil || len(page.Runs) == 0 {
			return fmt.Errorf("%d runs, %w", len(page.Runs), err)
		}
		id := page.Runs[len(page.Runs)-1].ID
		if _, is, err := s.Manage().KeptLog(t.Context(), id); err != nil || !is {
			return fmt.Errorf("the log of run %d is kept: %t, %w", id, is, err)
		}
		return nil
	})
	check.Call(t)(s.Manage().Delete(t.Context(), actor, "web/beat", nil))
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
	for name, kept := range map[string]bool{"fails": true, "fails, again": true, "never": false, "fine": false, "always": true,
		"always-fails": true, "always-fails, again": true} {
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
	if numbers := metricsOf(t, s); !strings.Contains(numbers, `tickring_logs_archived_total{outcome="kept"} `) ||
		strings.Contains(numbers, `tickring_logs_archived_total{outcome="kept"} 0`) {
		t.Errorf("metrics: %s", numbers)
	}
}

// TestLostLogs: if an executor dies before its log is read, the log page, the metrics and doctor report that there is no log, and
// why.
func TestLostLogs(t *testing.T) {
	t.Parallel()
	o := Options{}
	o.PostRun.Waits = []time.Duration{100 * time.Millisecond}
	s := start(t, o)
	var exec *miniexec.Executor
	began, closed := make(chan struct{}), make(chan struct{})
	exec, err := miniexec.Start(miniexec.Options{App: "web", Admin: s.URL(), Token: "executors-of-web",
		Listen: "127.0.0.1:" + freeport.Free(t), // a port that nothing else uses afterwards
		Handle: func(context.Context, *wire.Run, func(string, ...any)) (int, string) {
			close(began)
			<-closed
			return 500, "shot"
		}})
	check.OK(t, err)
	defer exec.Close()
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
	eventually(t, 30*time.Second, func() error { // counted once it is stored
		if numbers := metricsOf(t, s); !strings.Contains(numbers, `tickring_logs_archived_total{outcome="failed"} 1`) {
			return fmt.Errorf("metrics: %s", numbers)
		}
		return nil
	})
	facts, err := c.GetFacts(t.Context())
	check.OK(t, err)
	var found []string
	for _, x := range doctor.Judge(&doctor.Facts{Now: facts.Now, Own: &facts}) {
		if strings.Contains(x.Says.String(), "logs") {
			found = append(found, fmt.Sprintf("%s: %s; %s", x.Level, x.Says, x.Do))
		}
	}
	golden.New(t).Equal(t, "doctor", steady(strings.Join(found, "\n")))
}

// TestMessageForLog: if an executor cannot serve logs, the run's message is shown instead. The answer names its source, and where
// the message was cut.
func TestMessageForLog(t *testing.T) {
	texts := golden.New(t)
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

// TestLogOfManyLines: a log that is larger than one answer is read in pieces of whole lines, from any line and from its end,
// although its executor answers with everything after the requested line. This holds for running and for ended runs.
func TestLogOfManyLines(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	const all = 120_000
	line := func(n int) string { return fmt.Sprintf("2026-11-28T08:00:00Z line %d has \"nothing new\"\n", n) }
	var lines []string
	for n := range all {
		lines = append(lines, line(n+1))
	}
	var sent atomic.Int64
	web := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		q, err := wire.DecodeLogRequest(body)
		if r.URL.Path != wire.PathLog || err != nil {
			sent.Store(q.LogID)
			w.Write(wire.AppendReply(nil, 200, ""))
			return
		}
		text := strings.Join(lines[q.FromLine-1:], "")
		w.Write(wire.AppendLogReply(nil, wire.DialectB, 200, "", wire.LogResult{FromLine: q.FromLine, ToLine: all, Content: text}))
	})
	save(t, s, "web", manage.JobSpec{Def: core.Def{App: "web", Name: "long", Handler: "long"}})
	if got := post(t, s, "/api/registry", string(wire.AppendRegistration(nil, wire.Registration{Group: wire.GroupExecutor, App: "web",
		Address: web.URL}))); !strings.Contains(got, `"code":200`) {
		t.Fatal(got)
	}
	id := s.trigger(t, "web/long").String()
	eventually(t, 20*time.Second, func() error {
		if sent.Load() == 0 {
			return errors.New("not sent yet")
		}
		return nil
	})
	c := s.client(t)
	for _, state := range []core.State{core.Running, core.Succeeded} {
		if state == core.Succeeded {
			post(t, s, "/api/callback", fmt.Sprintf(`[{"logId":%d,"logDateTim":1,"handleCode":200,"handleMsg":"ok"}]`, sent.Load()))
		}
		pieces, n := 0, 1
		for from := 1; ; pieces++ {
			log, err := c.GetLog(t.Context(), id, client.GetLogParams{From: from})
			if err != nil || log.From != from || len(log.Text) > 4<<20 {
				t.Fatalf("%s, from %d: %d bytes, %v", state, from, len(log.Text), err)
			}
			for text := range strings.Lines(log.Text) {
				if text != line(n) {
					t.Fatalf("%s: line %d is %q", state, n, text)
				}
				n++
			}
			if log.Next != n || log.Text == "" {
				if log.Next != n || log.End != (state == core.Succeeded) {
					t.Errorf("%s: next is %d after line %d, the end %t", state, log.Next, n-1, log.End)
				}
				break
			}
			from = log.Next
		}
		if n != all+1 || pieces < 2 {
			t.Errorf("%s: %d lines in %d pieces", state, n-1, pieces)
		}
		log, err := c.GetLog(t.Context(), id, client.GetLogParams{Tail: 2})
		if err != nil || log.Text != line(all-1)+line(all) || log.From != all-1 || log.Next != all+1 {
			t.Errorf("%s: the last lines are %+v, %v", state, log, err)
		}
	}
}

func metricsOf(t *testing.T, s *running) string {
	t.Helper()
	_, text := ask(t, "GET", s.URL()+"/metrics", "")
	return text
}
