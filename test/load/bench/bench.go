// Command bench measures `tickring serve` from outside. It starts the server as a separate process, runs executors itself,
// and creates jobs. It reports which runs the executors received, when they received them, and the resources that the
// server used. The command uses only loopback addresses, and every scenario ends by itself.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/testkit/miniexec"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/sqlite"
	"github.com/tickring/tickring/wire"
)

const (
	benchApp   = "bench"
	hangApp    = "hanging"
	probedApp  = "probed" // hangs, too
	lineApp    = "line"   // has one run at a time
	benchToken = "bench-executors"
)

type Options struct {
	Scenarios []string      // names of the scenarios to run; empty: all scenarios except "soak"
	For       time.Duration // duration of a rate measurement
	// Dir is the parent directory of the data directories; empty: a temporary directory, which is removed at the end.
	Dir string
}

// scenarios are in the order in which they run.
var scenarios = []struct {
	name string
	run  func(*bench, context.Context) ([]Row, error)
}{
	{"second-100", second(100)}, {"second-1000", second(1000)}, {"second-10000", second(10_000)}, {"burst-10000", burst(10_000)},
	{"burst-50000", burst(50_000)}, {"highest", (*bench).highest}, {"hang", (*bench).hanging}, {"children", (*bench).children},
	{"overlap", (*bench).overlap}, {"waiting", (*bench).waiting}, {"apply", (*bench).apply}, {"idle", (*bench).idle}, {"soak", (*bench).soak},
}

// names returns the names of all scenarios.
func names() (list []string) {
	for _, s := range scenarios {
		list = append(list, s.name)
	}
	return list
}

type Row struct {
	Scenario                     string
	Demanded, Lost, Twice, Early int64
	P50, P99, Max                time.Duration
	CPU                          float64 // processor time in seconds that the server used for 10,000 runs
	Resident                     int64   // peak memory of the server in bytes
	Note                         string
}

// Run runs the scenarios that the options select, and prints the table of their results.
func Run(ctx context.Context, o Options) error {
	all := names()
	if len(o.Scenarios) == 0 {
		o.Scenarios = all[:len(all)-1]
	}
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "tickring-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.Dir = dir
	}
	b := &bench{o: o}
	var rows []Row
	for _, name := range o.Scenarios {
		i := slices.Index(all, name)
		if i < 0 {
			return core.Invalid("scenario", name, "allowed: %v", all)
		}
		fmt.Printf("%s …\n", name)
		got, err := scenarios[i].run(b, ctx)
		rows = append(rows, got...)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	Table(os.Stdout, rows)
	return nil
}

func Table(w io.Writer, rows []Row) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SCENARIO\tDEMANDED\tLOST\tTWICE\tEARLY\tP50\tP99\tMAX\tCPU s/10,000\tPEAK MB\tNOTE")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%.2f\t%d\t%s\n", r.Scenario, r.Demanded, r.Lost, r.Twice, r.Early, ms(r.P50), ms(r.P99),
			ms(r.Max), r.CPU, r.Resident>>20, r.Note)
	}
	t.Flush()
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

type bench struct{ o Options }

func (b *bench) dir() (string, error) { return os.MkdirTemp(b.o.Dir, "data-") }

// rig starts a rig on a new data folder that has jobs already.
func (b *bench) rig(ctx context.Context, jobs []manage.JobSpec, serveArgs ...string) (*rig, error) {
	dir, err := b.dir()
	if err == nil {
		err = b.seed(ctx, dir, jobs)
	}
	if err != nil {
		return nil, err
	}
	return newRig(dir, serveArgs...)
}

