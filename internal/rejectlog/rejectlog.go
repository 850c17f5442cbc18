// Package rejectlog records the requests that an endpoint rejects. It counts rejections, writes a log line for each
// address, reason and minute, and remembers the clients that claimed to be executors of an app. An address that
// repeats wrong tokens gets its answers with an increasing delay. The memory use is limited. The package itself
// rejects no requests.
package rejectlog

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

// Endpoints that reject requests.
const (
	Registry = "registry"
	Callback = "callback"
	Queue    = "queue"
	Report   = "report"
	API      = "api"
)

// Reasons for a rejection.
const (
	Token  = "token"  // the token is unknown, or the key in a report URL is wrong
	App    = "app"    // the token does not belong to the app in the request
	Large  = "large"  // the body is too large
	Busy   = "busy"   // the server had no capacity left for the request
	Quota  = "quota"  // code declared more jobs or changes than it may declare
	Unsent = "unsent" // the request reported the end of a run that no executor has
	Page   = "page"   // the client is a web page in a browser

	Invalid     = "invalid"     // at least a part of the request is invalid
	Address     = "address"     // the address in the request cannot be used
	Unknown     = "unknown"     // the app or the run in the request does not exist
	Unavailable = "unavailable" // the server could not process the request
)

// Refusal is one rejected request, or several equal rejected requests. App and Address have the values that the client
// sent.
type Refusal struct {
	Door, Reason string
	Remote       string // IP address and port of the client's connection
	App, Address string // app and address of an executor; empty if unknown
	Why          string // error text that the server returned
	At           time.Time
	Count        int
}

// Options has the settings of a Trace. The zero value of a field means its default.
type Options struct {
	Now func() time.Time
	Log *slog.Logger
	// Count is called for each rejection; nil: no call.
	Count func(endpoint, reason string)
	// Longest is the maximum delay of an answer to an address that repeats wrong tokens. The fourth wrong token
	// gets the first delay, and the delay grows with each further wrong token.
	Longest time.Duration // default: 0, no delay
	// Waiting is the maximum number of concurrent delayed answers. Each delayed answer uses a connection.
	Waiting int // default: 64
	// Listen is the maximum time to read the body of a rejected request, in order to identify the client.
	Listen time.Duration // default: 1 s
	// Every is the minimum time between two log lines about one address. Forget is the time without a rejection
	// after which an address is forgotten.
	Every, Forget time.Duration // default: 1 min for Every, 5 min for Forget
}

// How much is kept.
const (
	mostAddresses = 1000
	mostExecutors = 100
	mostAsked     = 20 // a second
	mostText      = 200
)

// Trace records rejected requests. A nil Trace records nothing.
type Trace struct {
	o Options

	mu        sync.Mutex
	of        map[string]*address
	lines     map[line]*told
	executors []Refusal // in the order of their last rejection
	waiting   int
	asked     int
	second    time.Time
}

// address is the state of one address.
type address struct {
	last  time.Time
	wrong int // tokens
}

// line is a kind of rejection, for which an address has a line a minute.
type line struct{ remote, endpoint, reason string }

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

// Asks returns the maximum time to read a short body of a rejected request, to identify the client. The result is
// Options.Listen for a few requests in each second, and 0 for all further requests. Few bodies are therefore read at the
// same time.
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

// Note records a rejected request, and returns at the time when the request may be answered. If the maximum number of
// answers is already delayed, Note returns at once. The result then reports that the connection must be closed without
// an answer.
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
		t.o.Log.Warn("request rejected", "endpoint", r.Door, "reason", r.Reason, "from", r.Remote, "times", times, "app", r.App,
			"executor", r.Address, "why", r.Why)
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

// tells counts a rejection of a kind. It returns the number since the last log line, and
// whether the next line is due.
func (t *Trace) tells(l line, now time.Time) (times int, tells bool) {
	old := func(k *told) bool { return now.Sub(k.at).Abs() >= t.o.Every }
	k := entry(t.lines, l, line{many, l.endpoint, l.reason}, old)
	k.since++
	if !k.at.IsZero() && !old(k) {
		return 0, false
	}
	times, *k = k.since, told{at: now}
	return times, true
}

// many stands for all addresses beyond the maximum.
const many = "many more"

// address returns the state of an address.
func (t *Trace) address(remote string, now time.Time) *address {
	a := entry(t.of, remote, many, func(a *address) bool { return now.Sub(a.last).Abs() >= t.o.Every })
	if now.Sub(a.last).Abs() >= t.o.Forget {
		a.wrong = 0
	}
	return a
}

// entry returns the value of a key, which it adds to the map. If there is no room, even without the old values, it returns
// the value of the key full.
func entry[K comparable, V any](of map[K]*V, key, full K, old func(*V) bool) *V {
	if of[key] == nil && len(of) >= mostAddresses {
		maps.DeleteFunc(of, func(_ K, v *V) bool { return old(v) })
		if len(of) >= mostAddresses {
			key = full
		}
	}
	if of[key] == nil {
		of[key] = new(V)
	}
	return of[key]
}

// keep records clients that claimed to be executors of an app.
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

// Executors lists the recent clients that claimed to be executors of an app and were rejected because of the token,
// address or app. If app is empty, Executors lists the clients of all apps.
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
