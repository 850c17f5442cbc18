package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/testkit/check"
)

const readToken = "read-token-of-the-server"

// TestTokens: the read token can read, and an app's token declares jobs of the app. A token that can be guessed, or equals the
// admin token, is rejected as read token.
func TestTokens(t *testing.T) {
	for _, bad := range []string{"read-token", "token-of-an-administrator"} {
		if _, err := New(Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", Token: "token-of-an-administrator",
			ReadToken: bad}); core.CodeOf(err) !=
			core.CodeInvalid || !strings.Contains(err.Error(), "TICKRING_READ_TOKEN") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	s := start(t, Options{ReadToken: readToken})
	save(t, s, "shop", manage.JobSpec{Def: core.Def{App: "shop", Name: "report", Handler: "report"}})
	const job = `{"handler":"x","declared":true}`
	for _, c := range []struct {
		token, method, path string
		want                int
	}{
		{readToken, "GET", "/v1/jobs", 200},
		{readToken, "GET", "/v1/facts", 200},
		{readToken, "POST", "/v1/pause", 403},
		{readToken, "PUT", "/v1/jobs/shop/fresh", 403},
		{"executors-of-shop", "PUT", "/v1/jobs/shop/fresh", 200},
		{"executors-of-shop", "PUT", "/v1/jobs/pay/fresh", 401},
		{"executors-of-shop", "GET", "/v1/jobs", 401},
		{"", "PUT", "/v1/jobs/shop/fresh", 401},
	} {
		r, err := http.NewRequest(c.method, s.URL()+c.path, strings.NewReader(job))
		check.OK(t, err)
		r.Header.Set("Authorization", "Bearer "+c.token)
		resp, err := http.DefaultClient.Do(r)
		check.OK(t, err)
		if resp.Body.Close(); resp.StatusCode != c.want {
			t.Errorf("%s %s with %q: %s, want %d", c.method, c.path, c.token, resp.Status, c.want)
		}
	}
}
