package bench

import (
	"bufio"
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

// ExecutorOptions of the bench's executor process.
type ExecutorOptions struct {
	App, Admin, Token string
	HangFrom          time.Time
}

// Report is what an executor received of the fires of a span of instants.
type Report struct {
	Received   int64         `json:"received"`
	Distinct   int64         `json:"distinct"`
	Twice      int64         `json:"twice"`
	Early      int64         `json:"early"`
	Instants   int           `json:"instants"`
	Least      int64         `json:"least"` // distinct fires of the instant that has fewest
	P50        time.Duration `json:"p50"`
	P90        time.Duration `json:"p90"`
	P99        time.Duration `json:"p99"`
	Max        time.Duration `json:"max"`
	ByInstants []Tail        `json:"byInstants,omitempty"` // of equal parts of the span
}

// Tail is the p99 of a part of a span.
type Tail struct {
	From core.Instant  `json:"from"`
	P99  time.Duration `json:"p99"`
}

// RunExecutor is the executor process: it tells its URL on out, and answers each
// line "FROM TO PARTS CHILDREN" on in with a Report of the instants FROM <= i < TO, until
// in ends: of the fires of these, or, where CHILDREN is true, of what came after them, each
// counted from the end of its parent.
func RunExecutor(o ExecutorOptions, in io.Reader, out io.Writer) error {
	var mu sync.Mutex
	late := map[core.Instant][]int32{} // microseconds, capped at half an hour
	seen := map[int64]bool{}
	twice := map[core.Instant]int64{}
	var fam family
	e, err := miniexec.Start(miniexec.Options{App: o.App, Admin: o.Admin, Token: o.Token, HangFrom: o.HangFrom,
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
			fam.parent(r, instant, at)
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
		var children bool
		if _, err := fmt.Sscan(lines.Text(), &from, &to, &parts, &children); err != nil {
			return fmt.Errorf("read command %q: %w", lines.Text(), err)
		}
		mu.Lock()
		r := report(late, twice, from, to, parts)
		if children {
			r = report(fam.after, fam.twice, from, to, parts)
		}
		mu.Unlock()
		if err := json.NewEncoder(out).Encode(r); err != nil {
			return err
		}
	}
	return lines.Err()
}

// parents is how many jobs of the scenario of children have one: the jobs 1 … parents, whose
// children are the next so many, in the same order.
const parents = 1000

// family is what came after runs that ended at once, in the order of these. The zero value
// is none.
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

func (f *family) parent(r *wire.Run, instant core.Instant, at time.Time) {
	if r.JobID > parents {
		return
	}
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
