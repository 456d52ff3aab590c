package docs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// repository is the path of the copy of the repository in which the commands run.
var repository = os.Getenv(copyVariable)

// copyVariable is the environment variable that has the path of the copy.
const copyVariable = "DOCS_COPY"

// TestMain runs the tests in a new network namespace, because the commands on the pages
// use the gate's default ports. For this the program starts itself again. If a new
// namespace is not permitted, the tests run in the current namespace.
func TestMain(m *testing.M) {
	var code int
	var err error
	if repository == "" {
		code, err = outside(m)
	} else {
		code, err = inside(m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// outside copies the repository, and runs the commands that need the network, for example
// to fill the module cache. It then starts this program again in a new network namespace.
func outside(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "queuegate-docs-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	repository = filepath.Join(dir, "queuegate")
	if err := copyTree("../..", repository); err != nil {
		return 1, err
	}
	for _, command := range []string{"make share", "go build -C bench -o /dev/null ."} {
		build := exec.Command("sh", "-c", command)
		build.Dir, build.Env = repository, environment()
		if out, err := build.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("%s: %w\n%s", command, err, out)
		}
	}
	self := exec.Command(os.Args[0], os.Args[1:]...)
	self.Stdout, self.Stderr = os.Stdout, os.Stderr
	self.Env = append(os.Environ(), copyVariable+"="+repository)
	self.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if uid := os.Getuid(); uid != 0 {
		self.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		self.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
	}
	if err := self.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "no separate network namespace (%v): the ports of the pages must be free\n", err)
		return m.Run(), nil
	}
	err = self.Wait()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return failed.ExitCode(), nil
	}
	return 0, err
}

// inside brings up the loopback interface of a new namespace.
func inside(m *testing.M) (int, error) {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 1, err
	}
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return 1, err
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := errors.Join(unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, up), unix.Close(s)); err != nil {
		return 1, fmt.Errorf("starting the loopback: %w", err)
	}
	return m.Run(), nil
}

// environment returns the environment variables of a user's terminal, without settings of
// the gate. The only exception is DRAIN_QUIET_SECONDS=0: without a quiet period, Ctrl-C
// ends the gate at once.
func environment() []string {
	list := []string{"DRAIN_QUIET_SECONDS=0"}
	for _, name := range []string{"HOME", "USER", "LANG", "TMPDIR", "GOPATH", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GOTOOLCHAIN", "GOROOT", "XDG_CACHE_HOME"} {
		if value, ok := os.LookupEnv(name); ok {
			list = append(list, name+"="+value)
		}
	}
	return append(list, "GOFLAGS=-buildvcs=false", "PATH="+filepath.Join(repository, "bin")+":"+os.Getenv("PATH"))
}

// copyTree copies the files of a fresh clone.
func copyTree(src, dst string) error {
	return filepath.WalkDir(src, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		if name == ".git" { // .git is a file in a linked worktree
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if entry.IsDir() {
			if name == "bin" || name == "bench/out" || strings.HasSuffix(name, "node_modules") {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(dst, name), 0o755)
		}
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dst, name), text, info.Mode().Perm())
	})
}
