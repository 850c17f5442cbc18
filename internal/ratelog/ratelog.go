// Package ratelog has a log for endpoints whose clients can cause log messages. Each message is written a limited
// number of times in a minute.
package ratelog

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Most is the maximum number of times that one message is written in a minute. Messages below the level Warn are
// always written, because a user enabled these levels.
const Most = 60

// mostMessages bounds the number of distinct messages that are counted; all others count as one.
const mostMessages = 1000

// Of returns a log that passes messages on to another log, except messages above the limit.
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

// note returns how often a message has come in its minute, and how many of the minute before
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
