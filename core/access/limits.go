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

// Of an address so many log-ins may fail, and one more each so often: a house full of people
// is behind one, and so is who tries names.
const (
	TriesOfAddress = 30
	addressTry     = 20 * time.Second
	maxAddresses   = 10_000
)

// froms counts the log-ins that fail, by address. The zero value is ready.
type froms struct {
	mu    sync.Mutex
	of    map[string]*tries
	swept time.Time
}

// tries are what is left to an address.
type tries struct {
	left float64
	at   time.Time
}

func (t *tries) fill(now time.Time) {
	t.left = min(TriesOfAddress, t.left+float64(max(0, now.Sub(t.at)))/float64(addressTry))
	t.at = now
}

// maxWaiting is how many wait in a lane; the next one gets an error.
const maxWaiting = 32

// A lane is a queue for the hashing of passwords, which takes a core and 19 MB each: one password
// is hashed at a time, and maxWaiting wait.
type lane struct{ in, turn chan struct{} }

func newLane() lane { return lane{make(chan struct{}, 1+maxWaiting), make(chan struct{}, 1)} }

// do waits for its turn, and does something.
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

// full reports whether the next one gets an error.
func (l lane) full() bool { return len(l.in) == cap(l.in) }

var errFull = core.Errorf(core.CodeUnavailable, "%d logins are waiting: try again in a few seconds", maxWaiting)

// House is whom an address is counted with: of IPv6 one household has a whole /64.
func House(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Unmap().Is4() {
		return address
	}
	net, _ := ip.WithZone("").Prefix(64)
	return net.String()
}

// placesOf are where an address is counted, the nearest first: its house, and networks around it, of which
// the widest are few. Loopback is counted nowhere: it is the address of this machine, or of a
// proxy that is not trusted, and then of everybody behind it.
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

// take takes one before it is known to fail, or says that there is none left. It is counted in the first
// of the places that is known here, or that there is room for: who fills the nearest leaves room for
// the wider, and shares what is left with his neighbours alone. For the last there always is.
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
			if t.fill(now); t.left >= TriesOfAddress-1 { // as good as one that is not known
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

// giveBack returns what was taken for a log-in that was none to fail.
func (f *froms) giveBack(t *tries) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t.left = min(TriesOfAddress, t.left+1)
}

// OnceFor is how long a link that logs in once is good.
const OnceFor = 15 * time.Minute

// once is the secret of the link that logs in once. The zero value has none.
type once struct {
	mu     sync.Mutex
	secret string
	end    time.Time
}

// make draws a secret; the one before it is good no more.
func (o *once) make(now time.Time) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.secret, o.end = rand.Text(), now.Add(OnceFor)
	return o.secret
}

// use reports whether a secret is the one, which it is once.
func (o *once) use(secret string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.secret == "" || subtle.ConstantTimeCompare([]byte(o.secret), []byte(secret)) != 1 {
		return false
	}
	o.secret = ""
	return now.Before(o.end)
}
