//go:build unix

package load

import (
	"os"
	"syscall"
)

// freeze stops a process with all its goroutines, as Lambda does with a function between two invocations. (Lambda developer
// guide, "Understanding the Lambda execution environment lifecycle".)
func freeze(p *os.Process) { _ = p.Signal(syscall.SIGSTOP) } // it may be gone

func thaw(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }
