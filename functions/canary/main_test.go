package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tickring/tickring/internal/testkit/golden"
)

// TestReports: the canary reports its run and fails if it cannot, which raises an alarm.
func TestReports(t *testing.T) {
	var got string
	status := http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.URL.String() + " " + string(b)
		w.WriteHeader(status)
	}))
	defer srv.Close()
	h := wire(srv.Client())
	event := json.RawMessage(fmt.Sprintf(`{"logId":7,"tickring":{"job":"a/b","reportUrl":"%s/v1/report/7?key=k"}}`, srv.URL))
	if err := h(t.Context(), event); err != nil || got != `POST /v1/report/7?key=k {"state":"succeeded","message":"alive"}` {
		t.Errorf("%v, %q", err, got)
	}
	status = http.StatusUnauthorized
	golden.New(t).Equal(t, "refused", fmt.Sprint(h(t.Context(), event)), srv.URL, "URL")
	srv.Close()
	if err := h(t.Context(), event); err == nil {
		t.Error("no server, and no error")
	}
	for _, bad := range []string{`[`, `{}`, `{"tickring":{"reportUrl":"http://%"}}`} {
		if err := h(t.Context(), json.RawMessage(bad)); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}
