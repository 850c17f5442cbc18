package postrun_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/internal/poller"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/postrun"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// counted is a ring that counts its messages.
type counted struct {
	store.Queue
	mu sync.Mutex
	n  int
}

func (c *counted) Enqueue(ctx context.Context, out []ring.Out) []error {
	c.mu.Lock()
	c.n += len(out)
	c.mu.Unlock()
	return c.Queue.Enqueue(ctx, out)
}

// heard records when the notification of a run was first requested.
type heard struct {
	mu   sync.Mutex
	when map[core.RunID]time.Time
	n    int // messages
}

func (h *heard) Messages(_ context.Context, list []ring.Message) []error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n += len(list)
	for i := range list {
		if _, is := h.when[list[i].PostRun.Run]; !is {
			h.when[list[i].PostRun.Run] = time.Now()
		}
	}
	return make([]error, len(list))
}

// TestNoticeBeforeLog checks that notifications wait at most half a minute for logs without a place. Messages
// are not requeued too often, and each log is kept.
func TestNoticeBeforeLog(t *testing.T) {
	for _, apps := range []int{1, 10} { // limited by the places of an app, or by all places
		t.Run(fmt.Sprint(apps, " apps"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 1000
				e := memory.Open(t, memory.Options{})
				hops, told := &counted{Queue: e.Queue}, &heard{when: map[core.RunID]time.Time{}}
				s := *e
				s.Queue = hops
				x := &executors{asked: map[string]int{}, most: map[string]int{}, at: map[string]int{},
					log: func(context.Context, string, *core.Run) (string, error) {
						time.Sleep(5 * time.Second)
						return "boom\n", nil
					}}
				var mu sync.Mutex
				kept := 0
				l := postrun.New(&s, x, postrun.Options{Notices: told, Log: slog.New(slog.DiscardHandler),
					Made: func(_ *core.Run, o postrun.Outcome) {
						mu.Lock()
						defer mu.Unlock()
						if o == postrun.Kept {
							kept++
						}
					}})
				began := time.Now()
				for i := range n {
					id := core.NumberedRun(core.JobID(100+i), 1)
					run := core.Run{ID: id, App: fmt.Sprint("app-", i%apps), State: core.Failed, Cause: core.CauseAPI, Reason: core.ReasonHandler,
						Attempt: 1, First: id, Address: fmt.Sprintf("http://10.0.0.%d:9999", i%20), SentAt: began, EndedAt: began,
						PostRun: core.PostRun{Log: true, Notice: true}}
					m := ring.Message{Kind: ring.KindPostRun, Slot: core.InstantOf(began), PostRun: &ring.PostRun{Run: id, PostRun: run.PostRun}}
					for _, err := range append(e.CreateRuns(t.Context(), []core.Run{run}), e.Queue.Enqueue(t.Context(),
						[]ring.Out{{NotBefore: began, Message: m}})...) {
						check.OK(t, err)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				in := &poller.Poller{Queue: e.Queue, Kind: ring.KindPostRun, Messages: 50, Places: 32, Log: slog.New(slog.DiscardHandler),
					Handle: func(ctx context.Context, got []store.Delivery, _ func()) []dispatch.Verdict {
						v := make([]dispatch.Verdict, len(got))
						for i, err := range l.Handle(ctx, poller.Messages(got)) {
							v[i] = dispatch.Verdict{Ack: err == nil, Err: err, RetryAt: time.Now().Add(10 * time.Second)}
						}
						return v
					}}
				done := make(chan struct{})
				go func() { in.Run(ctx, ctx); close(done) }()
				defer func() { cancel(); <-done }()
				time.Sleep(time.Minute)
				told.mu.Lock()
				got, latest := len(told.when), time.Duration(0)
				for _, at := range told.when {
					latest = max(latest, at.Sub(began))
				}
				told.mu.Unlock()
				if got != n || latest > 45*time.Second {
					t.Errorf("%d of %d notices asked for within a minute, the last after %s", got, n, latest)
				}
				time.Sleep(90 * time.Minute)
				mu.Lock()
				defer mu.Unlock()
				hops.mu.Lock()
				defer hops.mu.Unlock()
				if kept != n || hops.n > 60*n {
					t.Errorf("%d of %d logs kept, with %d messages", kept, n, hops.n)
				}
				told.mu.Lock()
				defer told.mu.Unlock()
				if told.n > 3*n { // while it waits, and when its log is kept
					t.Errorf("%d notices were asked for %d times", n, told.n)
				}
				t.Logf("the last notice after %s; %d messages", latest, hops.n)
			})
		})
	}
}
