package notification_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fixture"
)

// look requests checks of the rig's job, as a pass does.
func (r *rig) look(at ...core.Instant) ring.Message {
	var list []ring.CheckRequest
	for _, a := range at {
		list = append(list, ring.CheckRequest{At: a, Job: 7})
	}
	return ring.Checked(list, time.Now()).Message
}

// putLook puts a check of the rig's job into the index.
func (r *rig) putLook(in time.Duration) {
	r.t.Helper()
	r.e.Must(r.e.PutLooks(r.t.Context(), []ring.CheckRequest{{At: core.InstantOf(time.Now().Add(in)), Job: 7}}))
}

// indexed returns the checks in the index up to some time from now.
func (r *rig) indexed(within time.Duration) []ring.CheckRequest {
	r.t.Helper()
	list, err := r.e.DueLooks(r.t.Context(), core.InstantOf(time.Now().Add(within)), 100)
	r.e.Must(err)
	return list
}

// TestLookAheadOfTheClock checks that an early check, requested by a fast clock, leaves another one in the
// index.
func TestLookAheadOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, core.Notify{Overdue: core.Overdue{Within: time.Hour}})
		r.putLook(2 * time.Minute)
		r.minutes(3)
		at := r.state().Look
		time.Sleep(time.Until(at.Time()) - 50*time.Millisecond)
		r.handle(r.look(at, at+1))
		if got, s := r.indexed(time.Hour), r.state(); len(got) != 1 || got[0].At != s.Look || got[0].At != at+2 {
			t.Fatalf("the index has %v, the state %v, want the look after %v", got, s.Look, at+1)
		}
		r.minutes(2)
		r.heard("a", "overdue 1")
	})
}

// TestLookFails checks that a failing check is requested once a pass, without piling up messages, and is done
// once it works. A failing note is redelivered.
func TestLookFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, core.Notify{Overdue: core.Overdue{Within: time.Hour}})
		r.unread = func(kind, _ string) error {
			if kind == "channel" {
				return core.ErrThrottled
			}
			return nil
		}
		r.putLook(0)
		r.minutes(90)
		check.Equal(t, r.e.Messages(ring.KindPostRun), 0, "messages on the lane")
		check.Equal(t, len(r.indexed(0)), 1, "checks in the index, which has the one that failed")
		if err := r.messages(r.n, r.ends(core.Failed, core.ReasonHandler))[0]; err == nil {
			t.Fatal("a note that was not counted may be acked")
		}
		r.unread = func(string, string) error { return nil }
		r.minutes(2)
		r.heard("a", "overdue 1")
	})
}

// TestUnreadableMoveBack checks that the failing checks of more jobs than a pass requests do not hold up the check of another job.
func TestUnreadableMoveBack(t *testing.T) {
	for damaged, kept := range map[string]string{"job": "7", "notice": notification.JobName(7), "channel": "a"} {
		fixture.Bubble(t, damaged, func(t *testing.T) {
			r := newRig(t, core.Notify{Overdue: core.Overdue{Within: time.Minute}})
			check.NoError(t, r.e.PutGlobal(t.Context(), 0, core.Global{Rev: 1, Notify: core.Notify{To: []string{"b"}}}))
			r.unread = func(kind, name string) error {
				if kind == damaged && name != kept {
					return errors.New("damaged")
				}
				return nil
			}
			var looks []ring.CheckRequest
			for job := range core.JobID(5_500) {
				looks = append(looks, ring.CheckRequest{At: core.InstantOf(time.Now()), Job: 100 + job})
			}
			r.e.Must(r.e.PutLooks(t.Context(), looks))
			r.putLook(time.Minute)
			r.minutes(4)
			r.heard("a", "overdue 1")
		})
	}
}

