package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/engine"
)

// conditions are the writes of a noun that an engine refuses.
type conditions int

const (
	putAgain  conditions = 1 << iota // a value that is stored, or was stored earlier
	putAhead                         // a value over a version that was never stored
	dropOther                        // a removal of another version
	dropGone                         // a removal of a value that is gone

	bySeen = putAgain | putAhead | dropOther | dropGone
)

// ask is a call of a port, with the change record that it writes, if any.
type ask struct {
	*engine.Engine
	ctx    context.Context
	Change core.Change
}

// noun describes the calls for one kind of records. The zero T stands for a value that does not exist.
type noun[T any] struct {
	values  []T        // in the order of list; in the last one all fields are set
	next    func(T) *T // the value that a writer stores over T
	refuses conditions
	put     func(a ask, seen, v *T) error
	list    func(a ask) ([]T, error)
	drop    func(a ask, v *T) error // nil: the noun is never removed
	audit   func(v *T) core.Change  // the subject of its change record; nil: no change record
}

// test stores, lists, changes and removes values, and tries each refused write. A refused write changes nothing, and leaves no
// change record.
func (n noun[T]) test(t *testing.T, h Harness) {
	a, id := ask{Engine: h.Open(t), ctx: t.Context()}, int64(0)
	var none T
	var audited []int64
	made := func(v *T) ask {
		id++
		if n.audit != nil {
			a.Change = n.audit(v)
		}
		a.Change.ID, a.Change.At, a.Change.By, a.Change.Verb = id, base.Add(time.Duration(id)*time.Millisecond), "ann", "updated"
		return a
	}
	done := func(v *T, err error) {
		t.Helper()
		if ok(t, err); n.audit != nil && n.audit(v) != (core.Change{}) {
			audited = append(audited, id)
		}
	}
	put := func(seen, v *T) { t.Helper(); done(v, n.put(made(v), seen, v)) }
	not := func(when conditions, seen, v *T) {
		t.Helper()
		if n.refuses&when != 0 {
			refused(t, n.put(made(v), seen, v))
		}
	}
	holds := func(want ...T) {
		t.Helper()
		eventually(t, h, func() string {
			list, err := n.list(a)
			ok(t, err)
			return cmp.Diff(want, list, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Prefix{}))
		})
	}
	last := len(n.values) - 1
	full, others := &n.values[last], slices.Clip(n.values[:last])
	changed := n.next(*full)
	holds()
	not(putAhead, full, changed)
	for i := last; i >= 0; i-- {
		put(&none, &n.values[i])
	}
	not(putAgain, &none, full)
	not(putAhead, changed, n.next(*changed))
	holds(n.values...)
	put(full, changed)
	not(putAgain, full, changed)
	holds(append(others, *changed)...)
	if n.drop != nil {
		if n.refuses&dropOther != 0 {
			refused(t, n.drop(made(full), full))
		}
		holds(append(others, *changed)...)
		done(changed, n.drop(made(changed), changed))
		if err := n.drop(made(changed), changed); n.refuses&dropGone != 0 {
			refused(t, err)
		} else {
			ok(t, err)
		}
		holds(others...)
		put(&none, full)
		holds(n.values...)
	}
	if n.audit != nil {
		eventually(t, h, func() string {
			var ids []int64
			list, err := a.Manage.Changes(a.ctx, "", 0, math.MaxInt64, 100)
			ok(t, err)
			for _, c := range slices.Backward(list) {
				ids = append(ids, c.ID)
			}
			return cmp.Diff(audited, ids)
		})
	}
}

// named returns the values of a map in the order of keys.
func named[K comparable, V any](found map[K]V, err error, keys ...K) (list []V, _ error) {
	for _, k := range keys {
		if v, is := found[k]; is {
			list = append(list, v)
		}
	}
	return list, err
}

// onlyOne returns a value that exists if version is not 0.
func onlyOne[T any](v T, version int64, err error) ([]T, error) {
	if version == 0 {
		return nil, err
	}
	return []T{v}, err
}

