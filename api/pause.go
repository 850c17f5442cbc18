package api

import (
	"net/http"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/words"
)

// Values of Pause.Of: the paused object.
const (
	ofJob        = "job"
	ofApp        = "app"
	ofEverything = "everything"
)

// pauses are the pauses of apps and of everything, which hold jobs without changing them. It also has the apps
// themselves.
type pauses struct {
	l    words.Language // of the caller
	now  time.Time
	all  core.Pause
	apps map[string]core.App
}

func (s *server) pauses(r *http.Request) (pauses, error) {
	p := pauses{l: language(r), now: time.Now(), apps: map[string]core.App{}}
	g, err := s.m.Global(r.Context())
	if err != nil {
		return p, err
	}
	p.all = g.Pause
	apps, _, err := s.m.Apps(r.Context()) // the list of apps names the others
	for _, a := range apps {
		p.apps[a.Name] = a
	}
	return p, err
}

// show converts a job with the pause that holds it and its next scheduled times outside of the pause.
func (p *pauses) show(s *server, j *core.Job, count int) client.Job {
	out := jobIn(p.l, j)
	out.Next = timesOf(s.m.NextOf(j, count, p.all, p.apps[j.Def.App].Pause))
	if out.Pause != nil || j.Sched.State != core.Started {
		return out
	}
	for _, held := range []struct {
		of string
		p  core.Pause
	}{{ofEverything, p.all}, {ofApp, p.apps[j.Def.App].Pause}} {
		if !held.p.Covers(p.now) {
			continue
		}
		// If several pauses hold the job, show the one that ends last.
		if first := out.Pause; first == nil || !first.Until.IsZero() && (held.p.To.IsZero() || held.p.To.After(first.Until)) {
			out.Pause = pauseOf(held.p)
			out.Pause.Of = held.of
		}
	}
	return out
}
