package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"

	"github.com/tickring/tickring/internal/testkit/check"
)

// jobsListCold measures the list of jobs in a browser without a cache.
func jobsListCold(t *testing.T, w *world) {
	p := w.enter(t, manner{})
	p.may("favicon.ico")
	p.open("/healthz") // a page that asks for nothing else
	call(p, network.ClearBrowserCache, cdp.Empty{})
	p.count()
	p.open("/console/jobs")
	p.wait("tickringTest.usable > 0 && document.readyState === 'complete'")
	requests, bytes := p.count()
	if len(requests) > 8 || bytes > 150*1024 {
		t.Errorf("%d requests and %.0f bytes:\n%s", len(requests), bytes, strings.Join(requests, "\n"))
	}

	p.open("/console/jobs")
	keys := p.keysToFirstRow(t)
	if keys > 3 {
		t.Errorf("%d keys to the first row", keys)
	}
}

// TestChangeIsOnScreen: an open page shows changes by other users and new states of runs by itself.
func TestChangeIsOnScreen(t *testing.T) {
	w, p := entered(t)
	p.open("/console/jobs")
	p.sees("running")
	for _, reason := range []string{"one reason", "another reason", "a third"} {
		w.OK(t, "", "pause", "shop/prices", "--reason", reason)
		p.sees(reason)
		w.OK(t, "", "resume", "shop/prices")
	}
	row := "[...document.querySelectorAll('tr')].find(r => r.innerText.includes('shop/import')).innerText"
	p.wait(row + ".includes('running')")
	w.letGo("held")
	p.wait(row + ".includes('succeeded')")
}

// scrolled has the counts of a scroll through a log.
type scrolled struct {
	Nodes int // the most there were in the log
	Lines int // different ones that were there
}

// scroll scrolls down a log from its head, by pixels a frame. If settled is set, each step waits until the
// browser has reported the visible part to the page, as it does between two frames when idle.
func (p *page) scroll(by, frames int, settled bool) scrolled {
	p.tb.Helper()
	return eval[scrolled](p, fmt.Sprintf(`new Promise((done) => {
		const box = document.querySelector('#log'), seen = new Set();
		let n = -30, nodes = 0;
		box.scrollTop = 0;
		requestAnimationFrame(function step() {
			if (n > 0) {
				nodes = Math.max(nodes, box.getElementsByTagName('*').length);
				for (const d of box.querySelectorAll('[id^=L]')) seen.add(d.id);
			}
			if (++n > 0) box.scrollTop += %d;
			if (n > %d) return done({ nodes, lines: seen.size });
			const on = () => requestAnimationFrame(step);
			if (%t) new IntersectionObserver((_, o) => { o.disconnect(); on(); }).observe(box); else on();
		});
	})`, by, frames, settled))
}

// TestLongLogScrolls: of a log of 100,000 lines only the visible part is in the page, and lines appear as the user scrolls.
func TestLongLogScrolls(t *testing.T) {
	w, p := entered(t)
	p.open("/console/runs/" + w.runs["lines"] + "/log")
	p.sees("lines: 100,002") // including its first and last line
	wheel := p.scroll(200, 100, false)
	drag := p.scroll(19*200, 520, true) // a block of lines each step, to the end
	check.Equal(t, drag.Lines, 100_002, "of 100,002 lines came")
	if most := max(wheel.Nodes, drag.Nodes); most > 500+5*2*200 { // each block, and the lines of five
		t.Errorf("%d nodes", most)
	}
}
