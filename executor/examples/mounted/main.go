// An executor inside a program that serves something else: one port for both.
//
//	APP=reports SERVER=http://127.0.0.1:7700 ADDRESS=http://127.0.0.1:8081/jobs LISTEN=127.0.0.1:8081 go run ./executor/examples/mounted
package main

import (
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
	mux.Register("hello", func(_ context.Context, run *executor.Run) error {
		run.Logger().Info("hello", "params", run.Params)
		return nil
	})
	e, err := executor.New(mux, executor.Options{
		App:     os.Getenv("APP"),
		Servers: []string{os.Getenv("SERVER")},
		Token:   os.Getenv("TOKEN"),
		Address: os.Getenv("ADDRESS"), // URL at which the servers reach /jobs
		Dir:     os.Getenv("DIR"),
	})
	if err != nil {
		log.Fatal(err)
	}
	site := http.NewServeMux()
	site.Handle("/jobs/", e)
	site.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "the site") })
	ln, err := net.Listen("tcp", os.Getenv("LISTEN")) // before it registers
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
