package main

import (
	"runtime/debug"
	"strings"
)

// release and commit are set by the linker in packages and images: -X main.release=1.2.3
// -X main.commit=HASH. An empty commit means that the build information has it.
var (
	release = "0.1"
	commit  = ""
)

// version is the release, with the commit it was built from where the build
// knows it.
func version() string {
	if commit != "" {
		return release + " (" + commit[:min(len(commit), 12)] + ")"
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	var commit, changed string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = ", changed"
		}
	}
	// A module that was installed by its version has no revision, but a pseudo-version ends with one.
	if parts := strings.Split(info.Main.Version, "-"); commit == "" && len(parts) > 1 && len(parts[len(parts)-1]) == 12 {
		commit = parts[len(parts)-1]
	}
	if commit == "" {
		return release
	}
	return release + " (" + commit + changed + ")"
}

type versionCmd struct{}

func (c *versionCmd) Run(e *Env) error {
	return e.show(map[string]string{"version": version()}, nil, func() {
		e.printf("tickring %s\n", version())
	})
}
