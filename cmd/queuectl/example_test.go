package main

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write examples/kubernetes/after.yaml")

// The example of docs/queuectl.md: injecting before.yaml gives after.yaml, and
// uninjecting after.yaml gives before.yaml.
func TestTheExampleEqualsTheOutputOfInject(t *testing.T) {
	const beforePath, afterPath = "../../examples/kubernetes/before.yaml", "../../examples/kubernetes/after.yaml"
	code, got, stderr := ctl(t, "", "inject", "-f", beforePath, "--services", "--image", "registry.example/queuegate:dev", "--concurrency", "10")
	if code != 0 || stderr != "" {
		t.Fatalf("code %d, %s", code, stderr)
	}
	if *update {
		if err := os.WriteFile(afterPath, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if read(afterPath) != got {
		t.Errorf("%s is not what inject makes of %s; run: go test -run Example . -update", afterPath, beforePath)
	}
	if code, back, stderr := ctl(t, "", "uninject", "-f", afterPath); code != 0 || back != read(beforePath) {
		t.Errorf("code %d, %s\n%s", code, stderr, back)
	}
	if code, out, stderr := ctl(t, "", "doctor", "--strict", "-f", afterPath); code != 0 {
		t.Errorf("doctor: code %d, %s%s", code, out, stderr)
	}
}
