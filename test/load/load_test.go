package load

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// Nothing is loaded, purged or killed on another machine.
func TestPlace(t *testing.T) {
	for _, bad := range []string{"", "http://", "http://localhost:8801", "http://10.0.0.1:8801", "https://dynamodb.us-east-1.amazonaws.com",
		"http://127.0.0.1.example.com:1", "http://[::ffff:10.0.0.1]:1", "http://127.0.0.1:1/x", "ftp://127.0.0.1"} {
		if _, err := NewPlace(bad, "http://127.0.0.1:1"); err == nil || !strings.HasPrefix(err.Error(), "dynamodb: ") {
			t.Errorf("%q: %v", bad, err)
		}
		if _, err := NewPlace("http://127.0.0.1:1", bad); err == nil || !strings.HasPrefix(err.Error(), "sqs: ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if p, err := NewPlace("http://127.0.0.1:1/", "http://[::1]:2"); err != nil || p != (Place{"http://127.0.0.1:1", "http://[::1]:2"}) {
		t.Errorf("%v, %v", p, err)
	}
}

// TestCompare: each failure of a load is separated from the results that the protocol allows.
func TestCompare(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	id := core.PlannedRun(1, core.InstantOf(at))
	other := core.PlannedRun(1, core.InstantOf(at)+1)
	texts := golden.New(t)
	for _, c := range []struct {
		name   string
		got    []time.Time
		struck []time.Time
		state  core.State
		early  int
	}{
		{"fine", []time.Time{at}, nil, core.Succeeded, 0},
		{"lost", nil, nil, core.Running, 0},
		{"early", []time.Time{at}, nil, core.Succeeded, 1},
		{"not done", []time.Time{at}, nil, core.Lost, 0},
		{"sent again after a death", []time.Time{at, at.Add(5 * time.Second)}, []time.Time{at.Add(time.Second)}, core.Succeeded, 0},
		{"twice without a death", []time.Time{at, at}, nil, core.Succeeded, 0},
		{"twice, long before the death", []time.Time{at, at.Add(time.Minute)}, []time.Time{at.Add(resendable + time.Second)}, core.Succeeded, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &load{o: Options{Log: t.Logf}, got: map[core.RunID][]time.Time{}, struck: map[core.RunID][]time.Time{}, early: c.early}
			if c.got != nil {
				l.got[id] = c.got
			}
			if c.struck != nil {
				l.struck[id] = c.struck
			}
			r := l.compare([]core.RunID{id}, map[core.RunID]core.Run{id: {ID: id, State: c.state}})
			r.Faults = l.faults
			var out bytes.Buffer
			r.Print(&out)
			texts.Equal(t, c.name, out.String())
		})
	}
	l := &load{o: Options{Log: t.Logf}, got: map[core.RunID][]time.Time{id: {at}, other: {at}}, kills: 1}
	if l.compare([]core.RunID{id}, map[core.RunID]core.Run{id: {State: core.Succeeded}}); len(l.faults) != 2 {
		t.Errorf("an unexpected run, and kills of processes with nothing in hand: %q", l.faults)
	}
}
