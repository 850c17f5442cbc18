package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// hideEnvironment keeps the tokens in the environment of this process from the programs
// that it starts, which are of its user: they cannot read it under /proc.
func hideEnvironment() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // if this fails, they can
}

// firstProcess reports whether this process is the first of a container. Orphans in the container become its children, and stay
// zombies unless it waits for them.
func firstProcess() bool { return os.Getpid() == 1 }

// reap runs a program as a child, forwards the signals that end it, and waits for all children, including adopted orphans, until
// the program has ended. It returns the program's exit code. The program has its own process group, so a signal from the terminal
// does not reach both.
func reap(path string, args []string) (code int, err error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	//nolint:gosec // the program is this one
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setpgid: true}})
	if err != nil {
		return 0, fmt.Errorf("start %s as a child of the first process: %w", path, err)
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			select {
			case s := <-signals:
				_ = syscall.Kill(pid, s.(syscall.Signal)) // it may have ended just now
			case <-over:
				return
			}
		}
	}()
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for children: %w", err)
		case got != pid:
		case status.Exited():
			return status.ExitStatus(), nil
		case status.Signaled():
			return 128 + int(status.Signal()), nil
		}
	}
}
