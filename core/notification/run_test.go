package notification_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/ring"
)

// TestRun checks the status of a run's notification at each stage, also for more runs than an item remembers.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(j *core.Job) {
			j.Def.Notify = core.Notify{To: []string{"a", "b"}, Quiet: 10 * time.Minute, On: []core.Event{core.EventFailed}}
		})
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
		r.fail = oneByOne(func(channel string) error {
			if channel == "b" {
				return &core.Undelivered{Reason: "answered 500"}
			}
			return nil
		})
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
		r.fail = oneByOne(func(string) error { return nil })
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
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(j *core.Job) {
			j.Def.Notify = core.Notify{To: []string{"a"}, Quiet: time.Minute, On: []core.Event{core.EventFailed}}
		})
		r.fail = oneByOne(func(string) error { return &core.Undelivered{Reason: "answered 500"} })
		r.handle(r.ends(core.Failed, core.ReasonHandler))
		r.minutes(26 * 60)
		st := r.state()
		if len(st.Pending) > 0 || len(st.Told[0].GivenUp) != 1 {
			t.Fatalf("it stands as %+v", st)
		}
		if until, want := st.Keep(), st.Told[0].GivenUp[0].When.Add(24*time.Hour); !until.Equal(want) {
			t.Fatalf("it is kept until %s, want %s", until, want)
		}
	})
}

// TestAddedWhileSent checks that occurrences added during a send are not part of it, in any order.
func TestAddedWhileSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(j *core.Job) {
			j.Def.Notify = core.Notify{To: []string{"a"}, Quiet: time.Minute, On: []core.Event{core.EventFailed}}
		})
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
