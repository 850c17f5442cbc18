package dispatch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/story"
	"github.com/tickring/tickring/store"
)

// fires dispatches n runs of job 7, and returns their IDs.
func (st *stage) fires(n int, from int) (ids []core.RunID) {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("7@%ds", from+i))
	}
	st.Step("fire " + strings.Join(names, " "))
	return st.Runs(strings.Join(names, " "))
}

// succeed ends all running runs.
func (st *stage) succeed() {
	for id := range st.running {
		st.Step("end " + story.Name(id) + " succeeded")
	}
}

// TestLongLineBesideAHungRun: a hung run holds the only slot of an app while 1,300 runs wait, 300 of them beside the full
// queue. Each check reads few runs. After a purge the runs are sent again and still wait. When the hung run ends, each starts
// once.
func TestLongLineBesideAHungRun(t *testing.T) {
	check.Long(t)
	bubble(t, func(st *stage) {
		var read atomic.Int64
		st.s.runs = func(ids []core.RunID) error {
			read.Add(int64(len(ids)))
			return nil
		}
		st.Play("job 7; app limits.inflight=1; +30s; fire 7@1s")
		var ids []core.RunID
		for i := range 26 {
			st.Step("+1m")
			ids = append(ids, st.fires(50, 2+50*i)...)
		}
		st.Step("+1m")
		read.Store(0)
		st.Step("come")
		if looks := read.Load() / int64(len(ids)); looks > 5 {
			t.Errorf("a check reads %d runs, want 5 at most", looks)
		}
		st.Play("+10m; come")
		beside := ids[len(ids)-300:]
		st.s.runs = func(ids []core.RunID) error {
			for _, id := range ids {
				if slices.Contains(beside, id) {
					read.Add(1)
				}
			}
			return nil
		}
		read.Store(0)
		if st.Step("repeat 16 +15s & come"); read.Load() > 2000 {
			t.Errorf("in four minutes, %d reads of 300 runs beside the queue, want one a minute for each", read.Load())
		}
		st.Step("purge")
		for _, id := range ids {
			r := st.s.Store.Run(id)
			st.s.Enqueue(time.Time{}, messageOf(r.Fire()))
		}
		if st.Step("come"); len(st.sent) != 1 {
			t.Fatalf("%d runs were sent while one hangs", len(st.sent))
		}
		for i := 0; i < 100 && len(st.sent) <= len(ids); i++ {
			for done := 0; done < len(st.sent); {
				done = len(st.sent)
				st.succeed()
				st.Step("come")
			}
			st.Step("+15s")
		}
		slices.Sort(st.sent)
		if !slices.Equal(st.sent[1:], ids) || st.most != 1 {
			t.Errorf("%d of %d runs were sent, %d at once", len(st.sent)-1, len(ids), st.most)
		}
	})
}

// TestGivenASecondAfterWaiting: a queued run that gets a slot starts in the second it is assigned.
func TestGivenASecondAfterWaiting(t *testing.T) {
	bubble(t, func(st *stage) {
		st.Play("job 7; app limits.inflight=1 limits.persecond=1; +1m")
		st.fires(30, 1)
		st.Step("repeat 30 +1s & come") // they have waited for a while
		began := time.Now()
		for len(st.sent) < 6 && time.Since(began) < 3*time.Minute {
			n, t0 := len(st.sent), time.Now()
			st.succeed() // within its second
			for st.Step("come"); len(st.sent) == n && time.Since(t0) < time.Minute; {
				st.Step("repeat 1 +200ms & come")
			}
			st.Step("+300ms")
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%d runs took %s, with one a second", len(st.sent), took)
		}
	})
}

// TestManyJobsOfAnApp: the runs of a batch that need an app's slot ask for it together.
func TestManyJobsOfAnApp(t *testing.T) {
	bubble(t, func(st *stage) {
		var batch strings.Builder
		for id := range 200 {
			st.Step(fmt.Sprint("job ", id+7))
			if id > 0 && id%25 == 0 {
				batch.WriteString(" +")
			}
			fmt.Fprintf(&batch, " %d@1m", id+7)
		}
		st.Step("app overlap.limit=1 limits.inflight=1000")
		var writes atomic.Int32 // of app/a, with the latencies of DynamoDB
		st.s.read = func(_ context.Context, k store.Key) error {
			if strings.HasPrefix(k.Kind, "permit#") {
				time.Sleep(5 * time.Millisecond)
			}
			return nil
		}
		st.s.write = func(_ context.Context, groups []store.Group) error {
			if kind := groups[0].Writes[0].Kind; strings.HasPrefix(kind, "permit#") {
				time.Sleep(7 * time.Millisecond)
				if kind == "permit#app/a" {
					writes.Add(1)
				}
			}
			return nil
		}
		st.Play("+1m; fire" + batch.String())
		if len(st.sent) < 200 || writes.Load() > 20 {
			t.Errorf("%d of 200 sent, with %d writes of app/a", len(st.sent), writes.Load())
		}
	})
}

// TestWaitsAfterItsDeadline: a manual trigger waits for its slot past its job's deadline, without more frequent checks.
func TestWaitsAfterItsDeadline(t *testing.T) {
	bubble(t, func(st *stage) {
		st.Play("job 7 overlap.limit=1; +30s; fire 7@1s; trigger 7#1 cause=manual; edit 7 rev=1 deadline=10s; fire 7#1")
		looks := 0
		for range 120 {
			st.Step("+1s")
			if due, _ := st.s.Depth(ring.KindFires); due > 0 {
				looks++
			}
			st.Step("come")
		}
		if r := st.s.Store.Run(core.NumberedRun(7, 1)); r.State != core.Queued || looks > 16 {
			t.Errorf("checked %d times in two minutes: %s", looks, r.State)
		}
	})
}
