package access_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// plain counts hashes instead of computing them.
type plain struct {
	mu    sync.Mutex
	asked int
	now   int
	most  int
	takes time.Duration
}

func (p *plain) work() {
	p.mu.Lock()
	p.asked, p.now = p.asked+1, p.now+1
	p.most = max(p.most, p.now)
	p.mu.Unlock()
	if p.takes > 0 {
		<-time.After(p.takes)
	}
	p.mu.Lock()
	p.now--
	p.mu.Unlock()
}

// atOnce returns how many passwords were hashed concurrently at most.
func (p *plain) atOnce() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

func (p *plain) Hash(password string) (string, error) { p.work(); return "h:" + password, nil }
func (p *plain) Is(hash, password string) bool        { p.work(); return hash == "h:"+password }

type fixture struct {
	t     *testing.T
	s     *store.Store
	a     *access.Access
	p     *plain
	tried int // addresses that were used
}

const good = "correct horse"

var root = access.ByMachine(true)

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, s: memory.Open(t, memory.Options{}), p: &plain{}}
	f.a = access.New(f.s, access.Options{Passwords: f.p, Admin: func(s string) bool { return s == "sesame" }})
	return f
}

func (f *fixture) ok(err error) {
	f.t.Helper()
	check.OK(f.t, err)
}

// works ends the test if a call fails, by its last result.
func (f *fixture) works(results ...any) {
	f.t.Helper()
	err, _ := results[len(results)-1].(error)
	check.OK(f.t, err)
}

// fails returns a function that checks the code of the error of a call, which is the last result.
func (f *fixture) fails(want core.Code) func(results ...any) {
	return func(results ...any) {
		f.t.Helper()
		err, _ := results[len(results)-1].(error)
		f.code(err, want)
	}
}

func (f *fixture) code(err error, want core.Code) {
	f.t.Helper()
	if err == nil || core.CodeOf(err) != want {
		f.t.Errorf("%v, want %s", err, want)
	}
}

// person creates a user with the password good, as if the user had set it.
func (f *fixture) person(name string, grants ...access.Grant) {
	f.t.Helper()
	password := good
	f.works(f.a.Save(f.t.Context(), root, access.Spec{Name: name, Grants: &grants, Password: &password}))
	acc, _ := f.stored(name)
	acc.MustChange = false
	f.ok(access.Accounts.Save(f.t.Context(), f.s, acc.Rev, acc))
}

func (f *fixture) stored(name string) (acc access.Account, found bool) {
	f.t.Helper()
	list, err := access.Accounts.Read(f.t.Context(), f.s, name)
	f.ok(err)
	acc, found = list[name]
	return acc, found
}

func (f *fixture) logIn(name string) (string, access.Who) {
	f.t.Helper()
	secret, err := f.a.LogIn(f.t.Context(), name, good, access.Origin{Address: "10.0.0.1", Agent: "test"})
	f.ok(err)
	who, err := f.a.Session(f.t.Context(), secret)
	f.ok(err)
	return secret, who
}

// try logs in from an address of its own.
func (f *fixture) try(name, password, known string) error {
	f.t.Helper()
	f.tried++
	_, err := f.a.LogIn(f.t.Context(), name, password, access.Origin{Address: fmt.Sprint("try", f.tried), Known: known})
	return err
}

// known returns the value of a browser in which a user has logged in.
func (f *fixture) known(name string) string {
	f.t.Helper()
	secret, _ := f.logIn(name)
	known, err := f.a.TrustedBrowser(f.t.Context(), secret)
	f.ok(err)
	return known
}

// external logs in a user of a provider, and returns the user.
func (f *fixture) external(sub string, claims map[string]any) (access.Who, error) {
	f.t.Helper()
	secret, err := f.a.External(f.t.Context(), "https://id", sub, claims, access.Origin{})
	if err != nil {
		return access.Who{}, err
	}
	return f.a.Session(f.t.Context(), secret)
}

// TestSessions checks that a session lasts until it is ended, unused for too long, or too old.
func TestSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctx := newFixture(t), t.Context()
		f.person("ann", access.Grant{App: "shop", Role: access.Editor})
		secret, who := f.logIn("ann")
		if who.Kind != access.Person || who.Name != "ann" || who.May(access.Edit, "shop") != nil || who.May(access.Edit, "pay") == nil {
			t.Errorf("%+v", who)
		}
		for _, no := range []string{"", "x", secret + "x", strings.Replace(secret, "ann", "bob", 1), strings.Replace(secret, "tks", "tkr", 1),
			strings.Repeat("x", 1<<20)} {
			f.fails(core.CodeUnauthorized)(f.a.Session(ctx, no))
		}
		if who, err := f.a.Bearer(ctx, secret); err != nil || who.Kind != access.Nobody {
			t.Errorf("a session as a token: %+v, %v", who, err)
		}
		// Used every 6 days, it lasts for 30 days at most.
		for range 4 {
			<-time.After(6 * 24 * time.Hour)
			f.works(f.a.Session(ctx, secret))
		}
		other, _ := f.logIn("ann")
		<-time.After(6*24*time.Hour + time.Minute)
		f.fails(core.CodeUnauthorized)(f.a.Session(ctx, secret))
		if _, err := f.a.Session(ctx, other); err != nil {
			t.Error(err)
		}
		<-time.After(7*24*time.Hour + time.Minute)
		f.fails(core.CodeUnauthorized)(f.a.Session(ctx, other))

		secret, who = f.logIn("ann")
		third, _ := f.logIn("ann")
		acc, err := f.a.Account(ctx, who)
		f.ok(err)
		if len(acc.Sessions) != 2 || acc.Sessions[0].From != "10.0.0.1" || acc.Sessions[0].Hash != nil || acc.Password != core.AsStored {
			t.Errorf("%+v", acc)
		}
		f.code(f.a.EndSession(ctx, who, "none"), core.CodeNotFound)
		f.ok(f.a.EndSession(ctx, who, "")) // all but this one
		f.fails(core.CodeUnauthorized)(f.a.Session(ctx, third))
		f.ok(f.a.LogOut(ctx, secret))
		f.fails(core.CodeUnauthorized)(f.a.Session(ctx, secret))
		f.ok(f.a.LogOut(ctx, secret))
		f.ok(f.a.LogOut(ctx, "nonsense"))

		// Session 21 replaces only the least recently used one.
		var secrets []string
		for range access.MaxSessions + 1 {
			s, _ := f.logIn("ann")
			secrets = append(secrets, s)
			<-time.After(time.Minute)
		}
		f.fails(core.CodeUnauthorized)(f.a.Session(ctx, secrets[0]))
		f.works(f.a.Session(ctx, secrets[1]))

		// Disabling a user ends the sessions at once.
		yes := true
		f.works(f.a.Save(ctx, root, access.Spec{Name: "ann", Disabled: &yes}))
		f.fails(core.CodeUnauthorized)(f.a.Session(ctx, secrets[1]))
		f.fails(core.CodeUnauthorized)(f.a.LogIn(ctx, "ann", good, access.Origin{}))
	})
}

