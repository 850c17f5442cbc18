// Package refusal is the trace that is kept of who was refused at a door: a count, a
// line in the log for each address, kind and minute, who said he is an executor of an app, and
// a wait that grows for an address that keeps coming with wrong tokens. All of it is
// bounded, whoever comes. It refuses nobody itself, and reads nothing of requests.
package refusal

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// The doors.
const (
	Registry = "registry"
	Callback = "callback"
	Queue    = "queue"
	Report   = "report"
	API      = "api"
)

// Why somebody is refused.
const (
	Token  = "token"  // it is nobody's, or the key of a report is wrong
	App    = "app"    // it is not that of the app that he spoke of
	Large  = "large"  // he says more than is listened to
	Busy   = "busy"   // there was no room to listen
	Quota  = "quota"  // code that declares more jobs, or changes, than it may
	Unsent = "unsent" // the end of a run that nobody has
	Page   = "page"   // he is a page in a browser

	Invalid     = "invalid"     // the request cannot be understood, in part at least
	Address     = "address"     // the address cannot be used
	Unknown     = "unknown"     // the app or the run does not exist
	Unavailable = "unavailable" // the server could not do it
)

// Refusal is one, or several that were alike. App and Address are the words of who was
// refused.
type Refusal struct {
	Door, Reason string
	Remote       string // IP address and port of the connection
	App, Address string // of an executor; empty where they are not known
	Why          string // what the answer said
	At           time.Time
	Count        int
}

// Options of a Trace. The zero value of a field is its default.
type Options struct {
	Now func() time.Time
	Log *slog.Logger
	// Count is called for each; nil: nobody counts.
	Count func(door, reason string)
	// Longest is how long an address that keeps coming with wrong tokens waits for its
	// answer at most; it grows from its fourth on.
	Longest time.Duration // 0: nobody waits
	// Waiting is how many wait at a time: each takes a connection of those there are.
	Waiting int // 64
	// Listen is how long is listened to who is refused, to find out who he is.
	Listen time.Duration // 1 s
	// Every is how often an address has its line, Forget after how long without a
	// refusal nothing is known any more.
	Every, Forget time.Duration // 1 min, 5 min
}

// How much is kept.
const (
	mostAddresses = 1000
	mostExecutors = 100
	mostAsked     = 20 // a second
	mostText      = 200
)

// Trace is the trace. A nil one keeps nothing.
type Trace struct {
	o Options

	mu        sync.Mutex
	of        map[string]*address
	lines     map[line]*told
	executors []Refusal // the one that was refused last is the last
	waiting   int
	asked     int
	second    time.Time
}

// address is what is known of one.
type address struct {
	last  time.Time
	wrong int // tokens
}

// line is a kind of refusal, of which an address has a line a minute.
type line struct{ remote, door, reason string }

type told struct {
	at    time.Time
	since int // refusals since the line
}

func New(o Options) *Trace {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Every, o.Forget = cmp.Or(o.Every, time.Minute), cmp.Or(o.Forget, 5*time.Minute)
	o.Waiting, o.Listen = cmp.Or(o.Waiting, 64), cmp.Or(o.Listen, time.Second)
	return &Trace{o: o, of: map[string]*address{}, lines: map[line]*told{}}
}

// Asks answers how long a short body may take to be read to find out who was refused: a
// few times a second, else 0. So a few are read at a time, and need no other bound.
func (t *Trace) Asks() time.Duration {
	if t == nil {
		return 0
	}
	now := t.o.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.second).Abs() >= time.Second {
		t.second, t.asked = now, 0
	}
	if t.asked++; t.asked > mostAsked {
		return 0
	}
	return t.o.Listen
}

