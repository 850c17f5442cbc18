package browser

import (
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/waiting"
	"github.com/tickring/tickring/test/harness"
)

var (
	baseFlag  = flag.String("base", "", "URL of a deployment that has the newcomer's first session; else a server here has it")
	tokenFlag = flag.String("token", "", "its admin token")
	jobFlag   = flag.String("job", "ops/backup", "the job that the newcomer runs; it ends well within a minute")
	logFlag   = flag.String("log", "backup complete", "what its log has at the end")
)

// TestFirstSession is a new user's first session with only the binary. The user opens the link that the server prints, sees the
// demo running, opens a job, runs it, and follows the run's log. Then the user pauses the job with a reason, sees who paused it and
// why, and resumes it.
func TestFirstSession(t *testing.T) {
	if *baseFlag != "" {
		p := newPage(t, *baseFlag, manner{})
		p.logInWith(*tokenFlag)
		firstSession(t, p)
		return
	}
	s := harness.Start(t, binary, filepath.Join(t.TempDir(), "data"), "--demo")
	p := newPage(t, s.URL, manner{})
	p.open(linkOf(t, s))
	firstSession(t, p)
}

// linkOf is the link that serve prints, which logs in once.
func linkOf(t *testing.T, s *harness.Server) (link string) {
	t.Helper()
	check.OK(t, waiting.For(patience, func() error {
		if link = regexp.MustCompile(`http://\S+/console/\S*`).FindString(s.Said()); link == "" {
			return fmt.Errorf("serve prints no link to the console: %s", s.Said())
		}
		return nil
	}))
	return link
}

func firstSession(t *testing.T, p *page) {
	t.Helper()
	jobs := func() {
		t.Helper()
		p.click(jobsLink)
		p.wait("location.pathname === '/console/jobs' && document.readyState === 'complete'")
	}
	jobs()
	p.sees(*jobFlag)
	p.click(*jobFlag)
	p.at("/console/jobs/" + *jobFlag)
	p.click(runLink)
	p.click(submit)
	p.at("/console/runs/")
	run := p.url()
	p.sees(*logFlag, "succeeded")
	if p.url() != run {
		t.Errorf("the page of the run went from %s to %s", run, p.url())
	}
	p.click(*jobFlag)
	p.at("/console/jobs/" + *jobFlag)
	p.click(pauseLink)
	p.fill("css:[name=reason]", "too noisy for a newcomer")
	p.click(submit)
	p.sees("too noisy for a newcomer")
	jobs()
	p.sees("too noisy for a newcomer")
	p.click(*jobFlag)
	p.click(`css:a[href*="panel=resume"]`)
	p.click(submit)
	p.wait(`document.querySelector('a[href*="panel=pause"]')`)
	p.wait("!document.querySelector('main').innerText.includes('too noisy')")
}
