package sim

import (
	"context"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/internal/wiring"
)

// The channel of a world, and the app whose jobs all notify it.
const told, tells = "people", "alpha"

// ear is the channel, which accepts most notifications.
type ear struct{ in *incarnation }

// Send implements notification.Sender.
func (e ear) Send(ctx context.Context, _ core.Channel, m core.Message) error {
	err := e.in.write(ctx, "Notice", func(context.Context) error {
		e.in.p.w.count("told: "+m.Event, 1)
		return nil
	})
	if err != nil {
		return &core.Undelivered{Reason: "no answer", Err: err}
	}
	return nil
}

// looks returns a function that makes the due checks of notifications.
func (in *incarnation) looks(a *wiring.Assembly) func(ctx context.Context) error {
	n := a.Notices(nil, notification.Options{})
	return func(ctx context.Context) error { _, err := n.Pass(ctx); return err }
}

// owesNotice asserts that a failure owes a notification if its app notifies, and that no other run does.
func (t *truth) owesNotice(r *core.Run) {
	e := core.EndEvent(r)
	if e == "" || e == core.EventSkipped { // no notification for these here
		return
	}
	if told := r.App == tells; r.PostRun.Notice != told {
		t.fail(r.ID, "run %d of %s, %s, is %s, and that it owes a notice is %v", r.ID, r.App, r.Cause, r.State, !told)
	} else if told {
		t.w.count("notice owed by "+string(r.Cause), 1)
	}
}

// noticed asserts 7.5 for notifications: an end that users are notified of is counted before the follow-up is cleared.
func (t *truth) noticed(id core.RunID, was *core.Run) {
	t.w.count("notice owed no more", 1)
	event := core.EndEvent(was)
	if event == core.EventSkipped || event == "" || was.App != tells {
		return
	}
	if t.job(id.Job()) == nil {
		return // deleted jobs notify no one
	}
	name := notification.JobName(id.Job())
	found, err := notification.States(bg, t.store, name)
	if err != nil {
		t.fail(id, "the notices of run %d cannot be read: %v", id, err)
		return
	}
	for _, e := range found[name].Told {
		// It has the last sixteen that were counted.
		if e.Event == event && (slices.Contains(e.Seen, id) || len(e.Seen) >= 16) {
			return
		}
	}
	t.fail(id, "run %d is %s, owes no notice any more, and was not counted: %+v", id, was.State, found[name].Told)
}

// setUpNotices creates the channel, and returns the notify setting of an app.
func (w *World) setUpNotices(app string) (n core.Notify) {
	if app != tells {
		return n
	}
	c := core.Channel{Name: told, Kind: core.ChannelWebhook, URL: "https://people.example/", Rev: 1, Created: time.Now()}
	if err := w.store.PutChannel(bg, 0, c, core.Change{ID: 1, At: time.Now()}); err != nil {
		panic(err)
	}
	return core.Notify{To: []string{told}, Quiet: time.Minute}
}
