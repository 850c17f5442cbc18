package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/wire"
)

// TestCounting: runs are counted at both paths at which executors take them, and passed on.
func TestCounting(t *testing.T) {
	run := core.PlannedRun(7, core.InstantOf(noon))
	body := wire.AppendRun(nil, &wire.Run{LogID: int64(run)})
	for path, want := range map[string]int{wire.PathRun: 1, wire.PathTrigger: 1, wire.PathBeat: 0} {
		p := &proof{ledger: newLedger()}
		arrived := 0
		var passed []byte
		next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { passed, _ = io.ReadAll(r.Body) })
		h := p.counting(next, func() { arrived++ })
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
		if n := len(p.ledger.of(run)); n != want || arrived != want || !bytes.Equal(passed, body) {
			t.Errorf("%s: %d counted, %d arrived, passed on %q", path, n, arrived, passed)
		}
	}
}
