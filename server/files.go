package server

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// ReadableByOthers reports whether users other than the owner may read or write a file.
func ReadableByOthers(info os.FileInfo) bool {
	return runtime.GOOS != "windows" && // its permissions are not in the mode bits
		info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0
}

// wideFiles are the files of a folder that others than their owner may use.
func wideFiles(dir string) (wide []string) {
	entries, _ := os.ReadDir(dir) // readers of the directory report this error
	for _, e := range entries {
		if info, err := e.Info(); err == nil && ReadableByOthers(info) {
			wide = append(wide, filepath.Join(dir, e.Name()))
		}
	}
	return wide
}

// ownFiles restricts a restored database to its owner, like a new one, and logs the files in the data directory that other users
// can access.
func (s *Server) ownFiles() {
	if s.o.Restored {
		db := filepath.Join(s.o.Dir, "tickring.db")
		if info, err := os.Lstat(db); err == nil && info.Mode().IsRegular() { // a link may lead to another's file
			_ = os.Chmod(db, 0o600) // if it fails, the warning below names the file
		}
	}
	if wide := wideFiles(s.o.Dir); len(wide) > 0 {
		s.log.Warn("other users of this machine can read or change these files, which contain tokens and params", "files", wide,
			"do", "chmod go= "+strings.Join(wide, " "))
	}
}
