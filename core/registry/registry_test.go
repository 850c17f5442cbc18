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
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
)

var ctx = context.Background()

var began = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// rig is a registry with a clock that the test moves, over a store that counts writes and fails lists.
type rig struct {
	*fixture.Store
	*registry.Registry
	clock time.Time
	puts  int // stored executors
	fail  error
	beats core.Executor // that sends a heartbeat between its read and its removal
}

func newRig(t *testing.T, o registry.Options) *rig {
	r := &rig{Store: fixture.New(t, memory.Options{}), clock: began}
	r.SaveApp(core.App{Name: "shop", Token: "secret", Rev: 1})
	o.Now = func() time.Time { return r.clock }
	r.Registry = registry.New(hook.Over(r.Store.Store, func(ctx context.Context, c *hook.Call, next func() []error) []error {
		switch {
		case c.List != "" && r.fail != nil:
			return []error{r.fail}
		case c.Write == nil:
		case !c.Write[0].Writes[0].Delete:
			r.puts++
		case c.Write[0].Writes[0].Name == r.beats.Address:
			r.Must(r.PutExecutor(ctx, r.beats))
		}
		return next()
	}), o)
	return r
}

// there returns the addresses of the stored executors.
func (r *rig) there() map[string]bool {
	is := map[string]bool{}
	for _, x := range r.executors() {
		is[x.Address] = true
	}
	return is
}

func (r *rig) executors() []core.Executor {
	r.T.Helper()
	all, err := r.Executors(ctx, []string{"shop"})
	r.Must(err)
	return all["shop"]
}

func address(i int) string { return fmt.Sprintf("http://10.%d.%d.%d:9999", i/62500, i/250%250, i%250) }

func (r *rig) register(address string) error {
	return r.Register(ctx, registry.Registration{App: "shop", Address: address, Token: "secret"})
}

func code(err error) core.Code {
	if err == nil {
		return ""
	}
	return core.CodeOf(err)
}

