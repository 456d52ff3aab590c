package launch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// RaceBuild is set if binaries have the race detector, and thus use more memory and time.
var RaceBuild = os.Getenv("QUEUEGATE_RACE") == "1"

// root is the relative path from the directory of the running tests to the root of the
// gate's module. The directory of the tests is one or two levels below the directory
// test.
var root = findRoot()

func findRoot() string {
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "cmd", "queue")); err != nil {
		return filepath.Join("..", root)
	}
	return root
}

// GateBinary returns QUEUEGATE_BINARY, or builds the gate in dir.
func GateBinary(dir string) (path string, err error) {
	if path = os.Getenv("QUEUEGATE_BINARY"); path != "" {
		return path, nil
	}
	return Build(dir, "./cmd/queue")
}

// Build builds the package at this path in the module.
func Build(dir, path string) (binary string, err error) {
	for _, sources := range []string{path, "internal", "pkg"} {
		if err := readSources(filepath.Join(root, sources)); err != nil {
			return "", err
		}
	}
	binary = filepath.Join(dir, filepath.Base(path))
	tags, err := os.ReadFile(filepath.Join(root, path, "tags"))
	if err != nil && !os.IsNotExist(err) {
		return "", err
	}
	args := []string{"build", "-o", binary, "-tags", strings.TrimSpace(string(tags))}
	if RaceBuild {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, path)...)
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", path, err, text)
	}
	return binary, nil
}

// readSources opens all files in dir, which contains sources of a binary. The command
// go test may reuse an earlier result. It notices a change of a file only if the test
// itself has opened the file, but go build opens the sources in another process.
// Because of readSources, go test repeats the test after a change of the sources.
func readSources(dir string) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			_, err = os.ReadFile(path)
		}
		return err
	})
}

// RaiseFileLimit raises the descriptor limit of this process and its children, for ten
// thousand connections.
func RaiseFileLimit() error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	l.Cur = l.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("raising the limit of open files to %d: %w", l.Max, err)
	}
	return nil
}
