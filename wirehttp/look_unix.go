//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package wirehttp

import "syscall"

// canLook says that quietSocket works here.
const canLook = true

// quietSocket says that the socket is open and holds no bytes to read. It does
// not block and takes nothing.
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
