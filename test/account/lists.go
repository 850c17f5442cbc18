package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

// slack is how far apart the claim of a run, by which sums count it, and its send may be.
const slack = 10 * time.Second

// listing is how many runs a command has of an app.
type listing struct {
	command, app string
	runs         int
	ids          map[core.RunID]bool // of a list: the runs
	noWaiting    bool
	until        time.Time // end of a sum: it counts earlier starts; zero: a list of runs due in [from, to)
	from, to     time.Time
	err          error
}

// listings reads the runs of the apps with schedules: lists of runs due in [from, to), and sums of whole hours. A sum includes the
// current hour only if it is short, and lateness has whole hours only for a span of more than two.
func (p *proof) listings(ctx context.Context, from, to time.Time) (all []listing) {
	for _, a := range p.apps {
		for _, command := range []string{"runs APP", "runs APP --failed", "runs APP --state skipped", "report APP", "lateness APP"} {
			flags := " --limit 1000000 --from FROM --to TO"
			switch command {
			case "report APP":
				flags = " --by hour --from BEFORE"
			case "lateness APP":
				flags = " --buckets 2 --from BEFORE"
			}
			var out struct {
				Runs      []client.Run
				NoWaiting bool
				Rows      []struct {
					Runs, Open int
					Cells      []struct{ Late struct{ Runs int } }
				}
				Until, CountedTo time.Time
			}
			stamp := func(at time.Time) string { return at.UTC().Format(time.RFC3339) }
			err := p.json(ctx, &out, strings.NewReplacer("APP", a.name, "FROM", stamp(from), "TO", stamp(to.Add(-time.Second)),
				"BEFORE", stamp(p.began.Add(-3*time.Hour))).Replace(command+flags))
			l := listing{command, a.name, 0, map[core.RunID]bool{}, out.NoWaiting, cmp.Or(out.Until, out.CountedTo), from, to, err}
			for _, r := range out.Runs {
				l.ids[core.RunID(r.LogID)] = true
			}
			l.runs = len(l.ids)
			for _, r := range out.Rows {
				l.runs += r.Runs + r.Open
				for _, cell := range r.Cells {
					l.runs += cell.Late.Runs
				}
			}
			all = append(all, l)
		}
	}
	return all
}

// listed are the runs that `tickring runs APP` has, of all apps.
func listed(all []listing) map[core.RunID]bool {
	runs := map[core.RunID]bool{}
	for _, l := range all {
		if l.command == "runs APP" {
			maps.Copy(runs, l.ids)
		}
	}
	return runs
}

// outside returns the minimum and maximum number of runs that a list must have, by arrivals and by the histories of the jobs.
// Reports count all recorded runs, lateness counts sent runs.
func (l *listing) outside(jobs map[core.JobID]job, history map[core.RunID]end, arrived *ledger) (least, most int) {
	all := maps.Clone(history)
	arrived.mu.Lock()
	for run := range arrived.runs {
		all[run] = history[run]
	}
	arrived.mu.Unlock()
	for run, e := range all {
		at, _ := run.Planned()
		came := arrived.of(run)
		if e.began.IsZero() && len(came) > 0 { // including one that came after the history was read
			e.began = came[0].at
		}
		if e.began.IsZero() || !strings.HasPrefix(jobs[run.Job()].name, l.app+"/") {
			continue
		}
		sure := !at.Time().Before(l.from) && at.Time().Before(l.to)
		switch l.command {
		case "runs APP --failed":
			sure = sure && (e.state == "failed" || e.state == "timed-out" || e.state == "lost")
		case "runs APP --state skipped":
			sure = sure && e.state == "skipped"
		}
		perhaps := sure
		if report := l.command == "report APP"; !l.until.IsZero() {
			sure = e.began.Before(l.until.Add(-slack)) && (report || len(came) > 0)
			perhaps = e.began.Before(l.until.Add(slack)) && (report || e.state != "skipped")
		}
		if sure {
			least++
		}
		if perhaps {
			most++
		}
	}
	return least, most
}

// judgeListings compares lists with the counts from outside. A list of an app that can lack waiting runs must report that.
func (p *proof) judgeListings(all []listing, jobs map[core.JobID]job, history map[core.RunID]end) {
	for _, l := range all {
		what := fmt.Sprintf("`tickring %s` of %s matches the count from outside", l.command, l.app)
		least, most := l.outside(jobs, history, p.ledger)
		held, sum := least <= l.runs && l.runs <= most, !l.until.IsZero()
		switch {
		case l.err != nil:
			p.report.fails(what, l.err)
		case sum && most == 0 && l.runs == 0:
			p.report.unshown = append(p.report.unshown, what+": no hour was summed up yet")
		case sum:
			p.report.says(what, held, "%d runs up to %s, from outside %d to %d", l.runs, l.until.UTC().Format(time.TimeOnly), least, most)
		default:
			held = held && l.noWaiting == (l.command == "runs APP")
			p.report.says(what, held, "%d runs, from outside %d; noWaiting is %t", l.runs, least, l.noWaiting)
		}
	}
}
