package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/waiting"
)

//go:embed look.js
var look string

// patience is how long a test waits for a page: in polling mode, as on AWS, a page can wait a minute between two requests. It is
// not a target: test machines are slow.
const patience = 20 * time.Minute

// page is one tab with its own cookies and cache. Errors in its console fail its test.
type page struct {
	tb    testing.TB
	ctx   context.Context
	base  string
	width int64
	still bool // no script of a page runs
	end   func()
	wg    sync.WaitGroup

	mu       sync.Mutex
	requests []string           // URLs, in their order
	arrived  map[string]float64 // bytes received so far, by request
	finished map[string]float64 // the same for finished requests
	troubles []string           // console errors
	expected []string           // allowed console errors
}

// manner is the appearance of a page.
type manner struct {
	dark   bool
	lang   string // en if empty
	narrow bool
}

func (m manner) String() string {
	s := m.language() + "-" + map[bool]string{false: "light", true: "dark"}[m.dark]
	if m.narrow {
		s += "-390"
	}
	return s
}

func (m manner) language() string {
	if m.lang == "" {
		return "en"
	}
	return m.lang
}

// newPage opens an empty tab. base is where paths are asked.
func newPage(tb testing.TB, base string, m manner) *page {
	tb.Helper()
	return tab(tb, base, m, chromium, chromedp.WithNewBrowserContext())
}

// beside opens another tab of the same user.
func (p *page) beside() *page {
	p.tb.Helper()
	other := tab(p.tb, p.base, manner{}, p.ctx)
	other.may(p.expected...)
	return other
}

func tab(tb testing.TB, base string, m manner, of context.Context, o ...chromedp.ContextOption) *page {
	tb.Helper()
	ctx, cancel := chromedp.NewContext(of, o...)
	p := &page{tb: tb, ctx: ctx, base: base, arrived: map[string]float64{}, finished: map[string]float64{}}
	p.end = sync.OnceFunc(func() {
		if tb.Failed() {
			p.picture(filepath.Join(pictures(tb), "failed", strings.ReplaceAll(tb.Name(), "/", "-")+".png"))
		}
		cancel()
		p.wg.Wait()
		p.quiet()
	})
	tb.Cleanup(p.end)
	check.OK(p.tb, chromedp.Do(ctx))
	listen(p, chromedp.Console(ctx), p.said)
	listen(p, chromedp.Events(ctx, network.RequestWillBeSent), func(e network.EventRequestWillBeSent) {
		if !strings.HasPrefix(e.Request.URL, "data:") {
			p.requests = append(p.requests, e.Request.URL)
		}
	})
	listen(p, chromedp.Events(ctx, network.DataReceived), func(e network.EventDataReceived) {
		p.arrived[string(e.RequestID)] += float64(e.EncodedDataLength)
	})
	listen(p, chromedp.Events(ctx, network.LoadingFinished), func(e network.EventLoadingFinished) {
		p.finished[string(e.RequestID)] = e.EncodedDataLength
	})
	call(p, cdpage.AddScriptToEvaluateOnNewDocument, cdpage.AddScriptToEvaluateOnNewDocumentParams{Source: look})
	p.manner(m)
	return p
}

// manner sets theme, language and width for pages opened later.
func (p *page) manner(m manner) {
	p.tb.Helper()
	theme := map[bool]string{false: "light", true: "dark"}[m.dark]
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
	call(p, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{
		"Accept-Language": map[string]string{"en": "en-US,en;q=0.9", "zh": "zh-CN,zh;q=0.9,en;q=0.5"}[m.language()]}})
	p.width = 1440
	if m.narrow {
		p.width = 390
	}
	p.size(p.width, 900)
}

// answered is the status of the page that is shown.
func (p *page) answered() int {
	p.tb.Helper()
	return eval[int](p, "performance.getEntriesByType('navigation')[0].responseStatus")
}

func (p *page) size(width, height int64) {
	p.tb.Helper()
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1})
}

func listen[E any](p *page, events iter.Seq2[E, error], f func(E)) {
	p.wg.Go(func() {
		for e, err := range events {
			if err != nil {
				return
			}
			p.mu.Lock()
			f(e)
			p.mu.Unlock()
		}
	})
}

func call[P, R any](p *page, c cdp.Command[P, R], params P) R {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	r, err := chromedp.Call(ctx, c, params)
	check.OK(p.tb, err)
	return r
}

// said records errors in a page's console.
func (p *page) said(m chromedp.ConsoleMessage) {
	if m.Type == chromedp.ConsoleException || m.Type == chromedp.ConsoleError || m.Type == "assert" {
		p.troubles = append(p.troubles, fmt.Sprintf("%s %s: %s", m.Type, m.URL, m.Text))
	}
}

// may allows an error in the browser console that contains this text.
func (p *page) may(parts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, parts...)
}