var channels = noun[core.Channel]{refuses: bySeen,
	values: []core.Channel{
		{Name: "a-topic", Language: core.English, Kind: core.ChannelSNS, ARN: "arn:aws:sns:eu-central-1:123456789012:jobs", Rev: 1},
		{Name: "mail", Set: "s", Language: core.Chinese, Kind: core.ChannelEmail, Rev: 5,
			Email: core.Email{To: []string{"ops@example.com", "Lina <lina@example.com>"}, From: "jobs@example.com",
				SMTP: core.SMTP{Host: "mail.example.com", Port: 465, User: "jobs", Password: "p", TLS: core.TLSImplicit}},
			Tested: base.Add(time.Second), Created: base}},
	next: func(c core.Channel) *core.Channel {
		c.Rev, c.Kind, c.Email, c.URL, c.Secret = c.Rev+1, core.ChannelFeishu, core.Email{}, "https://example.com/hook", "s"
		return &c
	},
	put: func(a ask, seen, v *core.Channel) error { return a.Manage.PutChannel(a.ctx, seen.Rev, *v, a.Change) },
	list: func(a ask) ([]core.Channel, error) {
		list, err := a.Manage.ListChannels(a.ctx)
		found, other := a.Notices.Channels(a.ctx, []string{"a-topic", "mail", "none"})
		if len(found) != len(list) {
			err = fmt.Errorf("%d channels by name, %d in the list", len(found), len(list))
		}
		return list, errors.Join(err, other)
	},
	drop:  func(a ask, v *core.Channel) error { return a.Manage.DeleteChannel(a.ctx, v.Rev, v.Name, a.Change) },
	audit: func(v *core.Channel) core.Change { return core.Change{Name: v.Name} },
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
			return access.Accounts.Save(a.ctx, a.Store, seen.Rev, *v)
		}
		return access.Accounts.Save(a.ctx, a.Store, seen.Rev, *v, a.Change)
	},
	list: func(a ask) ([]access.Account, error) {
		return access.Accounts.ReadAll(a.ctx, a.Store)
	},
	drop: func(a ask, v *access.Account) error {
		return a.Store.Write(a.ctx, access.Accounts.Delete(v.Name, v.Rev), a.Change)
	},
	audit: func(v *access.Account) (c core.Change) {
		if v.Name != "ann" { // stored without a change record
			c.Name = core.OfPerson + v.Name
		}
		return c
	},
}

// anApp is an app in which every field is set.
var anApp = core.App{Name: "orders", Title: "Orders", Set: "s", Token: "secret", Executors: []string{"http://10.0.0.1:9999/"},
	Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Withheld: []string{"gone", "clean"}, Rev: 5, WaitForExecutor: time.Hour,
	Overlap: core.Overlap{Limit: 2, Group: "db", Full: core.FullReplace, Key: "/tenant"},
	Limits:  core.Limits{InFlight: 200, PerSecond: 50}, Call: aCall, Pause: core.Pause{From: base, By: "ann", Why: "x"}, Created: base}

var apps = noun[core.App]{refuses: bySeen, values: []core.App{{Name: "billing", Rev: 1}, anApp},
	next: func(a core.App) *core.App {
		a.Rev, a.Title, a.Executors, a.Allow, a.Withheld = a.Rev+1, "New", nil, nil, nil
		a.Pause = core.Pause{From: base, To: base.Add(time.Hour)}
		return &a
	},
	put: func(a ask, seen, v *core.App) error { return a.Manage.PutApp(a.ctx, seen.Rev, *v, a.Change) },
	list: func(a ask) ([]core.App, error) {
		list, err := a.Manage.ListApps(a.ctx)
		found, _, other := a.Dispatch.Apps(a.ctx, []string{"billing", "orders", "none"})
		alone, err := named(found, errors.Join(err, other), "billing", "orders")
		if len(alone) != len(list) {
			err = fmt.Errorf("%d apps by name, %d in the list", len(alone), len(list))
		}
		return alone, err
	},
	drop:  func(a ask, v *core.App) error { return a.Manage.DeleteApp(a.ctx, v.Rev, v.Name, a.Change) },
	audit: func(v *core.App) core.Change { return core.Change{App: v.Name} },
}

