package api

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

// Limits on the jobs that code declares with the token of its app. Each declared change is stored, and each declared
// job is planned. DeclaredJobs is the approximate maximum number of jobs in an app. DeclaredChanges is the maximum
// number of created and changed jobs in a minute; a job of several KB counts once for each KB. A declaration that
// changes nothing does not count, so that all executors of a large app can start at once.
const (
	DeclaredJobs    = 1000
	DeclaredChanges = 120
)

// quota counts the changes that code declares, by app. The zero value is ready.
type quota struct {
	mu sync.Mutex
	of map[string]*share
}

// share is the remaining quota of an app at a time.
type share struct {
	left float64
	at   time.Time
}

func (s *share) fill(now time.Time) {
	s.left = min(DeclaredChanges, s.left+now.Sub(s.at).Minutes()*DeclaredChanges)
	s.at = now
}

// weight returns the number of changes that a change of a job counts as.
func weight(j *client.JobSpec) float64 {
	b, _ := json.Marshal(j) // it was read as JSON
	return float64(1 + len(b)>>10)
}

// take counts one change of an app, or returns an error if its quota is used up.
func (q *quota) take(app string, now time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.of[app]
	if s == nil {
		for name, s := range q.of {
			if s.fill(now); s.left == DeclaredChanges { // full, as for a new app
				delete(q.of, name)
			}
		}
		if q.of == nil {
			q.of = map[string]*share{}
		}
		s = &share{left: DeclaredChanges, at: now}
		q.of[app] = s
	}
	if s.fill(now); s.left < 1 {
		return core.Errorf(core.CodeUnavailable,
			"the code of app %s has reached the limit of %d job changes per minute (each KB of a job counts as a change): try again later", app,
			DeclaredChanges)
	}
	s.left--
	return nil
}

// settle corrects the count of the last change to its weight, 0 if nothing changed. The remaining quota can become
// negative.
func (q *quota) settle(app string, weight float64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s := q.of[app]; s != nil {
		s.left += 1 - weight
	}
}
