package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// TestHealthReportsTheStatusOfTheServer: the exit code is the one that a container engine reads.
func TestHealthReportsTheStatusOfTheServer(t *testing.T) {
	texts := golden.New(t)
	for _, tt := range []struct {
		name   string
		status int
		body   string
		code   int
	}{
		{"healthy", 200, `{"status":"ok","verdict":"scheduler healthy, no job failing"}`, 0},
		{"on hold", 503, `{"status":"the server is on hold"}`, 1},
		{"another program", 200, `<html>`, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				check.Equal(t, r.URL.Path, "/healthz", "the command asks for")
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			}))
			defer s.Close()
			var out strings.Builder
			code := Main(t.Context(), []string{"health", "--endpoint", s.URL}, strings.NewReader(""), &out, &out, lookup(nil))
			check.Equal(t, code, tt.code, "exit code")
			texts.Equal(t, tt.name, out.String(), s.URL, "URL")
		})
	}
}
