package cost

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// begin is a Monday.
var begin = time.Date(2027, 1, 4, 0, 0, 0, 0, time.UTC)

func spread(d time.Duration) func(int) core.When { // a phase by the job's number
	return func(int) core.When { return core.When{Kind: core.KindEvery, Every: d} }
}

func together(d time.Duration) func(int) core.When {
	return func(int) core.When { return core.When{Kind: core.KindEvery, Every: d, Aligned: true} }
}

type fleet struct {
	name            string
	jobs            int
	span            time.Duration
	when            func(i int) core.When
	units, requests float64 // of writes and queues, for one run, at most
	dollars         float64 // for a million runs, at most
	before          float64 // its value with the default deployment of November 2026
}

var fleets = []fleet{
	{"1,000 jobs every minute, all at :00", 1000, 110 * time.Minute, together(time.Minute), 2.29, 0.011, 2.02, 2.94},
	{"1,000 jobs every minute, spread", 1000, 110 * time.Minute, spread(time.Minute), 2.34, 0.133, 2.15, 3.09},
	{"20 jobs every minute, spread", 20, 110 * time.Minute, spread(time.Minute), 3.13, 1.8, 4.31, 5.24},
	{"100 jobs every second", 100, 22 * time.Minute, together(time.Second), 2.02, 0.03, 1.84, 2.78},
	{"10,000 jobs a day, all at midnight", 10_000, 24 * time.Hour, together(24 * time.Hour), 5.02, 0.072, 4.04, 5.15},
	{"10,000 jobs a day, spread", 10_000, 24 * time.Hour, spread(24 * time.Hour), 5.95, 2.07, 6.57, 7.72},
}

func jobsOf(n int, when func(i int) core.When) (jobs []Job) {
	for i := range n {
		jobs = append(jobs, Job{Name: fmt.Sprint("job-", i), Schedule: core.Schedule{Any: []core.When{when(i)}}})
	}
	return jobs
}

// holds fails unless a document has a row.
func holds(t *testing.T, file, row string) {
	t.Helper()
	doc, err := os.ReadFile("../../docs/" + file)
	check.OK(t, err)
	check.Contains(t, string(doc), "\n"+row+"\n", "docs/%s does not have the row\n%s", file, row)
}

// page fails unless docs/reference/aws-cost.md has text in its part of a name; with -update it writes the text there.
func page(t *testing.T, name, text string) {
	t.Helper()
	const file = "../../docs/reference/aws-cost.md"
	doc, err := os.ReadFile(file)
	check.OK(t, err)
	mark := "<!-- " + name + " -->\n"
	before, rest, _ := strings.Cut(string(doc), mark)
	_, after, ok := strings.Cut(rest, "<!-- end -->")
	if !ok {
		t.Fatalf("docs/reference/aws-cost.md has no part %s", name)
	}
	golden.File(t, file, []byte(before+mark+"\n"+text+"\n<!-- end -->"+after))
}

// counted returns the counts of a fleet over whole periods of its schedule.
func (f *fleet) counted(t *testing.T) Counts {
	t.Helper()
	c, err := Replay(jobsOf(f.jobs, f.when), begin, f.span, plan.AWS())
	check.OK(t, err)
	if want := f.jobs * int(f.span/f.when(0).Every); c.Fires != want {
		t.Errorf("%d fires in %s, want %d", c.Fires, f.span, want)
	}
	return c
}

// TestFleets counts the writes and queue requests of six fleets: testdata/TestFleets.txt is the table.
func TestFleets(t *testing.T) {
	text := "| Jobs | Messages for a million runs | Advances for a million runs | Write units a run | Queue requests a run |\n" +
		"|---|---|---|---|---|\n"
	for _, f := range fleets {
		c := f.counted(t)
		per := func(n int) float64 { return float64(n) / float64(c.Fires) }
		units := writesOfRun + (writesOfAdvance+movesOfAdvance)*per(c.Advances) + per(c.Journals)
		requests := per(c.Sends + 2*c.Takes)
		if units > f.units || requests > f.requests {
			t.Errorf("%s: %.3f write units and %.3f requests a fire; at most %.2f and %.2f", f.name, units, requests, f.units, f.requests)
		}
		text += fmt.Sprintf("| %s | %.0f | %.0f | %.2f | %.3f |\n", f.name, 1e6*per(c.Messages), 1e6*per(c.Advances), units, requests)
	}
	golden.File(t, "testdata/TestFleets.txt", []byte(text))
}

