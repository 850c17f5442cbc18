package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/lambdaboot"
)

// TestTokenThatCannotBeRead: while the token cannot be read, requests get a temporary error, which does not reveal the cause.
func TestTokenThatCannotBeRead(t *testing.T) {
	err := errors.New("AccessDenied")
	made := 0
	h := guarded(func(context.Context) (lambdaboot.Tokens, error) { return lambdaboot.Tokens{Admin: "token"}, err },
		slog.New(slog.DiscardHandler),
		func(t lambdaboot.Tokens) http.Handler {
			made++
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, t.Admin) })
		})
	ask := func() (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/apps", nil))
		return w.Code, w.Body.String()
	}
	if status, body := ask(); status != http.StatusServiceUnavailable || strings.Contains(body, "AccessDenied") || made != 0 {
		t.Errorf("%d %s", status, body)
	}
	err = nil
	for range 2 {
		if status, body := ask(); status != http.StatusOK || body != "token" || made != 1 {
			t.Errorf("%d %s", status, body)
		}
	}
}
