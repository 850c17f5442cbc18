package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestScriptSizes: a source of the maximum size is accepted, though as JSON it is six times as long.
func TestScriptSizes(t *testing.T) {
	f := newFixture(t)
	f.shop()
	for _, one := range []string{"x", "\x01"} {
		for over, want := range map[int]int{0: 200, 1: 413} {
			source := strings.Repeat(one, core.MaxScript+over)
			body, err := json.Marshal(map[string]any{"script": map[string]any{"kind": "shell", "source": source}})
			check.OK(t, err)
			status, answer := f.ask("PUT", "/v1/jobs/shop/clean", string(body))
			if check.Equal(t, status, want, "%q: %s", one, answer); want != 200 {
				check.Equal(t, errorOf(t, answer).Field, "script.source")
				continue
			}
			var s client.Script
			check.OK(t, json.Unmarshal([]byte(f.must("GET", "/v1/jobs/shop/clean/scripts/0", "")), &s))
			if s.Source != source {
				t.Errorf("%d bytes", len(s.Source))
			}
		}
	}
}
