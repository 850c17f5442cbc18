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
