package query_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
)

// read reads all pages of a list of changes, each with at most limit changes.
func (f *fixture) read(filter query.ChangeFilter, limit int) (list []core.Change) {
	f.T.Helper()
	filter.Limit = limit
	for pages := 1; ; pages++ {
		page, err := f.M.Changes(ctx, filter)
		if err != nil || len(page.Changes) > limit || pages > 2000 {
			f.T.Fatalf("%+v: a page of %d, the %dth: %v", filter, len(page.Changes), pages, err)
		}
		list = append(list, page.Changes...)
		if filter.After = page.Next; page.Next == "" {
			return list
		}
	}
}

// TestChangesFilter checks the filters for changes, alone and combined. Pages of any length give equal lists, even if
// hundreds of records have one ID. Each page is bounded, and reports it.
func TestChangesFilter(t *testing.T) {
	f := newFixture(t)
	var all []core.Change
	add := func(c core.Change) {
		c.At = core.FromMillis(c.ID)
		c.New = fmt.Sprintf(`{"n":%d}`, len(all))
		all = append(all, c)
	}
	at := core.Millis(f.Clock) + 1000
	for i := range int64(300) { // a bulk operation with one time
		add(core.Change{ID: at, By: "ann", Verb: core.VerbPaused, App: "shop", Job: core.JobID(i + 1), Name: fmt.Sprint("j", i), Act: "act-1"})
	}
	for i := range int64(200) {
		add(core.Change{ID: at + 10*i, By: []string{"ann", "bob"}[i%2], Verb: []string{core.VerbUpdated, core.VerbTriggered}[i/100], App: "shop",
			Job: 7, Name: "j6"})
	}
	_, err := f.M.SaveApp(ctx, core.Actor{Name: "cat"}, manage.AppSpec{Name: "pay"})
	check.OK(t, err)
	add(core.Change{ID: at + 5, By: "bob", Verb: core.VerbUpdated, App: "pay"})
	add(core.Change{ID: at + 5, By: "bob", Verb: core.VerbCreated, Name: "oncall"})
	add(core.Change{ID: at + 6, By: "bob", Verb: core.VerbCreated, Name: core.OfPerson + "eve"})
	add(core.Change{ID: at + 5, By: "ann", Verb: core.VerbDeleted, App: "shop", Job: 400, Name: "gone"})
	check.OK(t, f.E.PutChanges(ctx, all))
	moment := func(ms int64) time.Time { return core.FromMillis(at + ms) }
	for _, c := range []struct {
		what   string
		filter query.ChangeFilter
		fits   func(c *core.Change) bool
	}{
		{"all", query.ChangeFilter{}, func(c *core.Change) bool { return true }},
		{"of an app", query.ChangeFilter{App: "pay"}, func(c *core.Change) bool { return c.App == "pay" }},
		{"of some apps", query.ChangeFilter{Apps: []string{"pay", "shop"}}, func(c *core.Change) bool { return c.App != "" }},
		{"of no app", query.ChangeFilter{Apps: []string{}}, func(c *core.Change) bool { return false }},
		{"of a deleted job", query.ChangeFilter{Job: "shop/gone"}, func(c *core.Change) bool { return c.Job == 400 }},
		{"of a channel", query.ChangeFilter{Channel: "oncall"}, func(c *core.Change) bool { return c.Name == "oncall" }},
		{"of a person", query.ChangeFilter{Person: "eve"}, func(c *core.Change) bool { return c.Name == "person:eve" }},
		{"by somebody", query.ChangeFilter{By: "bob"}, func(c *core.Change) bool { return c.By == "bob" }},
		{"a verb", query.ChangeFilter{Verb: core.VerbTriggered}, func(c *core.Change) bool { return c.Verb == core.VerbTriggered }},
		{"an act", query.ChangeFilter{Act: "act-1"}, func(c *core.Change) bool { return c.Act == "act-1" }},
		{"from", query.ChangeFilter{From: moment(500)}, func(c *core.Change) bool { return c.ID >= at+500 }},
		{"to", query.ChangeFilter{To: moment(500)}, func(c *core.Change) bool { return c.ID <= at+500 }},
		{"together", query.ChangeFilter{App: "shop", By: "ann", Verb: core.VerbUpdated, From: moment(100), To: moment(400)},
			func(c *core.Change) bool {
				return c.App == "shop" && c.By == "ann" && c.Verb == core.VerbUpdated && c.ID >= at+100 && c.ID <= at+400
			}},
	} {
		want := map[string]bool{}
		for i := range all {
			if c.fits(&all[i]) {
				want[all[i].New] = true
			}
		}
		for _, limit := range []int{1000, 37, 7} {
			got := map[string]bool{}
			list := f.read(c.filter, limit)
			for i := range list {
				if strings.HasPrefix(list[i].New, `{"n":`) { // not the creation of an app
					got[list[i].New] = true
				}
				if i > 0 && list[i-1].ID < list[i].ID {
					t.Errorf("%s by %d: %d before %d", c.what, limit, list[i-1].ID, list[i].ID)
				}
			}
			if !maps.Equal(got, want) || len(list) > len(want)+2 {
				t.Errorf("%s by %d: %d of %d, of which %d differ", c.what, limit, len(list), len(want), len(got))
			}
		}
	}
	fails(t, core.CodeNotFound, "of a job that never was")(f.M.Changes(ctx, query.ChangeFilter{Job: "shop/never"}))
	if page, err := f.M.Changes(ctx, query.ChangeFilter{Job: "shop/gone", By: "nobody"}); err != nil || len(page.Changes) > 0 {
		t.Errorf("of a deleted job without permission: %+v, %v", page, err)
	}
	before := query.ChangeFilter{Job: "shop/gone", From: moment(0).Add(-2 * time.Hour), To: moment(0).Add(-time.Hour)}
	if page, err := f.M.Changes(ctx, before); err != nil || len(page.Changes) > 0 {
		t.Errorf("of a deleted job in a span in which nothing was: %+v, %v", page, err)
	}
	for name, bad := range map[string]query.ChangeFilter{"verb": {Verb: "broken"}, "by": {By: strings.Repeat("x", 129)}, "after": {After: "x"},
		"from": {From: moment(1), To: moment(0)}, "limit": {Limit: 1001}, "app": {App: "a b"}} {
		if _, err := f.M.Changes(ctx, bad); core.CodeOf(err) != core.CodeInvalid || !strings.Contains(fmt.Sprintf("%+v", err), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestChangesAreLookedAtInParts checks that a page with few matches ends after the bound, reports how far it
// searched, and that the next page continues there.
func TestChangesAreLookedAtInParts(t *testing.T) {
	f := newFixture(t)
	at := core.Millis(f.Clock) - 100_000
	list := make([]core.Change, 20_100)
	for i := range list {
		id := at + int64(i)
		list[i] = core.Change{ID: id, At: core.FromMillis(id), By: "ann", Verb: core.VerbUpdated, App: "shop", New: "{}"}
	}
	list[0].By, list[20_099].By = "bob", "bob"
	check.OK(t, f.E.PutChanges(ctx, list))
	page, err := f.M.Changes(ctx, query.ChangeFilter{By: "bob"})
	if err != nil || len(page.Changes) != 1 || page.Next == "" || page.LookedTo.Before(core.FromMillis(at+90)) ||
		page.LookedTo.After(core.FromMillis(at+110)) {
		t.Fatalf("%d, next %q, looked back to %s, %v", len(page.Changes), page.Next, page.LookedTo, err)
	}
	rest, err := f.M.Changes(ctx, query.ChangeFilter{By: "bob", After: page.Next})
	if err != nil || rest.Next != "" || !rest.LookedTo.IsZero() ||
		!slices.ContainsFunc(rest.Changes, func(c core.Change) bool { return c.ID == at }) {
		t.Errorf("the rest: %+v, %v", rest, err)
	}
}

// TestChangesOfOneMoment checks that records that differ only in the changed user occur once each over all pages.
func TestChangesOfOneMoment(t *testing.T) {
	f := newFixture(t)
	id := core.Millis(f.Clock) + 1000
	var list []core.Change
	for _, name := range []string{"mail", "oncall", core.OfPerson + "eve"} {
		list = append(list, core.Change{ID: id, At: core.FromMillis(id), By: "ann", Verb: core.VerbDeleted, Name: name, Old: "{}"})
	}
	check.OK(t, f.E.PutChanges(ctx, list))
	var got []string
	for _, c := range f.read(query.ChangeFilter{Verb: core.VerbDeleted}, 1) {
		got = append(got, c.Name)
	}
	if slices.Sort(got); !slices.Equal(got, []string{"mail", "oncall", core.OfPerson + "eve"}) {
		t.Errorf("%q", got)
	}
}
