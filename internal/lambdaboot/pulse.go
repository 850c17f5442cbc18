package lambdaboot

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/store"
)

// OutageAfter is the maximum time between two pulses without an outage. Two wake-ups of the planner can be 119 s
// apart.
const OutageAfter = 4 * time.Minute

// TokenFor is the time for which a function accepts callbacks with a token that it has cached.
const TokenFor = 10 * time.Second

// lookEvery is how often a process checks for an outage.
const lookEvery = 20 * time.Second

// If every check fails for longer than refusedFor, the store takes no heartbeats either. That may have begun unnoticed, up
// to unseen before the first failed check.
const (
	refusedFor = 5 * time.Second
	unseen     = time.Minute
)

// Pulse records regularly that the deployment works. During an outage, the deployment does not run or the store rejects
// all requests, so executors cannot send heartbeats. After an outage, the first process that can use the store again records the
// outage before it checks heartbeats.
type Pulse struct {
	s   *store.Store
	log *slog.Logger

	mu      sync.Mutex
	looked  time.Time // when a check succeeded last
	refused time.Time // the first failed check since then; zero: none
}

func NewPulse(s *store.Store, log *slog.Logger) *Pulse { return &Pulse{s: s, log: log} }

// Look records an outage that has just ended, if one occurred. It checks at most every 20 s. If Look returns an error,
// the caller must not decide anything from heartbeats.
func (p *Pulse) Look(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.refused.IsZero() && now.Sub(p.looked).Abs() < lookEvery {
		return nil
	}
	return p.look(ctx, now)
}

// look requires that the caller holds the lock.
func (p *Pulse) look(ctx context.Context, now time.Time) error {
	err := p.silence(ctx, now)
	if err == nil && !p.refused.IsZero() && now.Sub(p.refused) > refusedFor {
		from := p.refused.Add(-unseen)
		if p.looked.After(from) {
			from = p.looked
		}
		err = p.refusal(ctx, from, now)
	}
	switch {
	case err == nil:
		p.looked, p.refused = now, time.Time{}
	case p.refused.IsZero():
		p.refused = now
	}
	return err
}

// refusal records that heartbeats could not be stored. All processes noticed that and come here at once. A process that
// finds it recorded continues; otherwise each would hold its messages until it won the write.
func (p *Pulse) refusal(ctx context.Context, from, now time.Time) error {
	var err error
	for range 2 {
		g, unread := p.s.Global(ctx)
		if unread != nil {
			return fmt.Errorf("read the global item: %w", unread)
		}
		if !g.DownAt.After(p.refused) && g.UpSince.After(p.refused) && now.Sub(g.UpSince) <= refusedFor {
			return nil
		}
		if err = registry.NoteOutage(ctx, p.s, from, now, core.BeatExpiry); err == nil {
			p.log.Warn("heartbeats not stored", "from", from, "to", now)
			return nil
		}
	}
	return err
}

// silence records a time in which no process planned.
func (p *Pulse) silence(ctx context.Context, now time.Time) error {
	if _, err := p.s.Global(ctx); err != nil { // a fence also fails here
		return fmt.Errorf("read the global item: %w", err)
	}
	last, err := p.s.LastAlive(ctx)
	if err != nil {
		return fmt.Errorf("read the heartbeat of the server: %w", err)
	}
	if last.IsZero() || now.Sub(last) <= OutageAfter {
		return nil
	}
	g, err := p.s.Global(ctx)
	if err != nil {
		return fmt.Errorf("read the global item: %w", err)
	}
	if g.UpSince.After(last) && now.Sub(g.UpSince) <= OutageAfter {
		return nil // another process has recorded it, and the planner has not run since
	}
	p.log.Warn("planning interrupted", "from", last, "to", now)
	return registry.NoteOutage(ctx, p.s, last, now, core.BeatExpiry)
}

// Beat records a pulse, at most once a minute.
func (p *Pulse) Beat(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if err := p.look(ctx, now); err != nil {
		return err
	}
	return p.s.Alive(ctx, now)
}

// Minutely returns the tasks that a planner runs in addition to its scans, once a minute. The first task records an
// outage, because the watchdog checks heartbeats. Another task resends messages that the queues lost, and passes the
// number of resent runs to the function `healed`. The task `reports` adds the last hour to the run reports; nil means
// no run reports.
func Minutely(pulse *Pulse, watch *finish.Watchdog, healer *operate.Operate, reports *report.Reports,
	healed func(fires int64)) []tick.Task {
	tasks := []tick.Task{{Name: "watchdog", Do: func(ctx context.Context) error {
		if err := pulse.Beat(ctx); err != nil {
			return fmt.Errorf("store the heartbeat of the server: %w", err)
		}
		_, err := watch.Pass(ctx)
		return err
	}}, {Name: "heal", Do: func(ctx context.Context) error {
		fires, err := healer.Heal(ctx)
		if fires > 0 {
			healed(fires)
		}
		return err
	}}}
	if reports != nil {
		tasks = append(tasks, tick.Task{Name: "reports", Do: reports.Pass})
	}
	return tasks
}
