package main

import (
	"bytes"
	"crypto/fips140"
	"runtime"
	"strings"
	"testing"
)

func TestVersionPrintsVersionCommitAndGo(t *testing.T) {
	defer func(version, commit string) { buildVersion, buildCommit = version, commit }(buildVersion, buildCommit)
	buildVersion, buildCommit = "v1.2.3", "0123abc"
	want := "queue v1.2.3 (commit 0123abc, " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + fipsNote(recordedSettings()["GOFIPS140"], fips140.Enabled()) + ")\n"
	var out bytes.Buffer
	if err := writeVersion(&out); err != nil || out.String() != want {
		t.Errorf("got %q, %v; want %q", out.String(), err, want)
	}
	buildVersion, buildCommit = "", ""
	out.Reset()
	if err := writeVersion(&out); err != nil || !strings.Contains(out.String(), runtime.Version()) || strings.Contains(out.String(), "(commit ,") {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func TestVersionPrintsTheFIPSModuleAndMode(t *testing.T) {
	for _, c := range []struct {
		module  string
		enabled bool
		want    string
	}{
		{"", false, ""},
		{"off", false, ""},
		{"latest", false, ""},
		{"v1.0.0-c2097c7c", true, ", FIPS 140-3 module v1.0.0-c2097c7c"},
		{"v1.0.0-c2097c7c", false, ", FIPS 140-3 module v1.0.0-c2097c7c turned off by GODEBUG"},
		{"", true, ", FIPS 140-3 mode with a module that is not validated"},
		{"latest", true, ", FIPS 140-3 mode with a module that is not validated"},
	} {
		if got := fipsNote(c.module, c.enabled); got != c.want {
			t.Errorf("module %q, enabled %v: %q, want %q", c.module, c.enabled, got, c.want)
		}
	}
}
