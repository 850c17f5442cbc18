//go:build darwin || freebsd || linux

package connlimit

import "syscall"

// descriptors returns how many this process may have; 0: unknown.
func descriptors() uint64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return uint64(l.Cur) //nolint:unconvert // the types differ between systems
}
