package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/miniexec"
	"github.com/tickring/tickring/wire"
)

// ExecutorOptions has the settings of the executor process.
type ExecutorOptions struct {
	App, Admin, Token string
	HangFrom          time.Time
}

// Report has counts of the runs in a time span that an executor received.
type Report struct {
	Received int64         `json:"received"`
	Distinct int64         `json:"distinct"`
	Twice    int64         `json:"twice"`
	Early    int64         `json:"early"`
	Instants int           `json:"instants"`
	Least    int64         `json:"least"` // smallest number of distinct runs at one scheduled time
	P50      time.Duration `json:"p50"`
	P90      time.Duration `json:"p90"`
	P99      time.Duration `json:"p99"`
	Max      time.Duration `json:"max"`
	// AtOnce is the maximum number of runs of a group that ran at once, for the kind permits.
	AtOnce     int    `json:"atOnce,omitempty"`
	ByInstants []Tail `json:"byInstants,omitempty"` // results for equal parts of the time span
}

// Tail is the 99th percentile of the delay in a part of a time span.
type Tail struct {
	From core.Instant  `json:"from"`
	P99  time.Duration `json:"p99"`
}

// RunExecutor runs the executor process. It writes its URL to out. For each line "FROM TO PARTS OF" that it reads from
// in, it writes a Report of the runs with scheduled times from FROM to before TO. RunExecutor returns when in ends.
//
// OF is the kind of the report. fires: the delay is counted from the scheduled time. children: the delay is counted
// from the end of the parent run. permits: the params of a run name a group, the run takes some time, and the delay is
// counted from the time when a slot of the group became free.
func RunExecutor(o ExecutorOptions, in io.Reader, out io.Writer) error {
	var mu sync.Mutex
	late := map[core.Instant][]int32{} // microseconds, capped at half an hour
	seen := map[int64]bool{}
	twice := map[core.Instant]int64{}
	var fam family
	var c crowd
	e, err := miniexec.Start(miniexec.Options{App: o.App, Admin: o.Admin, Token: o.Token, HangFrom: o.HangFrom,
		Handle: func(ctx context.Context, r *wire.Run, _ func(string, ...any)) (int, string) {
			switch instant, planned := core.RunID(r.LogID).Planned(); {
			case r.Params == "" || !planned:
			case r.Params == isParent:
				work(ctx, time.Duration(r.JobID%1000)*time.Millisecond)
				mu.Lock()
				fam.ends(r, instant, time.Now())
				mu.Unlock()
			default:
				work(ctx, atWork)
				mu.Lock()
				c.ends(r.Params, time.Now())
				mu.Unlock()
			}
			return wire.CodeSuccess, ""
		},
		Received: func(r *wire.Run, at time.Time) {
			instant, planned := core.RunID(r.LogID).Planned()
			if !planned {
				mu.Lock()
				fam.child(r, at)
				mu.Unlock()
				return
			}
			us := int32(min(at.Sub(instant.Time()).Microseconds(), 1<<31-1))
			mu.Lock()
			defer mu.Unlock()
			if seen[r.LogID] {
				twice[instant]++
				return
			}
			seen[r.LogID] = true
			late[instant] = append(late[instant], us)
			if r.Params != "" && r.Params != isParent {
				c.comes(r.Params, instant, at)
			}
		}})
	if err != nil {
		return err
	}
	defer e.Close()
	fmt.Fprintln(out, e.URL())
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var from, to core.Instant
		var parts int
		of := ""
		if _, err := fmt.Sscan(lines.Text(), &from, &to, &parts, &of); err != nil {
			return fmt.Errorf("read command %q: %w", lines.Text(), err)
		}
		mu.Lock()
		r := report(late, twice, from, to, parts)
		switch of {
		case ofChildren:
			r = report(fam.after, fam.twice, from, to, parts)
		case ofPermits:
			r = report(c.after, twice, from, to, parts)
			r.AtOnce = c.most
		}
		mu.Unlock()
		if err := json.NewEncoder(out).Encode(r); err != nil {
			return err
		}
	}
	return lines.Err()
}

