//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package wirehttp

import "syscall"

// canLook reports that quietSocket works on this platform.
const canLook = true

// quietSocket reports whether the socket is open and has no bytes to read. It does not block and consumes nothing.
func quietSocket(fd uintptr) bool {
	var b [1]byte
	for {
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch err {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return true
		}
		return false // bytes, the end, or an error
	}
}
