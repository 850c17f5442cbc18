package callback

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

// known is what earlier callbacks showed: of which app a job is, and tokens.
type known struct {
	mu     sync.Mutex
	apps   map[core.JobID]string
	tokens map[string]token // by app
}

type token struct {
	text string
	read time.Time
}

// mostKnown is how many jobs and apps are remembered; beyond it all are forgotten,
// to be learnt again.
const mostKnown = 100_000

// note remembers of which apps the jobs of runs are, and the tokens of apps that
// were read: not before a time.
func (k *known) note(runs map[core.RunID]core.Run, apps map[string]core.App, read time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.apps)+len(runs) > mostKnown {
		clear(k.apps)
	}
	for id, r := range runs {
		k.apps[id.Job()] = r.App
	}
	if len(k.tokens)+len(apps) > mostKnown {
		clear(k.tokens)
	}
	for name, app := range apps {
		k.tokens[name] = token{app.Token, read}
	}
}

func (k *known) app(job core.JobID) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	app, is := k.apps[job]
	return app, is
}

// token is that of an app if it was read less than a while ago by both clocks: a
// function that was frozen does not notice, and the wall clock may be set.
func (k *known) token(app string, now time.Time, within time.Duration) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, is := k.tokens[app]
	wall := now.Round(0).Sub(t.read.Round(0))
	return t.text, is && wall >= 0 && max(wall, now.Sub(t.read)) < within
}

// proves says of which jobs a caller may end runs, as far as that takes no run to
// be read, and the app that their runs must be of: empty where it is of no account.
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
	found, _, err := c.store.Apps(ctx, asked)
	if _, err = core.BesidesApps(err); err == nil {
		c.known.note(nil, found, now)
	}
	for job, name := range may {
		if app, is := found[name]; slices.Contains(asked, name) && (err != nil || !is || !c.opens(ctx, app.Token, from.Token)) {
			delete(may, job)
		}
	}
	return may
}