// quiet fails the test on console errors, or on a request to another host.
func (p *page) quiet() {
	p.tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.troubles {
		if !slices.ContainsFunc(p.expected, func(part string) bool { return strings.Contains(t, part) }) {
			p.tb.Errorf("the page's console: %s", t)
		}
	}
	p.troubles = nil
	base, _ := url.Parse(p.base)
	for _, r := range p.requests {
		if u, err := url.Parse(r); err != nil || u.Host != base.Host && u.Scheme != "about" && u.Scheme != "blob" {
			p.tb.Errorf("a request to another host: %s", r)
		}
	}
}

// count is the requests and the bytes on the wire since the last count.
func (p *page) count() (requests []string, bytes float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(p.arrived, p.finished)
	for _, n := range p.arrived {
		bytes += n
	}
	requests, p.requests = p.requests, nil
	clear(p.arrived)
	clear(p.finished)
	return requests, bytes
}

// open opens a path of the server, or a URL.
func (p *page) open(path string) {
	p.tb.Helper()
	if !strings.Contains(path, "://") {
		path = p.base + path
	}
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(path)); err != nil {
		p.tb.Fatalf("open %s: %v", path, err)
	}
}

// send posts a form with these fields and opens the answer.
func (p *page) send(path, fields string) {
	p.tb.Helper()
	eval[bool](p, `(() => { const f = document.createElement('form'); f.method = 'post'; f.action = `+quote(path)+`; window.sends = true;
		for (const [name, value] of new URLSearchParams(`+quote(fields)+`)) {
			const i = document.createElement('input'); i.type = 'hidden'; i.name = name; i.value = value; f.append(i); }
		document.body.append(f); f.submit(); return true })()`)
	p.wait("!window.sends && document.readyState === 'complete'")
}

// eval asks the page; ask is that without an end of the test.
func eval[T any](p *page, js string) T {
	p.tb.Helper()
	v, err := ask[T](p, js)
	if err != nil {
		p.tb.Fatalf("%s: %v", js, err)
	}
	return v
}

func ask[T any](p *page, js string) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Minute) // a scroll of 100,000 lines, or axe on the largest page
	defer cancel()
	if p.still { // nor did the script at the page's start
		js = look + "\n" + js
	}
	return chromedp.Run(ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
}

// wait waits until an expression is true.
func (p *page) wait(js string) {
	p.tb.Helper()
	if err := p.until(patience, js); err != nil {
		p.tb.Fatalf("%v\n%s: %s", err, p.url(), p.text())
	}
}

