package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// queue is the gate's binary, built by TestMain.
var queue string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "queuectl")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	queue = filepath.Join(dir, "queue")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", queue, "./cmd/queue")
	build.Dir = "../.."
	code := 1
	if text, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the gate: %v\n%s", err, text)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
