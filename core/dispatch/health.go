package dispatch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

// healths know which jobs and addresses are slow: from the answers to this
// process's own sends, and from what others found. A slow one has its fires on the
// slow lane until one answer a minute, the probe, comes in time.
type healths struct {
	port Healths
	o    *Options

	asking sync.Mutex // one of the process reads and writes at a time
	read   time.Time
	wrote  time.Time

	mu sync.Mutex
	of map[string]*pulse
}

// pulse is how one job or address answered recently.
type pulse struct {
	slow        bool
	at          time.Time   // when it was found slow, or probed, or found well again
	slowAnswers []time.Time // of the last SlowWithin
	timeouts    int         // in a row
	used        time.Time
	published   bool // the others can read it
}

const (
	maxPulses  = 20_000 // addresses come from outside
	maxPublish = 100    // at a time
	// forgetSlow is how long what others found counts if nobody finds it again:
	// where nothing is sent nothing can be probed.
	forgetSlow = 10 * time.Minute
)

func newHealths(o *Options) *healths { return &healths{port: o.Health, o: o, of: map[string]*pulse{}} }

// on reports whether there is a slow lane.
func (h *healths) on() bool { return h.port != nil }

func jobName(job core.JobID) string { return "job/" + job.String() }

// slow reports whether fires of the job to the address are to go on the slow lane.
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

// note counts the answer to a send for its job and its address, or to a probe. An answer that
// says nothing of how quickly the executor answers, as that of a call does in time
// and a refused connection at all, is not slow.
func (h *healths) note(a *Answer, now time.Time, names ...string) {
	if !h.on() || a.Ours {
		return
	}
	slow := a.TimedOut || a.Took > h.o.SlowAfter
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
				continue // most are never slow
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

// room forgets what was not used for long, or all where that is not enough.
// Callers hold mu.
func (h *healths) room(now time.Time) {
	if len(h.of) < maxPulses {
		return
	}
	maps.DeleteFunc(h.of, func(_ string, p *pulse) bool { return now.Sub(p.used).Abs() > h.o.SlowWithin && !p.slow })
	if len(h.of) >= maxPulses {
		clear(h.of)
	}
}

// sync reads what others found and publishes what was found here, each once in
// HealthEvery at most. It is for economy: an error leaves it to the next time.
func (h *healths) sync(ctx context.Context, now time.Time) {
	if !h.on() || !h.asking.TryLock() {
		return
	}
	defer h.asking.Unlock()
	if now.Sub(h.wrote).Abs() >= h.o.HealthEvery {
		if list := h.unpublished(); len(list) > 0 {
			h.wrote = now
			for i, err := range h.port.PutHealths(ctx, list) {
				switch {
				case answerOf(err) <= refused: // refused: another found something later, and it is read
					h.published(&list[i])
				default:
					h.o.Log.Warn("what is slow, or no longer, could not be published", "of", list[i].Of, "slow", list[i].Slow, "err", err)
				}
			}
		}
	}
	if now.Sub(h.read).Abs() >= h.o.HealthEvery {
		h.read = now
		list, err := h.port.Healths(ctx)
		if err != nil {
			h.o.Log.Warn("what others found slow could not be read", "err", err)
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

// adopt takes over what others found later than this process did.
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
