package dispatch_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/ring"
)

// paramsOf is a sender that keeps what each run was sent with.
type paramsOf struct {
	*prober
	got map[core.RunID]string
}

func (p *paramsOf) Send(ctx context.Context, s dispatch.Shipment) dispatch.Answer {
	p.mu.Lock()
	p.got[s.Run.ID] = s.Params
	p.mu.Unlock()
	return dispatch.Answer{Kind: dispatch.AnswerAccepted}
}

// TestTemplateIsFilled: of the job's params, in the job's zone, with the instant of the
// last success among its newest runs; what a trigger gave goes byte for byte, and what
// would be too long fails its run.
func TestTemplateIsFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &paramsOf{prober: newProber(t, dispatch.Options{}), got: map[core.RunID]string{}}
		p.app("work", "http://10.0.0.1:1")
		p.d = dispatchOver(p.prober, p, dispatch.Options{})
		m, _ := p.message("work", 1, core.RouteFirst)
		j := core.Job{Def: core.Def{ID: 900, App: "work", Name: "filled", Handler: "h", Template: true,
			Params: "{{scheduledAt HH:mm}} {{attempt}} {{runId}} after {{lastSuccessAt HH:mm:ss}}"}}
		j.Normalize()
		j.Sched.Schedule.Timezone = "Asia/Shanghai"
		j.Sched.Rev, j.Sched.RevAt = 1, time.Now().Add(-time.Hour)
		must(t, p.s.CreateJobs(t.Context(), []core.Job{j}, []core.Change{{ID: 1, App: "work", Job: 900}})[0])
		fire := func() (core.RunID, string) {
			t.Helper()
			now := core.InstantOf(time.Now())
			id := core.PlannedRun(900, now)
			p.handle(ring.Message{Kind: ring.KindFires, Slot: now,
				Fires: []core.Fire{{Run: id, Rev: 1, At: now, Slot: now, Cause: core.CauseSchedule}}})
			return id, p.got[id]
		}
		end := func(id core.RunID, state core.State) {
			must(t, p.s.PutRuns(t.Context(), []core.RunPut{core.End(id, core.Run{State: state, EndedAt: time.Now()})})[0])
		}
		first, got := fire()
		if want := "08:00 1 " + first.String() + " after "; got != want {
			t.Errorf("the first is sent with %q, want %q", got, want)
		}
		end(first, core.Succeeded)
		for range 120 { // two pages of failures
			time.Sleep(time.Second)
			id, _ := fire()
			end(id, core.Failed)
		}
		time.Sleep(time.Minute)
		next, got := fire()
		if want := "08:03 1 " + next.String() + " after 08:00:00"; got != want {
			t.Errorf("after failures it is sent with %q, want %q", got, want)
		}

		given := "{{scheduledAt}} as it is"
		run := core.Run{ID: core.NumberedRun(900, 1), App: "work", State: core.Planned, Cause: core.CauseManual, At: core.InstantOf(time.Now()),
			Slot: core.InstantOf(time.Now()), Attempt: 1, First: core.NumberedRun(900, 1), Params: &given}
		must(t, p.s.Create(t.Context(), []core.Run{run})[0])
		p.handle(ring.Message{Kind: ring.KindFires, Slot: run.Slot, Fires: []core.Fire{run.Fire()}})
		if got := p.got[run.ID]; got != given {
			t.Errorf("what a trigger gave is sent as %q", got)
		}

		long := j
		long.Def.ID, long.Def.Name, long.Def.Params = 901, "long", strings.Repeat("x", core.MaxParams-5)+"{{scheduledAt}}"
		long.Sched.ID = 901
		must(t, p.s.CreateJobs(t.Context(), []core.Job{long}, []core.Change{{ID: 2, App: "work", Job: 901}})[0])
		now := core.InstantOf(time.Now())
		id := core.PlannedRun(901, now)
		m.Fires = []core.Fire{{Run: id, Rev: 1, At: now, Slot: now, Cause: core.CauseSchedule}}
		m.Slot = now
		p.handle(m)
		runs, _, err := p.s.Runs(t.Context(), []core.RunID{id})
		must(t, err)
		if r := runs[id]; r.State != core.Failed || r.Reason != core.ReasonNotAccepted || !strings.Contains(r.Message, "64 KB") {
			t.Errorf("too long: %+v", r)
		}
	})
}
