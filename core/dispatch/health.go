package dispatch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// healths tracks which jobs and addresses are slow, from the answers to this process's sends and from other
// dispatchers. Runs of a slow job or address use the slow queue until a probe, one answer a minute, comes in time.
type healths struct {
	s *store.Store
	o *Options

	asking sync.Mutex // one goroutine at a time reads and writes the store
	read   time.Time
	wrote  time.Time

	mu sync.Mutex
	of map[string]*pulse
}

// A pulse is the recent health of one job or address.
type pulse struct {
	slow        bool
	at          time.Time   // last time it was found slow, probed, or found healthy again
	slowAnswers []time.Time // within the last SlowWithin
	timeouts    int         // in a row
	used        time.Time
	published   bool // other dispatchers can read it
}

const (
	slowAfter  = 500 * time.Millisecond // an answer that took longer is slow
	maxPulses  = 20_000                 // addresses come from outside
	maxPublish = 100                    // at a time
	// forgetSlow is how long a slow result counts if nothing confirms it: without sends there are no probes.
	forgetSlow = 10 * time.Minute
)

func jobName(job core.JobID) string { return "job/" + job.String() }

// slow reports whether runs of the job to the address must use the slow queue.
func (h *healths) slow(job core.JobID, address string, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, of := range []string{address, jobName(job)} {
		if p := h.of[of]; p != nil && p.slow && now.Sub(p.at).Abs() < forgetSlow {
			return true
		}
	}
	return false
}

// note counts the answer to a send or a probe for its job and address. Answers that do not show the executor's speed do
// not count as slow: a call that ends in time, a refused connection.
func (h *healths) note(a *Answer, now time.Time, names ...string) {
	if !h.o.SlowQueue || a.Ours {
		return
	}
	slow := a.TimedOut || a.Took > slowAfter
	well := !slow && a.Kind != AnswerRefused && a.Kind != AnswerUnconfirmed
	if !slow && !well {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, of := range names {
		p := h.of[of]
		if p == nil {
			if well {
				continue // most names are never slow
			}
			h.room(now)
			p = &pulse{published: true}
			h.of[of] = p
		}
		p.used = now
		p.answered(h.o, well, a.TimedOut, now)
	}
}

func (p *pulse) answered(o *Options, well, timedOut bool, now time.Time) {
	if p.slow {
		if now.Sub(p.at).Abs() < o.ProbeEvery {
			return
		}
		p.slow, p.at, p.published = !well, now, false
		p.slowAnswers, p.timeouts = nil, 0
		return
	}
	if !timedOut {
		p.timeouts = 0
	}
	if well {
		return
	}
	if timedOut {
		p.timeouts++
	}
	p.slowAnswers = append(slices.DeleteFunc(p.slowAnswers, func(t time.Time) bool { return now.Sub(t).Abs() > o.SlowWithin }), now)
	if len(p.slowAnswers) > o.SlowCount || p.timeouts >= o.SlowTimeouts {
		p.slow, p.at, p.published = true, now, false
		p.slowAnswers, p.timeouts = nil, 0
	}
}

// room drops entries without recent use, or all if that is not enough. Callers hold mu.
func (h *healths) room(now time.Time) {
	if len(h.of) < maxPulses {
		return
	}
	maps.DeleteFunc(h.of, func(_ string, p *pulse) bool { return now.Sub(p.used).Abs() > h.o.SlowWithin && !p.slow })
	if len(h.of) >= maxPulses {
		clear(h.of)
	}
}

// sync publishes local results and reads the others' results, each at most once per HealthEvery. Both only save cost,
// so an error waits for the next time.
func (h *healths) sync(ctx context.Context, now time.Time) {
	if !h.o.SlowQueue || !h.asking.TryLock() {
		return
	}
	defer h.asking.Unlock()
	if now.Sub(h.wrote).Abs() >= h.o.HealthEvery {
		if list := h.unpublished(); len(list) > 0 {
			h.wrote = now
			for i, err := range h.s.PutHealths(ctx, list) {
				switch {
				case answerOf(err) <= refused: // refused: another dispatcher stored a later result, which is read below
					h.published(&list[i])
				default:
					h.o.Log.Warn("slow addresses not published", "of", list[i].Of, "slow", list[i].Slow, "err", err)
				}
			}
		}
	}
	if now.Sub(h.read).Abs() >= h.o.HealthEvery {
		h.read = now
		list, err := h.s.Healths(ctx)
		if err != nil {
			h.o.Log.Warn("slow addresses of other processes not read", "err", err)
			return
		}
		h.adopt(list, now)
	}
}

func (h *healths) unpublished() (list []core.Health) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for of, p := range h.of {
		if !p.published && len(list) < maxPublish {
			list = append(list, core.Health{Of: of, Slow: p.slow, At: p.at})
		}
	}
	return list
}

func (h *healths) published(x *core.Health) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.of[x.Of]; p != nil && p.slow == x.Slow && p.at.Equal(x.At) {
		p.published = true
	}
}

// adopt stores results of other dispatchers that are newer than the local ones.
func (h *healths) adopt(list []core.Health, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range list {
		p := h.of[x.Of]
		if now.Sub(x.At).Abs() > forgetSlow || p == nil && !x.Slow || p != nil && !x.At.After(p.at) {
			continue
		}
		if p == nil {
			h.room(now)
			p = &pulse{}
			h.of[x.Of] = p
		}
		if p.slow != x.Slow {
			p.slowAnswers, p.timeouts = nil, 0
		}
		p.slow, p.at, p.used, p.published = x.Slow, x.At, now, true
	}
}
