package rotate_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/rotate"
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// TestKeyIsRefused: a rotation needs a key, the data, and the lease. A refused rotation adds no key. The conformance suite of
// stores tests whole rotations.
func TestKeyIsRefused(t *testing.T) {
	text := secretbox.NewKey()
	box := secretbox.New(core.Say("the keys"), func(context.Context) (string, error) { return text, nil },
		func(_ context.Context, s string) error { text = s; return nil })
	s := memory.Open(t, memory.Options{Secrets: box})
	ctx, before, ann := t.Context(), text, core.Actor{Name: "ann"}
	check.OK(t, s.PutGlobal(ctx, 0, core.Global{Holder: "eu-west-1/state", Generation: 1, Rev: 1}))
	lease := core.Lease{Name: "rotate-key", Owner: "other", Epoch: 1, Until: time.Now().Add(time.Minute)}
	check.OK(t, s.PutLease(ctx, core.Lease{}, lease))
	open, foreign := *s, *s
	open.Box, foreign.Deployment = nil, "eu-central-1/state"
	for _, c := range []struct {
		s    *store.Store
		who  core.Actor
		code core.Code
	}{{&open, ann, core.CodeRefused}, {&foreign, ann, core.CodeRefused}, {s, core.Actor{}, core.CodeInvalid}, {s, ann, core.CodeUnavailable}} {
		if _, err := rotate.Key(ctx, c.s, c.who, ""); core.CodeOf(err) != c.code || text != before {
			t.Errorf("%v, want %s", err, c.code)
		}
	}
	check.OK(t, s.DropLease(ctx, lease))
	check.Call(t)(rotate.Key(ctx, s, ann, ""))
	if leases, err := s.Leases(ctx); err != nil || len(leases) > 0 || !strings.HasSuffix(text, "\n"+before) {
		t.Errorf("leases %+v, %v; keys %q", leases, err, text)
	}
}
