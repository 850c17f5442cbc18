package browser

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

// TestManyExecutors: 1,000 executors of an app are on one page.
func TestManyExecutors(t *testing.T) {
	w := bare(t)
	w.OK(t, "version: 1\napps: [{name: shop, token: "+shopToken+"}]\n", "apply", "-f", "-")
	for i := range 1000 {
		body := wire.AppendRegistration(nil, wire.Registration{Group: wire.GroupExecutor, App: "shop",
			Address: fmt.Sprintf("http://127.0.0.1:%d", 10_000+i)})
		req, err := http.NewRequest(http.MethodPost, w.URL+"/api/registry", bytes.NewReader(body))
		check.OK(t, err)
		req.Header.Set(wire.HeaderToken, shopToken)
		resp, err := http.DefaultClient.Do(req)
		check.OK(t, err)
		resp.Body.Close()
	}
	p := newPage(t, w.URL, manner{})
	p.logIn()
	p.open("/console/executors")
	p.sees("1000")
	p.open("/console/executors/shop")
	p.sees("http://127.0.0.1:10")
	if n := eval[int](p, "document.querySelectorAll('*').length"); n > 30_000 {
		t.Errorf("the page has %d elements", n)
	}
}
