package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/queuegate/queuegate/pkg/metrics"
)

// The linker sets these: -ldflags "-X main.buildVersion=v1.2.3 -X
// main.buildCommit=0123abc". Otherwise the version recorded by the Go command is shown.
var (
	buildVersion string
	buildCommit  string
)

// writeVersion prints the line of --version.
func writeVersion(w io.Writer) error {
	b := build()
	_, err := fmt.Fprintf(w, "queue %s (commit %s, %s %s/%s)\n", b.Version, b.Commit, b.GoVersion, runtime.GOOS, runtime.GOARCH)
	return err
}

func build() metrics.Build {
	b := metrics.Build{Version: buildVersion, Commit: buildCommit, GoVersion: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = cmp.Or(b.Version, info.Main.Version)
		b.Commit = cmp.Or(b.Commit, recordedCommit(info))
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "development"
	}
	b.Commit = cmp.Or(b.Commit, "unknown")
	return b
}

func recordedCommit(info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	if commit != "" && settings["vcs.modified"] == "true" {
		commit += "+modified"
	}
	return commit
}
