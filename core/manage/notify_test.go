package manage_test

import (
	"errors"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestNotifyOfEverything: the notifications without a job are stored once with a record. They
// name only existing channels, which cannot be deleted then. A pause of everything stays.
func TestNotifyOfEverything(t *testing.T) {
	f := newFixture(t)
	n := core.Notify{To: []string{"finance"}, On: []core.Event{core.EventDeadLetter}}
	_, err := f.M.SaveNotify(ctx, ann, n)
	if e, _ := errors.AsType[*core.Error](err); e == nil || e.Code != core.CodeNotFound || e.Field != "notify.to[0]" {
		t.Errorf("of a channel that there is not: %v", err)
	}
	fails(t, core.CodeNotFound, "checked, of a channel that there is not")(f.M.CheckNotify(ctx, n, nil))
	if res, err := f.M.CheckNotify(ctx, n, []string{"finance"}); err != nil || res.Change != manage.Updated {
		t.Errorf("checked, of one that is made: %+v, %v", res, err)
	}
	fails(t, core.CodeInvalid, "of later ones")(f.M.SaveNotify(ctx, ann, core.Notify{On: []core.Event{"calendar-end"}}))
	check.Call(t)(f.M.SaveChannel(ctx, ann, manage.ChannelSpec{Channel: feishu()}))
	check.Call(t)(f.M.Pause(ctx, ann, manage.Target{All: true}, manage.PauseRequest{Why: "a move"}))
	res, err := f.M.SaveNotify(ctx, ann, n)
	if err != nil || res.Change != manage.Updated || !res.Old.IsZero() {
		t.Fatalf("%+v, %v", res, err)
	}
	if again, err := f.M.SaveNotify(ctx, ann, n); err != nil || again.Change != manage.Unchanged || again.Rev != res.Rev {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	g, err := f.M.Global(ctx)
	if err != nil || !g.Notify.Equal(n) || g.Pause.Why != "a move" {
		t.Errorf("%+v, %v", g, err)
	}
	changes, err := f.Changes("", "", 100)
	check.OK(t, err)
	var records int
	for _, c := range changes {
		if c.Verb != core.VerbUpdated {
			continue
		}
		was, _ := core.ParseAppRecord(c.Old)
		is, ok := core.ParseAppRecord(c.New)
		if records++; !ok || c.By != ann.Name || c.ID != res.Rev || !is.Notify.Equal(n) || !was.Notify.IsZero() || is.Pause() != was.Pause() {
			t.Errorf("the record is %+v", c)
		}
	}
	check.Equal(t, records, 1, "records of one change")
	fails(t, core.CodeRefused, "the channel is deleted")(f.M.DeleteChannel(ctx, ann, "finance"))
	if res, err := f.M.SaveNotify(ctx, ann, core.Notify{}); err != nil || res.Change != manage.Updated || !res.Old.Equal(n) {
		t.Errorf("taken back: %+v, %v", res, err)
	}
	check.NoError(t, f.M.DeleteChannel(ctx, ann, "finance"))
}
