package access

import (
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

// House is whom an address is counted with: of IPv6 one household has a whole /64.
func House(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Unmap().Is4() {
		return address
	}
	net, _ := ip.WithZone("").Prefix(64)
	return net.String()
}

// take takes one before it is known to fail, or says that there is none left.
func (f *froms) take(address string, now time.Time) error {
	address = House(address)
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.of[address]
	if t == nil {
		if len(f.of) >= maxAddresses && now.Sub(f.swept) >= addressTry {
			f.swept = now
			for name, t := range f.of {
				if t.fill(now); t.left >= TriesOfAddress-1 { // as good as one that is not known
					delete(f.of, name)
				}
			}
		}
		if len(f.of) >= maxAddresses {
			address = "" // who comes now shares what is left
			t = f.of[address]
		}
	}
	if t == nil {
		if f.of == nil {
			f.of = map[string]*tries{}
		}
		t = &tries{left: TriesOfAddress, at: now}
		f.of[address] = t
	}
	if t.fill(now); t.left < 1 {
		return core.Errorf(core.CodeRefused, "too many log-ins failed from your address: again in %d s",
			int((1-t.left)*addressTry.Seconds())+1)
	}
	t.left--
	return nil
}

// giveBack returns what was taken for a log-in that was none to fail.
func (f *froms) giveBack(address string) {
	address = House(address)
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.of[address]; t != nil {
		t.left = min(TriesOfAddress, t.left+1)
	}
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