var firstNotice = &notification.Occurrence{Run: core.NumberedRun(7, 3), At: at(1), Reason: core.ReasonHandler, Why: "an error", Times: 3,
	When: base}

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
		return a.Notices.PutNotices(a.ctx, []notification.State{*v})[0]
	},
	list: func(a ask) ([]notification.State, error) {
		names := []string{notification.ChannelName("mail"), notification.JobName(7), "job/8"}
		found, err := a.Notices.Notices(a.ctx, names)
		return named(found, err, names...)
	},
}

var permits = noun[core.Permits]{refuses: bySeen,
	values: []core.Permits{
		{Name: "group/db", V: 1, Limit: 3, Holders: []core.Holder{{First: 7, Until: base}, {First: 9, Attempt: 101, From: 1<<31 - 3600}},
			Queue: []core.RunID{11, 10}, Second: 1 << 31, Begun: 7},
		{Name: "job/7", V: 1, Limit: 1, Join: &core.Join{Round: 9, Parent: 3, Begun: 100, End: 200, Full: true, Over: true,
			Marks: []core.Mark{{Run: 3, Drawn: 9, Counts: true, Data: "sum"}, {Run: 4, Drawn: 8}}}}},
	next: func(p core.Permits) *core.Permits { p.V, p.Holders = p.V+1, []core.Holder{{First: 11}}; return &p },
	put:  func(a ask, _, v *core.Permits) error { return a.Finish.PutPermits(a.ctx, []core.Permits{*v})[0] },
	list: func(a ask) ([]core.Permits, error) {
		names := []string{"group/db", "job/7", "job/8"}
		found, err := a.Dispatch.Permits(a.ctx, names)
		return named(found, err, names...)
	},
}

var scripts = noun[core.Scripts]{refuses: bySeen, values: []core.Scripts{manyScripts()},
	next: func(s core.Scripts) *core.Scripts { s = s.Clone(); s.V, s.Old = s.V+1, s.Old[1:]; return &s },
	put:  func(a ask, _, v *core.Scripts) error { return a.Manage.PutScripts(a.ctx, *v) },
	list: func(a ask) ([]core.Scripts, error) {
		s, err := a.Manage.Scripts(a.ctx, 7)
		return onlyOne(s, s.V, err)
	},
	drop: func(a ask, v *core.Scripts) error {
		return a.Manage.PutScripts(a.ctx, core.Scripts{Job: v.Job, V: v.V + 1})
	},
}

// manyScripts is the longest record of the scripts of a job.
func manyScripts() core.Scripts {
	s := core.Scripts{Job: 7, V: 1, Stored: map[string]int64{core.HashScript("x"): 5}}
	for i := range core.KeepVersions {
		hash := fmt.Sprintf("%064x", i)
		s.Old = append(s.Old, core.Script{Kind: core.ScriptPython, Note: strings.Repeat("é", core.MaxNote), Hash: hash, Size: 9,
			Version: i + 1, Rev: int64(i), By: strings.Repeat("b", 128)})
		s.Stored[hash] = core.Millis(base)
	}
	return s
}

var leases = noun[core.Lease]{refuses: bySeen,
	values: []core.Lease{{Name: "partition/0", Owner: "a", Epoch: 1, Until: base}, {Name: "ticker/x", Owner: "a", Epoch: 1, Until: base}},
	next: func(l core.Lease) *core.Lease {
		l.Owner, l.Epoch, l.Until = l.Owner+"b", l.Epoch+1, l.Until.Add(time.Second)
		return &l
	},
	put:  func(a ask, seen, v *core.Lease) error { return a.Leases.PutLease(a.ctx, *seen, *v) },
	list: func(a ask) ([]core.Lease, error) { return a.Leases.Leases(a.ctx) },
	drop: func(a ask, v *core.Lease) error { return a.Leases.DropLease(a.ctx, *v) },
}

