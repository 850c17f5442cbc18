// This program serves a website and is also an executor, on one port. Its handler reads params in JSON and can be
// killed.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tickring/tickring/executor"
)

func main() {
	mux := executor.NewMux()
	type params struct {
		Seconds int `json:"seconds"`
	}
	mux.Register("rebuild", executor.Typed(func(ctx context.Context, run *executor.Run, p params) error {
		run.Logger().Info("rebuild", "seconds", p.Seconds)
		select {
		case <-time.After(time.Duration(p.Seconds) * time.Second):
			run.SetResult(executor.Success, "rebuilt the site")
			return nil
		case <-ctx.Done(): // killed, timed out, or the program stops
			return context.Cause(ctx)
		}
	}))
	listen := cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:8081")
	e, err := executor.New(mux, executor.Options{
		App:     "site",
		Servers: []string{cmp.Or(os.Getenv("SERVER"), "http://127.0.0.1:7700")},
		Token:   os.Getenv("SITE_TOKEN"),
		Address: "http://" + listen + "/jobs", // URL at which the servers reach the executor
	})
	if err != nil {
		log.Fatal(err)
	}
	site := http.NewServeMux()
	site.Handle("/jobs/", e)
	site.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "the site") })
	ln, err := net.Listen("tcp", listen) // before it registers
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: site, ReadHeaderTimeout: 10 * time.Second}

	if err := e.Start(); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		bound, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		// Stop the executor first: while it drains, the server still answers requests with the reason.
		if err := e.Stop(bound); err != nil {
			log.Print(err)
		}
		if err := server.Shutdown(bound); err != nil {
			log.Print(err)
		}
	}()
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	<-stopped
}