// Kinds of reports.
const (
	ofFires    = "fires"
	ofChildren = "children"
	ofPermits  = "permits"
)

// atWork is how long a run takes whose params name a group. A run whose params are isParent
// takes as many milliseconds as the number of its job, 0 to 999.
const (
	atWork   = 250 * time.Millisecond
	isParent = "parent"
)

func work(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// crowd holds the running runs by group. The zero value has none.
type crowd struct {
	groups map[string]*crowded
	after  map[core.Instant][]int32 // from when a permit was free and the run due
	most   int                      // at once, of any group
}

type crowded struct {
	work int
	free []time.Time // since when the permits are free that are
}

func (c *crowd) comes(group string, instant core.Instant, at time.Time) {
	if c.groups == nil {
		c.groups, c.after = map[string]*crowded{}, map[core.Instant][]int32{}
	}
	g := c.groups[group]
	if g == nil {
		g = &crowded{}
		c.groups[group] = g
	}
	g.work++
	c.most = max(c.most, g.work)
	since := instant.Time()
	if len(g.free) > 0 {
		if g.free[0].After(since) {
			since = g.free[0]
		}
		g.free = g.free[1:]
	}
	c.after[instant] = append(c.after[instant], int32(min(at.Sub(since).Microseconds(), 1<<31-1)))
}

func (c *crowd) ends(group string, at time.Time) {
	g := c.groups[group]
	g.work--
	g.free = append(g.free, at)
}

// parents is the number of parent jobs in the scenario of children: the jobs 1 … parents. Their
// children are the next parents jobs, in equal order.
const parents = 1000

// family holds child runs by the order of their parents' ends. The zero value is empty.
type family struct {
	ended map[int32][]ended // by job
	after map[core.Instant][]int32
	twice map[core.Instant]int64
	seen  map[int64]bool
}

type ended struct {
	instant core.Instant
	at      time.Time
}

func (f *family) ends(r *wire.Run, instant core.Instant, at time.Time) {
	if f.ended == nil {
		f.ended, f.after, f.seen = map[int32][]ended{}, map[core.Instant][]int32{}, map[int64]bool{}
		f.twice = map[core.Instant]int64{}
	}
	f.ended[r.JobID] = append(f.ended[r.JobID], ended{instant, at})
}

func (f *family) child(r *wire.Run, at time.Time) {
	waiting := f.ended[r.JobID-parents]
	if len(waiting) == 0 || f.seen[r.LogID] {
		f.twice[core.InstantOf(at)]++
		return
	}
	f.seen[r.LogID] = true
	p := waiting[0]
	f.ended[r.JobID-parents] = waiting[1:]
	f.after[p.instant] = append(f.after[p.instant], int32(min(at.Sub(p.at).Microseconds(), 1<<31-1)))
}

func report(late map[core.Instant][]int32, twice map[core.Instant]int64, from, to core.Instant, parts int) Report {
	r := Report{}
	var all []int32
	part := make([][]int32, max(parts, 1))
	for i := from; i < to; i++ {
		n := int64(len(late[i]))
		r.Twice += twice[i]
		if n == 0 {
			continue
		}
		if r.Instants == 0 || n < r.Least {
			r.Least = n
		}
		r.Instants++
		r.Distinct += n
		all = append(all, late[i]...)
		k := int(int64(i-from) * int64(len(part)) / int64(to-from))
		part[k] = append(part[k], late[i]...)
	}
	r.Received = r.Distinct + r.Twice
	for _, us := range all {
		if us < 0 {
			r.Early++
		}
	}
	r.P50, r.P90, r.P99, r.Max = quantile(all, .5), quantile(all, .9), quantile(all, .99), quantile(all, 1)
	if parts > 1 {
		for k := range part {
			r.ByInstants = append(r.ByInstants, Tail{From: from + core.Instant(int64(k)*int64(to-from)/int64(parts)), P99: quantile(part[k], .99)})
		}
	}
	return r
}

func quantile(us []int32, q float64) time.Duration {
	if len(us) == 0 {
		return 0
	}
	slices.Sort(us)
	i := min(int(q*float64(len(us))), len(us)-1)
	return time.Duration(us[i]) * time.Microsecond
}
