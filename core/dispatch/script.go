package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// sources caches script sources by hash. A source never changes, so it is read only once in a while; jobs without a
// script read nothing.
type sources struct {
	mu   sync.Mutex
	of   map[string]*source
	size int // total bytes of the cached sources
}

// A source is one script; ready is closed once it is read.
type source struct {
	ready chan struct{}
	text  string
	err   error
}

const (
	mostSources = 16 << 20 // maximum bytes in the cache
	sourceFor   = 3 * time.Second
)

// errNoSource means that a script can never be sent.
var errNoSource = errors.New("the source of the job's script is not stored any more")

// read returns the source of a job's script. Concurrent callers share one read.
func (c *sources) read(ctx context.Context, from *store.Store, d *core.Def) (string, error) {
	hash := d.Script.Hash
	c.mu.Lock()
	s, known := c.of[hash]
	if !known {
		s = &source{ready: make(chan struct{})}
		c.of[hash] = s
	}
	c.mu.Unlock()
	if known {
		select {
		case <-s.ready:
			return s.text, s.err
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	reads, cancel := context.WithTimeout(ctx, sourceFor)
	defer cancel()
	text, found, err := from.Source(reads, d.ID, hash)
	c.mu.Lock()
	switch {
	case err != nil:
		s.err = fmt.Errorf("read the script of job %d: %w", d.ID, err)
	case !found:
		s.err = errNoSource
	case core.HashScript(text) != hash:
		s.err = fmt.Errorf("%w: the stored script is damaged", errNoSource)
	default:
		s.text = text
	}
	if s.err != nil {
		delete(c.of, hash)
	} else {
		c.size += len(text)
	}
	for other, o := range c.of { // any of them: the next use reads it again
		if c.size <= mostSources {
			break
		}
		if o != s && len(o.text) > 0 {
			c.size -= len(o.text)
			delete(c.of, other)
		}
	}
	c.mu.Unlock()
	close(s.ready)
	return s.text, s.err
}
