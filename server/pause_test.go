package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// TestPausedAfterFailures: a job whose endpoint fails is paused after the configured number of runs, and its audit record names the
// cause. After a resume the count starts again.
func TestPausedAfterFailures(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no luck", http.StatusInternalServerError)
	}))
	defer web.Close()
	s := start(t, Options{})
	if _, err := s.Manage().SaveApp(t.Context(), actor, manage.AppSpec{Name: "web", Executors: []string{"call:" + web.URL}}); err != nil {
		t.Fatal(err)
	}
	spec := manage.JobSpec{Def: core.Def{App: "web", Name: "shaky", Handler: "POST /", PauseAfter: 2},
		Schedule: core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Second}}}}
	if r := s.Manage().Save(t.Context(), actor, []manage.JobSpec{spec})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	paused := func() (j core.Job) {
		t.Helper()
		eventually(t, 20*time.Second, func() (err error) {
			if j, err = s.Manage().Job(t.Context(), "web/shaky"); err == nil && j.Sched.State != core.Paused {
				err = fmt.Errorf("it is %s", j.Sched.State)
			}
			return err
		})
		return j
	}
	v := paused()
	if v.Sched.PauseBy != "tickring" {
		t.Errorf("%+v", v.Sched)
	}
	golden.New(t).Equal(t, "reason", steady(v.Sched.PauseWhy))
	if _, err := s.Manage().Resume(t.Context(), actor, manage.Target{Job: "web/shaky"}, ""); err != nil {
		t.Fatal(err)
	}
	if w := paused(); w.Sched.PauseWhy == v.Sched.PauseWhy {
		t.Errorf("the same pause: %+v", w.Sched)
	}
	if r, err := s.Manage().Trigger(t.Context(), actor, operate.TriggerRequest{Job: "web/shaky"}); err != nil {
		t.Errorf("a trigger of a paused job: %+v, %v", r, err)
	}
}
