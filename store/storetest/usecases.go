package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/core/ring"
)

var accounts = noun[access.Account]{refuses: bySeen,
	values: []access.Account{{Name: "ann", Rev: 1},
		{Name: "lina@example.com", Disabled: true, Password: "$argon2id$x", MustChange: true, Issuer: "https://id.example.com", Subject: "0815",
			Grants: []access.Grant{{App: "shop", Role: access.Editor, Rights: []access.Right{access.Scripts}}},
			Tokens: []access.Token{{Name: "ci", Hash: []byte{0, 255, 1}, Grants: []access.Grant{{Role: access.Viewer}}, Created: base,
				End: base.Add(time.Hour)}},
			Sessions: []access.Session{{ID: "s1", Hash: []byte("h"), Created: base, Seen: base.Add(time.Minute), From: "::1", Agent: "测试",
				ByPassword: true}},
			Views:    []access.View{{Name: "Failing now", Page: "runs", Query: "failed=true", By: "ann", Shared: true}},
			Failures: access.Failures{Count: 3, At: base}, FailuresKnown: access.Failures{Count: 2, At: base}, Language: core.Chinese,
			Zone: "Asia/Shanghai", LastSeen: base, Created: base, Rev: 5, Edited: 5}},
	next: func(a access.Account) *access.Account { a.Rev, a.Sessions = a.Rev+1, nil; return &a },
	put: func(a ask, seen, v *access.Account) error {
		if v.Name == "ann" {
			return access.Accounts.Save(a.ctx, a.Store, seen.Rev, *v)
		}
		return access.Accounts.Save(a.ctx, a.Store, seen.Rev, *v, a.Change)
	},
	list: func(a ask) ([]access.Account, error) { return access.Accounts.ReadAll(a.ctx, a.Store) },
	drop: func(a ask, v *access.Account) error {
		return a.Write(a.ctx, access.Accounts.Delete(v.Name, v.Rev), a.Change)
	},
	audit: func(v *access.Account) (c core.Change) {
		if v.Name != "ann" { // stored without a change record
			c.Name = core.OfPerson + v.Name
		}
		return c
	},
}

var notices = noun[notification.State]{refuses: bySeen,
	values: []notification.State{
		{Name: notification.ChannelName("mail"), V: 1, Trouble: &notification.Trouble{Since: base, Last: base, Error: "refused", GivenUp: 2}},
		{Name: notification.JobName(7), V: 1,
			Told: []notification.Told{{Event: core.EventFailed, Sent: base, Quiet: base.Add(time.Hour), Count: 7, First: firstNotice,
				Last: firstNotice, Seen: []core.RunID{1, 2}, Since: base, Through: base,
				GivenUp: []notification.Undelivered{{Channel: "mail", First: *firstNotice, Last: *firstNotice, When: base, Error: "no"}}}},
			Pending: []notification.Pending{{Channel: "mail", Event: core.EventLost, Count: 2, First: *firstNotice, Last: *firstNotice, Made: base,
				Tries: 3, Next: base, Error: "no", Added: firstNotice}},
			Failing: firstNotice, Failures: 4, Checked: at(2), Success: at(3), Slow: at(4), Look: at(5),
			Of: &notification.Subject{App: "orders", Name: "job-7", Title: "日报", Zone: "Asia/Shanghai"}}},
	next: func(s notification.State) *notification.State { s.V, s.Pending = s.V+1, nil; return &s },
	put: func(a ask, _, v *notification.State) error {
		return notification.PutState(a.ctx, a.Store, *v)
	},
	list: func(a ask) ([]notification.State, error) {
		names := []string{notification.ChannelName("mail"), notification.JobName(7), "job/8"}
		found, err := notification.States(a.ctx, a.Store, names...)
		return named(found, err, names...)
	},
}

var firstNotice = &notification.Occurrence{Run: core.NumberedRun(7, 3), At: at(1), Reason: core.ReasonHandler, Why: "an error", Times: 3,
	When: base}