// TestLogInTellsNothing checks that all failed logins have the same text, duration and number of hashes: for an
// unknown user, a wrong password, or during a wait.
func TestLogInTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctx := newFixture(t), t.Context()
		f.person("ann")
		f.p.takes = 50 * time.Millisecond
		none := []access.Grant{}
		f.works(f.a.Save(ctx, root, access.Spec{Name: "nopass", Grants: &none}))
		for range access.FreeTries {
			f.a.LogIn(ctx, "ann", "wrong password", access.Origin{Address: "1"})
		}
		said := map[string]bool{}
		for i, c := range [][2]string{{"ann", "wrong password"}, {"ann", good}, {"nobody", good}, {"nopass", good}, {"No Name", good},
			{"nopass", ""}, {"bob", strings.Repeat("x", 300)}, {"bob", strings.Repeat("x", 1<<20)}} {
			began, hashed := time.Now(), f.p.asked
			_, err := f.a.LogIn(ctx, c[0], c[1], access.Origin{Address: fmt.Sprint(i)})
			f.code(err, core.CodeUnauthorized)
			said[err.Error()] = true
			if took := time.Since(began); took != 500*time.Millisecond || f.p.asked != hashed+1 {
				t.Errorf("%v: took %s, hashed %d", c[0], took, f.p.asked-hashed)
			}
		}
		check.Equal(t, len(said), 1, "told apart: %v", said)
		for _, name := range []string{"ann", "nobody"} { // with the proof of a server
			began := time.Now()
			if key, err := f.a.ProofKey(ctx, name+":0123456789abcdef"); err != nil || key != "" || time.Since(began) != 500*time.Millisecond {
				t.Errorf("%s: %q, %v in %s", name, key, err, time.Since(began))
			}
		}
	})
}

// TestTriesOfAPerson checks that the wait after five failures doubles up to 15 minutes, that concurrent tries
// are all counted, and that a login resets the count.
func TestTriesOfAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctx := newFixture(t), t.Context()
		f.person("ann")
		try := func(password string) error { return f.try("ann", password, "") }
		for range access.FreeTries {
			f.code(try("wrong password"), core.CodeUnauthorized)
		}
		for _, wait := range []time.Duration{15, 30, 60, 120, 240, 480, 900, 900} {
			<-time.After(wait*time.Second - 2*time.Second)
			f.code(try(good), core.CodeUnauthorized) // too soon, and not counted
			<-time.After(2 * time.Second)
			f.code(try("wrong password"), core.CodeUnauthorized)
		}
		<-time.After(access.LongestWait)
		f.ok(try(good))
		f.ok(try(good))

		var all sync.WaitGroup
		tried := f.p.asked
		for i := range 40 {
			all.Go(func() {
				f.a.LogIn(ctx, "ann", "wrong password", access.Origin{Address: "many" + fmt.Sprint(i)})
			})
		}
		all.Wait()
		if f.p.asked == tried {
			t.Error("no password was checked")
		}
		acc, _ := f.stored("ann")
		if acc.Failures.Count > access.FreeTries {
			t.Errorf("of 40 concurrent logins %d were checked", acc.Failures.Count)
		}
		for range access.FreeTries - acc.Failures.Count { // logins that met too many others were neither checked nor counted
			f.code(try("wrong password"), core.CodeUnauthorized)
		}
		f.code(try(good), core.CodeUnauthorized)
	})
}

// TestKnownBrowser checks that failures of unknown browsers do not delay a browser that logged in before. It
// has its own limit and stays known for 90 days, or until the password changes.
func TestKnownBrowser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctx := newFixture(t), t.Context()
		f.person("ann")
		f.person("bob")
		_, ann := f.logIn("ann")
		known := f.known("ann")
		try := func(password, known string) error { return f.try("ann", password, known) }
		strangers := func() {
			t.Helper()
			for range access.FreeTries {
				f.code(try("wrong password", ""), core.CodeUnauthorized)
			}
			f.code(try(good, ""), core.CodeUnauthorized)
		}
		strangers()
		f.ok(try(good, known))
		f.code(try(good, ""), core.CodeUnauthorized) // does not reset the limit of unknown browsers
		for _, no := range []string{known + "x", "x" + known, known[:len(known)-1], "9" + known, strings.TrimLeft(known, "0123456789"), ".",
			strings.Repeat("9", 1<<20)} {
			f.code(try(good, no), core.CodeUnauthorized)
		}
		f.code(try(good, f.known("bob")), core.CodeUnauthorized)
		// A stolen value allows no faster guesses, and does not delay other browsers.
		for range access.FreeTries {
			f.code(try("wrong password", known), core.CodeUnauthorized)
		}
		f.code(try(good, known), core.CodeUnauthorized)
		<-time.After(access.LongestWait)
		f.ok(try(good, ""))
		f.ok(try(good, known))

		// A new password invalidates the value, and logins without a password get none.
		f.ok(f.a.ChangePassword(ctx, ann, good, "a better horse"))
		strangers()
		f.code(try("a better horse", known), core.CodeUnauthorized)
		secret, err := f.a.LogInByToken(ctx, "sesame", access.Origin{})
		f.ok(err)
		for _, s := range []string{secret, "", "tks_nobody_x", "tks_ann_x"} {
			if known, err := f.a.TrustedBrowser(ctx, s); known != "" || err != nil {
				t.Errorf("%q: %q, %v", s, known, err)
			}
		}

		f.person("carl")
		known = f.known("carl")
		<-time.After(access.KnownFor - time.Minute)
		for range access.FreeTries {
			f.a.LogIn(ctx, "carl", "wrong password", access.Origin{Address: "10.6.6.6"})
		}
		f.works(f.a.LogIn(ctx, "carl", good, access.Origin{Address: "10.0.0.1", Known: known}))
		<-time.After(time.Minute)
		for range access.FreeTries + 1 {
			f.a.LogIn(ctx, "carl", "wrong password", access.Origin{Address: "10.6.6.6"})
		}
		f.fails(core.CodeUnauthorized)(f.a.LogIn(ctx, "carl", good, access.Origin{Address: "10.0.0.1", Known: known}))
	})
}

