package manage_test

import (
	"testing"

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
