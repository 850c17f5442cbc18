package api

import (
	"testing"

	"github.com/tickring/tickring/core"
)

// TestCountedBy: a finished run still names each limit that counted it.
func TestCountedBy(t *testing.T) {
	j := core.Job{Def: core.Def{ID: 2, App: "shop", Params: `{"t":1}`, Overlap: core.Overlap{Limit: 1, Key: "/t"}}}
	app := core.App{Name: "shop", Limits: core.Limits{InFlight: 5}}
	r := core.Run{Permit: j.Permit(&app, &core.Run{})}
	if p := countedBy(&r); p.Of != "job 2, app shop" || len(p.Value) != 16 || p.Limit != 0 {
		t.Errorf("%+v", p)
	}
}