// TestKnownBrowserOfAFullHouse checks that unknown browsers at the same address do not delay a known one, which
// has its own limit. An invalid value counts as unknown.
func TestKnownBrowserOfAFullHouse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctx := newFixture(t), t.Context()
		f.person("ann")
		f.person("bob")
		known := f.known("ann")
		try := func(name, password, known string) error {
			_, err := f.a.LogIn(ctx, name, password, access.Origin{Address: "10.0.0.1", Known: known})
			return err
		}
		for range access.TriesOfAddress {
			_ = try("nobody", "wrong password", "")
		}
		f.ok(try("ann", good, known))
		for _, c := range []struct{ name, known string }{{"ann", ""}, {"ann", known + "x"}, {"bob", known}, {"no name", known},
			{"nobody", known}} {
			f.code(try(c.name, good, c.known), core.CodeRefused)
		}
		for range access.TriesOfAddress {
			f.code(try("ann", "wrong password", known), core.CodeUnauthorized)
		}
		hashed := f.p.asked
		for range 3 {
			f.code(try("ann", "wrong password", known), core.CodeRefused)
		}
		check.Equal(t, f.p.asked, hashed, "a known browser has no limit for hashes")
	})
}

// onRead returns a copy of the store that calls each after every read of records.
func (f *fixture) onRead(each func()) *store.Store {
	return hook.Over(f.s, func(_ context.Context, c *hook.Call, next func() []error) []error {
		if c.Get != nil {
			defer each()
		}
		return next()
	})
}

// TestFullHouseAsksNothing checks that an address without tries causes no reads of the store, whatever
// known-browser value it sends, even an expired one.
func TestFullHouseAsksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctx := newFixture(t), t.Context()
		f.person("ann")
		known := f.known("ann")
		<-time.After(access.KnownFor)
		reads := 0
		f.a = access.New(f.onRead(func() { reads++ }), access.Options{Passwords: f.p})
		try := func(known string) error {
			_, err := f.a.LogIn(ctx, "ann", "wrong password", access.Origin{Address: "10.0.0.1", Known: known})
			return err
		}
		for range access.TriesOfAddress {
			_ = try("")
		}
		before := reads
		for _, junk := range []string{"", "x", ".", "1795176000", "1795176000.", strings.Repeat("9", 18) + ".x", known[:len(known)-1],
			known} {
			f.code(try(junk), core.CodeRefused)
		}
		if reads != before {
			t.Errorf("it asks the store %d times", reads-before)
		}
		forged := strconv.FormatInt(time.Now().Unix(), 10) + known[strings.Index(known, "."):]
		for range 2 * access.TriesOfAddress {
			f.code(try(forged), core.CodeRefused)
		}
		if n := reads - before; n > access.TriesOfAddress {
			t.Errorf("%d store reads for a forged token", n)
		}
	})
}

// TestOldPassword checks that a new password requires the old one, and that tries count with the tries of known
// browsers. An open session allows no faster guesses, and unknown clients cannot block a password change.
func TestOldPassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctx := newFixture(t), t.Context()
		f.person("ann")
		secret, ann := f.logIn("ann")
		known, err := f.a.TrustedBrowser(ctx, secret)
		f.ok(err)
		const next = "a better horse"
		for range access.FreeTries {
			f.code(f.a.ChangePassword(ctx, ann, "wrong password", next), core.CodeInvalid)
		}
		tried := f.p.asked
		f.code(f.a.ChangePassword(ctx, ann, good, next), core.CodeInvalid)
		check.Equal(t, f.p.asked, tried, "the sixth try is checked without a wait")
		f.fails(core.CodeUnauthorized)(f.a.LogIn(ctx, "ann", good, access.Origin{Address: "10.0.0.9", Known: known}))
		<-time.After(access.LongestWait)
		for range access.FreeTries {
			f.fails(core.CodeUnauthorized)(f.a.LogIn(ctx, "ann", "wrong password", access.Origin{Address: "10.6.6.6"}))
		}
		f.ok(f.a.ChangePassword(ctx, ann, good, next))
		f.code(f.a.ChangePassword(ctx, ann, good, next), core.CodeInvalid)
		f.works(f.a.LogIn(ctx, "ann", next, access.Origin{Address: "10.0.0.9"}))
	})
}

// TestTriesOfAnAddress checks that too many failures stop one address, and not the others.
func TestTriesOfAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctx := newFixture(t), t.Context()
		f.person("ann")
		for i := range access.TriesOfAddress {
			f.fails(core.CodeUnauthorized)(f.a.LogIn(ctx, fmt.Sprintf("name%d", i), good, access.Origin{Address: "10.6.6.6"}))
		}
		hashed := f.p.asked
		f.fails(core.CodeRefused)(f.a.LogIn(ctx, "ann", good, access.Origin{Address: "10.6.6.6"}))
		f.fails(core.CodeRefused)(f.a.LogInByToken(ctx, "wrong", access.Origin{Address: "10.6.6.6"}))
		// The admin token works whatever other clients at the address do.
		f.works(f.a.LogInByToken(ctx, "sesame", access.Origin{Address: "10.6.6.6"}))
		check.Equal(t, f.p.asked, hashed, "it was hashed all the same")
		f.logIn("ann")
		for i := range 4 * access.TriesOfAddress { // the addresses of all clients behind an untrusted proxy
			from := access.Origin{Address: []string{"127.0.0.1", "::1", "::ffff:127.0.0.1"}[i%3]}
			f.fails(core.CodeUnauthorized)(f.a.LogIn(ctx, fmt.Sprintf("name%d", i), good, from))
		}
		// With IPv6, a household has any number of addresses.
		for i := range access.TriesOfAddress {
			f.fails(core.CodeUnauthorized)(f.a.LogInOnce(ctx, "wrong", access.Origin{Address: fmt.Sprintf("2001:db8:1:2::%x", i)}))
		}
		f.fails(core.CodeRefused)(f.a.LogInOnce(ctx, "wrong", access.Origin{Address: "2001:db8:1:2:ffff::1"}))
		f.fails(core.CodeUnauthorized)(f.a.LogInOnce(ctx, "wrong", access.Origin{Address: "2001:db8:1:3::1"}))
		<-time.After(time.Minute)
		f.works(f.a.LogIn(ctx, "ann", good, access.Origin{Address: "10.6.6.6"}))
		// The number of counters is limited, and an address of its own can still log in.
		for i := range 30_000 {
			_, err := f.a.LogInOnce(ctx, "wrong", access.Origin{Address: fmt.Sprint("far", i)})
			if i < 5000 {
				f.code(err, core.CodeUnauthorized)
			}
		}
	})
}

