package wirehttp

import (
	"context"
	"time"

	"github.com/tickring/tickring/internal/refusal"
)

// room bounds what bodies are held at once. Long ones have places of their own, so that
// a backlog that is reported keeps nobody's heartbeat out.
type room struct {
	short, long chan struct{}
	wait        time.Duration
}

// heldShort is how many bodies of at most MaxRegistration bytes are held at once.
const heldShort = 1024

func newRoom(long int, wait time.Duration) room {
	return room{make(chan struct{}, heldShort), make(chan struct{}, long), wait}
}

// enter waits for a place for a body of a size; leave gives it back.
func (m *room) enter(ctx context.Context, size int64) (leave func(), err error) {
	places := m.short
	if size > MaxRegistration {
		places = m.long
	}
	leave = func() { <-places }
	select {
	case places <- struct{}{}:
		return leave, nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, m.wait)
	defer cancel()
	select {
	case places <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, &refused{text: "The server takes as much as it can hold just now; send it again.", trace: refusal.Busy}
	}
}
