package rejectlog

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
)

func wrong(i int) Refusal {
	return Refusal{Door: Registry, Reason: Token, Remote: fmt.Sprintf("10.0.%d.%d:999", i/250, i%250), App: fmt.Sprint("app", i),
		Address: "http://10.0.0.1:9999"}
}

// An address has one line a minute, which shows how often it came.
func TestALineForEachAddressAndMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		counted := map[string]int{}
		trace := New(Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Count: func(door, reason string) { counted[door+" "+reason]++ }})
		for range 61 { // at 0 s, 1 s … 60 s
			for i := range 2 {
				r := wrong(i)
				r.Remote = strings.TrimSuffix(r.Remote, "999") + fmt.Sprint(time.Now().Second())
				trace.Note(t.Context(), r)
			}
			time.Sleep(time.Second)
		}
		if n := strings.Count(log.String(), "\n"); n != 4 || strings.Count(log.String(), "times=60") != 2 ||
			!strings.Contains(log.String(), "from=10.0.0.1 ") {
			t.Errorf("%d lines:\n%s", n, &log)
		}
		check.Equal(t, counted["registry token"], 122, "%v", counted)
	})
}

// An address that repeats wrong tokens waits longer and longer. Other rejections do not wait,
// and only a few may wait at once.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trace := New(Options{Longest: 2 * time.Second, Waiting: 5})
		note := func(ctx context.Context, r Refusal) time.Duration {
			began := time.Now()
			trace.Note(ctx, r)
			return time.Since(began)
		}
		var waits []time.Duration
		for range 10 {
			waits = append(waits, note(t.Context(), wrong(0)))
		}
		check.Equal(t, fmt.Sprint(waits), "[0s 0s 0s 100ms 200ms 400ms 800ms 1.6s 2s 2s]")
		large := wrong(0)
		large.Reason = Large
		check.Equal(t, note(t.Context(), large), 0, "a client that sends too much waits")
		check.Equal(t, note(t.Context(), wrong(1)), 0, "another address waits")
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		check.Equal(t, note(gone, wrong(0)), 0, "a disconnected client is waited for")
		began := time.Now()
		var all sync.WaitGroup
		var closed atomic.Int32
		for range 1000 {
			all.Go(func() {
				if trace.Note(t.Context(), wrong(0)) {
					closed.Add(1)
				}
			})
		}
		synctest.Wait()
		if trace.waiting != 5 || closed.Load() != 995 || trace.Note(t.Context(), wrong(2)) {
			t.Errorf("%d wait, the connections of %d are closed", trace.waiting, closed.Load())
		}
		all.Wait()
		if trace.waiting != 0 || closed.Load() != 995 || time.Since(began) > 2*time.Second {
			t.Errorf("%d wait after %v", trace.waiting, time.Since(began))
		}
		time.Sleep(5 * time.Minute)
		check.Equal(t, note(t.Context(), wrong(0)), 0, "after five minutes it waits")
	})
}

// Little is kept, regardless of the number and content of the requests.
func TestLittleIsKept(t *testing.T) {
	check.Long(t)
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		trace := New(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		for i := range 20_000 {
			r := wrong(i)
			r.Address = strings.Repeat("x", 10_000)
			trace.Note(t.Context(), r)
		}
		list := trace.Executors("")
		if len(trace.of) > mostAddresses+1 || len(list) != mostExecutors || len(list[0].Address) != mostText ||
			strings.Count(log.String(), "\n") > mostAddresses+1 {
			t.Errorf("%d addresses, %d executors, %d lines", len(trace.of), len(list), strings.Count(log.String(), "\n"))
		}
		trace.Note(t.Context(), wrong(7))
		trace.Note(t.Context(), wrong(7))
		if list := trace.Executors("app7"); len(list) != 1 || list[0].Count != 2 || list[0].Remote != "10.0.0.7" {
			t.Errorf("%+v", list)
		}
		time.Sleep(5 * time.Minute)
		if list := trace.Executors(""); len(list) != 0 {
			t.Errorf("after five minutes: %+v", list)
		}
		asks := 0
		for range 1000 {
			if trace.Asks() == time.Second {
				asks++
			}
		}
		check.Equal(t, asks, mostAsked, "asks N times a second")
		var none *Trace
		if none.Note(t.Context(), wrong(1)); none.Executors("") != nil || none.Asks() != 0 {
			t.Error("none keeps something")
		}
	})
}

func TestHostOf(t *testing.T) {
	for remote, want := range map[string]string{"10.0.0.1:80": "10.0.0.1", "[::ffff:10.0.0.1]:80": "10.0.0.1",
		"[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::/64", "[fe80::1%eth0]:1": "fe80::/64", "?": "?", "": ""} {
		check.Equal(t, hostOf(remote), want, "%s", remote)
	}
}
