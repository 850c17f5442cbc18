package callback

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// known caches the apps of jobs, from sends and earlier callbacks, and the tokens of apps.
type known struct {
	mu     sync.Mutex
	apps   map[core.JobID]string
	tokens map[string]token // by app
}

type token struct {
	text string
	read time.Time
}

// mostKnown is how many jobs and apps are cached; beyond it the cache is cleared.
const mostKnown = 100_000

// Sent caches the app of a job whose run was sent. A success of the job then takes no read of its run.
func (c *Callback) Sent(job core.JobID, app string) { c.known.job(job, app) }

// job caches the app of a job.
func (k *known) job(id core.JobID, app string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.apps) >= mostKnown {
		clear(k.apps)
	}
	k.apps[id] = app
}

// note caches the tokens of apps; read is when their read began.
func (k *known) note(apps map[string]store.Value[core.App], read time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.tokens)+len(apps) > mostKnown {
		clear(k.tokens)
	}
	for name, app := range apps {
		if app.Err == nil {
			k.tokens[name] = token{app.Is.Token, read}
		}
	}
}

func (k *known) app(job core.JobID) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	app, is := k.apps[job]
	return app, is
}

// token returns the token of an app if it was read recently by both clocks: a frozen process stops the
// monotonic clock, and the wall clock may be set.
func (k *known) token(app string, now time.Time, within time.Duration) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, is := k.tokens[app]
	wall := now.Round(0).Sub(t.read.Round(0))
	return t.text, is && wall >= 0 && max(wall, now.Sub(t.read)) < within
}

// proves returns the jobs whose runs the caller may end, as far as known without reading runs, with their
// apps; an empty app means any.
func (c *Callback) proves(ctx context.Context, from Caller, ids []core.RunID, now time.Time) map[core.JobID]string {
	may := make(map[core.JobID]string, len(ids))
	var asked []string // apps whose token may have changed since it was read
	for _, id := range ids {
		app, is := c.known.app(id.Job())
		switch {
		case from.Proven:
			may[id.Job()] = from.App
		case !is, from.App != "" && from.App != app:
		default:
			may[id.Job()] = app
			if text, fresh := c.known.token(app, now, c.o.TokenFor); !fresh || !c.opens(ctx, text, from.Token) {
				asked = append(asked, app)
			}
		}
	}
	if len(asked) == 0 {
		return may
	}
	slices.Sort(asked)
	asked = slices.Compact(asked)
	found, err := c.s.Apps(ctx, asked...)
	if err == nil {
		c.known.note(found, now)
	}
	for job, name := range may {
		app, is := found[name]
		if slices.Contains(asked, name) && (err != nil || app.Err != nil || !is || !c.opens(ctx, app.Is.Token, from.Token)) {
			delete(may, job)
		}
	}
	return may
}
