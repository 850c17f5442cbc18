package executorhttp

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/internal/assembly"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/wire"
	"github.com/tickring/tickring/wirehttp"
)

// What a handler hands on comes from the wire to the run.
func TestDataOfACallback(t *testing.T) {
	e := memory.Open(memory.Options{})
	id := core.NumberedRun(7, 1)
	if err := e.Manage.PutApp(t.Context(), 0, core.App{Name: "shop", Token: "secret", Rev: 1}, core.Change{ID: 1, App: "shop"}); err != nil {
		t.Fatal(err)
	}
	if err := e.Finish.Create(t.Context(),
		[]core.Run{{ID: id, App: "shop", State: core.Running, Owner: "me", Attempt: 1, First: id}})[0]; err != nil {
		t.Fatal(err)
	}
	call := assembly.New(e, assembly.Options{Plan: plan.Local()}).Callback(callback.Options{})
	body := wire.AppendCallback(nil, wire.DialectGo, []wire.CallbackItem{{LogID: int64(id), Code: 200, Msg: "m", Data: "d"}})
	h := wirehttp.NewHandler(wirehttp.Ports{Registry: wireRegistry{}, Callbacks: wireCallbacks{call}}, wirehttp.Options{})
	r := httptest.NewRequest(http.MethodPost, wire.PathCallback, bytes.NewReader(body))
	r.Header.Set(wire.HeaderToken, "secret")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if found, _, err := e.Finish.Runs(t.Context(), []core.RunID{id}); err != nil || found[id].Data != "d" ||
		found[id].State != core.Succeeded {
		t.Errorf("%s: %+v, %v", w.Body, found[id], err)
	}
}

// An executor whose app has no token is told what to write, not that its own
// token is wrong.
func TestNoTokenIsSaid(t *testing.T) {
	err := wireError(&core.Error{Code: core.CodeUnauthorized, Reason: "write token: …", Err: registry.ErrNoToken})
	if errors.Is(err, wirehttp.ErrUnauthorized) || !strings.Contains(err.Error(), "write token: …") {
		t.Error(err)
	}
	if err := wireError(core.Errorf(core.CodeUnauthorized, "wrong")); !errors.Is(err, wirehttp.ErrUnauthorized) {
		t.Error(err)
	}
}
