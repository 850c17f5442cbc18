// Package boundlog is the log of a door, which those who come to it can have written to:
// each message comes a bounded number of times a minute.
package boundlog

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Most is how often one message comes in a minute. What is below Warn, which somebody
// asked to see, comes always.
const Most = 60

// mostMessages bounds what is known of messages; those beyond it count as one.
const mostMessages = 1000

// Of is a log that writes what comes often no longer to another.
func Of(log *slog.Logger) *slog.Logger {
	return slog.New(&handler{log.Handler(), &counts{of: map[string]*count{}}})
}

type handler struct {
	slog.Handler
	counts *counts
}

type counts struct {
	mu sync.Mutex
	of map[string]*count // by message
}

type count struct {
	from time.Time // of the minute
	n    int
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		what := r.Message
		r.Attrs(func(a slog.Attr) bool { // one app's lines hide no other's
			if a.Key == "app" {
				what += "\n" + a.Value.String()
			}
			return a.Key != "app"
		})
		missed, n := h.counts.note(what, r.Time)
		switch {
		case n > Most:
			return nil
		case n == Most:
			r.Add("more", "is not shown until a minute is over")
		}
		if missed > 0 {
			r.Add("missed", missed)
		}
	}
	return h.Handler.Handle(ctx, r)
}

// note says how often a message has come in its minute, and how many of the one before
// were not shown.
func (c *counts) note(message string, now time.Time) (missed, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.of[message]
	if m == nil {
		if len(c.of) >= mostMessages {
			message = ""
		}
		if m = c.of[message]; m == nil {
			m = &count{from: now}
			c.of[message] = m
		}
	}
	if now.Sub(m.from).Abs() >= time.Minute { // also where the clock was set back
		missed = max(m.n-Most, 0)
		*m = count{from: now}
	}
	m.n++
	return missed, m.n
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.Handler.WithAttrs(attrs), h.counts}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.Handler.WithGroup(name), h.counts}
}