// TestFailingEnds checks that a failed job that is deleted or never runs again is not checked forever. A
// success a month later is notified.
func TestFailingEnds(t *testing.T) {
	check.Long(t)
	const day = 24 * 60
	for name, c := range map[string]struct {
		then func(r *rig)
		days int
		want []string
	}{
		"deleted":     {func(r *rig) { r.e.Delete(7, time.Now()) }, 1, []string{"failed 1"}},
		"never again": {func(*rig) {}, 41, []string{"failed 1"}},
		"in the last hours": {func(r *rig) {
			r.minutes(int((budget.FailingFor - 2*time.Hour) / time.Minute))
			r.ends(core.Succeeded)
			r.minutes(62)
		}, 0, []string{"failed 1", "recovered 1"}},
		"too late": {func(r *rig) {
			r.minutes(int((budget.FailingFor + 2*time.Hour) / time.Minute))
			r.ends(core.Succeeded)
		}, 1, []string{"failed 1"}},
		"a month later": {func(r *rig) {
			r.minutes(31 * day)
			r.ends(core.Succeeded)
			r.minutes(62)
		}, 0, []string{"failed 1", "recovered 1"}},
	} {
		fixture.Bubble(t, name, func(t *testing.T) {
			r := newRig(t, core.Notify{})
			r.every = 10 * time.Minute
			r.handle(r.ends(core.Failed, core.ReasonHandler))
			c.then(r)
			r.minutes(c.days * day)
			r.heard("a", c.want...)
			s := r.state()
			if got := r.indexed(2 * time.Hour); len(got) > 0 || s.Failing != nil || s.Keep().IsZero() {
				t.Fatalf("it is still checked: index %v, state %+v", got, s)
			}
			if s.V > 1500 {
				t.Fatalf("it was written %d times", s.V)
			}
		})
	}
}

// TestRun checks the status of a run's notification at each stage, also for more runs than an item remembers.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, core.Notify{To: []string{"a", "b"}, Quiet: 10 * time.Minute, On: []core.Event{core.EventFailed}})
		stands := func(of ring.Message, want string) notification.OfRun {
			t.Helper()
			run, st := r.run(of), r.state()
			n, is := st.Run(&run)
			if !is {
				n.Stand = ""
			}
			if string(n.Stand) != want {
				t.Fatalf("the notice of %s is %q, want %q: %+v", of.PostRun.Run, n.Stand, want, st)
			}
			return n
		}
		r.fail = func(channel string) error {
			if channel == "b" {
				return &core.Undelivered{Reason: "answered 500"}
			}
			return nil
		}
		first, well := r.ends(core.Failed, core.ReasonHandler), r.ends(core.Succeeded)
		stands(first, "owed")
		made := time.Now()
		r.handle(first, well)
		n := stands(first, "told")
		if len(n.Waiting) != 1 || n.Waiting[0].Channel != "b" || n.Waiting[0].Error != "answered 500" || !n.At.Equal(made) ||
			n.Event != core.EventFailed {
			t.Fatalf("it stands as %+v", n)
		}
		stands(well, "")
		stands(r.ends(core.Lost, core.ReasonGone), "owed") // without counting it, Run does not know that no channel wants it
		time.Sleep(time.Second)
		var more []ring.Message
		for range 40 { // more than an item names
			more = append(more, r.ends(core.Failed, core.ReasonHandler))
			time.Sleep(time.Second)
		}
		r.handle(more[20:]...)
		r.handle(more[:20]...) // in no order
		for _, m := range more {
			if n := stands(m, "counted"); !n.At.Equal(made.Add(10 * time.Minute)) {
				t.Fatalf("notification due at %s", n.At)
			}
		}
		stands(first, "told")
		r.minutes(12)
		for _, m := range more {
			if n := stands(m, "told"); len(n.Waiting) != 1 || n.At.IsZero() {
				t.Fatalf("it stands as %+v", n)
			}
		}
		r.minutes(26 * 60)
		for _, m := range more {
			if n := stands(m, "told"); len(n.Waiting) != 0 || len(n.GivenUp) != 1 || n.GivenUp[0].Channel != "b" ||
				!strings.Contains(n.GivenUp[0].Error, "answered 500") {
				t.Fatalf("it stands as %+v", n)
			}
		}
		r.fail = func(string) error { return nil }
		last := r.ends(core.Failed, core.ReasonHandler)
		r.handle(last)
		if n := stands(last, "told"); len(n.Waiting)+len(n.GivenUp) != 0 || n.At.IsZero() {
			t.Fatalf("it stands as %+v", n)
		}
		if n := stands(first, "told"); !n.At.IsZero() || len(n.GivenUp) != 1 { // an older notification
			t.Fatalf("it stands as %+v", n)
		}
	})
}

