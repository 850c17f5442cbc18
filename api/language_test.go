package api_test

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// TestLanguage: the text of an answer is in the requested language, and a header names the language. Codes, fields
// and values are the same in each.
func TestLanguage(t *testing.T) {
	f := newFixture(t)
	f.shop()
	for _, tt := range []struct{ method, path, body, asked, language, says string }{
		{"GET", "/v1/apps/none", "", "", "en", `"message":"app none does not exist"`},
		{"GET", "/v1/apps/none", "", "zh-CN,zh;q=0.9,en;q=0.8", "zh", `"code":"not-found","message":"应用 none 不存在"`},
		{"GET", "/v1/apps/none", "", "en-US,zh;q=0.5", "en", `"message":"app none does not exist"`},
		{"GET", "/v1/nothing", "", "zh", "zh", `"message":"这里没有 /v1/nothing：参见 /v1/openapi.yaml"`},
		{"GET", "/v1/jobs?limit=x", "", "zh", "zh", `"field":"limit","value":"x","message":"应为整数"`},
		{"DELETE", "/v1/status", "", "zh", "zh", `"message":"这里允许的方法：GET, HEAD"`},
		{"PUT", "/v1/apps/shop", `{"title":1}`, "zh", "zh", `"field":"title","value":"1","message":"应为文本，而不是数字"`},
		{"PUT", "/v1/jobs/shop/report", `{"handler":"report","route":"nearest"}`, "zh", "zh",
			`"field":"route","value":"nearest","message":"允许的取值：first, last,`},
		{"POST", "/v1/apply", `{"jobs":[{"app":"none","name":"a","handler":"h"}]}`, "zh", "zh", `没有这个应用：请先创建`},
		{"PUT", "/v1/apps/far", `{"executors":["ftp://x"]}`, "zh", "zh",
			`"field":"executors[0]","value":"ftp://x","message":"不是 http 或 https 的 URL；允许：http://HOST:PORT 或`},
		{"PUT", "/v1/jobs/shop/report", `{"handler":"report","route":"FAILOVER"}`, "zh", "zh", `；xxl-job 的 FAILOVER 在这里写作 route: failover`},
		{"GET", "/v1/jobs/shop/report/runs/2020-01-01T02:30", "", "zh", "zh", `没有运行：任务在此之后才创建，于 `},
		{"GET", "/v1/jobs/shop/report", "", "zh", "zh", `"description":"每天 02:30 执行（Europe/Berlin）"`},
		{"GET", "/v1/jobs/shop/report", "", "zh", "zh", `改在 03:00 触发"`},
		{"GET", "/v1/jobs", "", "zh", "zh", `"description":"每天 02:30 执行（Europe/Berlin）"`},
		{"GET", "/v1/jobs", "", "", "en", `"description":"at 02:30, Europe/Berlin"`},
		{"POST", "/v1/preview", `{"schedule":{"every":"90m"},"count":1}`, "zh", "zh", `"description":"每 1 小时 30 分钟"`},
		{"GET", "/v1/jobs/shop/report", "", "zh", "zh", `"state":"started"`},
		{"PUT", "/v1/channels/ops", `{"language":"fr","slack":{"url":"https://hooks.slack.com/services/T"}}`, "", "en",
			`"field":"language","value":"fr","message":"allowed values: en, zh"`},
	} {
		r := httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body))
		r.Header.Set("Authorization", "Bearer "+token)
		if tt.asked != "" {
			r.Header.Set("Accept-Language", tt.asked)
		}
		w := httptest.NewRecorder()
		f.h.ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), tt.says) {
			t.Errorf("%s %s in %q: %s, want %s", tt.method, tt.path, tt.asked, w.Body, tt.says)
		}
		if got := w.Header().Get("Content-Language"); got != tt.language {
			t.Errorf("%s %s in %q: Content-Language %q, want %q", tt.method, tt.path, tt.asked, got, tt.language)
		}
	}
}
