package dispatch_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/store"
)

// journals has the journals that dispatchers wrote, and the ones that checks carry. While it is down, none is stored.
type journals struct {
	down bool
	all  []core.Journal
	told []core.Journal
}

func (g *gated) journals(down bool) *journals {
	s := &journals{down: down}
	g.s.write = func(_ context.Context, groups []store.Group) error {
		w := &groups[0].Writes[0]
		if !strings.HasPrefix(w.Kind, "journal#") {
			return nil
		}
		j, err := store.DecodeJournal(&w.Record)
		if s.all = append(s.all, j); s.down {
			return errors.New("no answer")
		}
		return err
	}
	g.s.enqueue = func(_ context.Context, o *ring.Out, do func() error) error {
		if c := o.Message.Check; c != nil && c.Journal != nil {
			s.told = append(s.told, *c.Journal)
		}
		return do()
	}
	return s
}

// listing is newGated with lists that use journals.
func listing(t *testing.T, o dispatch.Options) (*gated, *journals) {
	g := newGated(t, o)
	g.s.byJournal()
	g.d = g.s.dispatcher(g.sender, o)
	return g, g.journals(false)
}

// TestDispatcherListsRunsThatNeedNoWatchdog: if lists use journals, one write names all runs that the batch claimed,
// queued or skipped. If the store rejects it, the message comes again, unless a check carries the journal.
func TestDispatcherListsRunsThatNeedNoWatchdog(t *testing.T) {
	ended := dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded, Code: 200}
	busy := dispatch.Answer{Kind: dispatch.AnswerBusy}
	accepted := dispatch.Answer{Kind: dispatch.AnswerAccepted}
	both := map[core.JobID]dispatch.Answer{1: ended, 2: ended}
	for _, c := range []struct {
		name    string
		answers map[core.JobID]dispatch.Answer // of jobs 1 and 2
		lists   bool
		down    bool
		limited bool           // job 3 has a limit that is in use, and skips
		again   bool           // the message is not acked
		writes  int            // -1: unlimited, as long as time is left
		want    []core.Outcome // of the last write, by job
	}{
		{name: "one is skipped", answers: both, lists: true, limited: true, writes: 1,
			want: []core.Outcome{core.Done, core.Done, core.Recorded}},
		{name: "no journal is stored", answers: both, lists: true, down: true, again: true,
			writes: 3, want: []core.Outcome{core.Done, core.Done}},
		{name: "none is stored, and one is accepted", answers: map[core.JobID]dispatch.Answer{1: accepted, 2: ended}, lists: true, down: true,
			writes: -1, want: []core.Outcome{core.Accepted, core.Done}},
		{name: "none is stored, and one comes again", answers: map[core.JobID]dispatch.Answer{1: busy, 2: ended}, lists: true, down: true,
			again: true, writes: 3, want: []core.Outcome{core.Done, core.Done}},
		{name: "none is stored, and all come again", answers: map[core.JobID]dispatch.Answer{1: busy, 2: busy}, lists: true, down: true,
			writes: 3, want: []core.Outcome{core.Done, core.Done}},
		{name: "runs have an index", answers: both, limited: true},
	} {
		fixture.Bubble(t, c.name, func(t *testing.T) {
			g := newGated(t, dispatch.Options{})
			s := g.journals(c.down)
			if c.lists {
				g.s.byJournal()
			}
			g.d = g.s.dispatcher(answers{g.sender, c.answers}, dispatch.Options{})
			var fires []core.Fire
			for _, m := range g.messages(1, 2, "one") {
				fires = append(fires, m.Fires...)
			}
			if c.limited {
				fires = append(fires, g.overlapping(3))
			}
			msgs := []ring.Message{messageOf(fires...)}
			if v := g.d.Handle(t.Context(), msgs)[0]; v.Ack == c.again {
				t.Errorf("acked: %t, %v", v.Ack, v.Err)
			}
			if c.writes >= 0 && len(s.all) != c.writes {
				t.Fatalf("%d journals were written, want %d", len(s.all), c.writes)
			}
			if c.writes == 0 {
				return
			}
			last := s.all[len(s.all)-1]
			slices.SortFunc(last.Entries, func(a, b core.Entry) int { return int(a.Run.Job()) - int(b.Run.Job()) })
			var got []core.Outcome
			for _, e := range last.Entries {
				got = append(got, e.Outcome)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the journal has %v, want %v", got, c.want)
			}
			if c.again {
				s.down, s.all = false, nil
				g.handle(msgs)
				if len(s.all) != 1 || len(s.all[0].Entries) != len(c.want) {
					t.Errorf("after the outage it wrote %+v", s.all)
				}
			} else if carries := c.down && c.writes < 0; carries != (len(s.told) == 1 && len(s.told[0].Entries) == len(c.want)) {
				t.Errorf("checks carry %+v", s.told)
			}
		})
	}
}

