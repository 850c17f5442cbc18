package manage_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// TestUnreadableApp: reads and changes of other apps work beside an unreadable one, which is
// named if it matters.
func TestUnreadableApp(t *testing.T) {
	f := newFixture(t)
	f.Must(f.M.SaveApp(ctx, ann, manage.AppSpec{Name: "ledger"}))
	every := core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Minute, Aligned: true}}}
	job := func(app, name string) manage.JobSpec {
		s := spec(name, every)
		s.Def.App, s.Declared = app, true
		return s
	}
	for _, r := range f.M.Save(ctx, ann, []manage.JobSpec{job("shop", "one"), job("ledger", "two")}) {
		check.OK(t, r.Err)
	}
	memory.DamageApp(t, f.E.Records, "ledger")
	names := func(err error) bool {
		return core.CodeOf(err) == core.CodeRefused && errors.Is(err, core.ErrUnreadable) && strings.HasPrefix(err.Error(), "app ledger ")
	}
	apps, bad, err := f.M.Apps(ctx)
	if err != nil || len(apps) != 1 || apps[0].Name != "shop" || len(bad) != 1 || bad["ledger"] == nil {
		t.Errorf("listed: %+v %v %v", apps, bad, err)
	}
	_, err = f.M.App(ctx, "ledger")
	if !names(err) {
		t.Errorf("it: %v", err)
	}
	golden.New(t).Equal(t, "an unreadable app", fmt.Sprint(err))
	res := f.M.Save(ctx, ann, []manage.JobSpec{job("shop", "three"), job("ledger", "four")})
	if res[0].Err != nil || res[0].Change != manage.Created || !names(res[1].Err) {
		t.Errorf("saved: %+v", res)
	}
	up, err := f.M.Upcoming(ctx, query.JobFilter{}, time.Time{}, 3*time.Minute, 100)
	if err != nil || !up.Partial || len(up.Coming) == 0 {
		t.Errorf("upcoming: %+v %v", up, err)
	}
	for _, c := range up.Coming {
		check.Equal(t, c.App, "shop", "upcoming: %+v", c)
	}
	if _, err := f.M.Trouble(ctx, nil); err != nil {
		t.Errorf("trouble: %v", err)
	}
	pruned, err := f.M.Prune(ctx, ann, manage.PruneRequest{Set: "other"})
	if err != nil || len(pruned.Apps) != 1 || pruned.Apps[0].Change != manage.Refused || !names(pruned.Apps[0].Err) {
		t.Errorf("pruned: %+v %v", pruned, err)
	}
}
