package browser

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/test/harness"
)

// figure is a line of the table that the suite prints: the value of xxl-job's console (measured by hand, with the same browser),
// the target for this one, and its value.
type figure struct {
	row                   int
	name, xxl, want, here string
}

var (
	figuresMu sync.Mutex
	figures   []figure
	axeFound  atomic.Int64
)

func record(row int, name, xxl, want, here string, args ...any) {
	figuresMu.Lock()
	defer figuresMu.Unlock()
	figures = append(figures, figure{row, name, xxl, want, fmt.Sprintf(here, args...)})
}

// printFigures is the table, once all tests are through.
func printFigures() {
	figuresMu.Lock()
	defer figuresMu.Unlock()
	if len(figures) == 0 {
		return
	}
	slices.SortStableFunc(figures, func(a, b figure) int { return cmp.Compare(a.row, b.row) })
	var b strings.Builder
	fmt.Fprintln(&b, "| figure | xxl-job | at most | here |\n|---|---|---|---|")
	for _, f := range figures {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.name, f.xxl, f.want, f.here)
	}
	fmt.Print(b.String())
}

func itoa(n int) string { return strconv.Itoa(n) }

// usable opens a path in fresh tabs, with nothing in their caches, and answers the
// median of the times until its first row was painted.
func usable(t *testing.T, w *world, path string, tries int, slow bool) time.Duration {
	t.Helper()
	var took []float64
	for range tries {
		p := newPage(t, w.URL, manner{})
		p.logIn()
		p.clearCache()
		if slow {
			p.slow4G()
		}
		p.open(path)
		p.wait("tickringTest.usable > 0")
		took = append(took, eval[float64](p, "tickringTest.usable"))
		p.close()
	}
	slices.Sort(took)
	return time.Duration(took[len(took)/2] * float64(time.Millisecond))
}

func ms(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }

// TestJobsListCold measures the list of jobs in a browser without a cache.
func TestJobsListCold(t *testing.T) {
	w := newWorld(t)
	p := newPage(t, w.URL, manner{})
	p.logIn()
	p.may("favicon.ico")
	p.open("/healthz") // a page that asks for nothing else
	p.clearCache()
	p.count()
	p.open("/console/jobs")
	p.wait("tickringTest.usable > 0 && document.readyState === 'complete'")
	requests, bytes := p.count()
	record(1, "jobs list, cold: requests / compressed KB", "74 / 1,871", "8 / 150", "%d / %.0f", len(requests), bytes/1024)
	if len(requests) > 8 || bytes > 150*1024 {
		t.Errorf("%d requests and %.0f bytes:\n%s", len(requests), bytes, strings.Join(requests, "\n"))
	}

	loopback, slow := usable(t, w, "/console/jobs", 5, false), usable(t, w, "/console/jobs", 3, true)
	record(2, "usable: loopback / slow 4G and a quarter of the processor", "592 ms / 8.7 s", "150 ms / 1.8 s", "%s / %s",
		ms(loopback), ms(slow))
	// The limits are far above the targets, because test machines are unsuitable for benchmarks.
	if loopback > 20*time.Second || slow > time.Minute {
		t.Errorf("usable after %s, and after %s where all is slow", loopback, slow)
	}

	p.open("/console/jobs")
	keys := p.keysToFirstRow(t)
	record(4, "Tab to the first row", "37", "3", "%d", keys)
	if keys > 3 {
		t.Errorf("%d keys to the first row", keys)
	}
}

// TestManyJobsAndRuns: ten thousand jobs, and a million runs in one hour.
func TestManyJobsAndRuns(t *testing.T) {
	w := bare(t)
	manyJobs(t, w, 10_000)
	jobs, each := 400, *runsFlag/400
	end := w.manyRuns(t, jobs, each)
	w.findsRuns(t, jobs, end)
	w.countsRuns(t, jobs, end) // no pages are measured while a new server counts a million runs
	record(7, "jobs page at 10,000 jobs", "158 ms", "200 ms", "%s", ms(usable(t, w, "/console/jobs", 5, false)))
	record(5, fmt.Sprintf("runs page at %d runs (xxl-job: at 200,000)", jobs*each), "1,766 ms", "200 ms", "%s",
		ms(usable(t, w, "/console/runs", 5, false)))
	w.pausesAll(t, 10_000)
}

