package ask_test

import (
	"testing"

	"github.com/tickring/tickring/internal/testkit/peopletest"
)

// fixture has the use cases on a memory engine.
type fixture struct{ *peopletest.Fixture }

func newFixture(t testing.TB) *fixture { return &fixture{peopletest.New(t)} }

var (
	ctx, ann, start   = peopletest.Ctx, peopletest.Ann, peopletest.Start
	every, spec, code = peopletest.Every, peopletest.Spec, peopletest.Code
)