// TestGivenPassword checks that a user with a password set by an admin must change it first and cannot create a
// token. Other logins do not require that.
func TestGivenPassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctx := newFixture(t), t.Context()
		given := good
		grants := []access.Grant{{Role: access.Admin}}
		for _, name := range []string{"ann", access.FirstAdmin} {
			f.works(f.a.Save(ctx, root, access.Spec{Name: name, Grants: &grants, Password: &given}))
		}
		secret, ann := f.logIn("ann")
		for _, d := range access.Deeds {
			err := ann.May(d, "")
			if free := d == access.Open || d == access.Known || d == access.Own || d == access.OwnSee; free != (err == nil) {
				t.Errorf("%s: %v", d, err)
			}
		}
		f.fails(core.CodeForbidden)(f.a.MakeToken(ctx, ann, access.TokenSpec{Name: "ci"}))
		f.code(f.a.ChangePassword(ctx, ann, good, good), core.CodeInvalid) // the admin knows it
		f.ok(f.a.ChangePassword(ctx, ann, good, "a better horse"))
		ann, err := f.a.Session(ctx, secret)
		f.ok(err)
		f.ok(ann.May(access.Administer, ""))
		_, token, err := f.a.MakeToken(ctx, ann, access.TokenSpec{Name: "ci"})
		f.ok(err)
		f.works(f.a.Save(ctx, root, access.Spec{Name: "ann", Password: &given}))
		byToken, err := f.a.Bearer(ctx, token)
		f.ok(err)
		f.ok(byToken.May(access.See, "")) // existing tokens still work
		secret, err = f.a.LogInByToken(ctx, "sesame", access.Origin{})
		f.ok(err)
		admin, err := f.a.Session(ctx, secret)
		f.ok(err)
		f.ok(admin.May(access.See, ""))
	})
}

// TestLoginsWaitInTwoLanes checks that one password of an unknown browser is hashed at a time. The next 32
// wait, further ones fail at once and do not count as failures. Known browsers have their own lane.
func TestLoginsWaitInTwoLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctx := newFixture(t), t.Context()
		f.person("ann")
		known := f.known("ann")
		f.p.takes, f.p.most = time.Second, 0
		began := time.Now()
		var all sync.WaitGroup
		for i := range 33 {
			all.Go(func() {
				f.fails(core.CodeUnauthorized)(f.a.LogIn(ctx, fmt.Sprint("nobody", i), good, access.Origin{Address: fmt.Sprint(i)}))
			})
		}
		synctest.Wait()
		for range 2 * access.FreeTries {
			f.fails(core.CodeUnavailable)(f.a.LogIn(ctx, "ann", "wrong password", access.Origin{Address: "10.6.6.6"}))
		}
		check.Equal(t, time.Since(began), 0, "an error without a free place took")
		f.works(f.a.LogIn(ctx, "ann", good, access.Origin{Address: "10.0.0.9", Known: known}))
		if took := time.Since(began); took > 2*time.Second || f.p.atOnce() != 2 {
			t.Errorf("a known browser waited for %v, and %d passwords were hashed at once", took, f.p.atOnce())
		}
		held, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		<-time.After(time.Second)
		if _, err := f.a.LogIn(held, "x", good, access.Origin{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		all.Wait()
		f.works(f.a.LogIn(ctx, "ann", good, access.Origin{Address: "10.6.6.6"}))
	})
}

// TestFirstLogIn checks logins with the admin token, and with a link that works once and expires.
func TestFirstLogIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctx := newFixture(t), t.Context()
		enter := func(secret string, err error) access.Who {
			t.Helper()
			f.ok(err)
			who, err := f.a.Session(ctx, secret)
			f.ok(err)
			return who
		}
		f.fails(core.CodeUnauthorized)(f.a.LogInOnce(ctx, "", access.Origin{}))
		link := f.a.Once()
		f.fails(core.CodeUnauthorized)(f.a.LogInOnce(ctx, link+"x", access.Origin{}))
		if who := enter(f.a.LogInOnce(ctx, link, access.Origin{})); who.Name != access.FirstAdmin || who.May(access.Administer, "") != nil {
			t.Errorf("%+v", who)
		}
		f.fails(core.CodeUnauthorized)(f.a.LogInOnce(ctx, link, access.Origin{}))
		old := f.a.Once()
		newer := f.a.Once()
		f.fails(core.CodeUnauthorized)(f.a.LogInOnce(ctx, old, access.Origin{}))
		<-time.After(access.OnceFor)
		f.fails(core.CodeUnauthorized)(f.a.LogInOnce(ctx, newer, access.Origin{}))

		f.fails(core.CodeUnauthorized)(f.a.LogInByToken(ctx, "wrong", access.Origin{}))
		who := enter(f.a.LogInByToken(ctx, "sesame", access.Origin{}))
		check.Equal(t, who.Name, access.FirstAdmin, "%+v", who)
		// The user has no password at first; after one is set, a change requires it.
		f.ok(f.a.ChangePassword(ctx, who, "", good))
		f.code(f.a.ChangePassword(ctx, who, "wrong password", good+"2"), core.CodeInvalid)
		f.ok(f.a.ChangePassword(ctx, who, good, good+"2"))
		f.works(f.a.LogIn(ctx, "admin", good+"2", access.Origin{}))
		if _, err := f.a.Session(ctx, "x"); err == nil {
			t.Error("x")
		}
	})
}