// findsRuns searches the runs of manyRuns by each field that has an index.
func (w *world) findsRuns(t *testing.T, jobs int, end time.Time) {
	type run struct {
		Job, App, State string
		DueAt           time.Time
	}
	last := end.Add(-2 * time.Minute)
	span := url.Values{"from": {last.Add(-time.Minute).Format(time.RFC3339)}, "to": {last.Format(time.RFC3339)}}
	var said []string
	worst := time.Duration(0)
	for _, by := range []struct {
		name, query string
		is          func(run) bool
	}{
		{"job", fmt.Sprintf("job=%d", jobs/2), func(r run) bool { return r.Job == fmt.Sprintf("many/job-%05d", jobs/2-1) }},
		{"app", "app=many", func(r run) bool { return r.App == "many" }},
		{"failed", "state=failed", func(r run) bool { return r.State == "failed" }},
		{"succeeded", "state=succeeded", func(r run) bool { return r.State == "succeeded" }},
		{"time", span.Encode(), func(r run) bool { return !r.DueAt.After(last) && !r.DueAt.Before(last.Add(-time.Minute-time.Second)) }},
	} {
		var took []time.Duration
		for range 5 {
			var found []run
			from := time.Now()
			for after := ""; ; { // a page that reached its scan limit continues with the next
				var page struct {
					Runs []run
					Next string
				}
				w.ask(t, http.MethodGet, fmt.Sprintf("/v1/runs?limit=%d&after=%s&%s", 50-len(found), after, by.query), "", &page)
				if found, after = append(found, page.Runs...), page.Next; after == "" || len(found) >= 50 {
					break
				}
			}
			took = append(took, time.Since(from))
			if len(found) != 50 || slices.ContainsFunc(found, func(r run) bool { return !by.is(r) }) {
				t.Fatalf("runs by %s: %d, %+v", by.name, len(found), found)
			}
		}
		slices.Sort(took)
		said = append(said, by.name+" "+ms(took[2]))
		worst = max(worst, took[2])
	}
	record(6, "runs by one of job, app, state, time on the server, SQLite", "418 ms", "50 ms", "%s", strings.Join(said, ", "))
	if worst > 5*time.Second { // far above the target, as in TestJobsListCold
		t.Errorf("runs are found after %v", said)
	}
}

