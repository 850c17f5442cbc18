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
	units, requests float64 // of writes and queues, a fire, at most
	dollars         float64 // a million fires, at most
}

var fleets = []fleet{
	{"1,000 minutely, all on :00", 1000, 100 * time.Minute, together(time.Minute), 2.33, 0.01, 1.955},
	{"1,000 minutely, each at a second of its own", 1000, 100 * time.Minute, spread(time.Minute), 2.37, 0.13, 2.105},
	{"20 minutely, each at a second of its own", 20, 100 * time.Minute, spread(time.Minute), 3.16, 1.8, 4.255},
	{"100 secondly", 100, 20 * time.Minute, together(time.Second), 2.03, 0.03, 1.795},
	{"10,000 daily, all at midnight", 10_000, 24 * time.Hour, together(24 * time.Hour), 5.06, 0.07, 4.165},
	{"10,000 daily, each at a second of its own", 10_000, 24 * time.Hour, spread(24 * time.Hour), 6, 2.07, 6.73},
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
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), "\n"+row+"\n") {
		t.Errorf("docs/%s does not have the row\n%s", file, row)
	}
}

// TestFleets counts what six fleets cost, holds docs/aws.md and docs/cost.md to
// it, and that to the targets.
func TestFleets(t *testing.T) {
	for _, f := range fleets {
		t.Run(f.name, func(t *testing.T) {
			c, err := Replay(jobsOf(f.jobs, f.when), begin, f.span, plan.AWS())
			if err != nil {
				t.Fatal(err)
			}
			// Every instant of the span, neither more nor fewer: the counts are of whole rhythms.
			if want := f.jobs * int(f.span/f.when(0).Every); c.Fires != want {
				t.Errorf("%d fires in %s, want %d", c.Fires, f.span, want)
			}
			per := func(n int) float64 { return float64(n) / float64(c.Fires) }
			units := writesOfRun + (writesOfAdvance+movesOfAdvance)*per(c.Advances) + writesOfJournal*per(c.Messages)
			requests := per(c.Sends + 2*c.Takes)
			if units > f.units || requests > f.requests {
				t.Errorf("%.3f write units and %.3f requests a fire; at most %.2f and %.2f", units, requests, f.units, f.requests)
			}
			holds(t, "aws.md", fmt.Sprintf("| %s | %.0f | %.0f | %.2f | %.3f |", f.name, 1e6*per(c.Messages), 1e6*per(c.Advances), units, requests))

			million(t, f.name, c, Standard(), f.dollars)
		})
	}
}

// million holds docs/cost.md to what a million fires cost, and that to a target
// behind a function URL.
func million(t *testing.T, name string, c Counts, d Deployment, most float64) {
	t.Helper()
	u := Jobs(c, d.FunctionURL())
	u = u.Times(1e6 / u.Fires)
	behindAPI := Jobs(c, d)
	behindAPI = behindAPI.Times(1e6 / behindAPI.Fires)
	bill := map[string]float64{}
	for _, l := range Virginia.Bill(u) {
		bill[l.What] = l.Dollars
	}
	sum := Sum(Virginia.Bill(u))
	holds(t, "cost.md", fmt.Sprintf("| %s | %.2f | %.2f | %.2f | %.2f | %.2f | **%.2f** | %.2f |", name, bill["table writes"],
		bill["table reads"], bill["history stored"],
		bill["queue requests"], bill["function invocations"]+bill["function time"], sum, Sum(Virginia.Bill(behindAPI))))
	if sum > most {
		t.Errorf("$%.3f a million fires; at most $%.3f", sum, most)
	}
}

// gathered are the results of a callback, at least, of an executor that reports all
// that waits by one request: TestMeasured counts more.
const gathered = 8

// TestCheaper: what the same fires cost where the account, or who runs the jobs,
// lets it be less.
func TestCheaper(t *testing.T) {
	batched := Standard()
	batched.Results = gathered
	provisioned, both := Standard(), batched
	provisioned.Provisioned, both.Provisioned = true, true
	for _, tt := range []struct {
		fleet
		name    string
		d       Deployment
		dollars float64
	}{
		{fleets[0], "eight results a callback", batched, 1.765},
		{fleets[1], "eight results a callback", batched, 1.905},
		{fleets[1], "provisioned tables", provisioned, 1.155},
		{fleets[1], "provisioned tables, eight results a callback", both, 0.955},
	} {
		c, err := Replay(jobsOf(tt.jobs, tt.when), begin, tt.span, plan.AWS())
		if err != nil {
			t.Fatal(err)
		}
		million(t, tt.fleet.name+"; "+tt.name, c, tt.d, tt.dollars)
	}
}

