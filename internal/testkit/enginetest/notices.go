package enginetest

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/ring"
)

// notices: an item is stored if no other write came since the read, and is read back unchanged.
func notices(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	first := &notification.Occurrence{Run: core.NumberedRun(7, 3), At: at(1), Reason: core.ReasonHandler, Why: "an error",
		Times: 3, When: base}
	s := notification.State{Name: notification.JobName(7), V: 1,
		Told: []notification.Told{{Event: core.EventFailed, Sent: base, Quiet: base.Add(time.Hour), Count: 7, First: first, Last: first,
			Seen: []core.RunID{1, 2}, Since: base, Through: base,
			GivenUp: []notification.Undelivered{{Channel: "mail", First: *first, Last: *first, When: base, Error: "no"}}}},
		Pending: []notification.Pending{{Channel: "mail", Event: core.EventLost, Count: 2, First: *first, Last: *first, Made: base, Tries: 3,
			Next: base, Error: "no", Added: first}},
		Failing: first, Failures: 4, Checked: at(2), Success: at(3), Slow: at(4), Look: at(5),
		Of: &notification.Subject{App: "orders", Name: "job-7", Title: "日报", Zone: "Asia/Shanghai"}}
	c := notification.State{Name: notification.ChannelName("mail"), V: 1,
		Trouble: &notification.Trouble{Since: base, Last: base, Error: "refused", GivenUp: 2}}
	allNil(t, e.Notices.PutNotices(ctx, []notification.State{s, c}))
	read := func(want map[string]notification.State) {
		t.Helper()
		got, err := e.Notices.Notices(ctx, []string{s.Name, c.Name, "job/8"})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("notices are %+v, %v; want %+v", got, err, want)
		}
	}
	read(map[string]notification.State{s.Name: s, c.Name: c})
	refused(t, e.Notices.PutNotices(ctx, []notification.State{s})[0])
	ahead := s
	ahead.V = 3
	refused(t, e.Notices.PutNotices(ctx, []notification.State{ahead})[0])
	s.V, s.Pending = 2, nil
	answers := e.Notices.PutNotices(ctx, []notification.State{s, c})
	if answers[0] != nil {
		t.Fatal(answers[0])
	}
	refused(t, answers[1]) // each by itself
	read(map[string]notification.State{s.Name: s, c.Name: c})
}

// noticeLooks: checks are read by time, and only due ones.
func noticeLooks(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	list := []ring.CheckRequest{{At: at(1), Job: 9}, {At: at(1), Job: 10}, {At: at(2), Job: 7}, {At: at(60), Job: 7}}
	allNil(t, []error{e.Notices.PutLooks(ctx, []ring.CheckRequest{list[3], list[1], list[2]})})
	allNil(t, []error{e.Dispatch.PutLooks(ctx, []ring.CheckRequest{list[0], list[1]})}) // once more is well
	due := func(upTo core.Instant, limit int, want ...ring.CheckRequest) {
		t.Helper()
		got, err := e.Notices.DueLooks(ctx, upTo, limit)
		there := len(got) == len(want)
		for i := range got { // jobs of one second in an order of the store's
			there = there && got[i].At == want[i].At && slices.Contains(want, got[i])
		}
		if err != nil || !there {
			t.Fatalf("due at %s are %+v, %v; want %+v", upTo, got, err, want)
		}
	}
	due(at(0), 10)
	due(at(1), 10, list[:2]...)
	due(at(59), 10, list[:3]...)
	due(at(59), 2, list[:2]...)
	allNil(t, []error{e.Notices.DropLooks(ctx, []ring.CheckRequest{list[0], list[1], {At: at(3), Job: 3}})})
	due(at(59), 10, list[2])
	due(at(60), 10, list[2:]...)
}
