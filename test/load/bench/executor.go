package main

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

// Report has counts of the runs in a time span that an executor received.
type Report struct {
	Distinct, Twice, Early int64
	P50, P99, Max          time.Duration
}

// RunExecutor runs the executor process. It writes its URL to out. For each line "FROM TO" that it reads from in, it
// writes a Report of the runs with scheduled times from FROM to before TO, whose delay is counted from the scheduled time.
// RunExecutor returns when in ends.
func RunExecutor(admin string, in io.Reader, out io.Writer) error {
	var mu sync.Mutex
	late := map[core.Instant][]int32{} // microseconds, capped at half an hour
	seen := map[int64]bool{}
	twice := map[core.Instant]int64{}
	e, err := miniexec.Start(miniexec.Options{App: benchApp, Admin: admin, Token: benchToken,
		Received: func(r *wire.Run, at time.Time) {
			instant, _ := core.RunID(r.LogID).Planned()
			us := int32(min(at.Sub(instant.Time()).Microseconds(), 1<<31-1))
			mu.Lock()
			defer mu.Unlock()
			if seen[r.LogID] {
				twice[instant]++
				return
			}
			seen[r.LogID] = true
			late[instant] = append(late[instant], us)
		}})
	if err != nil {
		return err
	}
	defer e.Close()
	fmt.Fprintln(out, e.URL())
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var from, to core.Instant
		if _, err := fmt.Sscan(lines.Text(), &from, &to); err != nil {
			return fmt.Errorf("read command %q: %w", lines.Text(), err)
		}
		mu.Lock()
		r := report(late, twice, from, to)
		mu.Unlock()
		if err := json.NewEncoder(out).Encode(r); err != nil {
			return err
		}
	}
	return lines.Err()
}

func report(late map[core.Instant][]int32, twice map[core.Instant]int64, from, to core.Instant) Report {
	r := Report{}
	var all []int32
	for i := from; i < to; i++ {
		r.Twice += twice[i]
		all = append(all, late[i]...)
	}
	r.Distinct = int64(len(all))
	for _, us := range all {
		if us < 0 {
			r.Early++
		}
	}
	r.P50, r.P99, r.Max = quantile(all, .5), quantile(all, .99), quantile(all, 1)
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
