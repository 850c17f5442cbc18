package console

import (
	"cmp"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/must"
)

const (
	appsAPage = 50  // apps on a page
	atOnce    = 8   // requests
	lookedAt  = 500 // the newest runs of an app that show how its executors do
	// lastAnswers is the number of them that show whether a fixed address answers.
	lastAnswers = 50
	lastOfJobs  = 10  // if the store charges for reads, the last run of one job is read in place of this many runs
	maxSaid     = 500 // bytes of the answer of a tested executor
)

type executorsPage struct {
	Apps    []appRow
	Failed  []client.UnreadableApp
	Text    string // filter: a part of an app's name or title
	All     int    // number of apps that match the filter
	Part    bool   // whether the page shows only some of these apps
	Live    int    // number of live executors of the apps on the page
	Empty   int    // number of apps on the page that have no executor
	Next    string
	Form    url.Values
	Address string // URL at which executors reach this server
}

type appRow struct {
	client.App
	Live, Gone int // number of live executors
	Unchecked  int // number of live executors that were never checked
	Beat       time.Time
	Refused    []client.RefusedExecutor
	Err        string
}

// State returns the shape of an app's status mark; red if the app has no executor.
func (r *appRow) State() string {
	switch {
	case r.Err != "": // unknown
		return "skip"
	case r.Live == 0:
		return "fail"
	case r.Pause != nil:
		return "pause"
	case r.Gone > 0 || len(r.Refused) > 0:
		return "late"
	case r.Live == r.Unchecked:
		return "skip"
	}
	return "ok"
}

func (a *ask) executors() (any, error) {
	list := must.Get(a.ListApps(a.Ctx()))
	p := &executorsPage{Text: strings.TrimSpace(a.Q("text")), Failed: list.Failed, Address: a.address(),
		Form: a.typedOr(url.Values{"name": {a.Q("name")}})}
	if p.Text != "" {
		list.Apps = slices.DeleteFunc(list.Apps, func(x client.App) bool { return !has(x.Name, p.Text) && !has(x.Title, p.Text) })
	}
	p.All = len(list.Apps)
	apps := slices.DeleteFunc(list.Apps, func(x client.App) bool { return x.Name <= a.Q("after") })
	if len(apps) > appsAPage {
		apps = apps[:appsAPage]
		p.Next = a.With("after", apps[len(apps)-1].Name)
	}
	p.Part = len(apps) < p.All
	p.Apps = make([]appRow, len(apps))
	each(len(apps), func(i int) {
		row := &p.Apps[i]
		row.App = apps[i]
		row.Pause = a.holds(row.Pause)
		found, err := a.ListExecutors(a.Ctx(), row.Name)
		if err != nil {
			row.Err = a.problemOf(err).Message
			return
		}
		row.Refused = found.Refused
		var recent []client.Run // fixed addresses send no heartbeats: their answers to runs show whether they are available
		if len(row.Executors) > 0 {
			if recent, err = a.recentOf(row.Name, lastAnswers); err != nil {
				row.Err = a.problemOf(err).Message
				return
			}
		}
		for _, x := range found.Executors {
			if !x.Used || x.Replaced {
				continue
			}
			if unchecked(x) {
				row.Unchecked++
			}
			if row.Beat = later(row.Beat, x.BeatAt); x.Live && !absent(x) && unanswered(x, recent) == nil {
				row.Live++
			} else {
				row.Gone++
			}
		}
	})
	for i := range p.Apps {
		if p.Live += p.Apps[i].Live; p.Apps[i].Live == 0 && p.Apps[i].Err == "" {
			p.Empty++
		}
	}
	return p, nil
}

// recentOf returns the newest runs of an app; if the store charges for reads, the last run of each of the app's first jobs.
func (a *ask) recentOf(app string, limit int) ([]client.Run, error) {
	if a.c.o.Newest == nil {
		page, err := a.ListRuns(a.Ctx(), client.ListRunsParams{App: app, Limit: limit})
		return page.Runs, err
	}
	page, err := a.ListJobs(a.Ctx(), client.ListJobsParams{App: app, Last: true, Runs: 1, Limit: max(1, limit/lastOfJobs)})
	var runs []client.Run
	for i := range page.Jobs {
		if last := page.Jobs[i].Last; last != nil {
			runs = append(runs, *last)
		}
	}
	slices.SortFunc(runs, func(x, y client.Run) int { return y.SentAt.Compare(x.SentAt) })
	return runs, err
}