func (p *page) until(limit time.Duration, js string) error {
	return waiting.For(limit, func() error {
		ok, err := ask[bool](p, "!!("+js+")")
		if err == nil && !ok {
			err = fmt.Errorf("is not so: %s", js)
		}
		return err
	})
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// sees waits for a text on the page.
func (p *page) sees(texts ...string) {
	p.tb.Helper()
	for _, t := range texts {
		p.wait("document.body && document.body.innerText.replace(/\\s+/g, ' ').includes(" + quote(t) + ")")
	}
}

// The controls that many tests use.
const (
	jobsLink     = `css:nav a[href="/console/jobs"]`
	logOut       = `css:form[action="/console/logout"] button`
	pauseLink    = `css:a[href*="panel=pause"]`
	runLink      = `css:a[href*="panel=run"]`
	submit       = "css:dialog button.first"
	saveManifest = `css:form[action$="/manifest"] button.first`
)

// confirmed waits for the confirmation on the page that follows a form.
func (p *page) confirmed() {
	p.tb.Helper()
	p.wait("document.querySelector('main > .said') && !document.querySelector('dialog')")
}

// loggedOut waits for the login page.
func (p *page) loggedOut() {
	p.tb.Helper()
	p.wait(`document.querySelector('form[action="/console/login"]')`)
}

// warned waits for the warning that the page has in this data attribute.
func (p *page) warned(data string) {
	p.tb.Helper()
	p.wait("document.querySelector('.lost')?.textContent === document.body.dataset." + data)
}

func (p *page) text() string { s, _ := ask[string](p, "document.body.innerText"); return s }
func (p *page) url() string  { s, _ := ask[string](p, "location.href"); return s }

// at waits until the address begins with a path.
func (p *page) at(path string) {
	p.tb.Helper()
	p.wait("(location.pathname + location.search).startsWith(" + quote(path) + ") && document.readyState === 'complete'")
}

// click clicks once, with the mouse, on the element with this name (or css:SELECTOR), as soon as it exists and is not covered. It
// clicks again if the page moved under the mouse.
func (p *page) click(what string, with ...kb.Modifier) {
	p.tb.Helper()
	for range 5 {
		p.aim(what, with...)
		if missed, _ := ask[bool](p, "tickringTest.missed"); p.still || !missed { // the next page has no answer
			return
		}
	}
	p.tb.Fatalf("click: %q moves away each time", what)
}

func (p *page) aim(what string, with ...kb.Modifier) {
	p.tb.Helper()
	type found struct {
		X, Y float64
		Why  string // it cannot be clicked
	}
	var place found
	if err := waiting.For(patience, func() (err error) {
		if place, err = ask[found](p, "tickringTest.find("+quote(what)+")"); err == nil && place.Why != "" {
			err = errors.New(place.Why)
		}
		return err
	}); err != nil {
		p.tb.Fatalf("click: %v\n%s: %s", err, p.url(), p.text())
	}
	var held int64
	for _, m := range with {
		held |= int64(m)
	}
	for _, typ := range []input.DispatchMouseEventType{"mouseMoved", "mousePressed", "mouseReleased"} {
		params := input.DispatchMouseEventParams{Type: typ, X: place.X, Y: place.Y, Modifiers: held}
		if typ != "mouseMoved" {
			params.Button, params.ClickCount = "left", 1
		}
		call(p, input.DispatchMouseEvent, params)
	}
}

// press presses keys, one after another; characters that are not keys of the package kb are letters.
func (p *page) press(keys string, with ...kb.Modifier) {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	check.OK(p.tb, chromedp.Do(ctx, chromedp.KeyEvent(keys, chromedp.KeyModifiers(with...))))
}

// fill replaces the text of the field with this name. It focuses the field without a click, like a user who presses Tab.
func (p *page) fill(what, text string) {
	p.tb.Helper()
	p.wait("tickringTest.element(" + quote(what) + ")")
	eval[bool](p, `(() => { const e = tickringTest.element(`+quote(what)+`); e.focus(); e.select ? e.select() : 0; return true })()`)
	if text == "" {
		p.press(kb.Delete)
		return
	}
	call(p, input.InsertText, input.InsertTextParams{Text: text})
}

// choose chooses an option of a select by its value or its text.
func (p *page) choose(what, option string) {
	p.tb.Helper()
	p.wait("tickringTest.element(" + quote(what) + ")")
	if !eval[bool](p, `(() => { const e = tickringTest.element(`+quote(what)+`), o = [...e.options].find((o) => o.value === `+quote(option)+
		` || o.text.trim() === `+quote(option)+`); if (!o) return false; e.value = o.value;
		e.dispatchEvent(new Event('input', {bubbles: true})); e.dispatchEvent(new Event('change', {bubbles: true})); return true })()`) {
		p.tb.Fatalf("%s has no option %s", what, option)
	}
}

// focused returns the name of the focused element.
func (p *page) focused() string {
	p.tb.Helper()
	return eval[string](p, "document.activeElement === document.body ? '' : tickringTest.name(document.activeElement)")
}

// layout lists elements that are cut, covered or too wide, in a window as high as the page so that all of it can be checked.
func (p *page) layout(width int64) []string {
	p.tb.Helper()
	high := eval[int64](p, "Math.ceil(document.documentElement.scrollHeight)")
	p.size(width, min(max(high, 900), 8000))
	bad := eval[[]string](p, "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(tickringTest.layout()))))")
	p.size(p.width, 900)
	return bad
}

// axe runs axe-core over the page or the dialog that covers it, or over its colors alone, and returns a line for each finding.
func (p *page) axe(colors bool) []string {
	p.tb.Helper()
	if axeSource == "" {
		return nil
	}
	if !eval[bool](p, "!!window.axe") {
		eval[bool](p, axeSource+"\n;true")
	}
	only := map[bool]string{true: ", runOnly: ['color-contrast', 'link-in-text-block']"}[colors]
	return eval[[]string](p, `axe.run(document.querySelector('dialog:modal') || document, {resultTypes: ['violations']`+only+`}).then(r => r.violations.flatMap(v =>
		v.nodes.map(n => v.id + ': ' + n.target.join(' ') + ': ' + n.html.slice(0, 160) + ': ' + (n.any[0] || n.all[0] || n.none[0])?.message)))`)
}

// captured returns a picture of the upper part of the open page, at most high pixels.
func (p *page) captured(high float64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	layout, err := chromedp.Call(ctx, cdpage.GetLayoutMetrics, cdp.Empty{})
	if err != nil {
		return nil, err
	}
	size, beyond := layout.CSSContentSize, true
	shot, err := chromedp.Call(ctx, cdpage.CaptureScreenshot, cdpage.CaptureScreenshotParams{CaptureBeyondViewport: &beyond,
		Clip: &cdpage.Viewport{Width: size.Width, Height: min(max(size.Height, 300), high), Scale: 1}})
	return shot.Data, err
}

// picture saves a screenshot of the whole page.
func (p *page) picture(path string) {
	p.tb.Helper()
	shot, err := p.captured(4000)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, shot, 0o644))
	}
	if err != nil {
		p.tb.Logf("no picture %s: %v", path, err)
	}
}
