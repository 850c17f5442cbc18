package doors

import (
	"errors"
	"strings"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/wirehttp"
)

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
