//go:build darwin || freebsd || linux

package server

import "golang.org/x/sys/unix"

// freeBytes is the room that is left for this user on the disk of a folder.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert // the types differ between systems
}
