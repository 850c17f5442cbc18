package partitioning

import (
	"testing"
	"time"

	"github.com/tickring/tickring/core"
)

var now = time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// TestRates checks when the number of partitions grows and when it shrinks.
func TestRates(t *testing.T) {
	r := Rates{Max: 16}.defaults()
	for what, c := range map[string]struct {
		partitions, readable int
		busy                 time.Duration // time since partitions were needed; 0: unknown
		rate, seconds        int           // of the busiest partition
		want, reads          int
		noted                bool
	}{
		"one, idle":                   {partitions: 1, readable: 1, want: 1, reads: 1},
		"none set, idle":              {want: 0, reads: 0},
		"over its rate for long":      {partitions: 1, readable: 1, rate: 401, seconds: 30, want: 2, reads: 2, noted: true},
		"none set, over its rate":     {rate: 401, seconds: 30, want: 2, reads: 2, noted: true},
		"over its rate, not for long": {partitions: 1, readable: 1, rate: 401, seconds: 29, want: 1, reads: 1},
		"at its rate":                 {partitions: 1, readable: 1, rate: 400, seconds: 600, want: 1, reads: 1},
		"no more than allowed": {partitions: 12, readable: 12, busy: time.Minute, rate: 500, seconds: 60, want: 16, reads: 16,
			noted: true},
		"as many as allowed":          {partitions: 16, readable: 16, busy: time.Minute, rate: 500, seconds: 60, want: 16, reads: 16},
		"while others are still read": {partitions: 1, readable: 8, busy: time.Minute, rate: 500, seconds: 60, want: 2, reads: 8, noted: true},
		"unknown begin":               {partitions: 4, readable: 4, want: 4, reads: 4, noted: true},
		"idle, not for long":          {partitions: 4, readable: 4, busy: 23 * time.Hour, want: 4, reads: 4},
		"idle":                        {partitions: 4, readable: 4, busy: 24 * time.Hour, want: 2, reads: 4, noted: true},
		"idle, to the last":           {partitions: 2, readable: 4, busy: 24 * time.Hour, want: 1, reads: 4, noted: true},
		"needed": {partitions: 4, readable: 4, busy: 24 * time.Hour, rate: 201, seconds: 10, want: 4, reads: 4,
			noted: true},
		"needed for a moment":      {partitions: 4, readable: 4, busy: 24 * time.Hour, rate: 201, seconds: 9, want: 2, reads: 4, noted: true},
		"needed, and noted before": {partitions: 4, readable: 4, busy: time.Hour, rate: 201, seconds: 60, want: 4, reads: 4},
		"half of the rate is too much": {partitions: 4, readable: 4, busy: 25 * time.Hour, rate: 200, seconds: 60, want: 2, reads: 4,
			noted: true},
	} {
		t.Run(what, func(t *testing.T) {
			g := core.Global{Partitions: c.partitions, Readable: c.readable}
			if c.busy != 0 {
				g.Busy = ago(c.busy)
			}
			busiest := &load{}
			for i := range c.seconds + 1 {
				busiest.count(r, c.rate, ago(time.Duration(c.seconds-i)*time.Second))
			}
			next := r.next(g, map[int]*load{0: {}, 1: busiest}, now)
			if next.Partitions != c.want || next.Readable != c.reads || next.Busy.Equal(now) != c.noted {
				t.Errorf("%d partitions, %d read, noted %s; want %d, %d, and that it was noted: %t", next.Partitions, next.Readable, next.Busy, c.want,
					c.reads, c.noted)
			}
		})
	}
}

// TestLoad: a second without advances resets the count; a gap without passes does not.
func TestLoad(t *testing.T) {
	r := Rates{Advance: 10}.defaults()
	count := func(perSecond ...int) int {
		l := &load{}
		for i, n := range perSecond {
			if n >= 0 {
				l.count(r, n, now.Add(time.Duration(i)*time.Second))
			}
		}
		return l.over
	}
	for what, c := range map[string]struct {
		of   []int
		want int
	}{
		"in a row": {[]int{11, 11, 11, 11}, 3},
		"one less": {[]int{11, 11, 10, 11, 11}, 1},
		"a gap":    {[]int{11, 11, 11, -1, -1, -1, 11, 11}, 3},
		"slow":     {[]int{22, -1, 22, -1, 22}, 4},
	} {
		if got := count(c.of...); got != c.want {
			t.Errorf("%s: %d seconds, want %d", what, got, c.want)
		}
	}
}
