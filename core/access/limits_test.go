package access

import (
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
)

// TestWhoFillsTheCountKeepsNobodyWaiting checks that a client with very many addresses uses up only the tries
// of its own network, and that the number of counters is limited.
func TestWhoFillsTheCountKeepsNobodyWaiting(t *testing.T) {
	now := time.Date(2026, 11, 26, 5, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		fill   func(i int) string // the addresses of one client, in one network
		own    string             // another address of that network
		others []string
		second func(i int) string // addresses in many networks
		ownNow string             // another address of these networks
		late   string             // a client that comes after both
	}{
		"IPv6": {
			fill:   func(i int) string { return fmt.Sprintf("2001:db8:bad:%x::1", i) },
			own:    "2001:db8:bad:ffff::1",
			others: []string{"2001:db8:900d::1", "2a00:1:2:3::1", "10.1.2.3", "::ffff:10.9.2.3"},
			second: func(i int) string { return fmt.Sprintf("2003:6:%x::1", i) },
			ownNow: "2003:6:ffff::1", late: "2a00:9::1",
		},
		"IPv4": {
			fill:   func(i int) string { return fmt.Sprintf("10.6.%d.%d", i/250, i%250) },
			own:    "10.6.255.255",
			others: []string{"10.7.0.1", "192.0.2.1", "2001:db8:900d::1"},
			second: func(i int) string { return fmt.Sprintf("%d.%d.0.1", 20+i/250, i%250) },
			ownNow: "21.255.0.1", late: "192.0.3.1",
		},
	} {
		var f froms
		try := func(address string) error { _, err := f.take(placesOf(address), now); return err }
		fill := func(of func(i int) string) {
			for i := range maxAddresses {
				for range 2 {
					if err := try(of(i)); err != nil {
						t.Fatalf("%s: %s: %v", name, of(i), err)
					}
				}
			}
		}
		spend := func(own string) {
			for range TriesOfAddress {
				_ = try(own)
			}
			if try(own) == nil {
				t.Errorf("%s: %s has more than others", name, own)
			}
		}
		fill(c.fill)
		spend(c.own)
		for _, other := range c.others {
			if err := try(other); err != nil {
				t.Errorf("%s: %s: %v", name, other, err)
			}
		}
		fill(c.second)
		spend(c.ownNow)
		for _, other := range append(c.others, c.late) {
			if err := try(other); err != nil {
				t.Errorf("%s, by two networks: %s: %v", name, other, err)
			}
		}
		for i := range 5 * maxAddresses {
			_ = try(fmt.Sprintf("2%03x:%x::1", i%0x500, i))
		}
		if n := len(f.of); n > 4*maxAddresses {
			t.Errorf("%s: %d are remembered", name, n)
		}
		now = now.Add(time.Hour)
		if err := try("10.1.1.1"); err != nil || len(f.of) != 1 {
			t.Errorf("%s: after an hour %d are remembered, %v", name, len(f.of), err)
		}
	}
}

// TestGivenBackWhereItWasTaken checks that a successful login returns its try to the network that counted it.
func TestGivenBackWhereItWasTaken(t *testing.T) {
	now := time.Date(2026, 11, 26, 5, 0, 0, 0, time.UTC)
	var f froms
	for i := range maxAddresses {
		check.Call(t)(f.take(placesOf(fmt.Sprintf("2001:db8:bad:%x::1", i)), now))
	}
	for range 2 * TriesOfAddress {
		took, err := f.take(placesOf("10.1.1.1"), now)
		check.OK(t, err)
		f.giveBack(took)
	}
}
