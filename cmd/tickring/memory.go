package main

import (
	"io/fs"
	"math"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// limitMemory sets the memory limit of the Go runtime to 90 percent of the limit of the cgroup, so
// that garbage is collected before the kernel kills the process. GOMEMLIMIT takes precedence.
func limitMemory(root fs.FS, env func(string) string) {
	if limit := cgroupLimit(root); env("GOMEMLIMIT") == "" && limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
}

// cgroupLimit returns the least memory limit of this process's cgroups (v2 and v1) and of those
// above them, in bytes; math.MaxInt64 without a limit. A container sees its own cgroup as the root.
func cgroupLimit(root fs.FS) int64 {
	least := int64(math.MaxInt64)
	lines, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(lines)) { // 0::/a/b, or 4:memory:/a/b
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 || parts[1] != "" && parts[1] != "memory" {
			continue
		}
		base, file := "sys/fs/cgroup", "memory.max"
		if parts[1] != "" {
			base, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		for at := path.Join("/", parts[2]); ; at = path.Dir(at) {
			text, _ := fs.ReadFile(root, path.Join(base, at, file))
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 { // else "max"
				least = min(least, n)
			}
			if at == "/" {
				break
			}
		}
	}
	return least
}
