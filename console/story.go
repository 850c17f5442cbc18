package console

import (
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/words"
)

// The story of a run is in its template (pages/run.html): the history of its retry chain in order, as far as users of
// one of its runs need it.

// Event returns a line of a story: the time of an event (nil or zero: unknown), the time since the previous event, the
// shape of its mark (a value of the variable shapes), and what happened. The text of a failure is red.
func (a *ask) Event(at any, zone, gap, shape string, said, note any) template.HTML {
	t, _ := at.(time.Time)
	tone := ""
	if shape == "fail" {
		tone = "t-fail"
	}
	return html(`<li><span class="mono">%s</span><span class="muted d">%s</span><span class="s %s"></span><span class="%s">%s</span>`+
		`<span class="muted b">%s</span></li>`, a.Stamp(t, zone), gap, shape, tone, said, note)
}

// shownAttempts is the number of attempts that a story shows, from the first.
const shownAttempts = 20

// Between returns the number of attempts before one of the chain that the page does not show.
func (p *runPage) Between(i int) int {
	if i == 0 {
		return 0
	}
	return max(0, p.Chain[i].Attempt-p.Chain[i-1].Attempt-1)
}

// Attempts returns how many attempts a run of the chain can have.
func (p *runPage) Attempts(r *client.Run) int { return max(len(p.Chain), r.Attempt+r.Retries) }

// Final returns the last known attempt.
func (p *runPage) Final() *client.Run { return &p.Chain[len(p.Chain)-1] }

// NotFollowed returns the child jobs that the last attempt did not trigger, or that it can still trigger.
func (p *runPage) NotFollowed() []client.Parent {
	r := p.Final()
	if p.Job == nil || r.Then != "" || r.Shard != nil && r.Shard.Of != "" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.Job.Children), func(c client.Parent) bool {
		return slices.ContainsFunc(r.Children, func(run client.ChildRun) bool { return run.Job == c.Job })
	})
}

// Subject returns the subject of a notification about a job.
func (a *ask) Subject(event, job string) string {
	return words.Subject(a.Lang, event, words.Facts{Job: job})
}

// Line returns the first line of foreign text, shortened.
func (a *ask) Line(s string) string {
	line, _, more := strings.Cut(strings.TrimSpace(a.Plain(s)), "\n")
	if short := clip(line, 300); short != line {
		return short
	}
	if more {
		line += " …"
	}
	return line
}

// NotConfirmed reports whether the executor did not confirm the run.
func (a *ask) NotConfirmed(r *client.Run) bool {
	return strings.HasPrefix(r.Message, core.NotConfirmed)
}
