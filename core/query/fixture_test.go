package query_test

import (
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
)

// fixture has the use cases on SQLite in memory.
type fixture struct{ *usecasetest.Fixture }

func newFixture(t testing.TB) *fixture { return &fixture{usecasetest.New(t)} }

var (
	ctx, ann, start = usecasetest.Ctx, usecasetest.Ann, usecasetest.Start
	every, spec     = usecasetest.Every, usecasetest.Spec
	fails           = usecasetest.Fails
	newRun, planned = usecasetest.Run, core.PlannedRun
)
