package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// TestBulkCountsWhatItActsOn: the dry run of a user with the permission in some apps counts the jobs of these apps
// alone. For a user without the permission it counts all visible jobs, and the operation itself is rejected.
func TestBulkCountsWhatItActsOn(t *testing.T) {
	texts := golden.New(t)
	both := []string{"shop/report", "pay/bills"}
	for name, c := range map[string]struct {
		grants []access.Grant
		found  map[string]int // by verb; other verbs are rejected
		sees   []string
	}{
		"viewer of all, editor of shop": {[]access.Grant{{Role: viewer}, {App: "shop", Role: editor}},
			map[string]int{"pause": 1, "kill": 1, "label": 1, "delete": 1}, []string{"shop/report"}},
		"viewer of pay, editor of shop": {[]access.Grant{{App: "pay", Role: viewer}, {App: "shop", Role: editor}},
			map[string]int{"pause": 1, "kill": 1, "label": 1, "delete": 1}, []string{"shop/report"}},
		"operator of all": {[]access.Grant{{Role: operator}}, map[string]int{"pause": 2, "kill": 2}, both},
		"viewer of all":   {[]access.Grant{{Role: viewer}}, nil, both},
		"viewer of shop":  {[]access.Grant{{App: "shop", Role: viewer}}, nil, []string{"shop/report"}},
	} {
		f, _ := guardedFixture(t)
		lina := f.person("lina", c.grants...)
		for _, verb := range []string{"pause", "kill", "label", "delete"} {
			body := `{"verb":"` + verb + `","filter":{},"labels":{"a":"b"}`
			var dry, res client.BulkResult
			check.OK(t, json.Unmarshal([]byte(f.expect(t, lina, "POST", "/v1/bulk", body+`,"dryRun":true}`, 200)), &dry))
			want, may := c.found[verb]
			if !may {
				want = len(c.sees)
			}
			if text := strings.Join(dry.Sample, " "); dry.Found != want || want == 1 && text != c.sees[0] {
				t.Errorf("%s, %s: of a dry run %d, %s", name, verb, dry.Found, text)
			}
			if !may {
				text := f.expect(t, lina, "POST", "/v1/bulk", body+"}", 403)
				texts.Equal(t, name+", "+verb, errorOf(t, text).Message)
				continue
			}
			if err := json.Unmarshal([]byte(f.expect(t, lina, "POST", "/v1/bulk", body+"}", 200)), &res); err != nil ||
				res.Found != want || res.Done+res.Same != want {
				t.Errorf("%s, %s: %+v, %v", name, verb, res, err)
			}
		}
	}
}
