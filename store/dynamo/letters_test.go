package dynamo_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/store/dynamo"
)

// TestLetterThatCannotBeRecorded: a dead-letter message that cannot be recorded does not delay others.
func TestLetterThatCannotBeRecorded(t *testing.T) {
	db, queues := fakeaws.New(t.Errorf)
	s, err := dynamo.New(db, queues, dynamo.Options{Names: fakeaws.Names})
	check.OK(t, err)
	for _, reason := range []string{"one", "two", "three"} {
		check.OK(t, s.BuryRaw(t.Context(), "{}", reason))
	}
	refused := errors.New("throttled")
	var asked atomic.Int64
	_, err = s.TakeLetters(t.Context(), func(context.Context, *core.Letter) error {
		if asked.Add(1) == 1 {
			return refused
		}
		return nil
	})
	if !errors.Is(err, refused) || asked.Load() != 3 {
		t.Errorf("%d letters of three were recorded: %v", asked.Load(), err)
	}
}
