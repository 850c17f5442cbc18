package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
)

// TestFixedAddressesAreAsked: fixed addresses are probed without any run, so dead and live ones are known. A call: endpoint is
// never probed.
func TestFixedAddressesAreAsked(t *testing.T) {
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"code":200}`) }))
	defer there.Close()
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	called := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a call: was asked") }))
	defer called.Close()
	s := start(t, Options{ProbeEvery: 100 * time.Millisecond})
	if _, err := s.Manage().SaveApp(t.Context(), actor, manage.AppSpec{Name: "fixed",
		Executors: []string{there.URL, dead.URL, "call:" + called.URL}}); err != nil {
		t.Fatal(err)
	}
	if r := s.Manage().Save(t.Context(), actor, []manage.JobSpec{{Def: core.Def{App: "fixed", Name: "j", Handler: "/h"}}})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	c, err := client.New(s.URL(), s.Token(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, func() error {
		list, err := c.ListExecutors(t.Context(), "fixed")
		if err != nil {
			return err
		}
		known := 0
		for _, x := range list.Executors {
			switch {
			case x.Answers == nil:
				continue
			case *x.Answers != (x.Address == there.URL) || x.CheckedAt.IsZero() ||
				strings.Contains(x.Problem, "connect") != (x.Address == dead.URL) || strings.HasPrefix(x.Address, "call:"):
				t.Errorf("%+v", x)
			}
			known++
		}
		if known != 2 {
			return errors.New("not asked yet")
		}
		return nil
	})
}
