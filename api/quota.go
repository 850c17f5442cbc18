package api

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

// Bounds of what code may declare with its app's token, for each change stays in the
// records and each job is planned: jobs of an app, about, and how many times a minute one
// is made or changed; one of several KB counts as so many. What changes nothing is free,
// or the executors of a large app could not all start at once.
const (
	DeclaredJobs    = 1000
	DeclaredChanges = 120
)

// quota counts the changes that code declares, by app. The zero value is ready.
type quota struct {
	mu sync.Mutex
	of map[string]*share
}

// share is what is left to an app.
type share struct {
	left float64
	at   time.Time
}

func (s *share) fill(now time.Time) {
	s.left = min(DeclaredChanges, s.left+now.Sub(s.at).Minutes()*DeclaredChanges)
	s.at = now
}

// weight is as how many changes that of a job counts.
func weight(j *client.JobSpec) float64 {
	b, _ := json.Marshal(j) // it was read as JSON
	return float64(1 + len(b)>>10)
}

// take has an app make a change, or says why not yet.
func (q *quota) take(app string, now time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.of[app]
	if s == nil {
		for name, s := range q.of {
			if s.fill(now); s.left == DeclaredChanges { // as one that is not known
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
			"app %s has reached the limit of %d job changes per minute by code (each KB counts): try again later", app,
			DeclaredChanges)
	}
	s.left--
	return nil
}

// settle says as how much the change that was taken counts, 0 if it was none. What is
// more than is left is owed.
func (q *quota) settle(app string, weight float64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s := q.of[app]; s != nil {
		s.left += 1 - weight
	}
}
