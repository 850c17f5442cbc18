package finish_test

import (
	"time"

	"github.com/tickring/tickring/core"
)

const joinJob core.JobID = 100

// join stores parent jobs 1 to n and a job that comes after all of them within an hour.
func (r *rig) join(n int, change func(*core.Job)) {
	r.t.Helper()
	var after []core.Parent
	for i := range n {
		job := r.job(core.JobID(1+i), nil)
		after = append(after, core.Parent{Job: job.Name(), ID: job.Def.ID, When: core.UponClose})
	}
	r.job(joinJob, func(j *core.Job) {
		j.Def.After, j.Def.Within = after, time.Hour
		if change != nil {
			change(j)
		}
	})
}

func (r *rig) due() error {
	r.t.Helper()
	for _, run := range r.Numbered(joinJob) {
		if run.AwaitsJoin() {
			return r.f.JoinDue(r.t.Context(), &run)
		}
	}
	return nil
}
