//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package localexec

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownName is the name of the user of this process.
func ownName() (string, error) {
	u, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil {
		return "", fmt.Errorf("the user of this process has no name: %w", err)
	}
	return u.Username, nil
}

func accountOf(name string) (account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return account{}, fmt.Errorf("the user does not exist on this machine: %w", err)
	}
	a := account{name: u.Username, home: u.HomeDir}
	if a.uid, a.gid, err = ids(u.Uid, u.Gid); err != nil {
		return account{}, err
	}
	if a.other = int(a.uid) != os.Geteuid(); a.other && os.Geteuid() != 0 {
		return account{}, fmt.Errorf("only root can run commands as another user: this server runs as user %d", os.Geteuid())
	}
	groups, err := u.GroupIds()
	if err != nil {
		return account{}, fmt.Errorf("read the groups of the user: %w", err)
	}
	for _, g := range groups {
		id, _, err := ids(g, g)
		if err != nil {
			return account{}, err
		}
		a.groups = append(a.groups, id)
	}
	return a, nil
}

func ids(uid, gid string) (u, g uint32, err error) {
	x, err := strconv.ParseUint(uid, 10, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("expected the number of a user or group: %w", err)
	}
	y, err := strconv.ParseUint(gid, 10, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("expected the number of a user or group: %w", err)
	}
	return uint32(x), uint32(y), nil
}

// become has a program run as the account.
func (a *account) become(cmd *exec.Cmd) {
	if a.other {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid, Groups: a.groups}
	}
}

// signalOf is the signal that has ended a process, 0 if none has.
func signalOf(p *os.ProcessState) (n int, name string) {
	if w, is := p.Sys().(syscall.WaitStatus); is && w.Signaled() {
		return int(w.Signal()), unix.SignalName(w.Signal())
	}
	return 0, ""
}
