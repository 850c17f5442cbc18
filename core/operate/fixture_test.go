package operate_test

import (
	"errors"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
)

// fixture has the use cases on SQLite in memory.
type fixture struct{ *usecasetest.Fixture }

func newFixture(t testing.TB) *fixture { return &fixture{usecasetest.New(t)} }

type faults = usecasetest.Faults

var (
	ctx, ann, start   = usecasetest.Ctx, usecasetest.Ann, usecasetest.Start
	every, spec, code = usecasetest.Every, usecasetest.Spec, usecasetest.Code
)

// must stops the test at the first error.
func must(t testing.TB, errs ...error) {
	t.Helper()
	check.OK(t, errors.Join(errs...))
}
