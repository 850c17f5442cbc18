package manage_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/story"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
)

// stage is the changes of jobs, with the definitions that they store and the messages that they send.
type stage struct{ *usecasetest.Stage }

func newStage(t *testing.T) *story.Stage {
	s := &stage{usecasetest.NewStage(t)}
	s.F.M = s.F.Fresh(&faults{Store: hook.Over(s.F.E, s.tell)})
	s.Given["declared"] = s.declares
	maps.Copy(s.Do, map[string]func(string){"save": s.saves, "declare": s.declares, "remove": s.removes, "give-back": s.givesBack,
		"prune": s.prunes, "trigger": s.triggers,
		"remove-app": func(name string) { s.Failed(s.F.M.DeleteApp(ctx, s.Actor, name)) }})
	see := s.See
	s.See = func() map[string][]string {
		all := see()
		for id := range s.Jobs {
			if j := s.Store.JobOf(id); j.Def.ID != 0 {
				name := "job " + id.String()
				all[name] = append(all[name], story.Fields(j.Def, "id", "app", "name", "handler", "created", "retry", "keep")...)
			}
		}
		a, err := s.F.M.App(ctx, "shop")
		check.OK(t, err)
		all["app shop"] = story.Fields(struct{ Withheld []string }{a.Withheld})
		return all
	}
	return s.Data.Stage
}

// tell reports the messages of a change.
func (s *stage) tell(_ context.Context, c *hook.Call, next func() []error) []error {
	errs := next()
	for i, o := range c.Out {
		if errs[i] == nil {
			s.Say("%s", story.Enqueued(o))
		}
	}
	return errs
}

func (s *stage) saved(r manage.SaveResult) {
	if s.Say("%s: %s, suppressed: %t", r.Name, r.Change, r.Withheld); !s.Failed(r.Err) && r.Change != manage.Deleted {
		s.Seen(r.App + "/" + r.Name)
	}
}

// saves saves a job: "sweep every=10s".
func (s *stage) saves(args string) {
	s.saved(s.F.M.Save(ctx, s.Actor, []manage.JobSpec{s.Job(args)})[0])
}

// declares saves a job as code of the app does.
func (s *stage) declares(args string) {
	j := s.Job(args)
	j.Def.Set, j.Declared = "code-of-shop", true
	s.saved(s.F.M.Save(ctx, program, []manage.JobSpec{j})[0])
}

func (s *stage) removes(name string) {
	r, err := s.F.M.Delete(ctx, s.Actor, "shop/"+name, nil)
	if !s.Failed(err) {
		s.saved(r)
	}
}

func (s *stage) givesBack(name string) {
	r, err := s.F.M.GiveBack(ctx, s.Actor, "shop", name)
	if !s.Failed(err) {
		s.Say("%s: %s", name, r.Change)
	}
}

// prunes deletes the objects of a set that are not named: "ours shop/a shop/b". The last word may be dryrun.
func (s *stage) prunes(args string) {
	set, rest, _ := strings.Cut(args, " ")
	q := manage.PruneRequest{Set: set, Stay: map[string]core.Notify{}}
	rest, q.DryRun = strings.CutSuffix(rest, "dryrun")
	for name := range strings.FieldsSeq(rest) {
		q.Stay[name] = core.Notify{}
	}
	r, err := s.F.M.Prune(ctx, s.Actor, q)
	s.Failed(err)
	for _, j := range r.Jobs {
		s.saved(j)
	}
	for _, a := range r.Apps {
		s.Say("app %s: %s", a.Name, a.Change)
		s.Failed(a.Err)
	}
}

// triggers triggers a job in an hour.
func (s *stage) triggers(job string) {
	at := s.Now().Add(time.Hour)
	check.Call(s.T)(s.F.M.Trigger(ctx, s.Actor, operate.TriggerRequest{Job: job, At: &at}))
}
