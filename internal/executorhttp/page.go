package executorhttp

import (
	"io"
	"net/http"
	"strings"

	"github.com/tickring/tickring/internal/rejectlog"
	"github.com/tickring/tickring/wire"
)

const pageRefused = "Requests from web pages (header Origin or Sec-Fetch-Site) are rejected: only executors can use this path."

// noPage rejects requests of pages in browsers.
func (d Config) noPage(next, refuse http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if wire.FromPage(r.Header) {
			d.note(w, r, rejectlog.Refusal{Door: doorOf(r.URL.Path), Reason: rejectlog.Page})
			refuse(w, r)
			return
		}
		next(w, r)
	}
}

// note records a rejection, and returns when the client may be answered.
func (d Config) note(w http.ResponseWriter, r *http.Request, of rejectlog.Refusal) {
	of.Remote = r.RemoteAddr
	if d.Refused.Note(r.Context(), of) {
		w.Header().Set("Connection", "close")
	}
}

func doorOf(path string) string {
	switch {
	case strings.HasSuffix(path, wire.PathCallback):
		return rejectlog.Callback
	case strings.HasPrefix(path, "/v1/queue/"):
		return rejectlog.Queue
	case strings.HasPrefix(path, "/v1/report/"):
		return rejectlog.Report
	}
	return rejectlog.Registry
}

// refusePageWire rejects in the xxl-job protocol, which always uses HTTP 200.
func refusePageWire(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", wire.ContentType)
	w.Write(wire.AppendReply(nil, wire.CodeFailure, pageRefused))
}

func refusePage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	io.WriteString(w, `{"error":{"code":"refused","message":"`+pageRefused+`"}}`+"\n")
}
