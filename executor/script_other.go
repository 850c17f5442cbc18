//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package executor

import "os/exec"

// ownGroup does nothing on this system: only the process itself is killed.
func ownGroup(*exec.Cmd) {}

// groupOf returns no group on this system: a program survives a killed executor.
func groupOf(int) (group, bool) { return group{}, false }

func (group) kill() bool { return false }
