package access

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"net/netip"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

// TriesOfAddress is the maximum number of failed logins from one address. After that number, one more login can fail
// every 20 s. The number is high because all people in a household can share one address.
const (
	TriesOfAddress = 30
	addressTry     = 20 * time.Second
	maxAddresses   = 10_000
)

// froms counts the failed logins by address. The zero value is ready.
type froms struct {
	mu    sync.Mutex
	of    map[string]*tries
	swept time.Time
}

// tries is the number of failures that an address has left.
type tries struct {
	left float64
	at   time.Time
}

func (t *tries) fill(now time.Time) {
	t.left = min(TriesOfAddress, t.left+float64(max(0, now.Sub(t.at)))/float64(addressTry))
	t.at = now
}

// maxWaiting is how many callers wait in a lane; further callers get an error.
const maxWaiting = 32

// A lane queues the hashing of passwords, which takes a core and 19 MB: it hashes one password at a time.
type lane struct{ in, turn chan struct{} }

func newLane() lane { return lane{make(chan struct{}, 1+maxWaiting), make(chan struct{}, 1)} }

// do waits for its turn and then calls a function.
func (l lane) do(ctx context.Context, do func()) error {
	select {
	case l.in <- struct{}{}:
		defer func() { <-l.in }()
	default:
		return errFull
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	do()
	return nil
}

// full reports whether the next caller gets an error.
func (l lane) full() bool { return len(l.in) == cap(l.in) }

var errFull = core.Errorf(core.CodeUnavailable, "%d logins are already waiting: try again in a few seconds", maxWaiting)

// House returns the address by which failed logins are counted. For an IPv6 address, House returns the /64 network,
// because a household usually has a whole /64 network.
func House(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Unmap().Is4() {
		return address
	}
	net, _ := ip.WithZone("").Prefix(64)
	return net.String()
}

// placesOf returns the networks that count an address, the narrowest first: its house, then wider ones.
// Loopback is not counted: it is this machine, or an untrusted proxy and therefore all clients behind it.
func placesOf(address string) []string {
	places := []string{House(address)}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return append(places, "")
	}
	if ip.Unmap().IsLoopback() {
		return nil
	}
	around := []int{48, 32, 16}
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		around = []int{16, 8}
	}
	for _, bits := range around {
		net, _ := ip.Prefix(bits)
		places = append(places, net.String())
	}
	return places
}

// take counts a try before its result is known, and fails if none is left. It uses the first place that already
// has a counter or for which there is room. A client that fills the narrow places thus shares a counter with
// its own network only. The last place always has room.
func (f *froms) take(places []string, now time.Time) (*tries, error) {
	if len(places) == 0 {
		return &tries{}, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[string]*tries{}
	}
	if len(f.of) >= maxAddresses && now.Sub(f.swept) >= addressTry {
		f.swept = now
		for place, t := range f.of {
			if t.fill(now); t.left >= TriesOfAddress-1 { // equal to an address without a counter
				delete(f.of, place)
			}
		}
	}
	var t *tries
	for i, place := range places {
		if t = f.of[place]; t == nil && (len(f.of) < (i+1)*maxAddresses || i == len(places)-1) {
			t = &tries{left: TriesOfAddress, at: now}
			f.of[place] = t
		}
		if t != nil {
			break
		}
	}
	if t.fill(now); t.left < 1 {
		return nil, core.Errorf(core.CodeRefused, "too many logins failed from your address: try again in %d s",
			int((1-t.left)*addressTry.Seconds())+1)
	}
	t.left--
	return t, nil
}

// giveBack returns a try of a login that did not fail.
func (f *froms) giveBack(t *tries) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t.left = min(TriesOfAddress, t.left+1)
}

// OnceFor is how long a one-time login link is valid.
const OnceFor = 15 * time.Minute

// once holds the secret of the one-time login link. The zero value has none.
type once struct {
	mu     sync.Mutex
	secret string
	end    time.Time
}

// make creates a secret, which replaces the previous one.
func (o *once) make(now time.Time) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.secret, o.end = rand.Text(), now.Add(OnceFor)
	return o.secret
}

// use reports whether a secret is valid, and invalidates it.
func (o *once) use(secret string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.secret == "" || subtle.ConstantTimeCompare([]byte(o.secret), []byte(secret)) != 1 {
		return false
	}
	o.secret = ""
	return now.Before(o.end)
}
