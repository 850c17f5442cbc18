package core_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tickring/tickring/core"
)

// TestSecondsOfAPermit checks that each attempt gets one second, in order and within the rate. A clock that was an
// hour ahead causes no delay of an hour, and a slow clock no duplicates.
func TestSecondsOfAPermit(t *testing.T) {
	p := core.Permits{}
	ask := func(first core.RunID, attempt int, now core.Instant) (core.PermitResult, core.Instant) {
		answer, _ := p.Ask(core.PermitRequest{First: first, Limit: 10, PerSecond: 2, Attempt: attempt, Now: now, Named: true})
		return answer, p.From(first)
	}
	want := func(first core.RunID, attempt int, now core.Instant, answer core.PermitResult, from core.Instant) {
		t.Helper()
		if a, f := ask(first, attempt, now); a != answer || f != from {
			t.Errorf("run %d, attempt %d at %d: %d from %d, want %d from %d", first, attempt, now, a, f, answer, from)
		}
	}
	const now, hour = 10_000, 3600
	want(1, 1, now, core.PermitGranted, now)
	want(2, 1, now, core.PermitGranted, now)
	want(3, 1, now, core.PermitLater, now+1)
	want(3, 1, now, core.PermitLater, now+1)
	want(1, 2, now, core.PermitLater, now+1)   // a retry
	want(4, 1, now-1, core.PermitLater, now+2) // with a clock that is behind
	want(3, 1, now+1, core.PermitGranted, now+1)
	want(5, 1, now+1, core.PermitLater, now+2)
	want(6, 1, now+hour, core.PermitGranted, now+hour)
	want(7, 1, now+3, core.PermitLater, now+4)
	want(6, 1, now+3, core.PermitLater, now+4) // the second from that clock is ignored
	want(8, 1, now+3, core.PermitLater, now+5)
	want(7, 1, now+4, core.PermitGranted, now+4)
	want(9, 1, now+4, core.PermitLater, now+5)
	want(10, 1, now+4, core.PermitLater, now+6)
	want(1, 3, now+4, core.PermitLater, now+6)
	if a, _ := p.Ask(core.PermitRequest{First: 1, Limit: 2, PerSecond: 2, Attempt: 3, Now: now, Named: true}); a != core.PermitLater ||
		p.From(1) != now+6 {
		t.Errorf("%d from %d: ten still have a permit, and may need that many seconds", a, p.From(1))
	}
	want(1, 3, now+4-hour, core.PermitLater, now+5-hour) // set back while it waits, without another ask
}

// TestSecondsOfTheClosed checks that runs closed before their second leave it to others. No run waits longer than the
// holders need, and no second exceeds the rate.
func TestSecondsOfTheClosed(t *testing.T) {
	for seed := range uint64(2000) {
		d := rand.New(rand.NewPCG(seed, 0))
		limit, most := 1+d.IntN(12), 1+d.IntN(5)
		p, begun, now, next := core.Permits{}, map[core.Instant]int{}, core.Instant(1000), core.RunID(0)
		waits := map[core.RunID]bool{}
		ask := func(first core.RunID) {
			answer, _ := p.Ask(core.PermitRequest{First: first, Limit: limit, PerSecond: most, Attempt: 1, Now: now, Named: true})
			switch from := p.From(first); {
			case answer == core.PermitLater && from-now > core.Instant(limit/most)+6:
				t.Fatalf("seed %d: at %d one of %d waits until %d", seed, now, limit, from)
			case answer == core.PermitLater:
				waits[first] = true
			case answer == core.PermitGranted:
				delete(waits, first)
				if begun[now]++; begun[now] > most {
					t.Fatalf("seed %d: %d begin in second %d, %d may", seed, begun[now], now, most)
				}
			}
		}
		for range 200 {
			switch d.IntN(8) {
			case 0:
				for now++; ; {
					i := slices.IndexFunc(p.Holders, func(h core.Holder) bool { return waits[h.First] && h.From <= now })
					if i < 0 {
						break
					}
					ask(p.Holders[i].First)
				}
			case 1, 2, 3:
				if n := len(p.Holders); n > 0 {
					gone := p.Holders[d.IntN(n)].First
					p.Release(now.Time(), func(first core.RunID) bool { return first == gone })
				}
			default:
				if len(p.Holders) < limit {
					next++
					ask(next)
				}
			}
		}
	}
}

// TestClocksApart checks that two machines with different clocks assign no second twice.
func TestClocksApart(t *testing.T) {
	p, begin, last := core.Permits{}, map[core.Instant]int{}, core.Instant(0)
	for i := range core.RunID(200) {
		now := core.Instant(1000+i/2) - core.Instant(i%2)*4
		answer, _ := p.Ask(core.PermitRequest{First: i + 1, Limit: 2, PerSecond: 1, Attempt: 1, Now: now, Named: true})
		if from := p.From(i + 1); answer == core.PermitGranted || answer == core.PermitLater {
			if begin[from]++; begin[from] > 1 || from < last {
				t.Fatalf("at %d: %d begin in second %d, after %d", now, begin[from], from, last)
			}
			last = from
		}
		p.Release(now.Time(), func(first core.RunID) bool { return p.From(first) <= 1000+core.Instant(i/2) })
	}
}

// TestPerSecondRaised checks that after a change of the rate, assigned seconds stay, or at least the starts in a
// second stay within the rate.
func TestPerSecondRaised(t *testing.T) {
	for name, change := range map[string]func(a *core.PermitRequest){
		"perSecond is raised":              func(a *core.PermitRequest) { a.PerSecond = 10 },
		"inFlight is lowered, one retries": func(a *core.PermitRequest) { a.Limit, a.First, a.Attempt = 100, 1, 2 },
	} {
		p := core.Permits{Name: "app/a"}
		ask := core.PermitRequest{Limit: 1000, Max: 1000, PerSecond: 1, Attempt: 1, Now: 1000, Named: true}
		for i := range 900 {
			ask.First = core.RunID(i + 1)
			p.Ask(ask)
		}
		now := ask
		now.Now, now.First = 1002, 9999
		change(&now)
		p.Ask(now)
		begin := 0
		for i := range 900 {
			a := now
			a.First, a.Attempt = core.RunID(i+1), 1
			if p.From(a.First) <= 1002 {
				continue // it starts as assigned, or has started
			}
			if answer, _ := p.Ask(a); answer == core.PermitGranted {
				begin++
			}
		}
		if begin > 10 {
			t.Errorf("%s: %d begin in one second", name, begin)
		}
	}
}