// TestTokens checks that tokens expire, and never exceed the current permissions of their owner.
func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctx := newFixture(t), t.Context()
		f.person("ann", access.Grant{App: "shop", Role: access.Editor, Rights: []access.Right{access.Scripts}},
			access.Grant{App: "pay", Role: access.Viewer})
		_, ann := f.logIn("ann")
		_, secret, err := f.a.MakeToken(ctx, ann, access.TokenSpec{Name: "all"})
		f.ok(err)
		_, narrow, err := f.a.MakeToken(ctx, ann, access.TokenSpec{Name: "narrow", Grants: []access.Grant{{App: "shop", Role: access.Editor}},
			End: time.Now().Add(time.Hour)})
		f.ok(err)
		for _, c := range []struct {
			spec access.TokenSpec
			want core.Code
		}{
			{access.TokenSpec{Name: "all"}, core.CodeConflict},
			{access.TokenSpec{Name: "A b"}, core.CodeInvalid},
			{access.TokenSpec{Name: "x", Grants: []access.Grant{{App: "pay", Role: access.Operator}}}, core.CodeForbidden},
			{access.TokenSpec{Name: "x", Grants: []access.Grant{{Role: access.Viewer}}}, core.CodeForbidden},
			{access.TokenSpec{Name: "x", Grants: []access.Grant{{App: "shop", Role: access.Viewer, Rights: []access.Right{access.Secrets}}}},
				core.CodeForbidden},
			{access.TokenSpec{Name: "x", Grants: []access.Grant{{App: "shop", Role: "king"}}}, core.CodeInvalid},
			{access.TokenSpec{Name: "x", End: time.Now().Add(-time.Second)}, core.CodeInvalid},
			{access.TokenSpec{Name: "x", End: time.Now().Add(access.LongestToken + time.Hour)}, core.CodeInvalid},
		} {
			_, _, err := f.a.MakeToken(ctx, ann, c.spec)
			f.code(err, c.want)
		}
		who := func(secret string) access.Who {
			t.Helper()
			who, err := f.a.Bearer(ctx, secret)
			f.ok(err)
			return who
		}
		all, part := who(secret), who(narrow)
		f.ok(all.May(access.Script, "shop"))
		f.ok(part.May(access.Edit, "shop"))
		f.code(part.May(access.Script, "shop"), core.CodeForbidden)
		f.code(part.May(access.See, "pay"), core.CodeNotFound)
		if apps, _ := part.Apps(); !slices.Equal(apps, []string{"shop"}) {
			t.Errorf("%v", apps)
		}
		// A token with narrowed grants cannot create tokens, and no token creates one that expires later.
		f.fails(core.CodeForbidden)(f.a.MakeToken(ctx, part, access.TokenSpec{Name: "x"}))
		child, _, err := f.a.MakeToken(ctx, all, access.TokenSpec{Name: "child"})
		f.ok(err)
		acc, err := f.a.Account(ctx, ann)
		f.ok(err)
		if !child.End.Equal(acc.Tokens[0].End) {
			t.Errorf("%s, its maker's %s", child.End, acc.Tokens[0].End)
		}
		f.fails(core.CodeInvalid)(f.a.MakeToken(ctx, all, access.TokenSpec{Name: "y", End: child.End.Add(time.Hour)}))

		// A token loses the permissions that its owner loses.
		less := []access.Grant{{App: "shop", Role: access.Viewer}}
		f.works(f.a.Save(ctx, root, access.Spec{Name: "ann", Grants: &less}))
		f.code(who(secret).May(access.Edit, "shop"), core.CodeForbidden)
		f.code(who(narrow).May(access.Edit, "shop"), core.CodeForbidden)
		f.ok(who(narrow).May(access.See, "shop"))

		<-time.After(time.Hour)
		if w := who(narrow); w.Kind != access.Nobody {
			t.Errorf("after its end: %+v", w)
		}
		f.code(f.a.EndToken(ctx, all, "bob", "x"), core.CodeForbidden)
		f.ok(f.a.EndToken(ctx, root, "ann", "all"))
		if w := who(secret); w.Kind != access.Nobody {
			t.Errorf("after it was ended: %+v", w)
		}
		f.code(f.a.EndToken(ctx, root, "ann", "all"), core.CodeNotFound)
		for i := range access.MaxTokens - 1 {
			if _, _, err := f.a.MakeToken(ctx, ann, access.TokenSpec{Name: fmt.Sprint("t", i)}); err != nil {
				t.Fatal(i, err)
			}
		}
		f.fails(core.CodeTooLarge)(f.a.MakeToken(ctx, ann, access.TokenSpec{Name: "more"}))

		// Change records contain no credentials.
		changes, err := f.s.Changes(ctx, "", 0, math.MaxInt64, 100)
		f.ok(err)
		if len(changes) < 5 {
			t.Errorf("%d changes", len(changes))
		}
		for _, c := range changes {
			if strings.Contains(c.Old+c.New, "hash") || strings.Contains(c.Old+c.New, good) || !strings.HasPrefix(c.Name, core.OfPerson) {
				t.Errorf("%+v", c)
			}
		}
	})
}

