package e2e_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
)

// TestDownWaits: a stopped emulator has written its state when the script ends, even if its exit status is never read.
func TestDownWaits(t *testing.T) {
	state := t.TempDir()
	kept := filepath.Join(state, "kept")
	emulator := exec.CommandContext(t.Context(), "sh", "-c",
		`trap 'sleep 1; echo all >"$0"; exit' TERM; echo up; while :; do sleep 0.1; done`, kept)
	out, err := emulator.StdoutPipe()
	check.OK(t, err)
	check.OK(t, emulator.Start())
	defer func() { _ = emulator.Wait() }()
	check.Call(t)(bufio.NewReader(out).ReadString('\n'))
	pid := filepath.Join(state, "ministack.pid")
	check.OK(t, os.WriteFile(pid, fmt.Append(nil, emulator.Process.Pid, "\n"), 0o600))
	down := exec.CommandContext(t.Context(), "../../localstack/down")
	down.Env = append(os.Environ(), "TICKRING_STATE="+state, "TICKRING_EMULATOR=ministack")
	if b, err := down.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("down is done before the emulator is: %v", err)
	}
	if _, err := os.Stat(pid); err == nil {
		t.Error("it is written down as running")
	}
}
