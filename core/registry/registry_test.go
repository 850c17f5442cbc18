package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

var ctx = context.Background()

// counts has the number of stored executors, and the error of their lists.
type counts struct {
	puts int
	fail error
}

// on returns a store that counts, and fails.
func (c *counts) on(s store.Store) *store.Store {
	data := s.Records
	s.Records = hook.Records{Records: data, DoWrite: func(ctx context.Context, groups ...store.Group) []error {
		if !groups[0].Writes[0].Delete {
			c.puts++
		}
		return data.Write(ctx, groups...)
	}, DoList: func(ctx context.Context, kind, after, before string, limit int) ([]store.Record, error) {
		if c.fail != nil {
			return nil, c.fail
		}
		return data.List(ctx, kind, after, before, limit)
	}}
	return &s
}

func code(err error) core.Code {
	if err == nil {
		return ""
	}
	return core.CodeOf(err)
}

func TestRegister(t *testing.T) {
	clock := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return clock }
	e := memory.Open(t, memory.Options{Now: now})
	for _, a := range []core.App{{Name: "shop", Token: "secret", Rev: 1}, {Name: "open", Rev: 1}} {
		check.OK(t, e.PutApp(ctx, 0, a, core.Change{ID: 1, App: a.Name}))
	}
	n := &counts{}
	r := registry.New(n.on(*e), registry.Options{Now: now, Allowed: func(_ *core.App, address string) error {
		if strings.Contains(address, "169.254.") {
			return errors.New("link-local addresses are refused")
		}
		return nil
	}})
	good := registry.Registration{App: "shop", Address: "http://10.0.0.1:9999/", Token: "secret", Dialect: "B"}
	stored := func() []core.Executor {
		got, err := e.Executors(ctx, []string{"shop"})
		check.OK(t, err)
		return got["shop"]
	}
	for i, c := range []struct {
		wait    time.Duration
		dialect string
		puts    int
	}{{0, "B", 1}, {30 * time.Second, "B", 1}, {30 * time.Second, "", 2}, {time.Second, "Go", 3}, {40 * time.Second, "Go", 3},
		{time.Second, "", 4}} {
		clock = clock.Add(c.wait)
		g := good
		g.Dialect = c.dialect
		if err := r.Register(ctx, g); err != nil || n.puts != c.puts {
			t.Errorf("beat %d: %v, %d writes, want %d", i, err, n.puts, c.puts)
		}
	}
	if got := stored(); len(got) != 1 || got[0].Address != "http://10.0.0.1:9999" || got[0].Dialect != "Go" || !got[0].Beat.Equal(clock) ||
		!got[0].Since.Equal(clock.Add(-102*time.Second)) {
		t.Errorf("stored %+v", got)
	}
	for name, c := range map[string]struct {
		change func(g *registry.Registration)
		code   core.Code
	}{
		"no app":        {func(g *registry.Registration) { g.App = "none" }, core.CodeNotFound},
		"app":           {func(g *registry.Registration) { g.App = "a b" }, core.CodeInvalid},
		"token":         {func(g *registry.Registration) { g.Token = "Secret" }, core.CodeUnauthorized},
		"no token":      {func(g *registry.Registration) { g.Token = "" }, core.CodeUnauthorized},
		"app no token":  {func(g *registry.Registration) { g.App = "open" }, core.CodeUnauthorized},
		"app no token ": {func(g *registry.Registration) { g.App, g.Token = "open", "" }, core.CodeUnauthorized},
		"address":       {func(g *registry.Registration) { g.Address = "10.0.0.1:9999" }, core.CodeInvalid},
		"long":          {func(g *registry.Registration) { g.Address = "http://" + strings.Repeat("x", 600) }, core.CodeInvalid},
		"queue":         {func(g *registry.Registration) { g.Address = "queue:x" }, core.CodeInvalid},
		"call":          {func(g *registry.Registration) { g.Address = "call:https://x" }, core.CodeInvalid},
		"metadata":      {func(g *registry.Registration) { g.Address = "http://169.254.169.254/" }, core.CodeRefused},
	} {
		g := good
		c.change(&g)
		if err := r.Register(ctx, g); code(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	check.Equal(t, n.puts, 4, "refused registrations were stored")
	other := good
	other.Address = "http://10.0.0.1:9999" // another spelling of the same address
	for _, spelling := range []string{other.Address, "HTTP://10.0.0.1:9999//"} {
		again := good
		again.Address = spelling
		if err := r.Register(ctx, again); err != nil || len(stored()) != 1 {
			t.Errorf("%s: %v, %+v", spelling, err, stored())
		}
	}
	other.Address += "9"
	if err := r.Remove(ctx, other); err != nil || len(stored()) != 1 {
		t.Errorf("another address was removed: %v", err)
	}
	other = good
	other.Token = "x"
	if err := r.Remove(ctx, other); code(err) != core.CodeUnauthorized || len(stored()) != 1 {
		t.Errorf("removed with a wrong token: %v", err)
	}
	if err := r.Remove(ctx, good); err != nil || len(stored()) != 0 {
		t.Errorf("%v, %+v", err, stored())
	}
	if err := r.Remove(ctx, good); err != nil {
		t.Errorf("again: %v", err)
	}
	n.fail = core.ErrThrottled
	if err := r.Register(ctx, good); code(err) != core.CodeUnavailable {
		t.Errorf("throttled: %v", err)
	}
	n.fail = nil
	free := registry.New(e, registry.Options{Now: now, AllowNoToken: func(context.Context) bool { return true }})
	if err := free.Register(ctx, registry.Registration{App: "open", Address: "http://10.0.0.2"}); err != nil {
		t.Errorf("no token needed: %v", err)
	}
	for i := range registry.MaxExecutors {
		check.OK(t, e.PutExecutor(ctx, core.Executor{App: "shop", Address: fmt.Sprintf("http://10.1.%d.%d", i/250, i%250),
			Beat: clock}))
	}
	if err := r.Register(ctx, good); code(err) != core.CodeTooLarge {
		t.Errorf("one more: %v", err)
	}
	if _, err := r.Admit(ctx, "shop", "secret"); err != nil {
		t.Error(err)
	}
}

// TestTheDeadMakeRoom checks that expired executors keep no live one out, and that at most 1,000 are
// stored.
func TestTheDeadMakeRoom(t *testing.T) {
	begin := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	clock := begin
	e := memory.Open(t, memory.Options{})
	ok := func(err error) {
		t.Helper()
		check.OK(t, err)
	}
	ok(e.PutApp(ctx, 0, core.App{Name: "shop", Token: "secret", Rev: 1}, core.Change{ID: 1, App: "shop"}))
	r := registry.New(e, registry.Options{Now: func() time.Time { return clock }})
	address := func(i int) string { return fmt.Sprintf("http://10.%d.%d.%d:9999", i/62500, i/250%250, i%250) }
	register := func(i int) error {
		return r.Register(ctx, registry.Registration{App: "shop", Address: address(i), Token: "secret"})
	}
	there := func() map[string]bool {
		all, err := e.Executors(ctx, []string{"shop"})
		ok(err)
		is := map[string]bool{}
		for _, x := range all["shop"] {
			is[x.Address] = true
		}
		return is
	}
	for i := range registry.MaxExecutors { // each is live, the last ones longest
		clock = begin.Add(time.Duration(i) * time.Millisecond)
		ok(register(i))
	}
	if err := register(5000); code(err) != core.CodeTooLarge {
		t.Errorf("beside 1,000 that live: %v", err)
	}
	ok(register(0)) // a registered executor keeps its place
	clock = begin.Add(core.BeatExpiry + 9*time.Millisecond + time.Microsecond)
	for i := range 10 { // the first ten are expired by then
		ok(register(5000 + i))
		if is := there(); len(is) != registry.MaxExecutors || is[address(i)] || !is[address(i+1)] || !is[address(5000+i)] {
			t.Fatalf("%d are stored; the longest dead exists: %t", len(is), is[address(i)])
		}
	}
	if err := register(6000); code(err) != core.CodeTooLarge {
		t.Errorf("beside 1,000 that live: %v", err)
	}
	// The server itself was down: an executor that had no time for a heartbeat is not expired.
	clock = begin.Add(time.Hour)
	ok(e.PutGlobal(ctx, 0, core.Global{Rev: 1, DownAt: begin.Add(time.Minute), UpSince: clock.Add(-time.Second)}))
	if err := register(6000); code(err) != core.CodeTooLarge {
		t.Errorf("after an outage of ours: %v", err)
	}
	clock = clock.Add(core.BeatExpiry)
	ok(register(6000))
	ok(e.PutExecutor(ctx, core.Executor{App: "shop", Address: "http://x", Beat: begin})) // concurrent registrations
	ok(register(6001))
	if is := there(); len(is) != registry.MaxExecutors {
		t.Errorf("%d are stored", len(is))
	}
}

// TestBeatBesideMakingRoom checks that an executor with a concurrent heartbeat stays, and that the next
// expired one is removed.
func TestBeatBesideMakingRoom(t *testing.T) {
	begin := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	clock := begin.Add(time.Hour)
	e := memory.Open(t, memory.Options{})
	ok := func(err error) {
		t.Helper()
		check.OK(t, err)
	}
	ok(e.PutApp(ctx, 0, core.App{Name: "shop", Token: "secret", Rev: 1}, core.Change{ID: 1, App: "shop"}))
	address := func(i int) string { return fmt.Sprintf("http://10.1.%d.%d:9999", i/250, i%250) }
	for i := range registry.MaxExecutors { // two are dead, the rest live
		beat := clock
		if i < 2 {
			beat = begin.Add(time.Duration(i) * time.Second)
		}
		ok(e.PutExecutor(ctx, core.Executor{App: "shop", Address: address(i), Beat: beat}))
	}
	again := core.Executor{App: "shop", Address: address(0), Beat: clock}
	s := *e
	s.Records = hook.Records{Records: s.Records, DoWrite: func(ctx context.Context, groups ...store.Group) []error {
		if w := &groups[0].Writes[0]; w.Delete && w.Name == again.Address { // it beats between the read and its removal
			ok(e.PutExecutor(ctx, again))
		}
		return e.Records.Write(ctx, groups...)
	}}
	r := registry.New(&s, registry.Options{Now: func() time.Time { return clock }})
	ok(r.Register(ctx, registry.Registration{App: "shop", Address: address(5000), Token: "secret"}))
	all, err := e.Executors(ctx, []string{"shop"})
	ok(err)
	is := map[string]bool{}
	for _, x := range all["shop"] {
		is[x.Address] = true
	}
	if len(is) != registry.MaxExecutors || !is[address(0)] || is[address(1)] || !is[address(5000)] {
		t.Errorf("%d are stored; the one that beat: %t, the dead one: %t, the new one: %t", len(is), is[address(0)], is[address(1)],
			is[address(5000)])
	}
}

// TestPolled checks that polling a queue of the app counts as a heartbeat and is written as rarely.
func TestPolled(t *testing.T) {
	clock := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	e := memory.Open(t, memory.Options{})
	n := &counts{}
	r := registry.New(n.on(*e), registry.Options{Now: func() time.Time { return clock }})
	app := &core.App{Name: "shop", Executors: []string{"queue:mail", "http://x"}}
	for i, c := range []struct {
		wait time.Duration
		puts int
	}{{0, 1}, {40 * time.Second, 1}, {time.Second, 2}} {
		clock = clock.Add(c.wait)
		if err := r.Polled(ctx, app, "queue:mail"); err != nil || n.puts != c.puts {
			t.Errorf("%d: %d writes, %v", i, n.puts, err)
		}
	}
	all, err := e.Executors(ctx, []string{"shop"})
	if got := all["shop"]; err != nil || len(got) != 1 || got[0].Address != "queue:mail" || !got[0].Beat.Equal(clock) {
		t.Errorf("%+v %v", got, err)
	}
	for address, want := range map[string]core.Code{"queue:other": core.CodeNotFound, "http://x": core.CodeInvalid,
		"queue:a b": core.CodeInvalid} {
		if err := r.Polled(ctx, app, address); code(err) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestCame checks that Came is called only for an app without live executors.
func TestCame(t *testing.T) {
	clock := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	e := memory.Open(t, memory.Options{})
	check.OK(t, e.PutApp(ctx, 0, core.App{Name: "shop", Token: "secret", Rev: 1}, core.Change{ID: 1, App: "shop"}))
	came := 0
	r := registry.New(e, registry.Options{Now: func() time.Time { return clock }, Came: func(_ context.Context, app string) {
		if all, err := e.Executors(ctx, []string{app}); err != nil || len(all[app]) == 0 {
			t.Errorf("it is not stored yet: %v", err)
		}
		came++
	}})
	for i, c := range []struct {
		after   time.Duration
		address string
		came    int
	}{{0, "a", 1}, {30 * time.Second, "a", 1}, {20 * time.Second, "b", 1}, {40 * time.Second, "a", 1},
		{91 * time.Second, "a", 2}, {92 * time.Second, "c", 3}} {
		clock = clock.Add(c.after)
		g := registry.Registration{App: "shop", Address: "http://" + c.address, Token: "secret"}
		if err := r.Register(ctx, g); err != nil || came != c.came {
			t.Errorf("%d: %d came, want %d (%v)", i, came, c.came, err)
		}
	}
}
