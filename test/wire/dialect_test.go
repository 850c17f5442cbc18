package wire_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	sdk "github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/wire"
)

// A dialect makes our own executor behave like a version of xxl-job that no repository has. It filters requests in both directions,
// so that nothing unknown to that version passes.
type dialect struct {
	wire.Dialect
	app, token string
	inner      http.Handler
}

// ServeHTTP handles a scheduler's requests as that version does.
func (d *dialect) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html;charset=UTF-8")
	refuse := func(why string) {
		fmt.Println("refused", r.URL.Path, why)
		_, _ = w.Write(wire.AppendReply(nil, wire.CodeFailure, why))
	}
	body, err := io.ReadAll(r.Body)
	other := map[string]string{wire.PathRun: wire.PathTrigger, wire.PathTrigger: wire.PathRun}[d.RunPath()]
	switch {
	case err != nil:
		refuse(err.Error())
		return
	case r.URL.Path == other:
		refuse("invalid request, uri-mapping(" + other + ") not found.")
		return
	case d.Dialect == wire.DialectD && (r.Header.Get(wire.HeaderApp) != d.app || r.Header.Get(wire.HeaderToken) != d.token):
		refuse("The access token is wrong.")
		return
	case r.URL.Path == d.RunPath():
		run, err := wire.DecodeRun(body)
		if err != nil {
			refuse(err.Error())
			return
		}
		body = wire.AppendRun(nil, &run)
	}
	for _, name := range []string{wire.HeaderAttempt, wire.HeaderScheduledAt, wire.HeaderCause} {
		r.Header.Del(name)
	}
	r.Header.Set(wire.HeaderApp, d.app) // it answers /log under data, as both versions do
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	d.inner.ServeHTTP(w, r)
}

// RoundTrip sends requests to a server as that version does.
func (d *dialect) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(r.URL.Path, wire.PathCallback) {
		c, err := wire.DecodeCallback(body, 0)
		if err != nil {
			return nil, err
		}
		for i := range c.Items {
			c.Items[i].Data = ""
		}
		body = wire.AppendCallback(nil, d.Dialect, c.Items)
	}
	r = r.Clone(r.Context())
	if r.Header.Del(wire.HeaderApp); d.Dialect == wire.DialectD {
		r.Header.Set(wire.HeaderApp, d.app)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return http.DefaultTransport.RoundTrip(r)
}

// serve is ListenAndServe of an executor with this dialect, which forgets finished runs as those versions do.
func (d *dialect) serve(ctx context.Context, mux *sdk.Mux, o sdk.Options) error {
	o.InMemory, o.Client, o.Address = true, &http.Client{Transport: d}, "http://"+o.Listen+"/"
	e, err := sdk.New(mux, o)
	if err != nil {
		return err
	}
	d.app, d.token, d.inner = o.App, o.Token, e
	ln, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: d}
	defer srv.Close()
	go func() { fmt.Println(srv.Serve(ln)) }()
	if err := e.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return e.Stop(bound)
}
