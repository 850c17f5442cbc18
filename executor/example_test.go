package executor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/wire"
)

// A handler can be tested without an executor.
func ExampleHandler() {
	nightly := func(_ context.Context, run *executor.Run) error {
		if run.Params == "" {
			return errors.New("which table?")
		}
		run.Printf("table %s, shard %d of %d", run.Params, run.ShardIndex, run.ShardTotal)
		return nil
	}
	fmt.Println(nightly(context.Background(), &executor.Run{}))
	fmt.Println(nightly(context.Background(), &executor.Run{Params: "orders"}))
	// Output:
	// which table?
	// <nil>
}

func ExampleTyped() {
	type report struct {
		Table string `json:"table"`
		Days  int    `json:"days"`
	}
	h := executor.Typed(func(_ context.Context, run *executor.Run, p report) error {
		fmt.Println(p.Table, p.Days)
		return nil
	})
	fmt.Println(h(context.Background(), &executor.Run{Params: `{"table": "orders", "days": 7}`}))
	fmt.Println(h(context.Background(), &executor.Run{Params: `{"tabel": "orders"}`}))
	// Output:
	// orders 7
	// <nil>
	// params: json: unknown field "tabel"
}

func ExampleNew() {
	mux := executor.NewMux()
	mux.Register("nightly", func(context.Context, *executor.Run) error { return nil })
	mux.Register("nightly", func(context.Context, *executor.Run) error { return nil })
	_, err := executor.New(mux, executor.Options{})
	fmt.Println(err)
	// Output:
	// executor: handler "nightly" is registered twice
	// option App is empty or longer than 255 bytes
}

// An executor is an http.Handler that you can mount into an existing server. You then call Start and Stop yourself.
func ExampleExecutor_ServeHTTP() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	done := make(chan string, 1)
	mux := executor.NewMux()
	mux.Register("hello", func(_ context.Context, run *executor.Run) error {
		done <- "hello " + run.Params
		return nil
	})
	e, err := executor.New(mux, executor.Options{App: "reports", Token: "secret", Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	if err := e.Start(); err != nil {
		panic(err)
	}
	site := http.NewServeMux()
	site.Handle("/jobs/", e)
	server := httptest.NewServer(site)
	defer server.Close()

	// The request of a scheduler.
	req, _ := http.NewRequest(http.MethodPost, server.URL+"/jobs/run",
		strings.NewReader(`{"jobId":1,"logId":7,"executorHandler":"hello","executorParams":"world","glueType":"BEAN"}`))
	req.Header.Set(wire.HeaderToken, "secret")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(err)
	}
	res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	fmt.Println(res.Status)
	fmt.Println(<-done)
	fmt.Println(e.Stop(context.Background()))
	// Output:
	// 200 OK
	// hello world
	// <nil>
}

func ExampleRun_SetResult() {
	h := func(_ context.Context, run *executor.Run) error {
		run.SetResult(executor.Success, "1,204 rows")
		return nil
	}
	fmt.Println(h(context.Background(), &executor.Run{}))
	// Output: <nil>
}

func ExampleRun_SetData() {
	h := func(_ context.Context, run *executor.Run) error {
		return run.SetData(`{"file":"2026-11-20.csv","rows":1204}`)
	}
	fmt.Println(h(context.Background(), &executor.Run{}))
	// Output: <nil>
}

// A job declared in code is created on the server when the executor starts.
func ExampleMux_Declare() {
	mux := executor.NewMux()
	mux.Register("nightly", func(context.Context, *executor.Run) error { return nil })
	mux.Declare(executor.Job{Name: "nightly", Schedule: executor.Cron("0 30 2 * * ?", "Europe/Berlin"), Timeout: time.Hour, Retries: 2,
		RetryDelay: time.Minute})
	_, err := executor.New(mux, executor.Options{App: "reports", Servers: []string{"http://127.0.0.1:7700"}, Address: "http://127.0.0.1:9999",
		Token: "of the app"})
	fmt.Println(err)
	// Output: <nil>
}
