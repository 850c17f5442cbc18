package executorhttp

import (
	"io"
	"net/http"
	"strings"

	"github.com/tickring/tickring/internal/refusal"
	"github.com/tickring/tickring/wire"
)

const pageRefused = "Pages in a browser are refused here (header Origin or Sec-Fetch-Site): only executors may ask."

// noPage rejects requests of pages in browsers.
func (d Door) noPage(next, refuse http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if wire.FromPage(r.Header) {
			d.note(w, r, refusal.Refusal{Door: doorOf(r.URL.Path), Reason: refusal.Page})
			refuse(w, r)
			return
		}
		next(w, r)
	}
}

// note records a rejection, and returns when the client may be answered.
func (d Door) note(w http.ResponseWriter, r *http.Request, of refusal.Refusal) {
	of.Remote = r.RemoteAddr
	if d.Refused.Note(r.Context(), of) {
		w.Header().Set("Connection", "close")
	}
}

func doorOf(path string) string {
	switch {
	case strings.HasSuffix(path, wire.PathCallback):
		return refusal.Callback
	case strings.HasPrefix(path, "/v1/queue/"):
		return refusal.Queue
	case strings.HasPrefix(path, "/v1/report/"):
		return refusal.Report
	}
	return refusal.Registry
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