// looks: checks are read by time, and only due ones.
func looks(t *testing.T, h Harness) {
	n, ctx := h.Open(t), t.Context()
	list := []ring.CheckRequest{{At: at(1), Job: 10}, {At: at(1), Job: 9}, {At: at(2), Job: 7}, {At: at(60), Job: 7}}
	for range 2 {
		ok(t, n.PutLooks(ctx, []ring.CheckRequest{list[3], list[1], list[2], list[0]}))
	}
	due := func(upTo core.Instant, limit int, want ...ring.CheckRequest) {
		t.Helper()
		reads(t, "due at "+upTo.String(), want)(n.DueLooks(ctx, upTo, limit))
	}
	due(at(0), 10)
	due(at(1), 10, list[:2]...)
	due(at(59), 10, list[:3]...)
	due(at(59), 2, list[:2]...)
	ok(t, n.DropLooks(ctx, []ring.CheckRequest{list[0], list[1], {At: at(3), Job: 3}}))
	due(at(59), 10, list[2])
	due(at(60), 10, list[2:]...)
}

// cleanCounted: while reports stand still, a clean-up leaves the runs that they have not
// counted, with their ends; counted runs go, and the reports keep their counts.
func cleanCounted(t *testing.T, h Harness) {
	begin := time.Now().UTC().Truncate(time.Second) // stores note when a run is made
	s, ctx, now := h.Open(t), t.Context(), begin
	clock := func() time.Time { return now }
	sums := report.New(s, report.Options{Now: clock, PassFor: time.Minute})
	m := people.New(s, nil, nil, people.Options{Reports: sums, Ask: query.Options{Now: clock, PageFor: time.Hour}})
	createJobs(t, s, job(1))
	claimed := func(r *core.Run) { r.Journal.Minute, r.SentAt = begin.Unix()/60, begin }
	ended := func(r *core.Run) { claimed(r); r.State, r.EndedAt = core.Succeeded, begin }
	soon, later := core.NumberedRun(1, 1), core.NumberedRun(1, 2)
	cleaned := func(want string) {
		t.Helper()
		res, err := m.Clean(ctx, core.Actor{Name: "ann"}, operate.CleanRequest{Job: "1"})
		ok(t, errors.Join(err, res.Failed))
		if got := fmt.Sprintf("%d went, %d are held", res.Cleaned, res.Held); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	put(t, s, soon, ended)
	now = begin.Add(50 * time.Hour) // no report was made, so none waits for these runs
	cleaned("1 went, 0 are held")

	now = begin
	put(t, s, soon, ended)
	put(t, s, later, claimed)
	ok(t, s.PutJournal(ctx, core.Journal{Key: mustRun(t, s, later).Journal, V: 1,
		Entries: []core.Entry{{Run: soon, Outcome: core.Accepted}, {Run: later, Outcome: core.Accepted}}}))
	ok(t, sums.Pass(ctx))
	now = begin.Add(50 * time.Hour) // they stood still since
	ok(t, s.ChangeRuns(ctx, []core.RunPut{core.End(later, core.Run{State: core.Succeeded, EndedAt: begin.Add(3 * time.Hour)})})...)
	cleaned("0 went, 2 are held")
	now = begin.Add(2 * time.Hour) // they count the hour, in which one has no end
	ok(t, sums.Pass(ctx))
	now = begin.Add(50 * time.Hour)
	cleaned("1 went, 1 are held")
	ok(t, sums.Pass(ctx))
	cleaned("1 went, 0 are held")
	a, err := sums.Answer(ctx, report.Question{ByDay: true, From: core.InstantOf(begin), To: core.InstantOf(begin) + 7200})
	ok(t, err)
	n := int64(0)
	for i := range a.Rows {
		n += a.Rows[i].Runs() + 10*a.Rows[i].Open
	}
	if n != 2 {
		t.Errorf("the report: %+v", a.Rows)
	}
}
