package finish_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
)

// minutely stores one run of a job, with its journal, in each of the minutes from begin on;
// change may edit each run.
func (r *watchRig) minutely(job core.JobID, minutes int, change func(minute int, x *core.Run)) (ids []core.RunID) {
	r.t.Helper()
	for m := range minutes {
		at := begin.Add(time.Duration(m) * time.Minute)
		k := core.JournalKey{Minute: at.Unix() / 60, Suffix: 3, Nonce: fmt.Sprint("nonce-", job, "-", m)}
		id := core.PlannedRun(job, core.InstantOf(at))
		r.run(id, func(x *core.Run) {
			x.SentAt, x.Journal, x.Retries = at, k, 0
			change(m, x)
		})
		r.Must(r.PutJournal(r.t.Context(),
			core.Journal{Key: k, V: 1, Entries: []core.Entry{{Run: id, Address: address, Outcome: core.Accepted}}}))
		ids = append(ids, id)
	}
	return ids
}

// walked runs one pass of the watchdog each minute from begin on.
func (r *watchRig) walked(minutes int) {
	r.t.Helper()
	r.Must(r.MoveCursor(r.t.Context(), 0, begin.Unix()/60-1))
	for m := range minutes {
		r.now = begin.Add(11*time.Minute + time.Duration(m)*time.Minute)
		r.pass()
	}
}

func succeeded(_ int, x *core.Run) {
	x.State, x.Owner, x.EndedAt, x.Code = core.Succeeded, "", x.SentAt.Add(time.Second), 200
}

// TestWindowsAreReadTogether: for a job that fires each minute, the scan reads the runs of a
// window together; the default window is 8 minutes.
func TestWindowsAreReadTogether(t *testing.T) {
	const minutes = 25
	for window, whole := range map[time.Duration]int{0: 3, 8 * time.Minute: 3, 4 * time.Minute: 6, time.Minute: 24} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			r := newWatchRig(t)
			r.w = finish.NewWatchdog(r.f, r.p, finish.WatchOptions{Window: window})
			r.job(1, nil)
			r.minutely(1, minutes, succeeded)
			r.walked(minutes)
			// The first run is read alone, then the rest of its window, then whole windows.
			if runs, spans := r.calls["runs"], r.calls["span"]; runs != 1 || spans < whole || spans > whole+1 {
				t.Errorf("%d reads of runs and %d of windows", runs, spans)
			}
		})
	}
}

// TestRareJobsHaveNoWindows: their runs are read a hundred in a request.
func TestRareJobsHaveNoWindows(t *testing.T) {
	r := newWatchRig(t)
	for job := range core.JobID(5) {
		r.job(job+1, nil)
		r.minutely(job+1, 1, succeeded)
	}
	r.walked(1)
	if runs, spans := r.calls["runs"], r.calls["span"]; runs != 1 || spans != 0 {
		t.Errorf("%d reads of runs and %d of windows", runs, spans)
	}
}

// TestAnOlderWindowEndsNothing: a window may be read as it was before its runs ended. Each run is read again before it is judged.
func TestAnOlderWindowEndsNothing(t *testing.T) {
	const minutes = 20
	r := newWatchRig(t)
	r.job(1, nil)
	r.fixed(address)
	ids := r.minutely(1, minutes, succeeded)
	r.older = func(x *core.Run) { x.State, x.EndedAt, x.Owner, x.Code = core.Running, time.Time{}, "nonce", 0 }
	r.walked(minutes)
	for _, id := range ids {
		if got := r.Run(id); got.State != core.Succeeded {
			t.Errorf("%s is %s", id, got.State)
		}
	}
	if n := r.p.beats + r.p.idles; n > 0 {
		t.Errorf("an executor was asked %d times for runs that have ended", n)
	}
}

// TestWindowThatCannotBeRead: its runs are read one by one.
func TestWindowThatCannotBeRead(t *testing.T) {
	const minutes = 3
	r := newWatchRig(t)
	r.job(1, nil)
	ids := r.minutely(1, minutes, func(m int, x *core.Run) {
		if succeeded(m, x); m == 2 {
			x.State, x.EndedAt, x.Owner = core.Running, time.Time{}, "nonce"
		}
	})
	r.faults.faults["span"] = []fault{{err: core.ErrThrottled}, {err: core.ErrThrottled}, {err: core.ErrThrottled}}
	r.walked(minutes)
	if got := r.Run(ids[2]); got.State != core.Lost {
		t.Errorf("the open run is %s", got.State)
	}
}
