//go:build !darwin && !freebsd && !linux

package conns

// descriptors is how many this process may have: nobody says.
func descriptors() uint64 { return 0 }
