//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package localexec

import (
	"errors"
	"os"
	"os/exec"
)

var errUnix = errors.New("commands run on Linux, macOS and the BSDs: here tickring exec runs programs, as the handlers of an executor")

func ownName() (string, error) { return "", errUnix }

func accountOf(string) (account, error) { return account{}, errUnix }

func (*account) become(*exec.Cmd) {}

func signalOf(*os.ProcessState) (int, string) { return 0, "" }
