package storetest

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
	"github.com/tickring/tickring/store"
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

// ask is a call of a method of the store, with the change record that it writes, if any.
type ask struct {
	*store.Store
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
	a, id := ask{Store: h.Open(t), ctx: t.Context()}, int64(0)
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
			list, err := a.Changes(a.ctx, "", 0, math.MaxInt64, 100)
			ok(t, err)
			for _, c := range slices.Backward(list) {
				ids = append(ids, c.ID)
			}
			return cmp.Diff(audited, ids)
		})
	}
	if h.Reopen != nil {
		was, err := n.list(a)
		ok(t, err)
		a.Store = h.Reopen(t, a.Store)
		holds(was...)
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
	put: func(a ask, seen, v *core.Channel) error { return a.PutChannel(a.ctx, seen.Rev, *v, a.Change) },
	list: func(a ask) ([]core.Channel, error) {
		list, err := a.ListChannels(a.ctx)
		found, other := a.Channels(a.ctx, []string{"a-topic", "mail", "none"})
		if len(found) != len(list) {
			err = fmt.Errorf("%d channels by name, %d in the list", len(found), len(list))
		}
		return list, errors.Join(err, other)
	},
	drop:  func(a ask, v *core.Channel) error { return a.DeleteChannel(a.ctx, v.Rev, v.Name, a.Change) },
	audit: func(v *core.Channel) core.Change { return core.Change{Name: v.Name} },
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
	put: func(a ask, seen, v *core.App) error { return a.PutApp(a.ctx, seen.Rev, *v, a.Change) },
	list: func(a ask) ([]core.App, error) {
		list, err := a.ListApps(a.ctx)
		found, other := a.Apps(a.ctx, "billing", "orders", "none")
		alone, err := named(found, errors.Join(err, other), "billing", "orders")
		if len(alone) != len(list) {
			err = fmt.Errorf("%d apps by name, %d in the list", len(alone), len(list))
		}
		apps := make([]core.App, len(alone))
		for i, v := range alone {
			apps[i], err = v.Is, errors.Join(err, v.Err)
		}
		return apps, err
	},
	drop:  func(a ask, v *core.App) error { return a.DeleteApp(a.ctx, v.Rev, v.Name, a.Change) },
	audit: func(v *core.App) core.Change { return core.Change{App: v.Name} },
}

var permits = noun[core.Permits]{refuses: bySeen,
	values: []core.Permits{
		{Name: "group/db", V: 1, Limit: 3, Holders: []core.Holder{{First: 7, Until: base}, {First: 9, Attempt: 101, From: 1<<31 - 3600}},
			Queue: []core.RunID{11, 10}, Second: 1 << 31, Begun: 7},
		{Name: "job/7", V: 1, Limit: 1, Join: &core.Join{Round: 9, Parent: 3, Begun: 100, End: 200, Full: true, Over: true,
			Marks: []core.Mark{{Run: 3, Drawn: 9, Counts: true, Data: "sum"}, {Run: 4, Drawn: 8}}}}},
	next: func(p core.Permits) *core.Permits { p.V, p.Holders = p.V+1, []core.Holder{{First: 11}}; return &p },
	put:  func(a ask, _, v *core.Permits) error { return a.PutPermits(a.ctx, []core.Permits{*v})[0] },
	list: func(a ask) ([]core.Permits, error) {
		names := []string{"group/db", "job/7", "job/8"}
		found, err := a.Permits(a.ctx, names)
		return named(found, err, names...)
	},
}

