package sim

import (
	"slices"
	"testing"
	"time"
)

// bound is a pure function of the due time and the troubles in its way.
func TestBound(t *testing.T) {
	due := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return due.Add(time.Duration(seconds) * time.Second) }
	for name, c := range map[string]struct {
		troubles []trouble
		want     int
	}{
		"nothing is in its way":               {nil, 5},
		"ended before":                        {[]trouble{{at(-60), at(-1)}}, 5},
		"what began before":                   {[]trouble{{at(-60), at(20)}}, 25},
		"too late":                            {[]trouble{{at(6), at(60)}}, 5},
		"one after the other":                 {[]trouble{{at(1), at(20)}, {at(24), at(40)}}, 45},
		"one after the other, and a gap":      {[]trouble{{at(1), at(20)}, {at(26), at(40)}}, 25},
		"two at a time":                       {[]trouble{{at(1), at(30)}, {at(2), at(10)}}, 35},
		"the last moment of one, and another": {[]trouble{{at(0), at(10)}, {at(15), at(16)}}, 21},
	} {
		if got := bound(due, always(5*time.Second), c.troubles); !got.Equal(at(c.want)) {
			t.Errorf("%s: %s after it was due, want %d s", name, got.Sub(due), c.want)
		}
	}
}

// A trouble merged into the last gives the same bound as a separate one.
func TestNotedOnce(t *testing.T) {
	due := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return due.Add(time.Duration(seconds) * time.Second) }
	ones := 0
	for seed := range uint64(2000) {
		d := dice{mix(seed)}
		var each, noted []trouble
		for range d.n(12) {
			from := d.n(40) - 20
			one := trouble{at(from), at(from + d.n(12))}
			each, noted = append(each, one), with(noted, one)
		}
		ones += len(each) - len(noted)
		if want, got := bound(due, always(5*time.Second), each), bound(due, always(5*time.Second), noted); !got.Equal(want) {
			t.Fatalf("seed %d: %s after it was due, want %s", seed, got.Sub(due), want.Sub(due))
		}
	}
	if ones == 0 {
		t.Error("none was one with another")
	}
}

// If the moment grows, the last trouble decides its length.
func TestBoundOfAges(t *testing.T) {
	due := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)
	age := func(from time.Time) time.Duration { return time.Minute + from.Sub(due) }
	if got := bound(due, age, []trouble{{due.Add(30 * time.Second), due.Add(2 * time.Minute)}}); !got.Equal(due.Add(5 * time.Minute)) {
		t.Errorf("%s after it was due", got.Sub(due))
	}
}

// A slot is due when the clock of the machine shows it, however often that is set.
func TestEarlier(t *testing.T) {
	slot := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return slot.Add(time.Duration(minutes) * time.Minute) }
	for name, c := range map[string]struct {
		clocks []clock
		want   []trouble
	}{
		"never set":                       {nil, nil},
		"ahead":                           {[]clock{{at(-9), 5 * time.Minute}}, []trouble{{at(-9), at(-5)}}},
		"behind, and set long before":     {[]clock{{at(-9), -5 * time.Minute}}, []trouble{{at(-9), at(5)}}},
		"behind, and set right in time":   {[]clock{{at(-9), -5 * time.Minute}, {at(-1), 0}}, []trouble{{at(-9), at(-1)}, {at(-1), at(0)}}},
		"set back after it showed it":     {[]clock{{at(3), -5 * time.Minute}}, []trouble{{at(3), at(5)}}},
		"set back by less than is over":   {[]clock{{at(6), -5 * time.Minute}}, nil},
		"behind by more and then by less": {[]clock{{at(-9), -30 * time.Minute}, {at(8), -5 * time.Minute}}, []trouble{{at(-9), at(8)}}},
	} {
		if got := earlier(slot, c.clocks); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