func each(n int, do func(i int)) {
	var wg sync.WaitGroup
	errs := make([]error, n)
	places := make(chan struct{}, atOnce)
	for i := range n {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			errs[i] = must.Caught(func() error { do(i); return nil })
		})
	}
	wg.Wait()
	must.Do(cmp.Or(errs...))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// address returns the URL by which the browser reaches this server, because executors may use it too.
func (a *ask) address() string {
	return map[bool]string{false: "http://", true: "https://"}[a.secure()] + a.r.Host
}

type appPage struct {
	App       client.App
	Executors []executorRow
	Refused   []client.RefusedExecutor
	Live      int
	Beat      time.Time
	Runs      int  // number of runs that were read
	OfJobs    bool // the latest run of each of some jobs
	Jobs      []client.Job
	More      bool // whether more jobs exist than the page shows
	Form      url.Values
	Clash     *clash
	Address   string
}

// absent reports whether an address does not answer, or rejects requests.
func absent(x client.Executor) bool { return x.Answers != nil && !*x.Answers }

// unchecked reports whether a fixed address has never answered anything.
func unchecked(x client.Executor) bool { return x.Fixed && x.Answers == nil && x.BeatAt.IsZero() }

// unanswered returns the newest run that was sent to a fixed address, if the address did not answer it and has not
// answered since; otherwise nil.
func unanswered(x client.Executor, recent []client.Run) *client.Run {
	if !x.Fixed {
		return nil
	}
	for i := range recent {
		r := &recent[i]
		if r.Address != x.Address || r.SentAt.IsZero() {
			continue
		}
		since := x.Answers != nil && *x.Answers && x.CheckedAt.After(r.SentAt)
		if r.Reason == string(core.ReasonNotAccepted) && r.Code == 0 && !since {
			return r
		}
		return nil
	}
	return nil
}

type executorRow struct {
	client.Executor
	Running, Runs, Failed int
	Share                 int // percentage of the runs that were sent to this executor
	P50, P99              time.Duration
	// Silent is the newest run that was sent to this executor, if the executor did not answer; otherwise nil.
	Silent *client.Run
}

func (x *executorRow) State() string {
	switch {
	case !x.Used, x.Replaced, unchecked(x.Executor) && x.Runs == 0:
		return "skip"
	case !x.Live, x.Silent != nil, absent(x.Executor):
		return "fail"
	}
	return "ok"
}

func (x *executorRow) Absent() bool { return absent(x.Executor) }

// clockFar is the largest harmless clock difference. Logs are requested by time, and lateness uses both clocks.
const clockFar = 30 * time.Second

func (a *ask) ClockOf(x client.Executor) template.HTML {
	if x.ClockAheadMs == nil {
		why := a.Say("the executor does not report its time when it registers or answers")
		if x.Fixed && x.CheckedAt.IsZero() {
			why = a.Say("the executor was not checked yet")
		}
		return html(`<span class="muted" title="%s">–</span>`, why)
	}
	ahead := time.Duration(*x.ClockAheadMs) * time.Millisecond
	if ahead == 0 {
		return html("%s", a.Say("same"))
	}
	text := a.Say("%s ahead", a.Span(ahead))
	if ahead < 0 {
		text = a.Say("%s behind", a.Span(-ahead))
	}
	if ahead.Abs() > clockFar {
		return html(`<span class="s late" title="%s">%s</span>`, a.Say("the clock of the executor differs: logs may not be "+
			"found, and lateness may be wrong"), text)
	}
	return html("%s", text)
}

func clockSaid(said core.Text, aheadMs *int64) core.Text {
	if aheadMs == nil {
		return core.Say("%s; the executor does not report its time", said)
	}
	switch ahead := time.Duration(*aheadMs) * time.Millisecond; {
	case ahead > 0:
		return core.Say("%s; the executor's clock is %s ahead", said, ahead.String())
	case ahead < 0:
		return core.Say("%s; the executor's clock is %s behind", said, (-ahead).String())
	}
	return core.Say("%s; the executor's clock matches", said)
}