// million returns the cost of a million runs: table cells of its parts, the sum, and the sum with an HTTP API.
func million(c Counts, d Deployment, tables func(dollars float64) float64) (parts string, sum, api float64) {
	u := Jobs(c, d)
	u = u.Times(1e6 / u.Fires)
	bill := map[string]float64{}
	for _, l := range Virginia.Bill(u) {
		bill[l.What] += l.Dollars
	}
	write, read := bill["table writes"], bill["table reads"]
	if tables != nil {
		write, read = tables(write), tables(read)
	}
	functions := bill["function invocations"] + bill["function time"]
	sum = write + read + bill["history stored"] + bill["queue requests"] + functions
	d.HTTPAPI = true
	requests := Jobs(c, d)
	api = sum + requests.HTTPRequests/requests.Fires*Virginia.HTTPRequests
	return fmt.Sprintf("%.2f | %.2f | %.2f | %.2f | %.2f", write, read, bill["history stored"], bill["queue requests"], functions), sum, api
}

// TestPage compares the table of docs/reference/aws-cost.md with the cost of the fleets, and checks the table's limits.
func TestPage(t *testing.T) {
	text := "| Jobs | Writes | Reads | History | Queues | Functions | Total | With an HTTP API |\n|---|---|---|---|---|---|---|---|\n"
	for _, f := range fleets {
		parts, sum, api := million(f.counted(t), Standard(), nil)
		text += fmt.Sprintf("| %s | %s | **%.2f** | %.2f |\n", f.name, parts, sum, api)
		t.Logf("%s: $%.3f, %.0f %% below $%.2f", f.name, sum, 100*(1-sum/f.before), f.before)
		if sum > f.dollars {
			t.Errorf("%s: $%.3f a million fires; at most $%.3f", f.name, sum, f.dollars)
		}
	}
	page(t, "fleets", text)
}

// gathered are the results of a callback, at least, of an executor that reports all
// that waits by one request: TestMeasured counts more.
const gathered = 8

// reserved is the price share of provisioned capacity that is reserved for three years and fully used.
const reserved = 0.23

// TestCheaper compares docs/reference/aws-cost.md with the cost of the same runs under cheaper settings of the account or
// the executors.
func TestCheaper(t *testing.T) {
	batched := Standard()
	batched.Results = gathered
	provisioned, both, small := Standard(), batched, Standard()
	provisioned.Provisioned, both.Provisioned = true, true
	small.MemoryMB.Dispatch = 128
	text := "| Jobs | Total | With an HTTP API |\n|---|---|---|\n"
	for _, tt := range []struct {
		fleet
		name    string
		d       Deployment
		tables  func(float64) float64
		dollars float64
	}{
		{fleets[0], "eight results in a callback", batched, nil, 1.78},
		{fleets[1], "eight results in a callback", batched, nil, 1.90},
		{fleets[1], "provisioned tables", provisioned, nil, 1.19},
		{fleets[1], "provisioned tables, eight results in a callback", both, nil, 0.95},
		{fleets[1], "provisioned tables, reserved for three years", provisioned, func(d float64) float64 { return d * reserved }, 0.665},
		{fleets[2], "`dispatch` with 128 MB", small, nil, 4.04},
		{fleets[5], "`dispatch` with 128 MB", small, nil, 6.28},
	} {
		_, sum, api := million(tt.counted(t), tt.d, tt.tables)
		text += fmt.Sprintf("| %s; %s | **%.2f** | %.2f |\n", tt.fleet.name, tt.name, sum, api)
		if sum > tt.dollars {
			t.Errorf("%s, %s: $%.3f a million fires; at most $%.3f", tt.fleet.name, tt.name, sum, tt.dollars)
		}
	}
	page(t, "cheaper", text)
}

// TestFire computes the usage of one run of 1,000 minutely jobs: testdata/TestFire.txt is the table.
func TestFire(t *testing.T) {
	c, d := fleets[1].counted(t), Standard()
	u := Jobs(c, d)
	n := u.Fires
	core := u.CoreSeconds * gb(coreMB)
	b := map[string]float64{}
	for _, l := range Virginia.Bill(u.Times(1e6 / n)) {
		b[l.What] = l.Dollars
	}
	golden.File(t, "testdata/TestFire.txt", []byte(fmt.Sprintf("| What | One run | $ for a million |\n|---|---|---|\n"+
		"| Write units: 2 for the run, 0.3 to plan its job, 0.06 for its journal | %.2f | %.2f |\n"+
		"| Read units: 1 for its job, the rest is shared | %.2f | %.2f |\n"+
		"| History: %d bytes for 30 days, and a share of a journal for 20 days | | %.2f |\n"+
		"| Queue requests | %.3f | %.2f |\n"+
		"| Invocations: a callback and a share of a batch | %.2f | %.2f |\n"+
		"| GB-seconds: %.4f of processor time, %.4f of waiting | %.4f | %.2f |\n",
		u.WriteUnits/n, b["table writes"], u.ReadUnits/n, b["table reads"], d.RunBytes, b["history stored"],
		u.QueueRequests/n, b["queue requests"], u.Invocations/n, b["function invocations"],
		core/n, u.GBSeconds/n, (core+u.GBSeconds)/n, b["function time"])))
}

