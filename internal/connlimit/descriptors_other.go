//go:build !darwin && !freebsd && !linux

package connlimit

// descriptors is 0: this system does not report a limit.
func descriptors() uint64 { return 0 }
