package sim

import (
	"testing"
	"time"
)

// bound is a pure function of what is due and of what was in its way.
func TestBound(t *testing.T) {
	due := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return due.Add(time.Duration(seconds) * time.Second) }
	for name, c := range map[string]struct {
		troubles []trouble
		want     int
	}{
		"nothing is in its way":               {nil, 5},
		"what was over before":                {[]trouble{{at(-60), at(-1)}}, 5},
		"what began before":                   {[]trouble{{at(-60), at(20)}}, 25},
		"what comes too late":                 {[]trouble{{at(6), at(60)}}, 5},
		"one after the other":                 {[]trouble{{at(1), at(20)}, {at(24), at(40)}}, 45},
		"one after the other, and a gap":      {[]trouble{{at(1), at(20)}, {at(26), at(40)}}, 25},
		"two at a time":                       {[]trouble{{at(1), at(30)}, {at(2), at(10)}}, 35},
		"the last moment of one, and another": {[]trouble{{at(0), at(10)}, {at(15), at(16)}}, 21},
	} {
		if got := bound(due, 5*time.Second, c.troubles); !got.Equal(at(c.want)) {
			t.Errorf("%s: %s after it was due, want %d s", name, got.Sub(due), c.want)
		}
	}
}
