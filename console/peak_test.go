package console_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/peak"
)

// discarded is a response that drops its body.
type discarded struct {
	h    http.Header
	code int
}

func (d *discarded) Header() http.Header         { return d.h }
func (d *discarded) WriteHeader(code int)        { d.code = code }
func (d *discarded) Write(b []byte) (int, error) { return len(b), nil }

// TestNoFormHoldsMuchMemory: whatever is posted to any form, a request without a session or permission uses almost no
// memory. With permission it uses a few times the size of the body.
func TestNoFormHoldsMuchMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector changes the use of memory")
	}
	s := newConsole(t)
	s.ask("PUT", "/v1/jobs/shop/report", `{"handler": "x"}`)
	s.ask("PUT", "/v1/channels/team", `{"webhook": {"url": "https://hooks.example/x"}}`)
	admin := s.cookies["tickring_session"]
	session := map[string]string{"stranger": "", "admin": admin}
	s.person("nora")
	s.person("vera", access.Grant{Role: access.Viewer})
	for _, name := range []string{"nora", "vera"} {
		s.logInAs(name)
		session[name] = s.cookies["tickring_session"]
	}
	var source []byte
	for _, file := range []string{"menu.go", "console.go"} {
		b, err := os.ReadFile(file)
		check.OK(t, err)
		source = append(source, b...)
	}
	forms := []string{"/console/jobs/new?view=manifest"}
	for _, m := range regexp.MustCompile(`"POST (/console/[^"]*)"`).FindAllSubmatch(source, -1) {
		path := strings.NewReplacer("{app}", "shop", "{name}", "report", "{run}", "4294967297", "{channel}", "team", "{secret}", "x").
			Replace(string(m[1]))
		forms = append(forms, path)
	}
	const size, long = 300_000, 900_000 // of a form, and of a manifest in it, which is rejected for its lines
	many, each := &strings.Builder{}, &strings.Builder{}
	for i := 0; many.Len() < size; i++ {
		fmt.Fprintf(many, "%x&", i)
	}
	names := strings.Fields("text params source script.source unsent query pick labels executors roles name reason do title")
	for _, name := range names {
		fmt.Fprintf(each, "%s=%s&", name, strings.Repeat(`"`, size/len(names)))
	}
	bodies := map[string]string{"many": many.String(), "each": each.String()}
	texts := map[string]string{
		"bomb": "version: 1\nx: &a [" + strings.Repeat("1,", 1000) + "1]\ny: &b [" + strings.Repeat("*a,", 1000) +
			"1]\njobs:\n  - {app: shop, name: report, handler: x, after: *b, labels: {a: *b}}\n",
		"flow": "jobs: [" + strings.Repeat("[a],", long/8) + "]", "lines": "jobs:\n" + strings.Repeat("- a\n", long/8),
		"list": `{"jobs":[` + strings.Repeat("1,", long/4) + "1]}"}
	for i, path := range forms {
		limits := map[string]int64{"stranger": 7 << 20, []string{"nora", "vera"}[i%2]: 2 * size, "admin": 8 << 20}
		bodies := maps.Clone(bodies)
		if strings.Contains(path, "manifest") {
			for name, text := range texts {
				bodies[name] = "text=" + url.QueryEscape(text)
			}
			limits["admin"] = 24 << 20 // the parsed manifest
		}
		if path == "/console/login" {
			bodies["unsent"] = "unsent-at=/console/jobs/new&unsent=" + strings.Repeat(`"`, 3*size)
		}
		for name, body := range bodies {
			for who, most := range limits {
				if open := strings.HasPrefix(path, "/console/log") || strings.HasPrefix(path, "/console/once") ||
					slices.Contains([]string{"/console/account", "/console/views", "/console/settings"}, path); open {
					most = 8 << 20
				}
				w := &discarded{h: http.Header{}}
				held := func() int64 {
					r := httptest.NewRequest(http.MethodPost, "http://console.test"+path, strings.NewReader(body))
					r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
					r.AddCookie(&http.Cookie{Name: "tickring_session", Value: session[who]})
					return peak.Of(func() { s.h.ServeHTTP(w, r) })
				}
				// Beside it another goroutine may allocate memory, but not twice.
				if first := held(); first > most && held() > most {
					t.Errorf("%s, %s, %s: %d, %d KB were held", path, name, who, w.code, first>>10)
				}
			}
		}
	}
}