// countsRuns asks for the shape of three minutes of manyRuns, as far as it is counted.
func (w *world) countsRuns(t *testing.T, jobs int, end time.Time) {
	to := end.Truncate(time.Minute)
	span := url.Values{"from": {to.Add(-3 * time.Minute).Format(time.RFC3339)}, "to": {to.Format(time.RFC3339)}}
	if err := harness.Eventually(time.Minute, func() error {
		var shape struct {
			Buckets                []struct{ Succeeded, Failed int }
			CountedFrom, CountedTo time.Time
		}
		w.ask(t, http.MethodGet, "/v1/runs/histogram?"+span.Encode(), "", &shape)
		good, bad := 0, 0
		for _, b := range shape.Buckets {
			good, bad = good+b.Succeeded, bad+b.Failed
		}
		counted := int(shape.CountedTo.Sub(shape.CountedFrom) / time.Second)
		if good+bad != jobs*counted || bad != jobs*counted/100 {
			t.Fatalf("in %d seconds the shape counts %d and %d, which failed", counted, good, bad)
		}
		if counted == 0 {
			return errors.New("nothing is counted")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// pausesAll pauses all jobs, by one request unless the machine is so slow that it takes several. An undo sends the same requests
// with resume.
func (w *world) pausesAll(t *testing.T, jobs int) {
	var part struct {
		Operation               string
		Found, Done, Fail, Next int
	}
	done, requests, from := 0, 0, time.Now()
	for part.Next = -1; part.Next != 0 && requests < 100; requests++ {
		more := fmt.Sprintf(`, "operation": %q, "after": %d`, part.Operation, part.Next)
		if requests == 0 {
			more = ""
		}
		part.Next = 0
		w.ask(t, http.MethodPost, "/v1/bulk", `{"verb": "pause", "filter": {"app": "many"}, "reason": "how long it takes"`+more+`}`, &part)
		if done += part.Done; part.Found != jobs || part.Fail != 0 {
			t.Errorf("after %d of %d jobs: %+v", done, jobs, part)
		}
	}
	record(8, "one bulk pause at 10,000 jobs", "-", "one request, 2 s", "%d, %s", requests, ms(time.Since(from)))
	if took := time.Since(from); done != jobs || requests > 1 && took < 10*time.Second { // the maximum time of one request
		t.Errorf("%d of %d jobs were paused by %d requests in %s: %+v", done, jobs, requests, took, part)
	}
}

// ask asks the API.
func (w *world) ask(t *testing.T, method, path, body string, into any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, w.URL+path, strings.NewReader(body))
	check.OK(t, err)
	r.Header.Set("Authorization", "Bearer "+harness.Token)
	answer, err := http.DefaultClient.Do(r)
	check.OK(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, into)
	}
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s %s %v", method, path, answer.Status, text, err)
	}
}

// TestChangeIsOnScreen: an open page shows changes by other users and new states of runs by itself.
func TestChangeIsOnScreen(t *testing.T) {
	w := newWorld(t)
	p := newPage(t, w.URL, manner{})
	p.logIn()
	p.open("/console/jobs")
	p.sees("running")
	var took []time.Duration
	for _, reason := range []string{"one reason", "another reason", "a third"} {
		w.OK(t, "", "pause", "shop/prices", "--reason", reason)
		from := time.Now()
		p.sees(reason)
		took = append(took, time.Since(from))
		w.OK(t, "", "resume", "shop/prices")
	}
	slices.Sort(took)
	record(9, "a change on the server is on screen", "never", "1 s", "%s", ms(took[1]))
	row := "[...document.querySelectorAll('tr')].find(r => r.innerText.includes('shop/import')).innerText"
	p.wait(row + ".includes('running')")
	w.letGo("held")
	p.wait(row + ".includes('succeeded')")
}

// scrolled are the frames of a scroll through a log.
type scrolled struct {
	Frames []float64 // how long each took, in ms
	Blank  int       // frames with no line in the middle
	Nodes  int       // the most there were in the log
	Lines  int       // different ones that were there
}

func (s scrolled) String() string {
	slices.Sort(s.Frames)
	slow := 0
	for _, ms := range s.Frames {
		if ms > 50 {
			slow++
		}
	}
	return fmt.Sprintf("%.0f ms, longest %.0f, over 50: %.1f %%, blank: %.1f %%", s.Frames[len(s.Frames)/2], s.Frames[len(s.Frames)-1],
		100*float64(slow)/float64(len(s.Frames)), 100*float64(s.Blank)/float64(len(s.Frames)))
}

// scroll scrolls down a log from its head, by pixels a frame. If settled is set, each step waits until the
// browser has reported the visible part to the page, as it does between two frames when idle.
func (p *page) scroll(by, frames int, settled bool) scrolled {
	p.tb.Helper()
	return eval[scrolled](p, fmt.Sprintf(`new Promise((done) => {
		const box = document.querySelector('#log'), r = box.getBoundingClientRect(), seen = new Set();
		let last = 0, n = -30, blank = 0, nodes = 0;
		const frames = [];
		box.scrollTop = 0;
		requestAnimationFrame(function step(now) {
			if (n > 0) {
				frames.push(now - last);
				if (!document.elementFromPoint(r.x + 100, r.y + r.height / 2).closest('[id^=L]')) blank++;
				nodes = Math.max(nodes, box.getElementsByTagName('*').length);
				for (const d of box.querySelectorAll('[id^=L]')) seen.add(d.id);
			}
			last = now;
			if (++n > 0) box.scrollTop += %d;
			if (n > %d) return done({ frames, blank, nodes, lines: seen.size });
			const on = () => requestAnimationFrame(step);
			if (%t) new IntersectionObserver((_, o) => { o.disconnect(); on(); }).observe(box); else on();
		});
	})`, by, frames, settled))
}

// TestLongLogScrolls: of a log of 100,000 lines only the visible part is in the page, and lines appear as the user scrolls.
func TestLongLogScrolls(t *testing.T) {
	w := newWorld(t)
	p := newPage(t, w.URL, manner{})
	p.logIn()
	p.open("/console/runs/" + w.runs["lines"] + "/log")
	p.sees("lines: 100,002") // including its first and last line
	wheel := p.scroll(200, 600, false)
	drag := p.scroll(19*200, 520, true) // a block of lines each step, to the end
	record(10, "a log of 100,000 lines scrolled, a frame: by the wheel", "-", "none over 50 ms", "%s", wheel)
	record(11, "… dragged through all of it, block by block", "-", "-", "%s", drag)
	check.Equal(t, drag.Lines, 100_002, "of 100,002 lines came")
	if most := max(wheel.Nodes, drag.Nodes); most > 500+5*2*200 { // each block, and the lines of five
		t.Errorf("%d nodes", most)
	}
}
