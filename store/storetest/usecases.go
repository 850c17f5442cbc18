package storetest

import (
	"errors"
	"fmt"
	"slices"
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
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/store"
)

// nouns returns the methods of kinds whose types use-case packages define.
func nouns(s *store.Store) *engine.Nouns { return &engine.Nouns{Store: s} }

// engineOf returns the ports of use cases that do not take a *store.Store yet.
func engineOf(s *store.Store) *engine.Engine {
	n := nouns(s)
	return &engine.Engine{Store: s, Tick: n, Leases: n, Dispatch: n, Finish: n, Watch: n, Registry: n, Manage: n, Ring: s.Queue,
		Queue:  s.Queue,
		Health: n, Dead: n, PostRun: n, Notices: n, Report: n, People: n, Secrets: s.Secrets, Records: s.Records, Jobs: s.Jobs,
		Runs: s.Runs, ByJournal: s.ByJournal, Writes: s.Writes, Newest: s.Newest, Failed: s.Failed, Close: s.Close}
}

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
			return nouns(a.Store).PutAccount(a.ctx, seen.Rev, *v, nil)
		}
		return nouns(a.Store).PutAccount(a.ctx, seen.Rev, *v, &a.Change)
	},
	list: func(a ask) ([]access.Account, error) {
		list, err := nouns(a.Store).ListAccounts(a.ctx)
		for i := range list {
			a, found, other := nouns(a.Store).Account(a.ctx, list[i].Name)
			if list[i] = a; !found || other != nil {
				err = fmt.Errorf("the account alone: %t, %w", found, other)
			}
		}
		if _, found, _ := nouns(a.Store).Account(a.ctx, "none"); found {
			err = errors.New("an account that was never stored")
		}
		return list, err
	},
	drop: func(a ask, v *access.Account) error {
		return nouns(a.Store).DeleteAccount(a.ctx, v.Rev, v.Name, a.Change)
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
		return nouns(a.Store).PutNotices(a.ctx, []notification.State{*v})[0]
	},
	list: func(a ask) ([]notification.State, error) {
		names := []string{notification.ChannelName("mail"), notification.JobName(7), "job/8"}
		found, err := nouns(a.Store).Notices(a.ctx, names)
		return named(found, err, names...)
	},
}

var reportStates = noun[reportState]{refuses: bySeen, values: []reportState{{1, "one \x00"}},
	next: func(s reportState) *reportState { return &reportState{s.V + 1, "two"} },
	put: func(a ask, seen, v *reportState) error {
		return nouns(a.Store).PutReportState(a.ctx, seen.V, []byte(v.Body))
	},
	list: func(a ask) ([]reportState, error) {
		v, body, err := nouns(a.Store).ReportState(a.ctx)
		return onlyOne(reportState{v, string(body)}, v, err)
	},
}

var reports = noun[report.Record]{
	values: []report.Record{{Key: report.Key{List: "a", At: 1_800_000_000, First: 9}, Body: []byte("one")},
		{Key: report.Key{List: "a", At: 1_800_000_000, First: 10}, Body: []byte("two \x00")}},
	next: func(r report.Record) *report.Record { r.Body = []byte("other"); return &r },
	put:  func(a ask, _, v *report.Record) error { return nouns(a.Store).PutReports(a.ctx, []report.Record{*v}) },
	list: func(a ask) ([]report.Record, error) { return nouns(a.Store).Reports(a.ctx, "a", 0, core.Horizon) },
	drop: func(a ask, v *report.Record) error { return nouns(a.Store).DropReports(a.ctx, []report.Key{v.Key}) },
}

var firstNotice = &notification.Occurrence{Run: core.NumberedRun(7, 3), At: at(1), Reason: core.ReasonHandler, Why: "an error", Times: 3,
	When: base}

type reportState struct {
	V    int64
	Body string
}

// reportLists: records are read in order, by time and by job.
func reportLists(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	rec := func(list string, at core.Instant, first core.JobID) report.Record {
		return report.Record{Key: report.Key{List: list, At: at, First: first}, Body: fmt.Appendf(nil, "%s %d %d \x00", list, at, first)}
	}
	var all []report.Record
	for i := range core.Instant(3) {
		for _, first := range []core.JobID{1, 9, 10, 2_000_000_000} {
			all = append(all, rec("a", 1_800_000_000+i*3600, first))
		}
	}
	ok(t, nouns(s).PutReports(ctx, slices.Concat([]report.Record{rec("b", 1_800_000_000, 5)}, all)))
	ok(t, nouns(s).PutReports(ctx, all[:1])) // again
	n := nouns(s)
	reads(t, "all", all)(n.Reports(ctx, "a", 0, core.Horizon))
	reads(t, "one moment", all[4:8])(n.Reports(ctx, "a", 1_800_003_600, 1_800_003_601))
	reads(t, "up to the last", all[4:8])(n.Reports(ctx, "a", 1_800_000_001, 1_800_007_200))
	reads(t, "another list", []report.Record{rec("b", 1_800_000_000, 5)})(n.Reports(ctx, "b", 0, core.Horizon))
	times := []core.Instant{1_800_000_000, 1_800_000_001, 1_800_007_200}
	reads(t, "of job 9", []report.Record{all[1], all[9]})(n.ReportsOf(ctx, "a", 9, times))
	reads(t, "of job 500", all[2:3])(n.ReportsOf(ctx, "a", 500, times[:1]))
	reads[[]report.Record](t, "of a job before the first", nil)(n.ReportsOf(ctx, "b", 4, times[:1]))
}

// looks: checks are read by time, and only due ones.
func looks(t *testing.T, h Harness) {
	n, ctx := nouns(h.Open(t)), t.Context()
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
	sums := report.New(nouns(s), report.Options{Now: clock, PassFor: time.Minute})
	m := people.New(nouns(s), s.Queue, nil, nil, people.Options{Reports: sums, Ask: query.Options{Now: clock}})
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
