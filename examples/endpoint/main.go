// This program is an HTTP endpoint that a job calls. The endpoint verifies the signature of each request, so that only
// the scheduler can start the work.
package main

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	token := os.Getenv("WEB_TOKEN")
	if token == "" {
		log.Fatal("set WEB_TOKEN to the token of the app")
	}
	http.HandleFunc("POST /warm", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil || !verified(token, r, body) {
			http.Error(w, "the signature is wrong", http.StatusUnauthorized)
			return
		}
		log.Printf("run %q, params %q", r.Header.Get("Tickring-Run"), body) //nolint:gosec // %q escapes line feeds
		fmt.Fprint(w, "warmed 12 pages")                                    // the message of the run
	})
	server := &http.Server{Addr: cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:8080"), ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}

// verified reports whether tickring signed the request within the last five minutes. body is the complete body.
func verified(token string, r *http.Request, body []byte) bool {
	h := r.Header.Get
	at, err := time.Parse(time.RFC3339, h("Tickring-Time"))
	if err != nil || time.Since(at).Abs() > 5*time.Minute {
		return false
	}
	m := hmac.New(sha256.New, []byte(token))
	for _, s := range []string{h("Tickring-Time"), r.Method, strings.ToLower(r.Host), r.RequestURI, h("Tickring-Run"),
		h("Tickring-Job"), h("Tickring-Attempt"), h("Tickring-Scheduled-At"), h("Tickring-Callback")} {
		io.WriteString(m, s+"\n")
	}
	m.Write(body)
	return hmac.Equal([]byte(h("Tickring-Signature")), []byte("v2="+hex.EncodeToString(m.Sum(nil))))
}
