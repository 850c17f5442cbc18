package browser

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tickring/tickring/wire"
)

// TestBigName: a name of 4 MB is rejected with an explanation, and the page stays usable.
func TestBigName(t *testing.T) {
	w := newWorld(t)
	p := newPage(t, w.URL, manner{})
	p.may("status of 413", "status of 400", "status of 422")
	p.logIn()
	for _, path := range []string{"/console/jobs/shop/stock?view=manifest", "/console/jobs/shop/stock?panel=pause"} {
		p.open(path)
		p.wait("!!document.querySelector('main form[method=post], dialog form[method=post]')")
		eval[bool](p, `(() => { const f = [...document.querySelectorAll('main form[method=post]')].pop();
			const e = f.querySelector('textarea, input:not([type=hidden]):not([type=radio])'); e.removeAttribute('maxlength');
			e.value = 'a'.repeat(4 << 20); f.requestSubmit(); return true })()`)
		p.wait("performance.getEntriesByType('navigation')[0].responseStatus === 413")
		p.wait("document.body.innerText.length < 100000")
	}
	if out := w.OK(t, "", "get", "shop/stock"); strings.Contains(out, "aaaa") {
		t.Error("it was taken")
	}
}

// TestManyExecutors: 10,000 executors of ten apps, a page each app.
func TestManyExecutors(t *testing.T) {
	w := bare(t)
	var b strings.Builder
	fmt.Fprintln(&b, "version: 1\napps:")
	for i := range 10 {
		fmt.Fprintf(&b, "  - {name: app-%d, token: %s}\n", i, shopToken)
	}
	w.OK(t, b.String(), "apply", "-f", "-")
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10}}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			for j := range 1000 {
				body := wire.AppendRegistration(nil, wire.Registration{Group: wire.GroupExecutor, App: fmt.Sprint("app-", i),
					Address: fmt.Sprintf("http://127.0.0.1:%d", 10_000+1000*i+j)})
				req, _ := http.NewRequest(http.MethodPost, w.URL+"/api/registry", bytes.NewReader(body))
				req.Header.Set(wire.HeaderToken, shopToken)
				resp, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
	p := newPage(t, w.URL, manner{})
	p.logIn()
	p.open("/console/executors")
	p.sees("10000")
	p.wait("document.querySelectorAll('tr[id^=app-]').length === 10")
	p.open("/console/executors/app-7")
	p.sees("http://127.0.0.1:17")
	if n := eval[int](p, "document.querySelectorAll('*').length"); n > 30_000 {
		t.Errorf("the page has %d elements", n)
	}
}
