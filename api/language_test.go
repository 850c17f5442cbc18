package api_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// TestLanguage: the text of an answer is in the requested language, and a header names the language. Codes, fields
// and values are the same in each.
func TestLanguage(t *testing.T) {
	texts := golden.New(t)
	synctest.Test(t, func(t *testing.T) { languages(t, texts) }) // at a fixed time
	f := newFixture(t)
	f.shop()
	w := f.inLanguage("GET", "/v1/jobs/shop/report/runs/2020-01-01T02:30", "", "zh")
	texts.Equal(t, "a run before the job", varying.ReplaceAllString(w.Body.String(), "$1 #"))
}

// inLanguage sends one request with a header Accept-Language.
func (f *fixture) inLanguage(method, path, body, asked string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	if asked != "" {
		r.Header.Set("Accept-Language", asked)
	}
	w := httptest.NewRecorder()
	f.h.ServeHTTP(w, r)
	return w
}

func languages(t *testing.T, texts *golden.Texts) {
	f := newFixture(t)
	f.shop()
	for _, tt := range []struct{ method, path, body, asked, language string }{
		{"GET", "/v1/apps/none", "", "", "en"},
		{"GET", "/v1/apps/none", "", "zh-CN,zh;q=0.9,en;q=0.8", "zh"},
		{"GET", "/v1/apps/none", "", "en-US,zh;q=0.5", "en"},
		{"GET", "/v1/nothing", "", "zh", "zh"},
		{"GET", "/v1/jobs?limit=x", "", "zh", "zh"},
		{"DELETE", "/v1/status", "", "zh", "zh"},
		{"PUT", "/v1/apps/shop", `{"title":1}`, "zh", "zh"},
		{"PUT", "/v1/jobs/shop/report", `{"handler":"report","route":"nearest"}`, "zh", "zh"},
		{"POST", "/v1/apply", `{"jobs":[{"app":"none","name":"a","handler":"h"}]}`, "zh", "zh"},
		{"PUT", "/v1/apps/far", `{"executors":["ftp://x"]}`, "zh", "zh"},
		{"PUT", "/v1/jobs/shop/report", `{"handler":"report","route":"FAILOVER"}`, "zh", "zh"},
		{"GET", "/v1/jobs/shop/report", "", "zh", "zh"},
		{"GET", "/v1/jobs", "", "zh", "zh"},
		{"GET", "/v1/jobs", "", "", "en"},
		{"POST", "/v1/preview", `{"schedule":{"every":"90m"},"count":1}`, "zh", "zh"},
		{"PUT", "/v1/channels/ops", `{"language":"fr","slack":{"url":"https://hooks.slack.com/services/T"}}`, "", "en"},
	} {
		w := f.inLanguage(tt.method, tt.path, tt.body, tt.asked)
		check.Equal(t, w.Header().Get("Content-Language"), tt.language, "%s %s in %q: Content-Language", tt.method, tt.path, tt.asked)
		texts.Equal(t, strings.TrimSpace(strings.Join([]string{tt.method, tt.path, tt.body, tt.asked}, " ")), w.Body.String())
	}
}
