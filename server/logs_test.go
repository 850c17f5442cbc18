package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/freeport"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/miniexec"
	"github.com/tickring/tickring/wire"
)

// logging starts an executor of the app web that has logs, and returns its URL and what stops it.
func (s *running) logging(t *testing.T, mux *executor.Mux) (url string, stop func()) {
	t.Helper()
	address := "127.0.0.1:" + freeport.Free(t) // a port that nothing else uses afterwards
	e, err := executor.New(mux, executor.Options{App: "web", Servers: []string{s.URL()}, Token: "executors-of-web", Listen: address,
		Dir: t.TempDir(), InMemory: true, Log: slog.New(slog.DiscardHandler)})
	check.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.ListenAndServe(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		check.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	eventually(t, time.Minute, func() error {
		if len(factsOf(t, s).Executors) == 0 {
			return errors.New("the executor is not registered")
		}
		return nil
	})
	return "http://" + address, stop
}

// TestKeptLogs: the log of a failed run outlives the executor, and readers learn that they see the kept part. The log of a successful
// run ends with its executor.
func TestKeptLogs(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	names := [2]string{"fine", "fails"}
	spec := func(name string) manage.JobSpec {
		return manage.JobSpec{Def: core.Def{App: "web", Name: name, Handler: name}}
	}
	save(t, s, "web", spec(names[0]), spec(names[1]))
	mux := executor.NewMux()
	for _, name := range names {
		mux.Register(name, func(_ context.Context, r *executor.Run) error {
			for n := range 1000 {
				r.Printf("line %d of run %d", n+1, r.ID)
			}
			if name == "fails" {
				return errors.New("no such table")
			}
			return nil
		})
	}
	url, stop := s.logging(t, mux)
	c := s.client(t)
	var whole string // of the last run
	var ids [2]string
	for i, name := range names {
		id := s.trigger(t, "web/"+name)
		ids[i] = id.String()
		eventually(t, time.Minute, func() error {
			if r := s.run(t, id); r.State.Open() || r.Owing() {
				return fmt.Errorf("%s is %s and owes %+v", name, r.State, r.OwesPostRun())
			}
			return nil
		})
		log, err := c.GetLog(t.Context(), ids[i], client.GetLogParams{})
		if err != nil || log.Kept != nil || log.Text == "" {
			t.Fatalf("%s: while its executor is available: %v, %+v", name, err, log.Kept)
		}
		whole = log.Text
	}
	stop()
	if log, err := c.GetLog(t.Context(), ids[0], client.GetLogParams{}); err == nil {
		t.Errorf("of the successful run: %+v", log)
	}
	log, err := c.GetLog(t.Context(), ids[1], client.GetLogParams{})
	if err != nil || log.Kept == nil || log.Text != whole || log.Kept.From != 1 || log.Kept.Why != "" || !log.End {
		t.Fatalf("%v, %+v", err, log)
	}
	live, _, _ := strings.Cut(strings.ReplaceAll(log.Kept.Live, url, "URL"), ": ") // the network's error follows
	golden.New(t).Equal(t, "executor gone", live)
	piece, err := c.GetLog(t.Context(), ids[1], client.GetLogParams{From: 999})
	want := strings.Join(strings.SplitAfter(log.Text, "\n")[998:], "")
	if err != nil || piece.Text != want || piece.Next != log.Next {
		t.Errorf("from line 999: %v, %q, next %d; want %q, next %d", err, piece.Text, piece.Next, want, log.Next)
	}
	check.NoError(t, s.counted(t, `tickring_logs_archived_total{outcome="kept"} 1`)())
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
		Handle: func(context.Context, *wire.Run) (int, string) {
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
	eventually(t, time.Minute, func() error {
		log, err := c.GetLog(t.Context(), id, client.GetLogParams{})
		if err == nil && (log.Kept == nil || log.Kept.Why == "" || log.Text != "") {
			err = fmt.Errorf("%+v", log)
		}
		return err
	})
	eventually(t, time.Minute, s.counted(t, `tickring_logs_archived_total{outcome="failed"} 1`)) // once it is stored
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
