package ask

import (
	"context"
	"testing"
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
	l := lately{at: now, of: map[core.JobID][]brief{}}
	for id := range core.JobID(mostLately) {
		l.of[id+10] = nil
	}
	s, err := l.look(t.Context(), q, []core.JobID{1, 2, 11})
	if err != nil || !s.all || len(s.of) != 3 || len(l.of) > mostLately {
		t.Errorf("all %v, of %d, known %d: %v", s.all, len(s.of), len(l.of), err)
	}
}