var globals = noun[core.Global]{refuses: bySeen,
	values: []core.Global{{Pause: core.Pause{From: base, By: "ann", Why: "freeze"}, Partitions: 2, Readable: 3, Busy: base.Add(-time.Minute),
		Groups: 5, UpSince: base, DownAt: base.Add(-time.Hour), Holder: "eu-central-1/state", Generation: 3, Opening: true, Rev: 1,
		Notify: core.Notify{To: []string{"oncall"}, Quiet: time.Minute}, Loss: core.Loss{From: at(7), Next: "12@99", At: base, Again: at(9)}}},
	next: func(g core.Global) *core.Global { g.Rev, g.Opening = g.Rev+4, false; return &g },
	put:  func(a ask, seen, v *core.Global) error { return a.Manage.PutGlobal(a.ctx, seen.Rev, *v) },
	list: func(a ask) ([]core.Global, error) {
		g, err := a.Finish.Global(a.ctx)
		return onlyOne(g, g.Rev, err)
	},
}

var cursors = noun[int64]{refuses: bySeen, values: []int64{44}, next: func(minute int64) *int64 { minute--; return &minute },
	put: func(a ask, seen, v *int64) error { return a.Watch.MoveCursor(a.ctx, *seen, *v) },
	list: func(a ask) ([]int64, error) {
		minute, err := a.Watch.Cursor(a.ctx)
		return onlyOne(minute, minute, err)
	},
}

var alives = noun[time.Time]{values: []time.Time{base}, next: func(at time.Time) *time.Time { at = at.Add(time.Second); return &at },
	put: func(a ask, _, v *time.Time) error { return a.Upkeep.Alive(a.ctx, *v) },
	list: func(a ask) ([]time.Time, error) {
		at, err := a.Upkeep.LastAlive(a.ctx)
		return onlyOne(at, core.Millis(at), err)
	},
}

// The later one of two results for an address or job stays.
var healths = noun[core.Health]{refuses: putAgain,
	values: []core.Health{{Of: "http://10.0.0.1:9999/", At: future}, {Of: "job/7", Slow: true, At: future}},
	next:   func(h core.Health) *core.Health { h.Slow, h.At = false, h.At.Add(time.Millisecond); return &h },
	put:    func(a ask, _, v *core.Health) error { return a.Health.PutHealths(a.ctx, []core.Health{*v})[0] },
	list:   func(a ask) ([]core.Health, error) { return a.Health.Healths(a.ctx) },
}

// future is after the real time, so that nothing of it has expired.
var future = time.Date(2090, 1, 2, 3, 4, 5, 678e6, time.UTC)

var uses = noun[core.Uses]{
	values: []core.Uses{{Job: 7, Since: future, Counts: map[string]int64{"queue:q": 12}},
		{Job: 8, Since: future, Counts: map[string]int64{"http://10.0.0.1:9999/": 3, "call:http://a": 0}}},
	next: func(u core.Uses) *core.Uses { u.Counts = map[string]int64{"http://10.0.0.2:9999/": 1}; return &u },
	put:  func(a ask, _, v *core.Uses) error { return a.Uses.PutUses(a.ctx, []core.Uses{*v})[0] },
	list: func(a ask) ([]core.Uses, error) {
		found, err := a.Uses.Uses(a.ctx, []core.JobID{7, 8, 9})
		return named(found, err, 7, 8)
	},
}

func allUses(t *testing.T, h Harness) {
	if h.Open(t).Uses != nil {
		uses.test(t, h)
	}
}

var executors = noun[core.Executor]{refuses: dropOther,
	values: []core.Executor{{App: "a", Address: "http://10.0.0.1:9999/", Fixed: true},
		{App: "a", Address: "http://10.0.0.2:9999/", Beat: future, Since: future, Clock: core.Clock{Known: true}},
		{App: "b", Address: "http://10.0.0.1:9999/", Beat: future, Since: base, Dialect: "java", Clock: core.Clock{Known: true, Ahead: -40}}},
	next: func(x core.Executor) *core.Executor { x.Beat = x.Beat.Add(30 * time.Second); return &x },
	put:  func(a ask, _, v *core.Executor) error { return a.Registry.PutExecutor(a.ctx, *v) },
	list: func(a ask) ([]core.Executor, error) {
		found, err := a.Dispatch.Executors(a.ctx, []string{"a", "b", "c"})
		return slices.Concat(found["a"], found["b"]), err
	},
	drop: func(a ask, v *core.Executor) error { return a.Registry.RemoveExecutor(a.ctx, v.App, v.Address, v.Beat) },
}