// alarmed is the number of metrics that the stack's alarms evaluate: TestAlarms of infra counts them.
const alarmed = 11

// TestIdle compares docs/reference/aws-cost.md with the cost of an idle deployment, and checks its limits.
func TestIdle(t *testing.T) {
	d := Standard()
	d.Executors = 1
	text := "| What | Amount | Dollars |\n|---|---|---|\n"
	bill := Virginia.Bill(Idle(d))
	for _, l := range bill {
		text += fmt.Sprintf("| %s | %.0f %s | %s |\n", l.What, l.Amount, l.Unit, Dollars(l.Dollars))
	}
	one := Sum(bill)
	d.Executors = 0
	canary, err := Canary(d)
	check.OK(t, err)
	none, watched := Sum(Virginia.Bill(Idle(d))), Sum(Virginia.Bill(canary))
	all := none + watched + alarmed*Virginia.Alarm
	text += fmt.Sprintf("| Total with one executor that registers | | **%s** |\n", Dollars(one)) +
		fmt.Sprintf("| Total without executors, with the canary (%s) and alarms on %d metrics (%s) | | **%s** |\n", Dollars(watched), alarmed,
			Dollars(alarmed*Virginia.Alarm), Dollars(all))
	planning := Sum(Virginia.Bill(Planning(float64(Month/time.Minute), d)))
	text += fmt.Sprintf("| Additional, if jobs are planned every minute; any number of jobs | | %s |\n", Dollars(planning))
	page(t, "idle", text)
	if one > 0.95 || all > 2.00 {
		t.Errorf("idle is %s a month, %s with the canary and all alarms", Dollars(one), Dollars(all))
	}
	holds(t, "tutorial/deploy-to-aws.md", fmt.Sprintf("| no jobs, with the canary and the alarms | %.2f |", all))
	u := Jobs(fleets[1].counted(t), Standard())
	u = u.Times(1000 * 60 * 24 * 30 / u.Fires).Plus(Planning(float64(Month/time.Minute), d))
	holds(t, "tutorial/deploy-to-aws.md", fmt.Sprintf("| 1,000 jobs, one run a minute each | %.0f more |", Sum(Virginia.Bill(u))))
}

// busier is the factor by which tables may grow above an even load: for the busy hour, and for catching up after an
// outage.
const busier = 4

// Provision returns the units a second of a deployment whose jobs fire evenly: the average of each table, and the stack's
// setting (least and most reads, least and most writes, for all tables). The least capacity covers the burst in which a
// window is planned: that burst is too short for a table to grow.
func Provision(c Counts, d Deployment) (takes []Capacity, provisioned string) {
	idle, jobs := unitsOfIdle(d), unitsOfJobs(c, d)
	sum := idle
	for i := range sum {
		sum[i].Write = idle[i].Write/Month.Seconds() + jobs[i].Write/c.Span.Seconds()
		sum[i].Read = idle[i].Read/Month.Seconds() + jobs[i].Read/c.Span.Seconds()
	}
	all := sum.taking()
	const leastRead = 1.0
	leastWrite := max(1, math.Ceil(max(all[0].Write, all[1].Write)))
	mostRead, mostWrite := leastRead, leastWrite
	for i := range all {
		t := &all[i]
		mostRead, mostWrite = max(mostRead, busier*t.Read), max(mostWrite, busier*t.Write)
		t.Write, t.Read = max(t.Write, leastWrite), max(t.Read, leastRead)
	}
	tens := func(n float64) float64 { return 10 * math.Ceil(n/10) }
	return all[:], fmt.Sprintf("%.0f,%.0f,%.0f,%.0f", leastRead, tens(mostRead), leastWrite, tens(mostWrite))
}

// TestProvision: the example in docs/reference/aws-settings.md covers the burst of a window of 1,000 minutely jobs.
func TestProvision(t *testing.T) {
	d := Standard()
	d.Executors, d.Provisioned = 1, true
	takes, provisioned := Provision(fleets[1].counted(t), d)
	holds(t, "reference/aws-settings.md", "| `provisioned` | minimum and maximum read units, minimum and maximum write units, of each table "+
		"and of the index: "+provisioned+" | on-demand capacity; see [AWS costs](aws-cost.md#how-to-pay-less) |")
	for _, of := range takes {
		t.Logf("%s: %.1f written, %.1f read a second", of.Of, of.Write, of.Read)
	}
	// Half of 1,000 jobs move in the index at once, paid from the unused capacity of five minutes, which the time to the other
	// half restores.
	o := plan.AWS()
	burst := float64(1000 * movesOfAdvance / o.Groups)
	if kept := takes[1].Write * min(300, o.Window.Seconds()/float64(o.Groups)); kept < burst {
		t.Errorf("the index keeps %.0f units for a burst of %.0f", kept, burst)
	}
}
