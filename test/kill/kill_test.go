// Package kill_test kills the real server repeatedly under load and compares the due runs with the runs that an executor in another
// process (this one) received.
package kill_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/freeport"
	"github.com/tickring/tickring/internal/testkit/miniexec"
	"github.com/tickring/tickring/internal/testkit/waiting"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/test/harness"
	"github.com/tickring/tickring/wire"
)

var rounds = flag.Int("rounds", 5, "how often the server is killed")

const jobs = 200

// resendable is how long before a kill a run that is resent can have arrived: 250 ms until its answer must be stored, and the time
// that a busy disk takes for it.
const resendable = 5 * time.Second

func TestKill(t *testing.T) {
	bin, err := harness.Build(t.TempDir())
	check.OK(t, err)
	dir := t.TempDir()
	listen := "127.0.0.1:" + freeport.Free(t) // of each of its lives
	s := harness.Start(t, bin, dir, "--listen", listen)

	var mu sync.Mutex
	got := map[core.RunID][]time.Time{}
	var kills []time.Time
	var last time.Time
	var early int
	exec, err := miniexec.Start(miniexec.Options{App: "kill", Admin: s.URL, Token: "kill-executors",
		Received: func(r *wire.Run, at time.Time) {
			id := core.RunID(r.LogID)
			instant, _ := id.Planned()
			mu.Lock()
			defer mu.Unlock()
			got[id] = append(got[id], at)
			last = at
			if at.Before(instant.Time()) {
				early++
			}
		}})
	check.OK(t, err)
	defer exec.Close()

	var m strings.Builder
	m.WriteString("version: 1\nset: kill\napps: [{name: kill, token: kill-executors}]\njobs:\n")
	for i := range jobs {
		fmt.Fprintf(&m, "  - {app: kill, name: j%d, handler: work, misfire: all, schedule: {every: 1s, offset: 0s}}\n", i)
	}
	s.OK(t, m.String(), "apply", "-f", "-")
	from := core.InstantOf(time.Now()) + 3
	store.Sleep(t.Context(), time.Until((from + 3).Time()))

	for range *rounds {
		store.Sleep(t.Context(), time.Duration(500+rand.IntN(2500))*time.Millisecond)
		mu.Lock()
		kills = append(kills, time.Now())
		mu.Unlock()
		s.Kill()
		next, err := harness.Launch(bin, dir, "--listen", listen)
		check.OK(t, err)
		t.Cleanup(next.Kill)
		s = next
		check.OK(t, s.WaitReady(30*time.Second))
	}
	to := core.InstantOf(time.Now())
	// Wait until the remaining runs have arrived.
	check.NoError(t, waiting.For(2*time.Minute, func() error {
		mu.Lock()
		defer mu.Unlock()
		want := int(to-from+1) * jobs
		have := 0
		for id := range got {
			if at, ok := id.Planned(); ok && at >= from && at <= to {
				have++
			}
		}
		if have < want {
			return fmt.Errorf("%d of %d fires arrived, the last at %s", have, want, last.UTC().Format(time.RFC3339))
		}
		return nil
	}))
	mu.Lock()
	twice, most := 0, 0
	var oldest time.Duration // of an arrival that was followed by another, at the kill between them
	for _, at := range got {
		most = max(most, len(at))
		if len(at) == 1 {
			continue
		}
		twice++
		for _, t := range at[:len(at)-1] {
			before := time.Hour // no kill followed
			// Runs in transit at a kill are recorded as arrived shortly after it.
			if i, _ := slices.BinarySearchFunc(kills, t.Add(-resendable), time.Time.Compare); i < len(kills) {
				before = max(0, kills[i].Sub(t))
			}
			oldest = max(oldest, before)
		}
	}
	t.Logf("%d kills, %d fires due from %s to %s, none lost; %d runs were sent again with the same ID (at most %d times, none that had "+
		"arrived more than %s before its kill), %d early",
		*rounds, int(to-from+1)*jobs, from, to, twice, most-1, oldest.Round(time.Millisecond), early)
	if early > 0 {
		t.Errorf("%d fires were early", early)
	}
	// After a kill, runs without a stored answer are resent: the sends of the last 250 ms. A busy machine takes longer to store
	// them.
	if oldest > resendable {
		t.Errorf("a run came again that had arrived %s before the kill", oldest)
	}
	mu.Unlock()
	s.Audit(t, "--from", from.Time().Format(time.RFC3339), "--to", to.Time().Format(time.RFC3339))
}
