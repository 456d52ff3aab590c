package main

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
)

func TestVersionTellsVersionCommitAndGo(t *testing.T) {
	defer func(version, commit string) { buildVersion, buildCommit = version, commit }(buildVersion, buildCommit)
	buildVersion, buildCommit = "v1.2.3", "0123abc"
	want := "queue v1.2.3 (commit 0123abc, " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + ")\n"
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
