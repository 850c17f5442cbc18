package executorhttp

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Behind a key that cannot be read nobody is turned away for good, and what the
// failure was stays inside.
func TestKeyThatCannotBeRead(t *testing.T) {
	err := errors.New("AccessDenied")
	mux := http.NewServeMux()
	door := Door{Log: slog.New(slog.DiscardHandler)}
	mux.HandleFunc("POST /v1/report/{run}", door.Report(nil, func(context.Context) ([]byte, error) { return []byte("key"), err }))
	ask := func(path string) (int, string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
		return w.Code, w.Body.String()
	}
	if status, body := ask("/v1/report/4294967297"); status != http.StatusServiceUnavailable || strings.Contains(body, "AccessDenied") {
		t.Errorf("%d %s", status, body)
	}
	err = nil
	if status, _ := ask("/v1/report/4294967297?key=x"); status != http.StatusUnauthorized {
		t.Errorf("a wrong key: %d", status)
	}
}
