//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package localexec

import (
	"errors"
	"os"
	"os/exec"
)

var errUnix = errors.New("commands require Linux, macOS or a BSD: on this platform, use tickring exec to run programs as handlers of an " +
	"executor")

func ownName() (string, error) { return "", errUnix }

func accountOf(string) (account, error) { return account{}, errUnix }

func (*account) become(*exec.Cmd) {}

func signalOf(*os.ProcessState) (int, string) { return 0, "" }
