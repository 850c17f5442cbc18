//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package executor

import "os/exec"

// ownGroup does nothing here: the process is killed alone.
func ownGroup(*exec.Cmd) {}

// groupOf knows no groups here: a program outlives a process that is killed.
func groupOf(int) (group, bool) { return group{}, false }

func (group) kill() bool { return false }
