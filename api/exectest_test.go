package api_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/wiring"
)

// beats answers for good addresses, and records each address that was asked.
type beats struct {
	logs
	asked *[]string
}

func (b beats) AskClock(_ context.Context, _ *core.App, address string) (core.Clock, error) {
	*b.asked = append(*b.asked, address)
	if strings.Contains(address, "dead") {
		return core.Clock{}, errors.New("connection refused")
	}
	return core.Clock{Known: true, Ahead: 40}, nil
}

// TestExecutorsAreTested tests an executor that answers and one that does not. An address that is not in the app gets
// no request, because the request would have the app's token.
func TestExecutorsAreTested(t *testing.T) {
	f := newFixture(t)
	f.must("PUT", "/v1/apps/fixed", `{"token":"secret-token","executors":["http://10.0.0.1:9999","http://dead:9999"]}`)
	var asked []string
	a := wiring.New(f.e, wiring.Options{Plan: plan.Local()})
	if status, answer := f.ask("POST", "/v1/apps/fixed/executors/test", `{"address":"http://10.0.0.1:9999"}`); status != 409 {
		t.Errorf("without a sender: %d %s", status, answer)
	}
	f.h = api.NewHandler(a.People(killer{}, people.Options{}), beats{asked: &asked}, api.Options{Token: token})
	if answer := f.must("POST", "/v1/apps/fixed/executors/test", `{"address":"http://10.0.0.1:9999"}`); !strings.Contains(answer, `"ok":true`) ||
		!strings.Contains(answer, `"clockAheadMs":40000`) {
		t.Error(answer)
	}
	answer := f.must("POST", "/v1/apps/fixed/executors/test", `{"address":"http://dead:9999"}`)
	if !strings.Contains(answer, `"ok":false`) || strings.Contains(answer, "clock") || !strings.Contains(answer, "connection refused") {
		t.Error(answer)
	}
	n := len(asked)
	status, answer := f.ask("POST", "/v1/apps/fixed/executors/test", `{"address":"http://10.6.6.6:1"}`)
	if status != 404 || !strings.Contains(answer, `"field":"address"`) || len(asked) != n {
		t.Errorf("an unknown address: %d %s, asked %v", status, answer, asked[n:])
	}
}
