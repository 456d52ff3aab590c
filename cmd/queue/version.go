package main

import (
	"cmp"
	"crypto/fips140"
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
	_, err := fmt.Fprintf(w, "queue %s (commit %s, %s %s/%s%s)\n", b.Version, b.Commit, b.GoVersion, runtime.GOOS, runtime.GOARCH,
		fipsNote(recordedSettings()["GOFIPS140"], fips140.Enabled()))
	return err
}

// fipsNote returns the part of the version line that describes FIPS 140-3. The parameter
// module is the build setting GOFIPS140: if it names a frozen version of the Go
// Cryptographic Module, the text contains this version. The text also says whether
// FIPS 140-3 mode is on. It is empty without a frozen version and without the mode.
func fipsNote(module string, enabled bool) string {
	isFrozen := module != "" && module != "off" && module != "latest"
	switch {
	case isFrozen && enabled:
		return ", FIPS 140-3 module " + module
	case isFrozen:
		return ", FIPS 140-3 module " + module + " turned off by GODEBUG"
	case enabled:
		return ", FIPS 140-3 mode with a module that is not validated"
	}
	return ""
}

func build() metrics.Build {
	b := metrics.Build{Version: buildVersion, Commit: buildCommit, GoVersion: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = cmp.Or(b.Version, info.Main.Version)
	}
	b.Commit = cmp.Or(b.Commit, recordedCommit(recordedSettings()))
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "development"
	}
	b.Commit = cmp.Or(b.Commit, "unknown")
	return b
}

func recordedSettings() map[string]string {
	settings := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
	}
	return settings
}

func recordedCommit(settings map[string]string) string {
	commit := settings["vcs.revision"]
	if commit != "" && settings["vcs.modified"] == "true" {
		commit += "+modified"
	}
	return commit
}
