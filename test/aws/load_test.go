package aws_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/test/load"
)

var (
	loadFires = flag.Int("load.fires", 1000, "how many fires TestLoad asks for, about")
	loadKills = flag.Duration("load.kill", 1500*time.Millisecond,
		"how long between two kills of a dispatching process, on average; 0: none")
)

func loaded(t *testing.T, o load.Options) {
	clients(t)
	o.Place, o.Functions, o.Dir, o.Log = place(t), filepath.Dir(binary(t, "tick")), t.TempDir(), t.Logf
	o.Prefix = fmt.Sprintf("l%d-%d", os.Getpid(), made.Add(1))
	r, err := load.Run(t.Context(), o)
	check.OK(t, err)
	for _, f := range r.Faults {
		t.Error(f)
	}
	r.Print(t.Output())
}

// TestLoad: whenever a process of dispatch dies, no run is lost or early, and only runs that the process held when it died are sent
// twice.
func TestLoad(t *testing.T) {
	loaded(t, load.Options{Fires: *loadFires, Kill: *loadKills})
}

// TestLoadInAnAccount: the same where requests are throttled, slow and cut, batches are done in part, transactions are cancelled,
// pages and receipts are short, and messages come twice or are spent by pollers that are throttled.
func TestLoadInAnAccount(t *testing.T) {
	loaded(t, load.Options{Fires: 600, Kill: 1500 * time.Millisecond, Account: fakeaws.Account{
		Throttled: 0.02, Dropped: 0.01, Lost: 0.01, Refused: 0.1, Slow: 0.05, SlowFor: time.Second, Conflict: 0.1, Short: 0.2, Twice: 0.05,
		Spent: 0.02,
	}})
}
