package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/tickring/tickring/internal/testkit/check"
)

// served is a page with this body.
func served(t *testing.T, body string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, `<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width"><link rel=icon href="data:,">`+
			`<title>A page</title><main><h1>A page</h1>`+body+`</main></html>`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// heard is a testing.TB that records errors.
type heard struct {
	testing.TB
	errors []string
}

func (h *heard) Errorf(format string, args ...any) {
	h.errors = append(h.errors, fmt.Sprintf(format, args...))
}

// TestTheRigSees: the suite finds the defects that it looks for.
func TestTheRigSees(t *testing.T) {
	t.Run("layout", func(t *testing.T) {
		for name, c := range map[string]struct{ body, want string }{
			"nothing":                    {`<p>All is well.</p><button>Go</button>`, ""},
			"an ellipsis that is meant":  {`<p style="width:60px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap">much too long for it</p>`, ""},
			"text for screen readers":    {`<span style="position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)">unseen words</span>`, ""},
			"what scrolls":               {`<div style="width:90px;overflow-x:auto"><pre>much too long for the box it is in</pre></div>`, ""},
			"cut at the side":            {`<p style="width:60px;overflow:hidden;white-space:nowrap">much too long for it</p>`, "cut at the side"},
			"cut at the foot":            {`<p style="height:20px;width:60px;overflow:hidden">much too long for it</p>`, "cut at the foot"},
			"wider than the window":      {`<p style="width:2000px">wide</p>`, "outside the window"},
			"a choice that fits":         {`<select aria-label=kind><option>as long as it takes</select>`, ""},
			"a choice cut in its field":  {`<select aria-label=kind style="width:50px"><option>as long as it takes</select>`, "cut in its field"},
			"a button that is stretched": {`<button style="height:200px">Go</button>`, "stretched"},
			"two texts in one place":     {`<p>one text</p><p style="margin-top:-34px">another text</p>`, "lie over each other"},
			"a button under a clear box": {`<button>Go</button><div style="position:absolute;inset:0"></div>`, "is covered by"},
		} {
			p := newPage(t, served(t, c.body), manner{})
			p.open("/")
			bad := p.layout(1440)
			found := slices.ContainsFunc(bad, func(s string) bool { return strings.Contains(s, c.want) })
			if c.want == "" && len(bad) > 0 || c.want != "" && !found {
				t.Errorf("%s: %q", name, bad)
			}
		}
	})
	t.Run("console", func(t *testing.T) {
		for name, body := range map[string]string{
			"an exception":  `<script>throw new Error('no luck')</script>`,
			"an error":      `<script>console.error('no luck')</script>`,
			"what is gone":  `<img alt="" src="/gone.png">`,
			"a lost reject": `<script>Promise.reject(new Error('no luck'))</script>`,
			"another host":  `<img alt="" src="http://example.com/a.png">`,
		} {
			h := &heard{TB: t}
			p := newPage(t, served(t, body), manner{})
			p.may("ERR_NAME_NOT_RESOLVED") // the request itself is an error
			p.open("/")
			p.tb = h
			check.OK(t, p.until(patience, "1"))
			p.wait("document.readyState === 'complete'")
			for range 100 {
				if p.quiet(); len(h.errors) > 0 {
					break
				}
				eval[int](p, "1")
			}
			if len(h.errors) == 0 {
				t.Errorf("%s was not heard", name)
			}
			p.count()
		}
	})
	t.Run("axe", func(t *testing.T) {
		if axeSource == "" {
			t.Skip("no axe-core")
		}
		p := newPage(t, served(t, `<input>`), manner{})
		p.open("/")
		if got := p.axe(false); !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "label") }) {
			t.Errorf("a field without a label: %q", got)
		}
	})
	t.Run("hands", func(t *testing.T) {
		p := newPage(t, served(t, `<label>Name <input></label><button onclick="document.title = document.querySelector('input').value">Go</button>`+
			`<select aria-label=Kind><option>a<option>b</select>`), manner{})
		p.open("/")
		p.fill("Name", "lina 每日")
		p.click("Go")
		p.wait("document.title === 'lina 每日'")
		p.choose("Kind", "b")
		p.press(kb.Tab)
		check.Equal(t, p.focused(), "Kind", "focus on")
		if requests, bytes := p.count(); len(requests) != 1 || bytes < 300 {
			t.Errorf("%d requests, %f bytes", len(requests), bytes)
		}
		p.open("/?moves")
		eval[bool](p, `(() => { const b = document.querySelector('button'); window.n = 0; b.addEventListener('click', () => n++);
			b.addEventListener('mousedown', () => b.style.marginTop = '300px', {once: true}); return true })()`)
		p.click("Go")
		check.Equal(t, eval[int](p, "n"), 1, "what moves away under the mouse is clicked N times")
	})
}
