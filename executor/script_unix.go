//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package executor

import (
	"os/exec"
	"syscall"
)

// ownGroup starts the process in its own group, which is killed as a whole when its context ends.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithUs(cmd)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
