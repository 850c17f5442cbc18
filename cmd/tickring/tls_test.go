package main

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
)

// TestCertificateOfOurOwn: commands use TLS with a server whose certificate is trusted only through SSL_CERT_FILE, as in
// docs/how-to/tls-and-proxy.md.
func TestCertificateOfOurOwn(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere the system's own store is asked")
	}
	plain := testServer(t)
	defer plain.Close()
	s := httptest.NewTLSServer(plain.Config.Handler)
	defer s.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	check.OK(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	unknown := "certificate signed by unknown authority"
	for env, want := range map[string]string{"SSL_CERT_FILE=" + file: "", "X=": unknown, "TICKRING_TOKEN=": unknown} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "executors")
		cmd.Args[0] = "tickring"
		cmd.Env = append(os.Environ(), "TICKRING_ENDPOINT="+s.URL, "TICKRING_TOKEN=sesame", "HOME="+t.TempDir(), env)
		out, err := cmd.CombinedOutput()
		if (err == nil) != (want == "") || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v %s", env, err, out)
		}
	}
}