// TestPeople checks the permissions, names and number of users.
func TestPeople(t *testing.T) {
	f, ctx := newFixture(t), t.Context()
	f.person("ann", access.Grant{Role: access.Editor})
	_, ann := f.logIn("ann")
	f.fails(core.CodeForbidden)(f.a.Save(ctx, ann, access.Spec{Name: "eve"}))
	f.fails(core.CodeForbidden)(f.a.People(ctx, ann))
	f.code(f.a.Delete(ctx, ann, "ann"), core.CodeForbidden)
	for _, name := range []string{"", "Ann", "a b", "-a", "admin-token", "code-of-shop", "~shared", "oidc", strings.Repeat("a", 65), "a_"} {
		f.fails(core.CodeInvalid)(f.a.Save(ctx, root, access.Spec{Name: name}))
	}
	short, own := "short", "annannann1"
	for _, s := range []access.Spec{{Name: "bob", Password: &short}, {Name: own, Password: &own},
		{Name: "bob", Grants: &[]access.Grant{{Role: "king"}}}, {Name: "bob", Grants: &[]access.Grant{{App: "a/b", Role: access.Viewer}}},
		{Name: "bob", Grants: &[]access.Grant{{Role: access.Viewer}, {Role: access.Admin}}}, {Name: "bob", Issuer: &short}} {
		f.fails(core.CodeInvalid)(f.a.Save(ctx, root, s))
	}
	acc, change, err := f.a.Save(ctx, root, access.Spec{Name: "ann", Grants: &[]access.Grant{{Role: access.Editor}}})
	f.ok(err)
	if change != access.Unchanged || acc.Password != core.AsStored {
		t.Errorf("%s %+v", change, acc)
	}
	rev := acc.Edited - 1
	f.fails(core.CodeConflict)(f.a.Save(ctx, root, access.Spec{Name: "ann", IfRev: &rev, Disabled: new(bool)}))
	f.logIn("ann") // does not conflict with an edit
	yes := true
	_, change, err = f.a.Save(ctx, root, access.Spec{Name: "ann", IfRev: &acc.Edited, Disabled: &yes})
	f.ok(err)
	check.Equal(t, change, access.Updated)
	f.ok(f.a.Delete(ctx, root, "ann"))
	f.code(f.a.Delete(ctx, root, "ann"), core.CodeNotFound)
	for i := range access.MaxPeople {
		f.ok(access.Accounts.Save(ctx, f.s, 0, access.Account{Name: fmt.Sprint("p", i), Rev: 1}))
	}
	f.fails(core.CodeTooLarge)(f.a.Save(ctx, root, access.Spec{Name: "eve"}))
}

// TestViews checks own and shared views.
func TestViews(t *testing.T) {
	f, ctx := newFixture(t), t.Context()
	f.person("ann", access.Grant{Role: access.Viewer})
	f.person("bob", access.Grant{Role: access.Viewer})
	_, ann := f.logIn("ann")
	_, bob := f.logIn("bob")
	own := access.View{Name: "Mine", Page: "runs", Query: "app=shop&failed=true"}
	shared := access.View{Name: "Failing", Page: "jobs", Shared: true}
	f.ok(f.a.SaveView(ctx, ann, own))
	f.ok(f.a.SaveView(ctx, ann, own))
	f.ok(f.a.SaveView(ctx, ann, shared))
	shared.By = "ann"
	list, err := f.a.Views(ctx, ann)
	f.ok(err)
	if !slices.Equal(list, []access.View{own, shared}) {
		t.Errorf("%+v", list)
	}
	if list, err = f.a.Views(ctx, bob); err != nil || !slices.Equal(list, []access.View{shared}) {
		t.Errorf("%+v, %v", list, err)
	}
	f.code(f.a.SaveView(ctx, bob, access.View{Name: "Failing", Page: "runs", Shared: true}), core.CodeConflict)
	f.code(f.a.DeleteView(ctx, bob, "Failing", true), core.CodeForbidden)
	f.code(f.a.DeleteView(ctx, bob, "Mine", false), core.CodeNotFound)
	for _, v := range []access.View{{Page: "runs"}, {Name: "x\n", Page: "runs"}, {Name: "x", Page: "//evil.example"},
		{Name: "x", Page: "https://evil"},
		{Name: "x", Page: "runs", Query: "a b"}, {Name: "x", Page: "runs", Query: strings.Repeat("x", access.MaxQuery+1)},
		{Name: strings.Repeat("x", 4<<20), Page: "runs"}} {
		f.code(f.a.SaveView(ctx, ann, v), core.CodeInvalid)
	}
	for i := range access.MaxViews - 1 {
		f.ok(f.a.SaveView(ctx, ann, access.View{Name: fmt.Sprint(i), Page: "runs"}))
	}
	f.code(f.a.SaveView(ctx, ann, access.View{Name: "more", Page: "runs"}), core.CodeTooLarge)
	f.ok(f.a.DeleteView(ctx, ann, "Failing", true))
	f.ok(f.a.DeleteView(ctx, ann, "Mine", false))
	people, err := f.a.People(ctx, root)
	f.ok(err)
	check.Equal(t, len(people), 2, "people")
	f.ok(f.a.SetLook(ctx, ann, core.Chinese, "Asia/Shanghai"))
	f.code(f.a.SetLook(ctx, ann, "", "Local"), core.CodeInvalid)
	f.code(f.a.SetLook(ctx, root, "", ""), core.CodeForbidden)
}

// TestLongViews checks the size limit of the shared views, which are one item. Too long a view is rejected, and
// making one shorter works.
func TestLongViews(t *testing.T) {
	check.Long(t)
	f, ctx := newFixture(t), t.Context()
	var by []access.Who
	for i := range access.MaxSharedViews / access.MaxViews {
		name := fmt.Sprint("ann", i)
		f.person(name, access.Grant{Role: access.Viewer})
		_, who := f.logIn(name)
		by = append(by, who)
	}
	ann := by[0]
	view := func(i int, query string) access.View {
		return access.View{Name: fmt.Sprint(i), Page: "runs", Query: strings.Repeat(query, access.MaxQuery), Shared: true}
	}
	length := func() int {
		t.Helper()
		list, err := f.a.Views(ctx, ann)
		f.ok(err)
		return len(access.Account{Views: list}.JSON())
	}
	for i := range access.MaxSharedViews {
		f.ok(f.a.SaveView(ctx, by[i/access.MaxViews], view(i, "&")))
	}
	f.code(f.a.SaveView(ctx, ann, access.View{Name: "more", Page: "runs", Shared: true}), core.CodeTooLarge)
	var err error
	for i := 0; i < access.MaxSharedViews && err == nil; i++ {
		err = f.a.SaveView(ctx, by[i/access.MaxViews], view(i, `"`))
	}
	f.code(err, core.CodeTooLarge)
	if n := length(); n > 300_000 || n < access.MaxBytes*9/10 {
		t.Errorf("%d bytes are taken", n)
	}
	f.ok(f.a.SaveView(ctx, ann, access.View{Name: "0", Page: "runs", Shared: true}))
	f.ok(f.a.DeleteView(ctx, ann, "1", true))
}

