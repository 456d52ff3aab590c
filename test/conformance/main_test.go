package conformance

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// queueBinary is the gate under judgement, set by TestMain.
var queueBinary string

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (int, error) {
	// The cases wait far more than they work.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		return 0, err
	}
	if queueBinary = os.Getenv("QUEUEGATE_BINARY"); queueBinary != "" {
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	queueBinary = filepath.Join(dir, "queue")
	build := exec.Command("go", "build", "-o", queueBinary, "./cmd/queue")
	build.Dir = filepath.Join("..", "..")
	if text, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building cmd/queue: %w\n%s", err, text)
	}
	return m.Run(), nil
}