// TestDispatcherListsRunsOfADeadOne: a run whose writer died is named in the minute of its claim, also if it is skipped
// later. A run that was never claimed is named in the minute of the skip, and its record names that journal.
func TestDispatcherListsRunsOfADeadOne(t *testing.T) {
	for _, c := range []struct {
		name           string
		claimed, skips bool
	}{{"ended", true, false}, {"given back, and skipped while its app is paused", true, true},
		{"queued, and skipped while its app is paused", false, true}} {
		fixture.Bubble(t, c.name, func(t *testing.T) {
			g, s := listing(t, dispatch.Options{})
			msg := g.messages(1, 1, "one")
			f := msg[0].Fires[0]
			dead := core.JournalKey{Minute: time.Now().Unix() / 60, Nonce: "dead"}
			r := core.Run{ID: f.Run, App: "one", State: core.Succeeded, Cause: f.Cause, Rev: 1, At: f.At, Slot: f.Slot, Attempt: 1,
				First: f.Run, SentAt: time.Now(), EndedAt: time.Now(), Journal: dead}
			if c.skips {
				r.State, r.EndedAt = core.Planned, time.Time{}
			}
			if !c.claimed {
				r.State, r.SentAt = core.Queued, time.Time{}
			}
			g.s.Create(r)
			time.Sleep(5 * time.Minute)
			if c.skips {
				paused := core.App{Name: "one", Executors: []string{firstAddress}, Rev: 2, Pause: core.Pause{From: time.Now(), By: "ann"}}
				g.s.SaveApp(paused)
			}
			g.handle(msg)
			if len(s.all) != 1 {
				t.Fatalf("%d journals were written, want 1", len(s.all))
			}
			minute := g.s.Run(f.Run).Journal.Minute
			if c.claimed != (minute == dead.Minute) {
				t.Errorf("the run is listed in minute %d, its first journal has minute %d", minute, dead.Minute)
			}
			if e, named := s.all[0].Find(f.Run); s.all[0].Key.Minute != minute || !named || e.Outcome != core.Recorded {
				t.Errorf("it wrote %+v", s.all[0])
			}
		})
	}
}

