package executorhttp

import (
	"io"
	"net/http"

	"github.com/tickring/tickring/wire"
)

const pageRefused = "Pages in a browser are refused here (header Origin or Sec-Fetch-Site): only executors may ask."

// noPage keeps pages in browsers from a door of executors.
func noPage(next, refuse http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if wire.FromPage(r.Header) {
			refuse(w, r)
			return
		}
		next(w, r)
	}
}

// refusePageWire refuses in the words of the wire, where all is HTTP 200.
func refusePageWire(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", wire.ContentType)
	w.Write(wire.AppendReply(nil, wire.CodeFailure, pageRefused))
}

func refusePage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	io.WriteString(w, `{"error":{"code":"refused","message":"`+pageRefused+`"}}`+"\n")
}