func TestRegister(t *testing.T) {
	r := newRig(t, registry.Options{Allowed: func(_ *core.App, address string) error {
		if strings.Contains(address, "169.254.") {
			return errors.New("link-local addresses are refused")
		}
		return nil
	}})
	r.App("open")
	good := registry.Registration{App: "shop", Address: "http://10.0.0.1:9999/", Token: "secret", Dialect: "B"}
	for i, c := range []struct {
		wait    time.Duration
		dialect string
		puts    int
	}{{0, "B", 1}, {30 * time.Second, "B", 1}, {30 * time.Second, "", 2}, {time.Second, "Go", 3}, {40 * time.Second, "Go", 3},
		{time.Second, "", 4}} {
		r.clock = r.clock.Add(c.wait)
		g := good
		g.Dialect = c.dialect
		if err := r.Register(ctx, g); err != nil || r.puts != c.puts {
			t.Errorf("beat %d: %v, %d writes, want %d", i, err, r.puts, c.puts)
		}
	}
	if got := r.executors(); len(got) != 1 || got[0].Address != "http://10.0.0.1:9999" || got[0].Dialect != "Go" ||
		!got[0].Beat.Equal(r.clock) || !got[0].Since.Equal(r.clock.Add(-102*time.Second)) {
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
	check.Equal(t, r.puts, 4, "refused registrations were stored")
	other := good
	other.Address = "http://10.0.0.1:9999" // another spelling of the same address
	for _, spelling := range []string{other.Address, "HTTP://10.0.0.1:9999//"} {
		again := good
		again.Address = spelling
		if err := r.Register(ctx, again); err != nil || len(r.executors()) != 1 {
			t.Errorf("%s: %v, %+v", spelling, err, r.executors())
		}
	}
	other.Address += "9"
	if err := r.Remove(ctx, other); err != nil || len(r.executors()) != 1 {
		t.Errorf("another address was removed: %v", err)
	}
	other = good
	other.Token = "x"
	if err := r.Remove(ctx, other); code(err) != core.CodeUnauthorized || len(r.executors()) != 1 {
		t.Errorf("removed with a wrong token: %v", err)
	}
	if err := r.Remove(ctx, good); err != nil || len(r.executors()) != 0 {
		t.Errorf("%v, %+v", err, r.executors())
	}
	if err := r.Remove(ctx, good); err != nil {
		t.Errorf("again: %v", err)
	}
	r.fail = core.ErrThrottled
	if err := r.Register(ctx, good); code(err) != core.CodeUnavailable {
		t.Errorf("throttled: %v", err)
	}
	r.fail = nil
	free := registry.New(r.Store.Store, registry.Options{AllowNoToken: func(context.Context) bool { return true }})
	if err := free.Register(ctx, registry.Registration{App: "open", Address: "http://10.0.0.2"}); err != nil {
		t.Errorf("no token needed: %v", err)
	}
	for i := range registry.MaxExecutors {
		r.Must(r.PutExecutor(ctx, core.Executor{App: "shop", Address: address(62500 + i), Beat: r.clock}))
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
	r := newRig(t, registry.Options{})
	for i := range registry.MaxExecutors { // each is live, the last ones longest
		r.clock = began.Add(time.Duration(i) * time.Millisecond)
		r.Must(r.register(address(i)))
	}
	if err := r.register(address(5000)); code(err) != core.CodeTooLarge {
		t.Errorf("beside 1,000 that live: %v", err)
	}
	r.Must(r.register(address(0))) // a registered executor keeps its place
	r.clock = began.Add(core.BeatExpiry + 9*time.Millisecond + time.Microsecond)
	for i := range 10 { // the first ten are expired by then
		r.Must(r.register(address(5000 + i)))
		if is := r.there(); len(is) != registry.MaxExecutors || is[address(i)] || !is[address(i+1)] || !is[address(5000+i)] {
			t.Fatalf("%d are stored; the longest dead exists: %t", len(is), is[address(i)])
		}
	}
	if err := r.register(address(6000)); code(err) != core.CodeTooLarge {
		t.Errorf("beside 1,000 that live: %v", err)
	}
	// The server itself was down: an executor that had no time for a heartbeat is not expired.
	r.clock = began.Add(time.Hour)
	r.Must(r.PutGlobal(ctx, 0, core.Global{Rev: 1, DownAt: began.Add(time.Minute), UpSince: r.clock.Add(-time.Second)}))
	if err := r.register(address(6000)); code(err) != core.CodeTooLarge {
		t.Errorf("after an outage of ours: %v", err)
	}
	r.clock = r.clock.Add(core.BeatExpiry)
	r.Must(r.register(address(6000)))
	r.Must(r.PutExecutor(ctx, core.Executor{App: "shop", Address: "http://x", Beat: began})) // concurrent registrations
	r.Must(r.register(address(6001)))
	if is := r.there(); len(is) != registry.MaxExecutors {
		t.Errorf("%d are stored", len(is))
	}
}

// TestBeatBesideMakingRoom checks that an executor with a concurrent heartbeat stays, and that the next
// expired one is removed.
func TestBeatBesideMakingRoom(t *testing.T) {
	r := newRig(t, registry.Options{})
	r.clock = began.Add(time.Hour)
	for i := range registry.MaxExecutors { // two are dead, the rest live
		beat := r.clock
		if i < 2 {
			beat = began.Add(time.Duration(i) * time.Second)
		}
		r.Must(r.PutExecutor(ctx, core.Executor{App: "shop", Address: address(i), Beat: beat}))
	}
	r.beats = core.Executor{App: "shop", Address: address(0), Beat: r.clock}
	r.Must(r.register(address(5000)))
	if is := r.there(); len(is) != registry.MaxExecutors || !is[address(0)] || is[address(1)] || !is[address(5000)] {
		t.Errorf("%d are stored; the one that beat: %t, the dead one: %t, the new one: %t", len(is), is[address(0)], is[address(1)],
			is[address(5000)])
	}
}

// TestPolled checks that polling a queue of the app counts as a heartbeat and is written as rarely.
func TestPolled(t *testing.T) {
	r := newRig(t, registry.Options{})
	app := &core.App{Name: "shop", Executors: []string{"queue:mail", "http://x"}}
	for i, c := range []struct {
		wait time.Duration
		puts int
	}{{0, 1}, {40 * time.Second, 1}, {time.Second, 2}} {
		r.clock = r.clock.Add(c.wait)
		if err := r.Polled(ctx, app, "queue:mail"); err != nil || r.puts != c.puts {
			t.Errorf("%d: %d writes, %v", i, r.puts, err)
		}
	}
	if got := r.executors(); len(got) != 1 || got[0].Address != "queue:mail" || !got[0].Beat.Equal(r.clock) {
		t.Errorf("%+v", got)
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
	came := 0
	var r *rig
	r = newRig(t, registry.Options{Came: func(_ context.Context, app string) {
		if len(r.executors()) == 0 {
			t.Errorf("it is not stored yet")
		}
		came++
	}})
	for i, c := range []struct {
		after   time.Duration
		address string
		came    int
	}{{0, "a", 1}, {30 * time.Second, "a", 1}, {20 * time.Second, "b", 1}, {40 * time.Second, "a", 1},
		{91 * time.Second, "a", 2}, {92 * time.Second, "c", 3}} {
		r.clock = r.clock.Add(c.after)
		if err := r.register("http://" + c.address); err != nil || came != c.came {
			t.Errorf("%d: %d came, want %d (%v)", i, came, c.came, err)
		}
	}
}