// Note keeps a refusal, and returns when it may be answered. Where as many wait as may,
// it does so at once, and answers that the connection is to be closed instead.
func (t *Trace) Note(ctx context.Context, r Refusal) (closes bool) {
	if t == nil {
		return false
	}
	if t.o.Count != nil {
		t.o.Count(r.Door, r.Reason)
	}
	r.At, r.Count, r.App, r.Address, r.Why = t.o.Now(), 1, short(r.App), short(r.Address), short(r.Why)
	r.Remote = hostOf(r.Remote)
	t.mu.Lock()
	a := t.address(r.Remote, r.At)
	a.last = r.At
	times, tells := t.tells(line{r.Remote, r.Door, r.Reason}, r.At)
	var wait time.Duration
	switch r.Reason {
	case Address, Unknown:
		t.keep(r)
	case Token, App:
		t.keep(r)
		if a.wrong++; a.wrong > 3 {
			wait = min(100*time.Millisecond<<min(a.wrong-4, 10), t.o.Longest)
		}
	}
	waits := wait > 0 && t.waiting < t.o.Waiting
	if waits {
		t.waiting++
	}
	t.mu.Unlock()
	if tells {
		t.o.Log.Warn("refused", "door", r.Door, "reason", r.Reason, "from", r.Remote, "times", times, "app", r.App, "executor", r.Address,
			"why", r.Why)
	}
	if !waits {
		return wait > 0
	}
	timer := time.NewTimer(wait)
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	timer.Stop()
	t.mu.Lock()
	t.waiting--
	t.mu.Unlock()
	return false
}

// tells counts a refusal of a kind, and answers how many there were since the line that
// told of them; tells says that it is time for the next.
func (t *Trace) tells(l line, now time.Time) (times int, tells bool) {
	if _, known := t.lines[l]; !known && len(t.lines) >= mostAddresses {
		maps.DeleteFunc(t.lines, func(_ line, k *told) bool { return now.Sub(k.at).Abs() >= t.o.Every })
		if len(t.lines) >= mostAddresses {
			l.remote = many
		}
	}
	k := t.lines[l]
	if k == nil {
		k = &told{}
		t.lines[l] = k
	}
	k.since++
	if !k.at.IsZero() && now.Sub(k.at).Abs() < t.o.Every {
		return 0, false
	}
	times, *k = k.since, told{at: now}
	return times, true
}

// many stands for the addresses beyond those that are told apart.
const many = "many more"

// address finds one, or makes room for it; where there is none it is one of many.
func (t *Trace) address(remote string, now time.Time) *address {
	if a := t.of[remote]; a != nil {
		if now.Sub(a.last).Abs() >= t.o.Forget {
			a.wrong = 0
		}
		return a
	}
	if len(t.of) >= mostAddresses {
		for name, a := range t.of {
			if now.Sub(a.last).Abs() >= t.o.Every {
				delete(t.of, name)
			}
		}
	}
	if len(t.of) >= mostAddresses {
		remote = many
	}
	if t.of[remote] == nil {
		t.of[remote] = &address{}
	}
	return t.of[remote]
}

// keep remembers who said that he is an executor of an app.
func (t *Trace) keep(r Refusal) {
	if r.App == "" {
		return
	}
	same := func(k Refusal) bool { return k.App == r.App && k.Address == r.Address && k.Remote == r.Remote }
	if i := slices.IndexFunc(t.executors, same); i >= 0 {
		r.Count += t.executors[i].Count
		t.executors = slices.Delete(t.executors, i, i+1)
	} else if len(t.executors) >= mostExecutors {
		t.executors = slices.Delete(t.executors, 0, 1)
	}
	t.executors = append(t.executors, r)
}

// Executors lists who said a while ago that he is an executor of an app, and was refused for
// his token, his address or his app; of all apps if app is empty.
func (t *Trace) Executors(app string) []Refusal {
	if t == nil {
		return nil
	}
	now := t.o.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.executors = slices.DeleteFunc(t.executors, func(r Refusal) bool { return now.Sub(r.At).Abs() >= t.o.Forget })
	var list []Refusal
	for _, r := range t.executors {
		if app == "" || r.App == app {
			list = append(list, r)
		}
	}
	return list
}

// hostOf is the IP address of a connection; of IPv6 the network that one customer has.
func hostOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return short(remote)
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}

func short(text string) string { return text[:min(len(text), mostText)] }
