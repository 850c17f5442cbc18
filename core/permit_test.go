package core_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tickring/tickring/core"
)

// TestSecondsOfAPermit: each attempt has one second, in order and no more than may; a clock
// that was an hour ahead costs nobody an hour, and one that is behind gives no second twice.
func TestSecondsOfAPermit(t *testing.T) {
	p := core.Permits{}
	ask := func(first core.RunID, attempt int, now core.Instant) (core.PermitAnswer, core.Instant) {
		answer, _ := p.Ask(core.Asked{First: first, Limit: 10, PerSecond: 2, Attempt: attempt, Now: now, Stored: true})
		return answer, p.From(first)
	}
	want := func(first core.RunID, attempt int, now core.Instant, answer core.PermitAnswer, from core.Instant) {
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
	want(4, 1, now-1, core.PermitLater, now+2) // by a clock that is behind
	want(3, 1, now+1, core.PermitGranted, now+1)
	want(5, 1, now+1, core.PermitLater, now+2)
	want(6, 1, now+hour, core.PermitGranted, now+hour)
	want(7, 1, now+3, core.PermitLater, now+4)
	want(6, 1, now+3, core.PermitLater, now+4) // what that clock said counts no more
	want(8, 1, now+3, core.PermitLater, now+5)
	want(7, 1, now+4, core.PermitGranted, now+4)
	want(9, 1, now+4, core.PermitLater, now+5)
	want(10, 1, now+4, core.PermitLater, now+6)
	want(1, 3, now+4, core.PermitLater, now+6)
	if a, _ := p.Ask(core.Asked{First: 1, Limit: 2, PerSecond: 2, Attempt: 3, Now: now, Stored: true}); a != core.PermitLater ||
		p.From(1) != now+6 {
		t.Errorf("%d from %d: ten have a permit yet, and may need so many seconds", a, p.From(1))
	}
	want(1, 3, now+4-hour, core.PermitLater, now+5-hour) // set back while it waits, and nobody asks anew
}

// TestSecondsOfTheClosed: what is closed before its second came leaves it to others, so that
// none waits for longer than those need that have a permit, and no more begin in any second
// than may.
func TestSecondsOfTheClosed(t *testing.T) {
	for seed := range uint64(2000) {
		d := rand.New(rand.NewPCG(seed, 0))
		limit, most := 1+d.IntN(12), 1+d.IntN(5)
		p, begun, now, next := core.Permits{}, map[core.Instant]int{}, core.Instant(1000), core.RunID(0)
		waits := map[core.RunID]bool{}
		ask := func(first core.RunID) {
			answer, _ := p.Ask(core.Asked{First: first, Limit: limit, PerSecond: most, Attempt: 1, Now: now, Stored: true})
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
					p.Release(func(first core.RunID) bool { return first == gone })
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

// TestClocksApart: two whose clocks are apart, as those of machines are, give no second twice.
func TestClocksApart(t *testing.T) {
	p, begin, last := core.Permits{}, map[core.Instant]int{}, core.Instant(0)
	for i := range core.RunID(200) {
		now := core.Instant(1000+i/2) - core.Instant(i%2)*4
		answer, _ := p.Ask(core.Asked{First: i + 1, Limit: 2, PerSecond: 1, Attempt: 1, Now: now, Stored: true})
		if from := p.From(i + 1); answer == core.PermitGranted || answer == core.PermitLater {
			if begin[from]++; begin[from] > 1 || from < last {
				t.Fatalf("at %d: %d begin in second %d, after %d", now, begin[from], from, last)
			}
			last = from
		}
		p.Release(func(first core.RunID) bool { return p.From(first) <= 1000+core.Instant(i/2) })
	}
}

// TestPerSecondRaised: what has a second that is to come keeps it, or at least no more begin
// at once than may, where the number is changed.
func TestPerSecondRaised(t *testing.T) {
	for name, change := range map[string]func(a *core.Asked){
		"perSecond is raised":              func(a *core.Asked) { a.PerSecond = 10 },
		"inFlight is lowered, one retries": func(a *core.Asked) { a.Limit, a.First, a.Attempt = 100, 1, 2 },
	} {
		p := core.Permits{Name: "app/a"}
		ask := core.Asked{Limit: 1000, Max: 1000, PerSecond: 1, Attempt: 1, Now: 1000, Stored: true}
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
				continue // it has begun, or begins now, as it was given
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