var scripts = noun[core.Scripts]{refuses: bySeen, values: []core.Scripts{manyScripts()},
	next: func(s core.Scripts) *core.Scripts { s = s.Clone(); s.V, s.Old = s.V+1, s.Old[1:]; return &s },
	put:  func(a ask, _, v *core.Scripts) error { return a.PutScripts(a.ctx, *v) },
	list: func(a ask) ([]core.Scripts, error) {
		s, err := a.Scripts(a.ctx, 7)
		return onlyOne(s, s.V, err)
	},
	drop: func(a ask, v *core.Scripts) error {
		return a.PutScripts(a.ctx, core.Scripts{Job: v.Job, V: v.V + 1})
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
	put:  func(a ask, seen, v *core.Lease) error { return a.PutLease(a.ctx, *seen, *v) },
	list: func(a ask) ([]core.Lease, error) { return a.Leases(a.ctx) },
	drop: func(a ask, v *core.Lease) error { return a.DropLease(a.ctx, *v) },
}

var globals = noun[core.Global]{refuses: bySeen,
	values: []core.Global{{Pause: core.Pause{From: base, By: "ann", Why: "freeze"}, Partitions: 2, Readable: 3, Busy: base.Add(-time.Minute),
		Groups: 5, UpSince: base, DownAt: base.Add(-time.Hour), Holder: "eu-central-1/state", Generation: 3, Opening: true, Rev: 1,
		Notify: core.Notify{To: []string{"oncall"}, Quiet: time.Minute}, Loss: core.Loss{From: at(7), Next: "12@99", At: base, Again: at(9)}}},
	next: func(g core.Global) *core.Global { g.Rev, g.Opening = g.Rev+4, false; return &g },
	put:  func(a ask, seen, v *core.Global) error { return a.PutGlobal(a.ctx, seen.Rev, *v) },
	list: func(a ask) ([]core.Global, error) {
		g, err := a.Global(a.ctx)
		return onlyOne(g, g.Rev, err)
	},
}

var cursors = noun[int64]{refuses: bySeen, values: []int64{44}, next: func(minute int64) *int64 { minute--; return &minute },
	put: func(a ask, seen, v *int64) error { return a.MoveCursor(a.ctx, *seen, *v) },
	list: func(a ask) ([]int64, error) {
		minute, err := a.Cursor(a.ctx)
		return onlyOne(minute, minute, err)
	},
}

var alives = noun[time.Time]{values: []time.Time{base}, next: func(at time.Time) *time.Time { at = at.Add(time.Second); return &at },
	put: func(a ask, _, v *time.Time) error { return a.Alive(a.ctx, *v) },
	list: func(a ask) ([]time.Time, error) {
		at, err := a.LastAlive(a.ctx)
		return onlyOne(at, core.Millis(at), err)
	},
}

// The later one of two results for an address or job stays.
var healths = noun[core.Health]{refuses: putAgain,
	values: []core.Health{{Of: "http://10.0.0.1:9999/", At: future}, {Of: "job/7", Slow: true, At: future}},
	next:   func(h core.Health) *core.Health { h.Slow, h.At = false, h.At.Add(time.Millisecond); return &h },
	put:    func(a ask, _, v *core.Health) error { return a.PutHealths(a.ctx, []core.Health{*v})[0] },
	list:   func(a ask) ([]core.Health, error) { return a.Healths(a.ctx) },
}

// future is after the real time, so that nothing of it has expired.
var future = time.Date(2090, 1, 2, 3, 4, 5, 678e6, time.UTC)

var uses = noun[core.Uses]{
	values: []core.Uses{{Job: 7, Since: future, Counts: map[string]int64{"queue:q": 12}},
		{Job: 8, Since: future, Counts: map[string]int64{"http://10.0.0.1:9999/": 3, "call:http://a": 0}}},
	next: func(u core.Uses) *core.Uses { u.Counts = map[string]int64{"http://10.0.0.2:9999/": 1}; return &u },
	put:  func(a ask, _, v *core.Uses) error { return a.PutUses(a.ctx, []core.Uses{*v})[0] },
	list: func(a ask) ([]core.Uses, error) {
		found, err := a.Uses(a.ctx, []core.JobID{7, 8, 9})
		return named(found, err, 7, 8)
	},
}

var executors = noun[core.Executor]{refuses: dropOther,
	values: []core.Executor{{App: "a", Address: "http://10.0.0.1:9999/", Fixed: true},
		{App: "a", Address: "http://10.0.0.2:9999/", Beat: future, Since: future, Clock: core.Clock{Known: true}},
		{App: "b", Address: "http://10.0.0.1:9999/", Beat: future, Since: base, Dialect: "java", Clock: core.Clock{Known: true, Ahead: -40}}},
	next: func(x core.Executor) *core.Executor { x.Beat = x.Beat.Add(30 * time.Second); return &x },
	put:  func(a ask, _, v *core.Executor) error { return a.PutExecutor(a.ctx, *v) },
	list: func(a ask) ([]core.Executor, error) {
		found, err := a.Executors(a.ctx, []string{"a", "b", "c"})
		return slices.Concat(found["a"], found["b"]), err
	},
	drop: func(a ask, v *core.Executor) error { return a.RemoveExecutor(a.ctx, v.App, v.Address, v.Beat) },
}

// appPauses: the store keeps the latest pauses of an app, whatever a writer passes as earlier pauses.
func appPauses(t *testing.T, h Harness) {
	s, ctx, b := h.Open(t), t.Context(), anApp
	day := func(n int) time.Time { return base.Add(time.Duration(n) * 24 * time.Hour) }
	b.Pause = core.Pause{From: base, To: base.Add(time.Hour)}
	ok(t, s.PutApp(ctx, 0, b, core.Change{ID: b.Rev, At: base, Verb: "created", App: "orders"}))
	for i := range core.MaxPast + 2 {
		seen, want := b.Rev, core.PauseHistory{}
		for k := max(0, i-core.MaxPast); k < i; k++ {
			want.Pauses = append(want.Pauses, core.Pause{From: day(k), To: day(k).Add(time.Hour)})
		}
		if n := i - core.MaxPast; n > 0 {
			want.From = day(n - 1).Add(time.Hour)
		}
		b.Rev, b.Past, b.Pause = b.Rev+1, core.PauseHistory{}, core.Pause{From: day(i), To: day(i).Add(time.Hour)}
		ok(t, s.PutApp(ctx, seen, b, core.Change{ID: b.Rev, At: base, Verb: "paused", App: "orders"}))
		b.Past = want
		same(t, "app with its pauses", readApp(t, s, "orders"), []core.App{b})
	}
}

// appDeleted: an app that has a job cannot be deleted. Its executors are deleted with it, and its jobs cannot be created.
func appDeleted(t *testing.T, h Harness) {
	s, ctx, ch := h.Open(t), t.Context(), core.Change{ID: 5, At: base, By: "ann", Verb: "created", App: "orders"}
	remove := func(seen int64) error {
		return s.DeleteApp(ctx, seen, "orders", core.Change{ID: 6, At: base, Verb: "deleted", App: "orders"})
	}
	ok(t, s.PutApp(ctx, 0, anApp, ch))
	createJobs(t, s, job(1))
	refused(t, remove(5))
	ok(t, s.Jobs.Put(ctx, []store.JobPut{deletes(1, 100)})...)
	ok(t, s.PutExecutor(ctx, core.Executor{App: "orders", Address: "http://10.0.0.1:9999/", Beat: base, Since: base}))
	refused(t, remove(4))
	ok(t, remove(5))
	same(t, "deleted app", readApp(t, s, "orders"), nil)
	reads[map[string][]core.Executor](t, "executors of a deleted app", nil)(s.Executors(ctx, []string{"orders"}))
	refused(t, s.Jobs.Put(ctx, []store.JobPut{creates(job(2))})[0]) // read before its app was deleted
	ok(t, s.PutApp(ctx, 0, anApp, ch))
	createJobs(t, s, job(2))
}

// globalPast: the store keeps a pause of everything when another one takes its place.
func globalPast(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	g := core.Global{Pause: core.Pause{From: base, By: "ann", Why: "freeze"}, Rev: 1}
	ok(t, s.PutGlobal(ctx, 0, g))
	g.Pause = core.Pause{From: base.Add(time.Hour), By: "bob"}
	for range 2 {
		g.Rev++
		ok(t, s.PutGlobal(ctx, g.Rev-1, g))
		want := g
		want.Past = core.PauseHistory{Pauses: []core.Pause{{From: base, To: base.Add(time.Hour)}}} // it had no end
		reads(t, "global", want)(s.Global(ctx))
	}
}

// renewals: a lease is renewed whatever its end is. The earlier holder renews no lease that was taken or released.
func renewals(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	a := core.Lease{Name: "partition/0", Owner: "a", Epoch: 1, Until: base}
	renewed, back := a, a
	renewed.Until, back.Owner = base.Add(time.Minute), ""
	ok(t, s.PutLease(ctx, core.Lease{}, a), s.PutLease(ctx, a, renewed), s.PutLease(ctx, a, renewed), s.PutLease(ctx, renewed, back))
	refused(t, s.PutLease(ctx, a, renewed))
	reads(t, "released lease", []core.Lease{back})(s.Leases(ctx))
	ok(t, s.PutLease(ctx, back, core.Lease{Name: a.Name, Owner: "b", Epoch: 2, Until: base}))
	refused(t, s.PutLease(ctx, a, renewed))
}

// cleaned: the position of a clean-up never goes back.
func cleaned(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	reads(t, "before", core.Instant(0))(s.Cleaned(ctx, 1))
	for put, want := range []core.Instant{0, 1, 2} {
		ok(t, s.PutCleaned(ctx, 1, at(put)), s.PutCleaned(ctx, 1, at(put-1)))
		reads(t, "after a lower position", at(0)+want)(s.Cleaned(ctx, 1))
	}
	reads(t, "of another job", core.Instant(0))(s.Cleaned(ctx, 2))
}

func keys(t *testing.T, h Harness) {
	s := h.Open(t)
	a, b, other := core.NumberedRun(1, 1), core.NumberedRun(1, 2), core.NumberedRun(2, 1)
	for _, c := range []struct {
		key       string
		run, want core.RunID
	}{{"k", a, a}, {"k", b, a}, {"k", a, a}, {"other", b, b}, {"k", other, other}} {
		reads(t, "bound", c.want)(s.PutKey(t.Context(), c.run.Job(), c.key, c.run))
	}
}

// sources: a source is stored byte for byte until it is dropped. A source that was used later is not dropped.
func sources(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	source := func(job core.JobID, text, want string) {
		t.Helper()
		got, found, err := s.Source(ctx, job, core.HashScript(text))
		if ok(t, err); got != want || found != (want != "") {
			t.Fatalf("%d bytes, %v; want %d", len(got), found, len(want))
		}
	}
	long := strings.Repeat("ü\r\n\"<&\t", core.MaxScript/8)
	for _, text := range []string{"#!/bin/sh\r\necho ü\r\n", "x", long} {
		source(1, text, "")
		ok(t, s.PutSource(ctx, 1, text, base))
		source(1, text, text)
		source(2, text, "")
	}
	hash := core.HashScript("x")
	ok(t, s.DropSource(ctx, 1, hash, base))
	source(1, "x", "x")
	ok(t, s.PutSource(ctx, 1, "x", base.Add(time.Hour))) // used again
	ok(t, s.DropSource(ctx, 1, hash, base.Add(time.Hour)))
	source(1, "x", "x")
	for range 2 {
		ok(t, s.DropSource(ctx, 1, hash, base.Add(time.Hour+time.Millisecond)))
		source(1, "x", "")
	}
	source(1, long, long)

	// The job stores only the settings of its script.
	j := with(job(9), func(j *core.Job) {
		j.Def.Handler, j.Def.Script = "", &core.Script{Kind: core.ScriptGroovy, Note: "n", Hash: hash, Size: 1, Version: 3, Rev: 77, By: "ann"}
	})
	createJobs(t, s, j)
	same(t, "job", mustJob(t, s, 9), j)
}

func skips(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	skip := func(first, last int, reason core.Reason, made time.Time) core.Skip {
		return core.Skip{Job: 1, First: at(first), Last: at(last), Count: int64(last - first + 1), Reason: reason, Rev: 100, Made: made}
	}
	a, b, c := skip(0, 10, core.ReasonMisfire, base), skip(20, 30, core.ReasonPaused, base), skip(20, 25, core.ReasonMisfire, base)
	other := skip(0, 100, core.ReasonMisfire, base)
	other.Job = 2
	ok(t, s.PutSkips(ctx, []core.Skip{a, b, c, other})...)
	read := func(from, to int, want ...core.Skip) {
		t.Helper()
		reads(t, fmt.Sprint("skips from ", from, " to ", to), want)(s.Skips(ctx, 1, at(from), at(to)))
	}
	read(0, 100, a, c, b)
	read(10, 19, a)
	read(11, 19)
	read(26, 26, b)
	read(5, 5, a)
	b = skip(20, 40, core.ReasonPaused, base.Add(2*time.Hour)) // a longer one replaces a skip, a shorter one does not
	ok(t, s.PutSkips(ctx, []core.Skip{skip(0, 5, core.ReasonMisfire, base.Add(time.Hour)), b})...)
	read(0, 100, a, c, b)
	read(35, 36, b)
}

func changes(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	of := func(app string, job core.JobID, id int64) core.Change {
		return core.Change{ID: id, At: base.Add(time.Duration(id) * time.Second), By: "ann", Verb: "paused", App: app, Job: job,
			Why: fmt.Sprint(id)}
	}
	all := []core.Change{of("a", 1, 10), of("a", 0, 20), of("b", 2, 30), of("", 0, 40), of("a", 1, 50), of("a", 3, 60),
		{ID: 1, At: base, App: "a"}, {ID: 1, At: base, App: "b"}}
	createApps(t, s, "a", "b")
	ok(t, s.PutChanges(ctx, []core.Change{all[3], all[0], all[4]}), s.PutChanges(ctx, []core.Change{all[5], all[1], all[2]}),
		s.PutChanges(ctx, all[:1])) // a repeat
	read := func(app string, job core.JobID, last int64, limit int, want ...core.Change) {
		t.Helper()
		eventually(t, h, func() string {
			got, err := s.Changes(ctx, app, job, last, limit)
			ok(t, err)
			return cmp.Diff(want, got, cmpopts.EquateEmpty())
		})
	}
	for _, c := range []struct {
		app   string
		job   core.JobID
		last  int64
		limit int
		want  []int
	}{{"a", 1, math.MaxInt64, 10, []int{4, 0}}, {"a", 1, math.MaxInt64, 1, []int{4}}, {"a", 0, math.MaxInt64, 10, []int{5, 4, 1, 0, 6}},
		{"", 0, math.MaxInt64, 6, []int{5, 4, 3, 2, 1, 0}}, {"", 0, math.MaxInt64, 2, []int{5, 4}}, {"c", 0, math.MaxInt64, 10, nil},
		{"", 1, 50, 10, []int{4, 0}}, {"", 1, 49, 10, []int{0}}, {"", 1, 50, 1, []int{4}}, {"", 1, 9, 10, nil},
		{"", 1, math.MaxInt64, 1, []int{4}}, {"a", 0, 50, 2, []int{4, 1}}, {"", 0, 40, 3, []int{3, 2, 1}}, {"a", 0, 20, 1, []int{1}}} {
		var want []core.Change
		for _, i := range c.want {
			want = append(want, all[i])
		}
		read(c.app, c.job, c.last, c.limit, want...)
	}
	// Change records of one millisecond differ by their contents: two channels are deleted, two users trigger a job, and a third
	// changes it. A repeat stores nothing new.
	mail := core.Change{ID: 95, At: base, By: "ann", Verb: core.VerbDeleted, Name: "mail", Old: "{}"}
	first, edited := of("d", 4, 70), of("d", 4, 70)
	oncall, second := mail, first
	oncall.Name = "oncall"
	first.Verb, first.New, second.Verb, second.New = core.VerbTriggered, `{"run":"1"}`, core.VerbTriggered, `{"run":"2"}`
	for range 2 {
		ok(t, s.PutChanges(ctx, []core.Change{mail, first, edited}), s.PutChanges(ctx, []core.Change{oncall, second}))
	}
	for _, c := range []struct {
		app  string
		job  core.JobID
		want []core.Change
	}{{"", 0, []core.Change{mail, oncall}}, {"d", 0, []core.Change{edited, first, second}}, {"", 4, []core.Change{edited, first, second}}} {
		eventually(t, h, func() string {
			got, err := s.Changes(ctx, c.app, c.job, math.MaxInt64, len(c.want))
			ok(t, err)
			return cmp.Diff(c.want, got, cmpopts.SortSlices(func(a, b core.Change) bool { return a.Name+a.Verb+a.New < b.Name+b.Verb+b.New }))
		})
	}
}

func journal(minute int64, nonce string, v int, n int) core.Journal {
	j := core.Journal{Key: core.JournalKey{Minute: minute, Suffix: 3, Nonce: nonce}, V: v}
	for i := range n {
		j.Entries = append(j.Entries, core.Entry{Run: core.PlannedRun(core.JobID(n-i), at(i)), Address: fmt.Sprint("http://", i%3),
			Outcome: core.Outcome(i%4 + 1)})
	}
	if n > 2 {
		j.Entries[1].Address = ""
	}
	return j
}

// journals: only a journal of a higher version replaces one.
func journals(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	one, five := journal(1000, "n1", 1, 50), journal(1000, "n1", 5, 4)
	five.Entries[1].Answer, five.Entries[3].Answer = "HTTP 500: out of memory", "closed the connection"
	for _, c := range []struct {
		stored core.Journal
		older  []int
	}{{one, []int{0, 1}}, {five, []int{4, 5}}} {
		ok(t, s.PutJournal(ctx, c.stored))
		for _, v := range c.older {
			refused(t, s.PutJournal(ctx, journal(1000, "n1", v, 3)))
		}
		reads(t, "journal", map[core.JournalKey]core.Journal{one.Key: c.stored})(s.Journals(ctx, []core.JournalKey{one.Key,
			{Minute: 1, Nonce: "none"}}))
	}
	empty, other := journal(1000, "n2", 1, 0), journal(1000, "n1", 2, 1)
	other.Key.Suffix = 4
	ok(t, s.PutJournal(ctx, empty), s.PutJournal(ctx, journal(1001, "n1", 1, 2)), s.PutJournal(ctx, other))
	reads(t, "journals of a minute", []core.Journal{five, empty, other})(s.JournalsAt(ctx, 1000, core.JournalKey{}, 1000))
	reads[[]core.Journal](t, "journals of another minute", nil)(s.JournalsAt(ctx, 999, core.JournalKey{}, 1000))
}

// watchPages: journals, and journals to read again, come in pages, each once, in an order that later writes keep; none of another
// minute comes.
func watchPages(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	var keys []core.JournalKey
	for i := range 23 {
		j := journal(1000, fmt.Sprintf("n%02d", i), 1, 1)
		j.Key.Suffix = i / 2
		ok(t, s.PutJournal(ctx, j))
		keys = append(keys, j.Key)
	}
	ok(t, s.PutJournal(ctx, journal(999, "before", 1, 1)), s.PutJournal(ctx, journal(1001, "after", 1, 1)))
	ok(t, s.PutRevisits(ctx, 1010, keys[5:]), s.PutRevisits(ctx, 1010, keys[:9]), s.PutRevisits(ctx, 1011, keys[:1]))
	revisits := func(after core.JournalKey, limit int) []core.JournalKey {
		page, err := s.Revisits(ctx, 1010, after, limit)
		ok(t, err)
		return page
	}
	for what, read := range map[string]func(after core.JournalKey, limit int) []core.JournalKey{"revisits": revisits,
		"journals": func(after core.JournalKey, limit int) (page []core.JournalKey) {
			list, err := s.JournalsAt(ctx, 1000, after, limit)
			ok(t, err)
			for _, j := range list {
				page = append(page, j.Key)
			}
			return page
		}} {
		for _, limit := range []int{1, 7, 23, 24} {
			var got []core.JournalKey
			for after := (core.JournalKey{}); ; after = got[len(got)-1] {
				page := read(after, limit)
				if got = append(got, page...); len(page) > limit {
					t.Fatalf("%s by %d: %d came", what, limit, len(page))
				}
				if len(page) < limit {
					break
				}
			}
			same(t, fmt.Sprintf("%s by %d", what, limit), got, keys)
		}
	}
	ok(t, s.DropRevisits(ctx, 1010), s.DropRevisits(ctx, 1010))
	same(t, "dropped revisits", revisits(core.JournalKey{}, 10), nil)
	reads(t, "revisits of another minute", keys[:1])(s.Revisits(ctx, 1011, core.JournalKey{}, 10))
	reads[[]core.JournalKey](t, "revisits of a minute without any", nil)(s.Revisits(ctx, 1012, core.JournalKey{}, 10))
}
