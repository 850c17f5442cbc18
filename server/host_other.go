//go:build !darwin && !freebsd && !linux

package server

import "errors"

// freeBytes is not known on this system.
func freeBytes(string) (int64, error) { return 0, errors.ErrUnsupported }

// descriptors is how many this process may have: nobody says.
func descriptors() uint64 { return 0 }
