//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package executor

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dieWithUs does nothing: only Linux can have a process die with another.
func dieWithUs(*exec.Cmd) {}

// began returns when a process started, to the second; empty if it does not exist.
func began(pid int) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ps", "-o", "stat=", "-o", "lstart=", "-p", strconv.Itoa(pid))
	cmd.Env = []string{"PATH=/bin:/usr/bin", "LC_ALL=C", "TZ=UTC"}
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	f := strings.Fields(string(out))
	if len(f) < 2 || f[0][0] == 'Z' {
		return ""
	}
	return strings.Join(f[1:], " ")
}

// groupOf is the group that a process that was just started leads.
func groupOf(pid int) (group, bool) {
	mark := began(pid)
	return group{Pid: pid, Mark: mark}, mark != ""
}

// kill kills the group. It returns false if the group's first process is gone: only that process distinguishes the group
// from foreign processes.
func (g group) kill() bool {
	if began(g.Pid) != g.Mark {
		return false
	}
	_ = syscall.Kill(-g.Pid, syscall.SIGKILL) // endGroups checks whether they ended
	return true
}