func (a *ask) app() (any, error) {
	if a.rejection != nil && a.Panel() == "" { // a test of an executor, which has no form to show again
		return nil, a.rejection
	}
	name := a.Path("app")
	app := must.Get(a.GetApp(a.Ctx(), name))
	app.Pause = a.holds(app.Pause)
	a.page = "executors"
	p := &appPage{App: app, Address: a.address(), Form: a.typedOr(appForm(app))}
	if a.Panel() == "edit" && isConflict(a.rejection) && p.Form.Get("rev") != itoa(app.Rev) {
		p.Clash, a.wrong = &clash{Differs: appDiffers(app, p.Form)}, ""
		p.Form.Set("rev", itoa(app.Rev))
		mark(p.Form, "hastoken", app.HasToken)
	}
	found := must.Get(a.ListExecutors(a.Ctx(), name))
	p.Refused = found.Refused
	recent := must.Get(a.recentOf(name, lookedAt))
	running := slices.DeleteFunc(slices.Clone(recent), func(r client.Run) bool { return r.State != string(core.Running) })
	if a.c.o.Newest == nil {
		page := must.Get(a.ListRuns(a.Ctx(), client.ListRunsParams{App: name, State: []string{string(core.Running)}, Limit: lookedAt}))
		running = page.Runs
	}
	p.Runs, p.OfJobs = len(recent), a.c.o.Newest != nil
	for _, x := range found.Executors {
		row := rowOf(x, recent, running)
		p.Executors = append(p.Executors, row)
		if p.Beat = later(p.Beat, x.BeatAt); x.Live && x.Used && row.State() != "fail" {
			p.Live++
		}
	}
	jobs := must.Get(a.ListJobs(a.Ctx(), client.ListJobsParams{App: name, Last: true, Runs: 1, Limit: 20}))
	p.Jobs, p.More = jobs.Jobs, jobs.Next != 0 || jobs.Cursor != ""
	return p, nil
}

// rowOf summarizes the runs of an executor.
func rowOf(x client.Executor, recent, running []client.Run) executorRow {
	row := executorRow{Executor: x, Silent: unanswered(x, recent)}
	for i := range running {
		if running[i].Address == x.Address {
			row.Running++
		}
	}
	var took []time.Duration
	sent := 0
	for i := range recent {
		r := &recent[i]
		if r.SentAt.IsZero() {
			continue
		}
		if sent++; r.Address != x.Address {
			continue
		}
		if row.Runs++; shapes[core.State(r.State)] == "fail" {
			row.Failed++
		}
		if !r.EndedAt.IsZero() {
			took = append(took, r.EndedAt.Sub(r.SentAt))
		}
	}
	if sent > 0 {
		row.Share = (100*row.Runs + sent/2) / sent
	}
	if slices.Sort(took); len(took) > 0 {
		row.P50, row.P99 = took[len(took)/2], took[len(took)*99/100]
	}
	return row
}

func (a *ask) AppPath(app string) string { return Root + "executors/" + url.PathEscape(app) }

func (a *ask) appDo() (to string, said core.Text, err error) {
	ctx, name := a.Ctx(), a.Path("app")
	to = a.AppPath(name)
	switch a.Form("do") {
	case "edit":
		res := must.Get(a.PutApp(ctx, name, appSpec(must.Get(a.GetApp(ctx, name)), a.r.PostForm)))
		if res.Change == "unchanged" {
			return to, core.Say("%s is unchanged", name), nil
		}
		return to, core.Say("%s is saved", name), nil
	case "pause":
		must.Get(a.PauseApp(ctx, name, a.pauseRequest()))
		return to, core.Say("%s is paused: its schedules do not fire", name), nil
	case "resume":
		must.Get(a.ResumeApp(ctx, name, client.ResumeRequest{Reason: a.Form("reason")}))
		return to, core.Say("%s is resumed; missed runs do not run later", name), nil
	case "test":
		res := must.Get(a.TestExecutor(ctx, name, client.ExecutorTestRequest{Address: a.Form("address")}))
		if res.Ok {
			return to, clockSaid(core.Say("%s is live and answered in %d ms", res.Address, res.TookMs), res.ClockAheadMs), nil
		}
		return to, core.Say("%s did not answer the test (%d ms): %s", res.Address, res.TookMs, cut(res.Problem, maxSaid)), nil
	case "delete":
		must.Get(a.DeleteApp(ctx, name))
		return Root + "executors", core.Say("%s is deleted", name), nil
	}
	return to, said, a.noForm()
}

func (a *ask) appNew() (string, core.Text, error) {
	name, spec := strings.TrimSpace(a.Form("name")), appSpec(client.App{}, a.r.PostForm)
	spec.IfRev = new(int64)
	if name == "" {
		return "", core.Text{}, core.Invalid("name", "", "an app needs a name")
	}
	must.Get(a.PutApp(a.Ctx(), name, spec))
	return a.AppPath(name), core.Say("%s is created; its executors can register now", name), nil
}