// seed makes the apps, and jobs of one app, in a data folder on which no server works.
func (b *bench) seed(ctx context.Context, dir string, jobs []manage.JobSpec) error {
	lock, err := sqlite.TryLock(dir)
	if err != nil {
		return err
	}
	eng, err := sqlite.Open(ctx, sqlite.Options{Lock: lock})
	if err != nil {
		return err
	}
	defer eng.Close()
	m := wiring.New(eng, wiring.Options{Plan: plan.Local()}).People(nil, people.Options{})
	actor := core.Actor{Name: "bench"}
	tok := benchToken
	for app, inFlight := range map[string]int{benchApp: 0, hangApp: 0, probedApp: 0, lineApp: 1} {
		if _, err := m.SaveApp(ctx, actor, manage.AppSpec{Name: app, Token: &tok, Limits: core.Limits{InFlight: inFlight}}); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(jobs, 10_000) {
		for _, r := range m.Save(ctx, actor, part) {
			if r.Err != nil {
				return fmt.Errorf("make job %s: %w", r.Name, r.Err)
			}
		}
	}
	return nil
}

func job(app, name string, when core.When) manage.JobSpec {
	return manage.JobSpec{Def: core.Def{App: app, Name: name, Handler: "bench"}, Schedule: core.Schedule{Any: []core.When{when}}}
}

func secondly(app string, n int) []manage.JobSpec {
	jobs := make([]manage.JobSpec, n)
	for i := range jobs {
		jobs[i] = job(app, fmt.Sprintf("s%d", i), core.When{Kind: core.KindEvery, Every: time.Second, Aligned: true})
	}
	return jobs
}

// wait waits until an instant has passed.
func wait(ctx context.Context, until core.Instant) error {
	store.Sleep(ctx, time.Until(until.Time()))
	return ctx.Err()
}

// warmup is how long a rate runs before it is measured, drain how long its last fires have to
// arrive, patience how long late fires are awaited after that: later fires count as lost.
const warmup, drain, patience = 8, 5, 120

// arrived waits until all that was due has arrived, or patience ends.
func (r *rig) arrived(ctx context.Context, from, to core.Instant, parts int, demanded int64) (rep Report, err error) {
	for last := to + drain; last <= to+drain+patience && (last == to+drain || rep.Distinct < demanded); last += 5 {
		if err := wait(ctx, last); err != nil {
			return rep, err
		}
		rep = r.report(r.of, from, to, parts)
	}
	return rep, nil
}

// measure runs a rig for a span and compares the arrived fires with the due ones.
func (b *bench) measure(ctx context.Context, r *rig, name string, perSecond int64, d time.Duration, parts int) (Row, Report, error) {
	from := core.InstantOf(time.Now()) + warmup
	to := from.Add(d)
	if err := wait(ctx, from); err != nil {
		return Row{}, Report{}, err
	}
	before := r.usage()
	if err := wait(ctx, to); err != nil {
		return Row{}, Report{}, err
	}
	after := r.usage()
	rep, err := r.arrived(ctx, from, to, parts, perSecond*int64(to-from))
	if err != nil {
		return Row{}, rep, err
	}
	row := rowOf(name, perSecond*int64(to-from), rep)
	row.CPU = (after.CPU - before.CPU).Seconds() / float64(row.Demanded) * 10_000
	row.Resident = after.Peak
	return row, rep, nil
}

func rowOf(name string, demanded int64, rep Report) Row {
	return Row{Scenario: name, Demanded: demanded, Lost: demanded - rep.Distinct, Twice: rep.Twice, Early: rep.Early, P50: rep.P50,
		P99: rep.P99, Max: rep.Max}
}

// second returns the scenario of n jobs that fire every second.
func second(n int) func(*bench, context.Context) ([]Row, error) {
	return func(b *bench, ctx context.Context) ([]Row, error) {
		return b.secondly(ctx, fmt.Sprint("second-", n), n, b.o.For)
	}
}

func (b *bench) secondly(ctx context.Context, name string, n int, d time.Duration) ([]Row, error) {
	r, err := b.rig(ctx, secondly(benchApp, n))
	if err != nil {
		return nil, err
	}
	defer r.stop()
	row, _, err := b.measure(ctx, r, name, int64(n), d, 1)
	return []Row{row}, err
}

// burst returns the scenario of n jobs that fire once, in one second.
func burst(n int) func(*bench, context.Context) ([]Row, error) {
	return func(b *bench, ctx context.Context) ([]Row, error) { return b.burst(ctx, n) }
}

func (b *bench) burst(ctx context.Context, n int) ([]Row, error) {
	started := time.Now()
	at := core.InstantOf(started) + 20 + core.Instant(n/2500)
	jobs := make([]manage.JobSpec, n)
	for i := range jobs {
		jobs[i] = job(benchApp, fmt.Sprintf("b%d", i), core.When{Kind: core.KindAt, At: at})
	}
	r, err := b.rig(ctx, jobs)
	if err != nil {
		return nil, err
	}
	defer r.stop()
	if time.Now().After(at.Time().Add(-10 * time.Second)) {
		return nil, fmt.Errorf("making %d jobs took %s: too slow a machine for this scenario", n, time.Since(started).Round(time.Second))
	}
	if err := wait(ctx, at-1); err != nil {
		return nil, err
	}
	before := r.usage()
	if err := wait(ctx, at+12); err != nil {
		return nil, err
	}
	after := r.usage()
	rep := r.report(ofFires, at, at+1, 1)
	row := rowOf(fmt.Sprintf("burst-%d", n), int64(n), rep)
	row.CPU = (after.CPU - before.CPU).Seconds() / float64(n) * 10_000
	row.Resident = after.Peak
	row.Note = "last out after " + ms(rep.Max)
	return []Row{row}, nil
}

// highest raises the rate until p99 passes a second or fires are missing.
func (b *bench) highest(ctx context.Context) ([]Row, error) {
	var rows []Row
	for n := 8000; n <= 60000; n += 4000 {
		got, err := b.secondly(ctx, fmt.Sprintf("highest: %d/s", n), n, 20*time.Second)
		if err != nil {
			return rows, err
		}
		if got[0].P99 > time.Second || got[0].Lost > 0 {
			got[0].Note = "over 1 s: not sustained"
			return append(rows, got...), nil
		}
		rows = got
	}
	return rows, nil
}

// hanging sends 100 fires a second to an executor that answers, 50 to one that does not, and 25 to a failover app whose two
// executors do not answer probes either. They hang from the first second on, or from the middle of the measured span, after a
// healthy period. The worse half of the span counts.
func (b *bench) hanging(ctx context.Context) (rows []Row, err error) {
	for _, c := range []struct {
		name, note string
		from       time.Duration
	}{
		{"hang: healthy", "75/s beside it hang from the first second", 0},
		{"hang: healthy, later", "75/s beside it begin to hang in its midst", warmup*time.Second + b.o.For/2},
	} {
		row, err := b.hang(ctx, c.name, c.from)
		if err != nil {
			return rows, err
		}
		row.Note = c.note
		rows = append(rows, row)
	}
	return rows, nil
}

func (b *bench) hang(ctx context.Context, name string, after time.Duration) (Row, error) {
	probed := secondly(probedApp, 25)
	for i := range probed {
		probed[i].Def.Route = core.RouteFailover
	}
	r, err := b.rig(ctx, slices.Concat(secondly(benchApp, 100), secondly(hangApp, 50), probed))
	if err != nil {
		return Row{}, err
	}
	defer r.stop()
	from := time.Now().Add(after)
	for _, app := range []string{hangApp, probedApp, probedApp} {
		if err := r.executor(miniexec.Options{App: app, HangFrom: from}); err != nil {
			return Row{}, err
		}
	}
	row, rep, err := b.measure(ctx, r, name, 100, b.o.For, 2)
	for _, half := range rep.Parts {
		row.P99 = max(row.P99, half.P99)
	}
	return row, err
}

// children runs 1,000 jobs every second on the second, which take 0 to 999 ms, and one child
// job for each, counted from the end of its parent.
func (b *bench) children(ctx context.Context) ([]Row, error) {
	jobs := secondly(benchApp, parents)
	for i := range parents {
		c := job(benchApp, fmt.Sprintf("c%d", i), core.When{})
		c.Schedule, c.Def.After = core.Schedule{}, []core.Parent{{Job: benchApp + "/" + jobs[i].Def.Name}}
		jobs[i].Def.Params, c.Def.Params = isParent, ""
		jobs = append(jobs, c)
	}
	r, err := b.rig(ctx, jobs)
	if err != nil {
		return nil, err
	}
	defer r.stop()
	r.of = ofChildren
	row, _, err := b.measure(ctx, r, "children", parents, b.o.For, 1)
	row.Note = "from the end of a parent to its child"
	return []Row{row}, err
}

// overlap runs 1,000 jobs every second on the second, which take 250 ms, in 100 groups of limit 3: the limits allow 1,200 a second.
func (b *bench) overlap(ctx context.Context) ([]Row, error) {
	const groups, limit = 100, 3
	jobs := secondly(benchApp, 1000)
	for i := range jobs {
		group := fmt.Sprintf("g%d", i%groups)
		jobs[i].Def.Params, jobs[i].Def.Overlap = group, core.Overlap{Limit: limit, Group: group, Max: core.MaxQueue}
	}
	r, err := b.rig(ctx, jobs)
	if err != nil {
		return nil, err
	}
	defer r.stop()
	r.of = ofPermits
	row, rep, err := b.measure(ctx, r, "overlap", 1000, b.o.For, 1)
	row.Note = fmt.Sprintf("from a free permit to its next run; at most %d of %d running at once", rep.AtOnce, limit)
	if err == nil && rep.AtOnce > limit {
		err = fmt.Errorf("%d runs of a group are running at once, but its limit is %d", rep.AtOnce, limit)
	}
	return []Row{row}, err
}

// waiting measures a hundred running jobs beside 100,000 runs that wait: for an executor, in the line of an app, and in 10,000
// lines. Then an executor registers, and the note has the time until it receives the first run.
func (b *bench) waiting(ctx context.Context) (rows []Row, err error) {
	const runs, perSecond, lines = 100_000, 1000, 10_000
	for _, c := range []struct {
		name, app string
		lines     bool
	}{{"waiting: executor", hangApp, false}, {"waiting: one line", lineApp, false}, {"waiting: 10,000 lines", hangApp, true}} {
		dir, err := b.dir()
		if err != nil {
			return rows, err
		}
		jobs, from := secondly(benchApp, 100), core.InstantOf(time.Now())+60
		for i := range runs {
			j := job(c.app, fmt.Sprintf("w%d", i), core.When{Kind: core.KindAt, At: from + core.Instant(i/perSecond)})
			if j.Def.WaitForExecutor = core.MaxWait; c.lines {
				j.Def.Overlap = core.Overlap{Limit: 1, Group: fmt.Sprintf("g%d", i%lines), Max: core.MaxQueue}
			}
			jobs = append(jobs, j)
		}
		if err := b.seed(ctx, dir, jobs); err != nil {
			return rows, err
		}
		row, err := b.beside(ctx, dir, c.name, c.app, c.lines || c.app == lineApp, from+runs/perSecond+30)
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// beside measures the running jobs from an instant on, when all other runs wait. If held is true, runs that do not end hold all slots.
func (b *bench) beside(ctx context.Context, dir, name, app string, held bool, from core.Instant) (Row, error) {
	r, err := newRig(dir)
	if err != nil {
		return Row{}, err
	}
	defer r.stop()
	came := make(chan time.Time, 1)
	first := miniexec.Options{App: app, Received: func(_ *wire.Run, at time.Time) {
		select {
		case came <- at:
		default:
		}
	}}
	if held {
		ends := make(chan struct{})
		defer close(ends)
		if err := r.executor(miniexec.Options{App: app, Handle: func(context.Context, *wire.Run) (int, string) {
			<-ends
			return wire.CodeSuccess, ""
		}}); err != nil {
			return Row{}, err
		}
	}
	if err := wait(ctx, from); err != nil {
		return Row{}, err
	}
	row, _, err := b.measure(ctx, r, name, 100, b.o.For, 1)
	if err != nil || held {
		return row, err
	}
	began := time.Now()
	if err := r.executor(first); err != nil {
		return row, err
	}
	row.Note = "first run " + ms((<-came).Sub(began)) + " after the registration"
	return row, nil
}

func (b *bench) apply(ctx context.Context) ([]Row, error) {
	r, err := b.rig(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer r.stop()
	jobs := make([]manage.JobSpec, 10_000)
	for i := range jobs {
		jobs[i] = job(benchApp, fmt.Sprintf("a%d", i), core.When{Kind: core.KindCron, Expr: fmt.Sprintf("%d %d 3 * * ?", i%60, i/60%60)})
	}
	began := time.Now()
	if err := apply(ctx, r.server.URL, jobs); err != nil {
		return nil, err
	}
	took := time.Since(began)
	u := r.usage()
	return []Row{{Scenario: "apply", Demanded: 0, Resident: u.Peak, Note: fmt.Sprintf("10,000 jobs in %.2f s", took.Seconds())}}, nil
}

// idle measures a hundred running jobs beside a million that never run.
func (b *bench) idle(ctx context.Context) ([]Row, error) {
	dir, err := b.dir()
	if err != nil {
		return nil, err
	}
	jobs := secondly(benchApp, 100)
	far := core.InstantOf(time.Now().AddDate(1, 0, 0))
	for i := range 1_000_000 {
		jobs = append(jobs, job(benchApp, fmt.Sprintf("i%d", i), core.When{Kind: core.KindAt, At: far + core.Instant(i%86400)}))
	}
	began := time.Now()
	if err := b.seed(ctx, dir, jobs); err != nil {
		return nil, err
	}
	made := time.Since(began)
	r, err := newRig(dir)
	if err != nil {
		return nil, err
	}
	defer r.stop()
	row, _, err := b.measure(ctx, r, "idle: 1,000,000", 100, b.o.For/2, 1)
	row.Note = fmt.Sprintf("100/s beside 1,000,000 idle jobs (made in %.0f s)", made.Seconds())
	return []Row{row}, err
}

// soak runs 2,000 a second for ten times as long as the others, with runs kept for a fifth of that time.
func (b *bench) soak(ctx context.Context) ([]Row, error) {
	long, keep := 10*b.o.For, 2*b.o.For
	r, err := b.rig(ctx, secondly(benchApp, 2000), "--tune", "keepRuns="+keep.String(), "--tune", "keepJournals="+keep.String(),
		"--tune", "sweepEvery=1s")
	if err != nil {
		return nil, err
	}
	defer r.stop()
	over, stop := context.WithCancel(ctx)
	var looks sync.WaitGroup
	looks.Go(func() {
		for wait(over, core.InstantOf(time.Now().Add(long/10))) == nil {
			fmt.Printf("  %s: resident %d MB, file %d MB\n", time.Now().UTC().Format("15:04:05"), r.usage().Resident>>20, size(r.server.Dir)>>20)
		}
	})
	row, rep, err := b.measure(ctx, r, "soak: 2000/s", 2000, long, 10)
	stop()
	looks.Wait()
	for _, p := range rep.Parts {
		fmt.Printf("  from %s: p99 %s\n", p.From.Time().Format("15:04:05"), ms(p.P99))
	}
	row.Note = fmt.Sprintf("%s, runs kept %s, file %d MB", long, keep, size(r.server.Dir)>>20)
	return []Row{row}, err
}

func size(dir string) int64 {
	var n int64
	files, _ := filepath.Glob(filepath.Join(dir, "tickring.db*"))
	for _, f := range files {
		if st, err := os.Stat(f); err == nil {
			n += st.Size()
		}
	}
	return n
}
