package server

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Wide reports whether others than its owner may use a file.
func Wide(info os.FileInfo) bool {
	return runtime.GOOS != "windows" && // its rights are no bits
		info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0
}

// wideFiles are the files of a folder that others than their owner may use.
func wideFiles(dir string) (wide []string) {
	entries, _ := os.ReadDir(dir) // what cannot be read is said by who needs it
	for _, e := range entries {
		if info, err := e.Info(); err == nil && Wide(info) {
			wide = append(wide, filepath.Join(dir, e.Name()))
		}
	}
	return wide
}

// ownFiles has a restored database be its owner's alone, as one is that is made here,
// and says which files in the data folder are not.
func (s *Server) ownFiles() {
	if s.o.Restored {
		db := filepath.Join(s.o.Dir, "tickring.db")
		if info, err := os.Lstat(db); err == nil && info.Mode().IsRegular() { // a link may lead to another's file
			_ = os.Chmod(db, 0o600) // where it cannot be, that is said
		}
	}
	if wide := wideFiles(s.o.Dir); len(wide) > 0 {
		s.log.Warn("others on this machine may read or change these files, which hold tokens and params", "files", wide,
			"do", "chmod go= "+strings.Join(wide, " "))
	}
}
