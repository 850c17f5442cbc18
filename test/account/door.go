package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// fault describes failures between the functions and the tables and queues. The zero value has none.
type fault struct {
	throttled float64 // share of requests that are throttled
	lost      float64 // share of requests that are executed, but lose the connection before the answer
	doubled   bool    // queues of the deployment get each send twice
}

// A faultProxy is a proxy between the functions of an emulator and its tables and queues. It adds faults, because the emulator has none
// of its own.
type faultProxy struct {
	server  *http.Server
	at      string // its URL
	to      *url.URL
	forward *httputil.ReverseProxy
	fault   atomic.Pointer[fault]
	other   string // prefix of the names of queues that are not of the deployment
}

// newFaultProxy returns a proxy to an emulator.
func newFaultProxy(to, other string) (*faultProxy, error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the proxy of the emulator: %w", err)
	}
	d := &faultProxy{at: "http://" + l.Addr().String(), to: u, forward: httputil.NewSingleHostReverseProxy(u), other: other}
	d.fault.Store(&fault{})
	d.forward.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusServiceUnavailable) }
	d.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: d}
	go func() { _ = d.server.Serve(l) }() // until its owner closes it
	return d, nil
}

func (d *faultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := d.fault.Load()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the caller is gone
	}
	again := func() { r.Body = io.NopCloser(bytes.NewReader(body)) }
	again()
	switch {
	case rand.Float64() < f.throttled:
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.Header().Set("X-Amzn-Query-Error", "ThrottlingException;Sender") // as SQS names it
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"com.amazon.coral.availability#ThrottlingException","message":"Rate exceeded"}`)
		return
	case rand.Float64() < f.lost:
		d.forward.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler) // breaks the connection
	case f.doubled && d.sends(r, body):
		d.forward.ServeHTTP(httptest.NewRecorder(), r)
		again()
	}
	d.forward.ServeHTTP(w, r)
}

// sends reports whether a request sends to a queue of the deployment. An executor's own
// queue may bring a message twice without a fault, and the executor begins it once.
func (d *faultProxy) sends(r *http.Request, body []byte) bool {
	var in struct{ QueueUrl string } //nolint:revive // as SQS names it
	return strings.HasPrefix(r.Header.Get("X-Amz-Target"), "AmazonSQS.SendMessage") && json.Unmarshal(body, &in) == nil &&
		!strings.HasPrefix(in.QueueUrl[strings.LastIndexByte(in.QueueUrl, '/')+1:], d.other)
}