// TestDispatcherListsOpenRunsOfADeadOne: a run is named in the minute of its journal if it waits on, or if its job changed since.
func TestDispatcherListsOpenRunsOfADeadOne(t *testing.T) {
	for _, c := range []struct {
		name   string
		state  core.State
		edited bool
		beside time.Duration // how long the call of another run of its message takes
		try    int
		want   bool
	}{{"it waits", core.Queued, false, 0, 0, true}, {"a later message of it", core.Queued, false, 0, 1, false},
		{"its job was edited", core.Running, true, 0, 0, true},
		{"its job was edited, beside a long call", core.Running, true, time.Hour, 0, true}} {
		fixture.Bubble(t, c.name, func(t *testing.T) {
			g, s := listing(t, dispatch.Options{CallTimeout: 10 * time.Minute})
			msg := g.messages(1, 1, "one")
			msg[0].Try = c.try
			f := msg[0].Fires[0]
			if c.beside > 0 {
				const address = "call:https://h"
				g.s.App("calls", address)
				msg[0].Fires = append(msg[0].Fires, g.messages(2, 1, "calls")[0].Fires...)
				g.sender.takes[address] = c.beside
			}
			dead := core.JournalKey{Minute: time.Now().Unix() / 60, Nonce: "dead"}
			r := core.Run{ID: f.Run, App: "one", State: c.state, Cause: f.Cause, Rev: 1, At: f.At, Slot: f.Slot, Attempt: 1,
				First: f.Run, Journal: dead}
			app := core.App{Name: "one", Rev: 2, WaitForExecutor: time.Hour}
			if c.edited {
				r.SentAt, r.Owner = time.Now(), "dead"
				g.s.Edit(1, func(j *core.Job) { j.Sched.Rev, j.Sched.RevAt = 2, f.At.Time().Add(-time.Second) })
			}
			g.s.Create(r)
			g.s.SaveApp(app)
			time.Sleep(5 * time.Minute)
			g.handle(msg)
			named := slices.ContainsFunc(s.all, func(j core.Journal) bool {
				e, is := j.Find(f.Run)
				return is && j.Key.Minute == dead.Minute && e.Outcome == core.Recorded
			})
			if named != c.want {
				t.Errorf("it wrote %+v", s.all)
			}
		})
	}
}

// TestDispatcherListsRunsWhoseWriteWasRefused: a run written by an attempt without an answer is named too.
func TestDispatcherListsRunsWhoseWriteWasRefused(t *testing.T) {
	for name, want := range map[string]core.Outcome{"claimed": core.Done, "skipped": core.Recorded} {
		fixture.Bubble(t, name, func(t *testing.T) {
			g, s := listing(t, dispatch.Options{})
			ended := map[core.JobID]dispatch.Answer{1: {Kind: dispatch.AnswerEnded, State: core.Succeeded, Code: 200}}
			g.d = g.s.dispatcher(answers{g.sender, ended}, dispatch.Options{})
			g.s.answer = func(p *store.RunPut, err error) error {
				if p.Create != nil { // a client stored it, got no answer, and tried again
					err = core.ErrRefused
				}
				return err
			}
			msg := g.messages(1, 1, "one")
			if want == core.Recorded {
				time.Sleep(time.Second)
				paused := core.App{Name: "one", Executors: []string{firstAddress}, Rev: 2, Pause: core.Pause{From: time.Now(), By: "ann"}}
				g.s.SaveApp(paused)
			}
			msg[0].Try = 1
			g.handle(msg)
			if len(s.all) != 1 || len(s.all[0].Entries) != 1 || s.all[0].Entries[0].Outcome != want {
				t.Errorf("it wrote %+v, want one with %s", s.all, want)
			}
		})
	}
}

// overlapping returns a fire of a job with a limit of one run, which is running.
func (g *gated) overlapping(id core.JobID) core.Fire {
	g.t.Helper()
	now := core.InstantOf(time.Now())
	j := core.Job{Def: core.Def{ID: id, App: "one", Name: "limited", Handler: "h", Overlap: core.Overlap{Limit: 1, Full: core.FullSkip}}}
	j = g.s.Job(j)
	first := core.PlannedRun(id, now-60)
	r := core.Run{ID: first, App: "one", State: core.Running, Cause: core.CauseSchedule, Rev: 1, At: now - 60, Slot: now - 60, Attempt: 1,
		First: first, Permit: j.Permit(nil, &core.Run{}), SentAt: time.Now(), Address: firstAddress}
	p := core.Permits{Name: r.Permit, V: 1, Limit: 1, Holders: []core.Holder{{First: first}}}
	g.s.Create(r)
	g.s.SavePermits(p)
	return planned(id, now)
}
