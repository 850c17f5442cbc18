package manage_test

import (
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
)

// fixture has the use cases on SQLite in memory.
type fixture struct{ *usecasetest.Fixture }

func newFixture(t testing.TB) *fixture { return &fixture{usecasetest.New(t)} }

type faults = usecasetest.Faults

var (
	ctx, ann, start   = usecasetest.Ctx, usecasetest.Ann, usecasetest.Start
	every, spec, code = usecasetest.Every, usecasetest.Spec, usecasetest.Code
	fails             = usecasetest.Fails
)

// modes are the ways in which one call of the store fails.
var modes = []struct {
	name  string
	fault faults
}{
	{"unknown, not done", faults{}}, {"unknown, done", faults{After: true}}, {"throttled", faults{Err: core.ErrThrottled}},
	{"own write answered with a conflict", faults{After: true, Err: core.ErrRefused}},
	{"killed before", faults{Kill: true}}, {"killed after", faults{Kill: true, After: true}},
}