// TestGivenUpIsKept checks that a given-up notification is kept for a day.
func TestGivenUpIsKept(t *testing.T) {
	var st notification.State
	now := time.Now()
	st.Fold(&ring.Note{Job: 7, Event: core.EventFailed, When: now})
	st.Due([]string{"a"}, time.Minute, now)
	mine, later := st.Take(now, time.Minute), now.Add(26*time.Hour).UTC()
	if !st.Failed(&mine[0], "answered 500", false, true, false, 0, later) || len(st.Pending) > 0 || len(st.Told[0].GivenUp) != 1 {
		t.Fatalf("it stands as %+v", st)
	}
	check.Equal(t, st.Keep(), later.Add(24*time.Hour), "it is kept until")
}

// TestAddedWhileSent checks that occurrences added during a send are not part of it, in any order.
func TestAddedWhileSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, core.Notify{Quiet: time.Minute, On: []core.Event{core.EventFailed}})
		first := r.ends(core.Failed, core.ReasonHandler)
		time.Sleep(time.Second)
		var more []ring.Message
		for range 4 {
			more = append(more, r.ends(core.Failed, core.ReasonHandler))
			time.Sleep(time.Second)
		}
		var st notification.State
		fold := func(m ring.Message) core.Run {
			run := r.run(m)
			run.PostRun.Notice = false
			st.Fold(&ring.Note{Job: 7, Event: core.EventFailed, Run: run.ID, When: run.EndedAt})
			st.Due([]string{"a"}, time.Nanosecond, time.Now())
			time.Sleep(time.Second)
			return run
		}
		told := fold(first)
		mine := st.Take(time.Now(), time.Hour)
		added := []core.Run{fold(more[2]), fold(more[0]), fold(more[3]), fold(more[1])}
		st.Sent(&mine[0], time.Now())
		if n, is := st.Run(&told); !is || len(n.Waiting) != 0 {
			t.Errorf("sent: %+v", n)
		}
		for i := range added {
			if n, is := st.Run(&added[i]); !is || n.Stand != notification.Made || len(n.Waiting) != 1 {
				t.Errorf("added %d: %+v of %+v", i, n, st.Pending)
			}
		}
	})
}

// TestStateOfTheReleaseBefore checks that the number of occurrences keeps its stored name "count" and counts as
// one note.
func TestStateOfTheReleaseBefore(t *testing.T) {
	const stored = `{"told":[{"event":"skipped","sent":"2027-01-15T08:00:00Z","quiet":"2027-01-15T09:00:00Z","count":1,` +
		`"first":{"at":1800000000,"reason":"misfire","count":61,"when":"2027-01-15T08:10:00Z"},` +
		`"last":{"at":1800000000,"reason":"misfire","count":61,"when":"2027-01-15T08:10:00Z"}}]}`
	var s notification.State
	if err := json.Unmarshal([]byte(stored), &s); err != nil || s.Told[0].Last.Times != 61 {
		t.Fatalf("it is read as %+v, %v", s, err)
	}
	if b, err := json.Marshal(s); err != nil || string(b) != stored {
		t.Errorf("it is written %s, %v", b, err)
	}
	s.Fold(&ring.Note{Job: 7, Event: core.EventSkipped, Run: core.NumberedRun(7, 1), Times: 5, When: s.Told[0].Last.When})
	if to := s.Told[0]; to.Count != 2 || to.Last.Times != 5 {
		t.Errorf("two notes are counted as %+v", to)
	}
}

// TestLease checks that no other process sends a leased notification.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, core.Notify{})
		var asked atomic.Int64
		r.fail = func(string) error {
			asked.Add(1)
			time.Sleep(10 * time.Second)
			return nil
		}
		other := notification.New(r.s, r, notification.Options{Pace: time.Nanosecond, Log: slog.New(slog.DiscardHandler)})
		failed := r.ends(core.Failed, core.ReasonHandler)
		var first sync.WaitGroup
		first.Go(func() { r.messages(r.n, failed) }) // the other one clears the run, so this copy comes again
		time.Sleep(time.Second)
		r.e.Must(r.messages(other, r.look(core.InstantOf(time.Now())), failed)...)
		check.Equal(t, asked.Load(), 1, "sent N times while the first is under way")
		first.Wait()
		r.minutes(5)
		r.heard("a", "failed 1")
	})
}
