//go:build linux

// Package install_test installs the Debian package of a snapshot and runs the command of its
// systemd unit. Without -deb its tests are skipped: .ci/run builds the package.
package install_test

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/waiting"
	"github.com/tickring/tickring/test/harness"
)

var (
	deb  = flag.String("deb", "", "path of the package to test")
	dpkg = flag.Bool("dpkg", false, "install the package on this machine by dpkg, and purge it at the end; needs root")
)

const nobody = 65534

// TestPackageStartsAServerThatRunsJobs installs the package, starts ExecStart of its unit with a temporary state directory as an
// unprivileged user, creates a job by the packaged CLI and waits for its first run.
func TestPackageStartsAServerThatRunsJobs(t *testing.T) {
	root := install(t)
	bin := filepath.Join(root, "usr/bin/tickring")
	s := &harness.Server{Bin: bin, Dir: openDir(t)}
	command := execStart(t, root, s.Dir)

	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}
	cmd.Dir = "/"
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	harness.Background(t, cmd)
	data := filepath.Join(s.Dir, "tickring")
	check.OK(t, waiting.For(time.Minute, func() error {
		b, err := os.ReadFile(filepath.Join(data, "endpoint"))
		if err != nil {
			return err
		}
		s.URL = strings.TrimSpace(string(b))
		if out, err := exec.Command(bin, "health", "--endpoint", s.URL).CombinedOutput(); err != nil {
			return fmt.Errorf("tickring health: %w: %s", err, out)
		}
		return nil
	}))
	token, err := os.ReadFile(filepath.Join(data, "admin-token"))
	check.OK(t, err)
	s.AdminToken = strings.TrimSpace(string(token))

	called := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "done") }))
	defer called.Close()
	s.OK(t, "", "create", "web/ping", "--every", "1s", "--call", called.URL)
	check.OK(t, waiting.For(time.Minute, func() error {
		runs := s.Runs(t, "web/ping")
		for _, r := range runs {
			if r.State == "succeeded" {
				return nil
			}
		}
		return fmt.Errorf("no run has succeeded: %+v", runs)
	}))
}

// TestPackageContainsWhatItsDocumentationNames checks the files of the package, their modes, and
// the version that the binary reports.
func TestPackageContainsWhatItsDocumentationNames(t *testing.T) {
	root := install(t)
	for path, mode := range map[string]os.FileMode{
		"usr/bin/tickring":                                  0o755,
		"usr/lib/systemd/system/tickring.service":           0o644,
		"etc/default/tickring":                              0o600,
		"usr/share/man/man1/tickring.1":                     0o644,
		"usr/share/man/man1/tickring-serve.1":               0o644,
		"usr/share/bash-completion/completions/tickring":    0o644,
		"usr/share/zsh/site-functions/_tickring":            0o644,
		"usr/share/fish/vendor_completions.d/tickring.fish": 0o644,
		"usr/share/doc/tickring/copyright":                  0o644,
	} {
		info, err := os.Stat(filepath.Join(root, path))
		switch {
		case err != nil && *dpkg && strings.HasPrefix(path, "usr/share/"): // images of containers exclude man pages
			t.Logf("dpkg did not install %s", path)
		case err != nil:
			t.Error(err)
		case info.Mode().Perm() != mode || info.Size() == 0:
			t.Errorf("%s has mode %v and %d bytes, want mode %v", path, info.Mode(), info.Size(), mode)
		}
	}
	out, err := exec.Command(filepath.Join(root, "usr/bin/tickring"), "version").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	version := field(t, "Version")
	if want := "tickring " + strings.Replace(version, "~", "-", 1) + " ("; !strings.HasPrefix(string(out), want) {
		t.Errorf("the package has version %s, and its binary reports %s", version, out)
	}
}

// TestUnitIsValidAndHardened runs systemd-analyze on the unit of the package.
func TestUnitIsValidAndHardened(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("no systemd-analyze on this machine")
	}
	root := extract(t)
	unit := filepath.Join(root, "usr/lib/systemd/system/tickring.service")
	text, err := os.ReadFile(unit)
	check.OK(t, err)
	// The command of the unit is not on this machine, so verify the unit with the extracted one.
	moved := filepath.Join(t.TempDir(), "tickring.service")
	check.OK(t, os.WriteFile(moved, []byte(strings.Replace(string(text), "ExecStart=/", "ExecStart="+root+"/", 1)), 0o600))
	for _, args := range [][]string{{"verify", "--man=no", moved}, {"security", "--offline=true", "--threshold=20", moved}} {
		if out, err := exec.Command("systemd-analyze", args...).CombinedOutput(); err != nil || strings.Contains(string(out), moved+":") {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
}

// install installs or extracts the package, and returns the root of its files.
func install(t *testing.T) string {
	if !*dpkg {
		return extract(t)
	}
	needDeb(t)
	if out, err := exec.Command("dpkg", "-s", "tickring").CombinedOutput(); err == nil {
		t.Fatalf("tickring is already installed on this machine:\n%s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("dpkg", "--purge", "tickring").CombinedOutput(); err != nil {
			t.Errorf("dpkg --purge: %v: %s", err, out)
		}
	})
	if out, err := exec.Command("dpkg", "--install", *deb).CombinedOutput(); err != nil {
		t.Fatalf("dpkg --install: %v: %s", err, out)
	}
	return "/"
}

func extract(t *testing.T) string {
	needDeb(t)
	root := openDir(t)
	if out, err := exec.Command("dpkg-deb", "--extract", *deb, root).CombinedOutput(); err != nil {
		t.Fatalf("dpkg-deb --extract: %v: %s", err, out)
	}
	return root
}

// openDir returns a temporary directory that the unprivileged user can enter.
func openDir(t *testing.T) string {
	dir := t.TempDir()
	check.OK(t, os.Chmod(filepath.Dir(dir), 0o755))
	return dir
}

func needDeb(t *testing.T) {
	t.Helper()
	if *deb == "" {
		t.Skip("no package: set -deb")
	}
}

// field returns a field of the control file of the package.
func field(t *testing.T, name string) string {
	out, err := exec.Command("dpkg-deb", "--field", *deb, name).Output()
	check.OK(t, err)
	return strings.TrimSpace(string(out))
}

// execStart returns the command of the unit, with the state directories of the unit in dir and a free port.
func execStart(t *testing.T, root, dir string) []string {
	text, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system/tickring.service"))
	check.OK(t, err)
	value := func(key string) string {
		_, rest, ok := strings.Cut(string(text), "\n"+key+"=")
		if !ok {
			t.Fatalf("the unit has no %s", key)
		}
		line, _, _ := strings.Cut(rest, "\n")
		return line
	}
	// The directory is open to the user of the server, as systemd creates it.
	for _, name := range strings.Fields(value("StateDirectory")) {
		path := filepath.Join(dir, name)
		check.OK(t, os.Mkdir(path, 0o700))
		if os.Getuid() == 0 {
			check.OK(t, os.Chown(path, nobody, nobody))
		}
	}
	if file := strings.TrimPrefix(value("EnvironmentFile"), "-"); !strings.Contains(read(t, filepath.Join(root, file)), "TICKRING_FLAGS=") {
		t.Errorf("%s does not set TICKRING_FLAGS", file)
	}
	command := strings.Fields(strings.NewReplacer("/var/lib/", dir+"/", "$TICKRING_FLAGS", "--listen 127.0.0.1:0").Replace(value("ExecStart")))
	command[0] = filepath.Join(root, command[0])
	return command
}

func read(t *testing.T, path string) string {
	b, err := os.ReadFile(path)
	check.OK(t, err)
	return string(b)
}
