package ask

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
)

// noRuns is a store that has none.
type noRuns struct{ Store }

func (noRuns) LastRuns(context.Context, []core.JobID, core.Instant, int) (map[core.JobID][]core.Run, error) {
	return nil, nil
}

// TestJobsThatAreGoneMakeRoom: what is known of as many jobs as there is room for, gone perhaps,
// keeps nobody from being told how his stand.
func TestJobsThatAreGoneMakeRoom(t *testing.T) {
	now := time.Now()
	q := &Ask{store: noRuns{}, o: Options{Now: func() time.Time { return now }}}
	l := lately{turn: make(chan struct{}, 1), at: now, of: map[core.JobID][]brief{}}
	for id := range core.JobID(mostLately) {
		l.of[id+10] = nil
	}
	s, err := l.look(t.Context(), q, []core.JobID{1, 2, 11})
	if err != nil || !s.all || len(s.of) != 3 || len(l.of) > mostLately {
		t.Errorf("all %v, of %d, known %d: %v", s.all, len(s.of), len(l.of), err)
	}
}

// silent is a store that answers only that it was asked no more.
type silent struct{ Store }

func (silent) LastRuns(ctx context.Context, _ []core.JobID, _ core.Instant, _ int) (map[core.JobID][]core.Run, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestWhoWaitsForALookIsToldInTime: a look that the store keeps waiting holds up the others no
// longer than they have.
func TestWhoWaitsForALookIsToldInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(silent{}, Options{})
		began := time.Now()
		first := make(chan error)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := q.lately.look(ctx, q, []core.JobID{1})
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := q.lately.look(ctx, q, []core.JobID{2}); core.CodeOf(err) != core.CodeUnavailable || time.Since(began) != time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if err := <-first; core.CodeOf(err) != core.CodeUnavailable || time.Since(began) != time.Minute {
			t.Errorf("the first after %s: %v", time.Since(began), err)
		}
	})
}
