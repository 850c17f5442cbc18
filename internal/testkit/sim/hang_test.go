package sim

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
)

// The executors of two apps begin to hang, after a healthy period or from the first second on. The executors of one app receive
// runs and never answer; the other app uses failover, and its executors do not even answer probes. A third app stays healthy: its
// fires stay in time in every part of the test.
func TestHangBesideHealthy(t *testing.T) {
	check.Long(t)
	const healthy, hung, probed = 8, 8, 3
	var jobs []manage.JobSpec
	add := func(app string, n int, route core.Route) {
		for i := range n {
			j := jobOf(app, fmt.Sprint(app, "-", i), every(time.Second))
			j.Def.Route, j.Misfire = route, core.MisfireSkip
			jobs = append(jobs, j)
		}
	}
	add("gamma", healthy, core.RouteRound)
	add("alpha", hung, core.RouteRound)
	add("beta", probed, core.RouteFailover)
	const span = 10 * time.Second
	for name, from := range map[string]time.Duration{"from the first second": 0, "in its midst": span} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			late := map[time.Duration][]time.Duration{}
			r := directed(t, Config{Far: true, Deployed: true, AWS: true, SDK: true, For: 2 * span, Jobs: jobs,
				Behave: func(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
					if sh.Run.App != "gamma" {
						return dispatch.Answer{}, false
					}
					w.truth.arrives(sh)
					mu.Lock()
					part := sh.Run.Slot.Time().Sub(w.began).Truncate(span)
					late[part] = append(late[part], time.Since(sh.Run.Slot.Time()))
					mu.Unlock()
					w.sleep(bg, 5*time.Millisecond)
					return dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded, Code: 200}, true
				}, Request: func(time.Duration, fakeaws.Call) fakeaws.Fault {
					return fakeaws.Fault{Wait: 6 * time.Millisecond}
				}, Act: func(w *World) {
					w.sleep(bg, from)
					w.execs.set(func(e *executor) { e.deaf = w.began.Add(time.Hour) }, slices.Concat(apps[0].addresses, apps[1].addresses)...)
					for _, a := range apps[:2] {
						w.troubleAt(a.name, time.Now(), time.Now().Add(time.Hour))
					}
				}})
			for part, of := range late {
				slices.Sort(of)
				p99 := of[len(of)*99/100]
				t.Logf("from %s: %d fires, p50 %s, p99 %s, last %s", part, len(of), of[len(of)/2], p99, of[len(of)-1])
				if p99 > 50*time.Millisecond {
					t.Errorf("in the part from %s the p99 of %d fires is %s", part, len(of), p99)
				}
			}
			if len(late) < 2 || r.Counts["put on the slow lane"] == 0 || r.Counts["question not answered"] == 0 {
				t.Errorf("%d parts; %s", len(late), line(&r))
			}
		})
	}
}
