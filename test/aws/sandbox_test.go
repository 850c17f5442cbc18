package aws_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store/dynamo"
	"github.com/tickring/tickring/test/harness"
	"github.com/tickring/tickring/test/load"
)

// names of the functions, each a binary of its own.
var names = []string{"tick", "dispatch", "callback", "registry", "api"}

const adminToken = load.AdminToken // of the event documents

// binaries returns the directory of the functions, which it builds once.
var binaries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tickring-functions")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if err := harness.Function(harness.Root, "./functions/"+name, filepath.Join(dir, name), "-ldflags", "-s -w"); err != nil {
			return dir, err
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if built {
		if dir, _ := binaries(); dir != "" {
			os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

var built bool

func binary(tb testing.TB, name string) string {
	tb.Helper()
	built = true
	dir, err := binaries()
	check.OK(tb, err)
	return filepath.Join(dir, name)
}

type sandbox struct {
	*load.Sandbox
	name string
}

// newSandbox makes one for a function on these tables and queues.
func newSandbox(tb testing.TB, name string, n dynamo.Names) sandbox {
	tb.Helper()
	s := load.NewSandbox(binary(tb, name), filepath.Join(tb.TempDir(), name+".log"), place(tb), n)
	tb.Cleanup(func() {
		s.Close()
		if tb.Failed() {
			tb.Logf("%s:\n%s", name, s.Tail())
		}
	})
	return sandbox{s, name}
}

// place returns the addresses of the emulators.
func place(tb testing.TB) load.Place {
	tb.Helper()
	p, err := load.NewPlace(os.Getenv("TICKRING_TEST_DYNAMODB"), os.Getenv("TICKRING_TEST_SQS"))
	check.OK(tb, err)
	return p
}

// ok invokes and expects an answer that is no error.
func (s sandbox) ok(tb testing.TB, payload []byte) string {
	tb.Helper()
	body, fault, err := s.Invoke(payload, 30*time.Second)
	if err != nil || fault {
		tb.Fatalf("%s: %s, %v", s.name, body, err)
	}
	return string(body)
}

// document is an event of a function's testdata, with texts replaced.
func document(tb testing.TB, path string, replace ...string) []byte {
	tb.Helper()
	b, err := os.ReadFile("../../functions/" + path)
	check.OK(tb, err)
	return []byte(strings.NewReplacer(replace...).Replace(string(b)))
}

// fresh creates tables and queues for one test.
func fresh(tb testing.TB) dynamo.Names {
	tb.Helper()
	db, queues := clients(tb)
	n, err := load.CreateLocal(context.Background(), db, queues, fmt.Sprintf("t%d-%d", os.Getpid(), made.Add(1)))
	check.OK(tb, err)
	return n
}
