package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Binaries that TestMain builds into one directory.
var (
	queue    string // the gate
	queuectl string
)

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "queuectl")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	queue, queuectl = filepath.Join(dir, "queue"), filepath.Join(dir, "queuectl")
	for binary, source := range map[string]string{queue: "../../cmd/queue", queuectl: "."} {
		build := exec.Command("go", "build", "-buildvcs=false", "-o", binary, ".")
		build.Dir = source
		if text, err := build.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("building %s: %w\n%s", binary, err, text)
		}
	}
	return m.Run(), nil
}
