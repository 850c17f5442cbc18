// Package browser tests the console in a real Chromium: pages as users see, click and read them. It needs the Debian packages
// chromium, fonts-liberation and fonts-noto-cjk, and for axe checks the directory of axe-core in TICKRING_TEST_AXE. It uses only
// this machine's network.
package browser

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/test/harness"
)

var (
	pictureFlag = flag.String("pictures", "", "folder into which pictures of the pages go")
)

var (
	binary    string          // tickring
	chromium  context.Context // the parent of all tabs
	axeSource string          // empty without axe-core
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := start(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func start(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "browser")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	exe, err := exec.LookPath("chromium")
	if err != nil {
		return 0, fmt.Errorf("the Debian package chromium is needed: %w", err)
	}
	if axe := os.Getenv("TICKRING_TEST_AXE"); axe == "" {
		fmt.Println("== NOT CHECKED: what axe finds. TICKRING_TEST_AXE has to name the folder of axe-core ==")
	} else if source, err := os.ReadFile(filepath.Join(axe, "axe.min.js")); err != nil {
		return 0, err
	} else {
		axeSource = string(source)
	}
	if binary, err = harness.Build(dir); err != nil {
		return 0, err
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(exe), chromedp.UserDataDir(filepath.Join(dir, "profile")), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("no-proxy-server", true), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))...)
	defer stop()
	var cancel context.CancelFunc
	chromium, cancel = chromedp.NewContext(alloc, chromedp.WithErrorf(func(string, ...any) {}))
	defer cancel()
	if err := chromedp.Do(chromium); err != nil {
		return 0, fmt.Errorf("start chromium: %w", err)
	}
	code := m.Run()
	return code, nil
}

// pictures is where the pictures of a test go.
func pictures(tb testing.TB) string {
	if *pictureFlag == "" {
		return filepath.Join(os.TempDir(), "tickring-pictures")
	}
	dir, err := filepath.Abs(*pictureFlag)
	check.OK(tb, err)
	return dir
}
