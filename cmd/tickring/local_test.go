package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/server"
)

// TestDemoAfterAServer: commands use the token of the demo if it started after the server of the default directory, at the same
// address. The endpoint file of a stopped server stays.
func TestDemoAfterAServer(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(server.HeaderVersion, "test") }))
	t.Cleanup(web.Close)
	dir := t.TempDir()
	demo := filepath.Join(dir, demoFolder)
	at := time.Now()
	start := func(dir, token string) {
		at = at.Add(time.Second)
		file := filepath.Join(dir, server.EndpointFile)
		for _, err := range []error{os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, server.TokenFile), []byte(token), 0o600),
			os.WriteFile(file, []byte(web.URL), 0o600), os.Chtimes(file, at, at)} {
			check.OK(t, err)
		}
	}
	for _, c := range []struct{ dir, token string }{{dir, "server"}, {demo, "demo"}, {dir, "server again"}} {
		start(c.dir, c.token)
		e := &Env{Globals: &Globals{}, Ctx: t.Context(), Getenv: lookup(map[string]string{"TICKRING_DATA": dir})}
		if _, token, err := e.findServer(); err != nil || token.text != c.token {
			t.Errorf("the token is %q, %v; want %q", token.text, err, c.token)
		}
	}
}
