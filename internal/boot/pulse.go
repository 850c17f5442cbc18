package boot

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
	"github.com/tickring/tickring/engine"
)

// OutageAfter is how long nobody may note that the scheduler lives before that
// was an outage: two wake-ups of the tick can be 119 s apart.
const OutageAfter = 4 * time.Minute

// TokenFor is how long a function lets callbacks in by a token that it read before.
const TokenFor = 10 * time.Second

// lookEvery is how often a process looks.
const lookEvery = 20 * time.Second

// A store that answers no look for longer than refusedFor takes no heartbeats
// either; as that may have begun unseen, up to unseen before the first such look.
const (
	refusedFor = 5 * time.Second
	unseen     = time.Minute
)

// Pulse is the sign of life of a deployment. While nobody gave one, or the store
// refused all, executors could not beat: whoever comes first afterwards notes the
// outage, before it judges by heartbeats.
type Pulse struct {
	e   *engine.Engine
	log *slog.Logger

	mu      sync.Mutex
	looked  time.Time // when a look was answered last
	refused time.Time // the first one since that was not; zero: none
}

func NewPulse(e *engine.Engine, log *slog.Logger) *Pulse { return &Pulse{e: e, log: log} }

// Look notes an outage that has just ended, if there was one. It asks at most
// every 20 s; an error means that nothing may be judged yet.
func (p *Pulse) Look(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.refused.IsZero() && now.Sub(p.looked).Abs() < lookEvery {
		return nil
	}
	return p.look(ctx, now)
}

// look is to be called with the lock held.
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

// refusal notes that heartbeats could not be stored. All processes saw that, and come
// here at once: who finds it noted goes on, or each would keep its messages waiting
// until it was the fastest.
func (p *Pulse) refusal(ctx context.Context, from, now time.Time) error {
	var err error
	for range 2 {
		g, unread := p.e.Tick.Global(ctx)
		if unread != nil {
			return fmt.Errorf("read global item: %w", unread)
		}
		if !g.DownAt.After(p.refused) && g.UpSince.After(p.refused) && now.Sub(g.UpSince) <= refusedFor {
			return nil
		}
		if err = registry.NoteOutage(ctx, p.e.Tick, from, now, core.BeatExpiry); err == nil {
			p.log.Warn("heartbeats could not be stored", "from", from, "to", now)
			return nil
		}
	}
	return err
}

// silence notes that nobody was there to plan.
func (p *Pulse) silence(ctx context.Context, now time.Time) error {
	if _, err := p.e.Dispatch.Global(ctx); err != nil { // that of a fence too
		return fmt.Errorf("read global item: %w", err)
	}
	last, err := p.e.Upkeep.LastAlive(ctx)
	if err != nil {
		return fmt.Errorf("read the sign of life: %w", err)
	}
	if last.IsZero() || now.Sub(last) <= OutageAfter {
		return nil
	}
	g, err := p.e.Tick.Global(ctx)
	if err != nil {
		return fmt.Errorf("read global item: %w", err)
	}
	if g.UpSince.After(last) && now.Sub(g.UpSince) <= OutageAfter {
		return nil // another has noted it, and the tick is yet to come
	}
	p.log.Warn("nobody was there to plan", "from", last, "to", now)
	return registry.NoteOutage(ctx, p.e.Tick, last, now, core.BeatExpiry)
}

// Beat gives the sign of life, once a minute.
func (p *Pulse) Beat(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if err := p.look(ctx, now); err != nil {
		return err
	}
	_, err := p.e.Upkeep.Alive(ctx, now)
	return err
}

// Minutely is what a tick does beside its passes: the watchdog, which judges by
// heartbeats, so that an outage is noted first; and what the queues lost is sent
// again. healed is called with how many fires those were. reports sums up the hour that is
// over; nil: nobody does.
func Minutely(pulse *Pulse, watch *finish.Watchdog, healer *operate.Operate, reports *report.Reports,
	healed func(fires int64)) []tick.Task {
	tasks := []tick.Task{{Name: "watchdog", Do: func(ctx context.Context) error {
		if err := pulse.Beat(ctx); err != nil {
			return fmt.Errorf("sign of life: %w", err)
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
