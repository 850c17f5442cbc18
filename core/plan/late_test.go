package plan

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/internal/testkit/check"
)

// late has the rows of the table in docs/explanation/late-runs.md, and more. TestLateDoc compares the two.
var late = []struct {
	misfire, deadline, job string
	s3, min3, h3           string
}{
	{"latest", "none", "secondly", "3 sent", "60 sent, 120 skipped: misfire", "60 sent, 10740 skipped: misfire"},
	{"latest", "none", "hourly", "1 sent", "1 sent (1 late)", "1 sent (1 late), 2 skipped: misfire"},
	{"latest", "none", "daily", "1 sent", "1 sent (1 late)", "1 sent (1 late)"},
	{"all", "none", "secondly", "3 sent", "180 sent (120 late)", "10800 sent (10740 late)"},
	{"all", "none", "hourly", "1 sent", "1 sent (1 late)", "3 sent (3 late)"},
	{"all", "none", "daily", "1 sent", "1 sent (1 late)", "1 sent (1 late)"},
	{"skip", "none", "secondly", "3 sent", "60 sent, 120 skipped: misfire", "60 sent, 10740 skipped: misfire"},
	{"skip", "none", "hourly", "1 sent", "1 skipped: misfire", "3 skipped: misfire"},
	{"skip", "none", "daily", "1 sent", "1 skipped: misfire", "1 skipped: misfire"},
	{"latest", "5m", "secondly", "3 sent", "60 sent, 120 skipped: misfire", "60 sent, 10740 skipped: misfire"},
	{"latest", "5m", "hourly", "1 sent", "1 sent (1 late)", "3 skipped: deadline"},
	{"latest", "5m", "daily", "1 sent", "1 sent (1 late)", "1 skipped: deadline"},
	{"all", "5m", "secondly", "3 sent", "180 sent (120 late)", "300 sent (240 late), 10500 skipped: deadline"},
	{"all", "5m", "hourly", "1 sent", "1 sent (1 late)", "3 skipped: deadline"},
	{"all", "5m", "daily", "1 sent", "1 sent (1 late)", "1 skipped: deadline"},
	{"latest", "30s", "secondly", "3 sent", "30 sent, 150 skipped: deadline", "30 sent, 10770 skipped: deadline"},
	{"latest", "30s", "hourly", "1 sent", "1 skipped: deadline", "3 skipped: deadline"},
	{"latest", "30s", "daily", "1 sent", "1 skipped: deadline", "1 skipped: deadline"},
}

func TestLate(t *testing.T) {
	for _, row := range late {
		for _, c := range []struct {
			outage time.Duration
			want   string
		}{{3 * time.Second, row.s3}, {3 * time.Minute, row.min3}, {3 * time.Hour, row.h3}} {
			t.Run(fmt.Sprintf("%s/%s/%s/%s", row.misfire, row.deadline, row.job, c.outage), func(t *testing.T) {
				check.Equal(t, afterOutage(t, row.misfire, row.deadline, row.job, c.outage), c.want)
			})
		}
	}
}

// afterOutage plans a job from 09:59:59 on at the end of an outage, pass after pass, and returns the
// results of its scheduled times.
func afterOutage(t *testing.T, misfire, deadline, job string, outage time.Duration) string {
	begin := time.Date(2026, 12, 1, 9, 59, 59, 0, time.UTC)
	now := begin.Add(outage)
	s := core.Sched{
		ID: 7, State: core.Started, Rev: 1, RevAt: begin.Add(-time.Second), Misfire: core.Misfire(misfire), Grace: time.Minute,
		Schedule: core.Schedule{Any: []core.When{{Kind: core.KindCron, Expr: map[string]string{
			"secondly": "* * * * * ?", "hourly": "0 0 * * * ?", "daily": "0 0 10 * * ?"}[job]}}},
	}
	if deadline != "none" {
		var err error
		if s.Deadline, err = time.ParseDuration(deadline); err != nil {
			t.Fatal(err)
		}
	}
	sch, err := schedule.Compile(s.Schedule, s.ID)
	check.OK(t, err)
	o := AWS()
	s = Start(s, sch, o)

	sent, lateOnes, skipped, reason := 0, 0, int64(0), core.Reason("")
	for passes := 0; s.Next.Time().Before(now); passes++ {
		if passes > 100 {
			t.Fatal("100 passes")
		}
		r := Job(s, sch, now, o)
		for _, f := range r.Fires {
			if !f.At.Time().Before(now) {
				continue
			}
			sent++
			if f.Cause == core.CauseMisfire {
				lateOnes++
			}
		}
		for _, k := range r.Skips {
			skipped += k.Count
			if reason != "" && reason != k.Reason {
				t.Errorf("skipped for %s and for %s", reason, k.Reason)
			}
			reason = k.Reason
		}
		s = apply(s, r.Advance)
	}
	var parts []string
	switch {
	case lateOnes > 0:
		parts = append(parts, fmt.Sprintf("%d sent (%d late)", sent, lateOnes))
	case sent > 0:
		parts = append(parts, fmt.Sprintf("%d sent", sent))
	}
	if skipped > 0 {
		parts = append(parts, fmt.Sprintf("%d skipped: %s", skipped, reason))
	}
	return strings.Join(parts, ", ")
}

func TestLateDoc(t *testing.T) {
	text, err := os.ReadFile("../../docs/explanation/late-runs.md")
	check.OK(t, err)
	rows := map[string]bool{"| misfire | deadline | job | 3 s | 3 min | 3 h |": true, "|---|---|---|---|---|---|": true}
	for _, r := range late {
		rows["| "+strings.Join([]string{r.misfire, r.deadline, r.job, r.s3, r.min3, r.h3}, " | ")+" |"] = true
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "|") {
			if n++; !rows[line] {
				t.Errorf("docs/explanation/late-runs.md has the row %s, which the test's table does not have", line)
			}
		}
	}
	if n < 10 {
		t.Errorf("docs/explanation/late-runs.md has %d rows", n)
	}
}

// apply applies an advance as a store does.
func apply(s core.Sched, a core.Advance) core.Sched {
	if a.Rev != s.Rev || a.Next != s.Next || a.Tail != s.Tail || a.Job != s.ID {
		panic(fmt.Sprintf("the advance %+v is not of %+v", a, s))
	}
	s.Next, s.PlanAt, s.Seq, s.Partition, s.Tail, s.State = a.NewNext, a.NewPlanAt, a.NewSeq, a.NewPartition, a.NewTail, a.NewState
	return s
}
