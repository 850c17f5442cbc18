//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package executor

import (
	"os/exec"
	"syscall"
)

// ownGroup gives the process a group of its own, all of which is killed when
// its context ends.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithUs(cmd)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