// TestDeletedStaysDeleted checks that an account that is deleted during a change of its own is not created
// again.
func TestDeletedStaysDeleted(t *testing.T) {
	for name, do := range map[string]func(ctx context.Context, a *access.Access, who access.Who) error{
		"password": func(ctx context.Context, a *access.Access, who access.Who) error {
			return a.ChangePassword(ctx, who, good, "a better horse")
		},
		"a wrong password": func(ctx context.Context, a *access.Access, who access.Who) error {
			return a.ChangePassword(ctx, who, "a wrong horse", "a better horse")
		},
		"look": func(ctx context.Context, a *access.Access, who access.Who) error {
			return a.SetLook(ctx, who, core.Chinese, "")
		},
		"token": func(ctx context.Context, a *access.Access, who access.Who) error {
			_, _, err := a.MakeToken(ctx, who, access.TokenSpec{Name: "t"})
			return err
		},
		"the end of a token": func(ctx context.Context, a *access.Access, who access.Who) error {
			return a.EndToken(ctx, who, who.Name, "t")
		},
		"view": func(ctx context.Context, a *access.Access, who access.Who) error {
			return a.SaveView(ctx, who, access.View{Name: "v", Page: "runs"})
		},
		"the end of a view": func(ctx context.Context, a *access.Access, who access.Who) error {
			return a.DeleteView(ctx, who, "v", false)
		},
		"the end of sessions": func(ctx context.Context, a *access.Access, who access.Who) error { return a.EndSession(ctx, who, "") },
		"the end of a session": func(ctx context.Context, a *access.Access, who access.Who) error {
			return a.EndSession(ctx, who, who.Session)
		},
		"log-in": func(ctx context.Context, a *access.Access, who access.Who) error {
			_, err := a.LogIn(ctx, who.Name, good, access.Origin{Address: "10.0.0.2"})
			return err
		},
	} {
		for reads := range 4 {
			f := newFixture(t)
			f.person("ann")
			_, ann := f.logIn("ann")
			left := reads + 1
			losing := f.onRead(func() {
				if left--; left == 0 {
					f.ok(f.s.Write(t.Context(), access.Accounts.Delete("ann", store.Any)))
				}
			})
			err := do(t.Context(), access.New(losing, access.Options{Passwords: f.p, Answer: time.Nanosecond}), ann)
			if _, found := f.stored("ann"); found != (left > 0) {
				t.Errorf("%s, deleted after %d reads: there is %v, %v", name, reads+1, found, err)
			}
		}
	}
}

// TestExternal checks that provider logins create users with roles, and take over no existing name.
func TestExternal(t *testing.T) {
	f, ctx := newFixture(t), t.Context()
	f.a = access.New(f.s, access.Options{Passwords: f.p, Claims: access.Claims{Name: "email", Role: "groups",
		Roles: map[string][]access.Grant{
			"devs": {{App: "shop", Role: access.Editor}}, "ops": {{Role: access.Operator}, {App: "shop", Role: access.Viewer}}}}})
	enter := func(sub, email string, groups ...any) (access.Who, error) {
		return f.external(sub, map[string]any{"email": email, "email_verified": true, "groups": groups})
	}
	who, err := enter("1", "Ann@Example.com", "devs", "ops", 7)
	f.ok(err)
	if who.Name != "ann@example.com" || who.Role("shop") != access.Editor || who.Role("pay") != access.Operator {
		t.Errorf("%+v", who)
	}
	who, err = enter("1", "ann@example.com", "ops")
	f.ok(err)
	check.Equal(t, who.Role("shop"), access.Operator, "after another claim: %+v", who)
	f.fails(core.CodeForbidden)(enter("2", "ann@example.com", "ops")) // another subject with the same address
	f.fails(core.CodeForbidden)(enter("3", "bob@example.com", "strangers"))
	unverified := map[string]any{"email": "x@example.com", "groups": "ops"}
	f.fails(core.CodeForbidden)(f.a.External(ctx, "https://id", "4", unverified, access.Origin{}))
	f.fails(core.CodeForbidden)(enter("5", "not a name", "ops"))
	f.person("carl@example.com", access.Grant{Role: access.Admin})
	f.fails(core.CodeForbidden)(enter("6", "carl@example.com", "ops"))
	issuer, sub, yes := "https://id", "6", true
	f.works(f.a.Save(ctx, root, access.Spec{Name: "carl@example.com", Issuer: &issuer, Subject: &sub}))
	f.works(enter("6", "carl@example.com", "ops"))
	f.works(f.a.Save(ctx, root, access.Spec{Name: "carl@example.com", Disabled: &yes}))
	f.fails(core.CodeForbidden)(enter("6", "carl@example.com", "ops"))

	for text, want := range map[string]string{"devs=shop:editor+scripts": "devs shop editor [scripts]", "ops=admin": "ops  admin []",
		"cn=ops,dc=x=viewer": "cn=ops,dc=x  viewer []"} {
		value, g, err := access.ParseClaimRole(text)
		if got := fmt.Sprint(value, " ", g.App, " ", g.Role, " ", g.Rights); err != nil || got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "=admin", "x=king", "x=a b:viewer", "x=shop:viewer+all"} {
		f.fails(core.CodeInvalid)(access.ParseClaimRole(text))
	}
}

// TestRoleClaimTextIsOneValue checks that no part of a text is taken for a value.
func TestRoleClaimTextIsOneValue(t *testing.T) {
	f := newFixture(t)
	f.a = access.New(f.s, access.Options{Passwords: f.p, Claims: access.Claims{Role: "group",
		Roles: map[string][]access.Grant{"ops": {{Role: access.Admin}}, "not ops": {{App: "shop", Role: access.Viewer}}}}})
	for group, admin := range map[string]bool{"ops": true, "not ops": false, "ops,devs": false, "devs ops": false} {
		name := strings.NewReplacer(" ", "-", ",", "-").Replace(group)
		who, err := f.external(name, map[string]any{"preferred_username": name, "group": group})
		if role := who.Role("pay"); (role == access.Admin) != admin {
			t.Errorf("the claim %q gives %q: %v", group, role, err)
		}
	}
}

