package console

import (
	"strconv"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

// jobsPage is the list of jobs.
type jobsPage struct {
	Jobs   []client.Job
	Failed []client.UnreadableJob
	Next   string // the page after this
}

// jobs lists jobs: what the query says, a page at a time.
func (a *ask) jobs() (any, error) {
	p := client.ListJobsParams{App: a.Q("app"), Text: a.Q("text"), Last: true, Limit: 100}
	if n, err := strconv.ParseInt(a.Q("after"), 10, 32); err == nil {
		p.After = int32(n)
	}
	page, err := a.ListJobs(a.Ctx(), p)
	if err != nil {
		return nil, err
	}
	out := jobsPage{Jobs: page.Jobs, Failed: page.Failed}
	if page.Next != 0 {
		out.Next = a.With("after", strconv.Itoa(int(page.Next)))
	}
	return out, nil
}

// JobState is a job's state as shape and word: what it does now, else how its last run ended.
func (a *ask) JobNote(j client.Job) string {
	switch {
	case j.State == string(core.Paused) && j.Pause != nil:
		if j.Pause.Until.IsZero() {
			return a.Say("paused by %s: %s", j.Pause.By, j.Pause.Reason)
		}
		until := j.Pause.Until.In(a.In(j.Schedule.Timezone)).Format("2006-01-02 15:04")
		return a.Say("paused by %s until %s: %s", j.Pause.By, until, j.Pause.Reason)
	case j.Last != nil && a.Shape(j.Last.State) == "fail":
		return a.ReasonName(j.Last.Reason)
	}
	return ""
}

// NextOf is when a job comes next; zero where it does not.
func (a *ask) NextOf(j client.Job) time.Time {
	if len(j.Next) == 0 {
		return time.Time{}
	}
	return j.Next[0]
}
