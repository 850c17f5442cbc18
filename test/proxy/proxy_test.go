//go:build unix

// Package proxy_test holds the configuration of nginx in docs/how-to/tls-and-proxy.md against a real
// nginx in front of a real server.
package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/freeport"
	"github.com/tickring/tickring/internal/testkit/waiting"
	"github.com/tickring/tickring/test/harness"
)

// TestNginxOnAnotherPortServesTheConsole runs the documented configuration without TLS on a port of its own. A form that a
// browser sends from there must get in, which needs the port in the Host header, and its cookie must be Secure, which needs
// X-Forwarded-Proto. /metrics must not get in.
func TestNginxOnAnotherPortServesTheConsole(t *testing.T) {
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		t.Skip("no nginx on this machine")
	}
	bin, err := harness.Build(t.TempDir())
	check.OK(t, err)
	port := freeport.Free(t)
	listen, origin := "127.0.0.1:"+port, "http://jobs.example:"+port
	s := harness.Start(t, bin, t.TempDir(), "--require-token", "--report-url", origin, "--trusted-proxy", "127.0.0.1")
	runNginx(t, nginx, configuration(t, listen, strings.TrimPrefix(s.URL, "http://")))

	ask := func(method, path string, form url.Values) (int, string) { // with the cookies after the body
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+listen+path, strings.NewReader(form.Encode()))
		check.OK(t, err)
		r.Host = strings.TrimPrefix(origin, "http://")
		r.Header.Set("Origin", origin)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		c := http.Client{Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := c.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		check.OK(t, err)
		return resp.StatusCode, string(body) + strings.Join(resp.Header["Set-Cookie"], "\n")
	}
	check.OK(t, waiting.For(time.Minute, func() error {
		if status, text := ask("GET", "/healthz", nil); status != http.StatusOK {
			return fmt.Errorf("%d %s", status, text)
		}
		return nil
	}))
	if status, text := ask("POST", "/console/login", url.Values{"token": {harness.Token}}); status != http.StatusSeeOther ||
		!strings.Contains(text, "; Secure;") {
		t.Errorf("a login through the proxy: %d %s", status, text)
	}
	if status, _ := ask("GET", "/metrics", nil); status != http.StatusNotFound {
		t.Errorf("/metrics through the proxy: %d", status)
	}
}

// configuration returns the nginx text of docs/how-to/tls-and-proxy.md with other addresses and without TLS.
func configuration(t *testing.T, listen, upstream string) string {
	page, err := os.ReadFile("../../docs/how-to/tls-and-proxy.md")
	check.OK(t, err)
	_, text, ok := strings.Cut(string(page), "nginx:\n\n```\n")
	text, _, end := strings.Cut(text, "```")
	if !ok || !end {
		t.Fatal("docs/how-to/tls-and-proxy.md has no configuration of nginx")
	}
	text = strings.Replace(text, "127.0.0.1:7700", upstream, 1)
	text = strings.Replace(text, "listen 443 ssl;", "listen "+listen+";", 1)
	text = strings.Replace(text, "$scheme", "https", 1)
	return regexp.MustCompile(`(?m)^\s*ssl_.*\n`).ReplaceAllString(text, "")
}

func runNginx(t *testing.T, nginx, text string) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "nginx.conf")
	temp := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += fmt.Sprintf("%s_temp_path %s;\n", kind, filepath.Join(dir, kind))
	}
	text = fmt.Sprintf("daemon off;\nmaster_process off;\npid %s/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n%s%s}\n",
		dir, temp, text)
	check.OK(t, os.WriteFile(conf, []byte(text), 0o600))
	harness.Background(t, exec.Command(nginx, "-p", dir, "-c", conf, "-e", "stderr"))
}