// TestIdle holds docs/cost.md to what an idle deployment costs, and that to the
// targets.
func TestIdle(t *testing.T) {
	d := Standard().FunctionURL()
	d.Executors = 1
	bill := Virginia.Bill(Idle(d))
	for _, l := range bill {
		holds(t, "cost.md", fmt.Sprintf("| %s | %.0f %s | %s |", l.What, l.Amount, l.Unit, Dollars(l.Dollars)))
	}
	holds(t, "cost.md", fmt.Sprintf("| in all | | **%s** |", Dollars(Sum(bill))))
	if s := Sum(bill); s > 0.95 {
		t.Errorf("idle is %s a month", Dollars(s))
	}
	d.Executors, d.Alarms = 0, 16
	canary, err := Canary(d)
	if err != nil {
		t.Fatal(err)
	}
	all := Sum(Virginia.Bill(Idle(d).Plus(canary)))
	if doc, err := os.ReadFile("../../docs/cost.md"); err != nil || !strings.Contains(string(doc), "\n"+Dollars(all)+" a month.") ||
		all > 2.61 {
		t.Errorf("with the canary and all alarms: %s a month; %v", Dollars(all), err)
	}
	holds(t, "tutorial/deploy-to-aws.md", fmt.Sprintf("| no jobs, with the canary and the alarms | %.2f |", all))
	minutely := fleets[1]
	c, err := Replay(jobsOf(minutely.jobs, minutely.when), begin, minutely.span, plan.AWS())
	if err != nil {
		t.Fatal(err)
	}
	u := Jobs(c, Standard().FunctionURL())
	u = u.Times(1000 * 60 * 24 * 30 / u.Fires)
	holds(t, "tutorial/deploy-to-aws.md", fmt.Sprintf("| 1,000 jobs, one run a minute each | %.0f more |", Sum(Virginia.Bill(u))))
}

// TestPlayMonth: rare jobs, frequent ones, fixed delays and too many to be played
// come to what their schedules demand.
func TestPlayMonth(t *testing.T) {
	cron := func(expr string) core.Schedule {
		return core.Schedule{Any: []core.When{{Kind: core.KindCron, Expr: expr}}}
	}
	for _, tt := range []struct {
		name  string
		jobs  []Job
		fires float64
	}{
		{"none", nil, 0},
		{"by hand", []Job{{Name: "a"}}, 0},
		{"daily", []Job{{Name: "a", Schedule: cron("0 30 2 * * ?")}}, 30},
		{"workdays", []Job{{Name: "a", Schedule: cron("0 0/5 8-17 ? * MON-FRI")}}, 120 * 30 * 5. / 7},
		{"each second", []Job{{Name: "a", Schedule: cron("* * * * * ?")}}, 2_592_000},
		{"fixed delay", []Job{{Name: "a", Took: time.Second,
			Schedule: core.Schedule{Any: []core.When{{Kind: core.KindFixedDelay, Every: 29 * time.Second}}}}}, 86_400},
		{"many", jobsOf(5000, together(time.Second)), 5000 * 2_592_000},
	} {
		c, err := PlayMonth(tt.jobs, begin.Add(9*time.Hour+time.Minute), plan.AWS())
		if err != nil {
			t.Fatal(err)
		}
		if n := float64(c.Fires); n < tt.fires*0.99 || n > tt.fires*1.01 {
			t.Errorf("%s: %.0f fires a month, want %.0f", tt.name, n, tt.fires)
		}
	}
	if _, err := PlayMonth([]Job{{Name: "bad", Schedule: cron("* *")}}, begin, plan.AWS()); err == nil ||
		!strings.Contains(err.Error(), "bad") {
		t.Errorf("a schedule that is none: %v", err)
	}
	keep, err := Keep([]Job{{Schedule: cron("0 0 * * * ?"), Keep: 24 * time.Hour},
		{Schedule: cron("0 0 0 * * ?"), Keep: 26 * 24 * time.Hour}}, begin)
	if err != nil || keep != 2*24*time.Hour {
		t.Errorf("kept for %v; %v", keep, err)
	}
}

// TestProvision: what is said to the stack is what docs/deploy.md has as an
// example, it holds the burst of a window, and it is priced with what lies idle.
func TestProvision(t *testing.T) {
	d := Standard().FunctionURL()
	d.Executors, d.Provisioned = 1, true
	c, err := PlayMonth(Spread(jobsOf(1000, together(time.Minute))), begin, plan.AWS())
	if err != nil {
		t.Fatal(err)
	}
	takes, provisioned, least := Provision(c, d)
	holds(t, "deploy.md", "| `provisioned` | least and most read units, least and most write units, of each table and of the index: "+
		provisioned+" (see cost.md for how to choose them) |")
	hours := Usage{}
	for _, of := range takes {
		t.Logf("%s: %.1f written, %.1f read a second", of.Of, of.Write, of.Read)
		hours.WriteHours += of.Write * Month.Hours()
		hours.ReadHours += of.Read * Month.Hours()
	}
	// What is said to be kept is what is priced.
	u := Jobs(c, d).Plus(least).Plus(Idle(d))
	if math.Abs(u.WriteHours-hours.WriteHours) > 1 || math.Abs(u.ReadHours-hours.ReadHours) > 1 || u.WriteUnits+u.ReadUnits > 0 {
		t.Errorf("it is priced as %.1f and %.1f unit-hours, and keeps %.1f and %.1f", u.WriteHours, u.ReadHours, hours.WriteHours,
			hours.ReadHours)
	}
	// Of a window, 1,000 jobs move in the index at once: what was kept of five minutes.
	const window = 1000 * movesOfAdvance
	if kept := takes[1].Write * 300; kept < window {
		t.Errorf("the index keeps %.0f units for a burst of %d", kept, window)
	}
}
