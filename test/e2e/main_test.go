package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Paths of the binaries under test, set by TestMain.
var queueBinary, containerBinary string

// raceBuild tells that the binaries carry the race detector, whose memory is
// not the gate's.
var raceBuild = os.Getenv("QUEUEGATE_RACE") == "1"

func TestMain(m *testing.M) {
	if mode := os.Getenv(applicationMode); mode != "" {
		os.Exit(beApplication(mode))
	}
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (int, error) {
	if err := raiseFileLimit(); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "e2e")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if containerBinary, err = build(dir, "./test/e2e/container"); err != nil {
		return 0, err
	}
	if queueBinary = os.Getenv("QUEUEGATE_BINARY"); queueBinary == "" {
		if queueBinary, err = build(dir, "./cmd/queue"); err != nil {
			return 0, err
		}
	}
	return m.Run(), nil
}

// raiseFileLimit makes room for ten thousand connections, here and in the
// processes started from here.
func raiseFileLimit() error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	l.Cur = l.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("raising the limit of open files to %d: %w", l.Max, err)
	}
	return nil
}

// build compiles the package at this path from the root of the module.
func build(dir, path string) (string, error) {
	out := filepath.Join(dir, filepath.Base(path))
	args := []string{"build", "-o", out}
	if raceBuild {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, path)...)
	cmd.Dir = filepath.Join("..", "..")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", path, err, text)
	}
	return out, nil
}