// TestProviderNamesAreASCII checks that a letter whose lower case is ASCII is rejected.
func TestProviderNamesAreASCII(t *testing.T) {
	for name, want := range map[string]core.Code{"Kim": "", "\u212aim": core.CodeForbidden} {
		f := newFixture(t)
		_, err := f.a.External(t.Context(), "https://id", name, map[string]any{"preferred_username": name}, access.Origin{})
		if (want != "" || err != nil) && core.CodeOf(err) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestRenewReplacesSessionSecret checks that the new secret works and the old one does not.
func TestRenewReplacesSessionSecret(t *testing.T) {
	f, ctx := newFixture(t), t.Context()
	f.person("ann", access.Grant{Role: access.Viewer})
	old, _ := f.logIn("ann")
	renewed, err := f.a.Renew(ctx, old)
	f.ok(err)
	if _, err = f.a.Session(ctx, renewed); err != nil || f.a.Ended(ctx, renewed) || !f.a.Ended(ctx, old) {
		t.Errorf("%v: ended %t, the old one %t", err, f.a.Ended(ctx, renewed), f.a.Ended(ctx, old))
	}
	f.fails(core.CodeUnauthorized)(f.a.Renew(ctx, old))
}

func TestCommonPasswordsAreRejected(t *testing.T) {
	f := newFixture(t)
	for password, want := range map[string]core.Code{
		"password123": core.CodeInvalid, "1234567890": core.CodeInvalid, "Qwertyuiop": core.CodeInvalid, "aaaaaaaaaaaa": core.CodeInvalid,
		"1q2w3e4r5t": core.CodeInvalid, "tickring2026!": core.CodeInvalid, "abcdefghijk": core.CodeInvalid,
		"correct horse": "", "my password is long": "", "7392846150": "",
	} {
		_, _, err := f.a.Save(t.Context(), root, access.Spec{Name: "ann", Password: &password})
		if (want != "" || err != nil) && core.CodeOf(err) != want {
			t.Errorf("%q: %v", password, err)
		}
	}
}

// TestClaimTakesAway checks that a login without roles fails, removes the roles of existing sessions and
// tokens, and is recorded. A login of another subject with the same name changes nothing.
func TestClaimTakesAway(t *testing.T) {
	f, ctx := newFixture(t), t.Context()
	f.a = access.New(f.s, access.Options{Passwords: f.p, Claims: access.Claims{Role: "groups",
		Roles: map[string][]access.Grant{"ops": {{App: "shop", Role: access.Admin}}}}})
	enter := func(sub string, groups ...any) (string, error) {
		return f.a.External(ctx, "https://id", sub, map[string]any{"preferred_username": "lina", "groups": groups}, access.Origin{})
	}
	session, err := enter("1", "ops")
	f.ok(err)
	who, err := f.a.Session(ctx, session)
	f.ok(err)
	_, secret, err := f.a.MakeToken(ctx, who, access.TokenSpec{Name: "t", End: time.Now().Add(access.LongestToken - time.Hour)})
	f.ok(err)
	roles := func() (list [2]access.Role) {
		for i, known := range []func() (access.Who, error){func() (access.Who, error) { return f.a.Session(ctx, session) },
			func() (access.Who, error) { return f.a.Bearer(ctx, secret) }} {
			who, err := known()
			f.ok(err)
			list[i] = who.Role("shop")
		}
		return list
	}
	f.fails(core.CodeForbidden)(enter("2")) // another subject with her name
	check.Equal(t, roles(), [2]access.Role{access.Admin, access.Admin}, "another takes them away")
	for range 2 {
		_, err = enter("1", "strangers")
		if f.code(err, core.CodeForbidden); err != nil && !strings.Contains(err.Error(), "gives lina no role") {
			t.Errorf("%v", err)
		}
	}
	check.Equal(t, roles(), [2]access.Role{}, "session and token have")
	changes, err := f.s.Changes(ctx, "", 0, math.MaxInt64, 10)
	f.ok(err)
	if len(changes) != 3 || changes[0].By != access.ByProvider || strings.Contains(changes[0].New, "admin") {
		t.Errorf("%d records, the last %+v", len(changes), changes)
	}
	f.fails(core.CodeForbidden)(f.a.External(ctx, "https://id", "9", map[string]any{"preferred_username": "nina"}, access.Origin{}))
	if _, found := f.stored("nina"); found {
		t.Error("a user without a role is created")
	}
}

// TestMay checks each action for each role.
func TestMay(t *testing.T) {
	least := map[access.Deed]access.Role{access.See: access.Viewer, access.Operate: access.Operator, access.Edit: access.Editor,
		access.Declare: access.Editor, access.Administer: access.Admin}
	rights := map[access.Deed]access.Right{access.Direct: access.Addresses, access.Address: access.Addresses, access.Script: access.Scripts,
		access.Secret: access.Secrets}
	for _, role := range access.Roles {
		who := access.Who{Kind: access.Person, Name: "ann", Grants: []access.Grant{{App: "shop", Role: role}}}
		for _, d := range access.Deeds {
			may := who.May(d, "shop") == nil
			want := d == access.Open || d == access.Known || d == access.Enter || d == access.Own || d == access.OwnSee ||
				least[d] != "" && slices.Index(access.Roles, role) >= slices.Index(access.Roles, least[d]) || rights[d] != "" && role == access.Admin
			check.Equal(t, may, want, "%s by %s", d, role)
		}
	}
	if err := (access.Who{Kind: access.Person, Grants: []access.Grant{{Role: access.Admin}}}).May("fly", "shop"); err == nil {
		t.Error("an unknown action is allowed")
	}
	for d, right := range rights {
		who := access.Who{Kind: access.Person, Grants: []access.Grant{{App: "shop", Role: access.Editor}, {Role: access.Viewer,
			Rights: []access.Right{right}}}}
		if who.May(d, "shop") != nil || who.May(d, "pay") == nil || who.May(d, "") == nil {
			t.Errorf("%s with %s", d, right)
		}
	}
}

// TestProviderDoesNotMakeTheAdmin checks that a provider login as admin cannot take the name that logins with
// the admin token use.
func TestProviderDoesNotMakeTheAdmin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctx := newFixture(t), t.Context()
		claims := map[string]any{"preferred_username": access.FirstAdmin}
		for range 2 {
			f.fails(core.CodeForbidden)(f.a.External(ctx, "https://id.example", "17", claims, access.Origin{}))
			secret, err := f.a.LogInByToken(ctx, "sesame", access.Origin{})
			f.ok(err)
			who, err := f.a.Session(ctx, secret)
			f.ok(err)
			f.ok(who.May(access.Administer, ""))
		}
	})
}
