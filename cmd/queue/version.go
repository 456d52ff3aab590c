package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// The linker sets these: -ldflags "-X main.buildVersion=v1.2.3 -X main.buildCommit=0123abc". Without it, what the Go command
// recorded is shown.
var (
	buildVersion string
	buildCommit  string
)

// WriteVersion prints the line of --version.
func WriteVersion(w io.Writer) error {
	version, commit := buildIdentity()
	_, err := fmt.Fprintf(w, "queue %s (commit %s, %s %s/%s)\n", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

func buildIdentity() (version, commit string) {
	version, commit = buildVersion, buildCommit
	if info, ok := debug.ReadBuildInfo(); ok {
		if version == "" {
			version = info.Main.Version
		}
		if commit == "" {
			commit = recordedCommit(info)
		}
	}
	if version == "" || version == "(devel)" {
		version = "development"
	}
	if commit == "" {
		commit = "unknown"
	}
	return version, commit
}

func recordedCommit(info *debug.BuildInfo) string {
	commit, modified := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				modified = "+modified"
			}
		}
	}
	if commit == "" {
		return ""
	}
	return commit + modified
}
