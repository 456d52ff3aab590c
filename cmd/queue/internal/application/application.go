// Package application runs the application that `queue -- COMMAND` starts behind
// the gate: a process in a group of its own, which ends with the gate.
package application

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit codes of an application that cannot be started, as shells have them.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // plus the signal
)

// Process is the process that the gate has started behind itself. Its methods
// but Code and PID may be called on nil, which is a gate without one.
type Process struct {
	pid   int
	ended chan struct{} // closed when it has ended and code is there
	code  int
	asked sync.Once // to end
}

// Start starts a command with PORT=port and without the variables that are the
// gate's own, in a process group of its own: what Ctrl-C sends to the group in
// the foreground is for the gate alone, which decides when to pass it on. From
// then on all children of this process are waited for here.
func Start(command []string, port int, own ...string) (*Process, error) {
	path, err := lookPath(command[0])
	if err != nil {
		return nil, err
	}
	// A child inherits what is ignored, and this process ignores SIGPIPE. What
	// is caught has its default there, and is dropped here.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	stdin, err := inputFile()
	if err != nil {
		return nil, err
	}
	a := &Process{ended: make(chan struct{})}
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	started := make(chan error, 1)
	go func() {
		// The kernel ends the application with the thread that has started it:
		// this one lives as long as the gate.
		runtime.LockOSThread()
		a.pid, err = syscall.ForkExec(path, command, &syscall.ProcAttr{
			Env:   environment(os.Environ(), port, own),
			Files: []uintptr{stdin.Fd(), os.Stdout.Fd(), os.Stderr.Fd()},
			Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM},
		})
		started <- err
		if err == nil {
			a.reap(children)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", path, err)
	}
	return a, nil
}

// inputFile is this process's, but for a terminal: an application in the
// background that reads it would be stopped.
func inputFile() (*os.File, error) {
	if _, err := unix.IoctlGetTermios(0, unix.TCGETS); err == nil {
		return os.Open(os.DevNull)
	}
	return os.Stdin, nil
}

// environment is that of the gate with PORT, and without what is the gate's own.
func environment(all []string, port int, own []string) []string {
	var rest []string
	for _, pair := range all {
		if name, _, _ := strings.Cut(pair, "="); name != "PORT" && !slices.Contains(own, name) {
			rest = append(rest, pair)
		}
	}
	return append(rest, "PORT="+strconv.Itoa(port))
}

// lookPath finds an executable as a shell does.
func lookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	for dir := range strings.SplitSeq(os.Getenv("PATH"), ":") {
		if path := filepath.Join(dir, name); dir != "" && executable(path) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: not found in PATH: %w", name, fs.ErrNotExist)
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() || unix.Access(path, unix.X_OK) != nil {
		return fmt.Errorf("%s: not an executable file: %w", path, fs.ErrPermission)
	}
	return nil
}

// StartCode is the exit code for an application that could not be started, as
// shells have it: 127 where there is none, 126 where it cannot be executed.
func StartCode(err error) int {
	if errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitNotExecutable
}

// reap takes leave of children that have ended: the application, and as the
// first process of a container those that others have left behind.
func (a *Process) reap(children <-chan os.Signal) {
	for range children {
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if err == syscall.EINTR {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
			if pid != a.pid {
				continue
			}
			if a.code = status.ExitStatus(); status.Signaled() {
				a.code = exitSignal + int(status.Signal())
			}
			close(a.ended)
		}
	}
}

// PID is its process.
func (a *Process) PID() int { return a.pid }

// Code is its exit code once it has ended, 128 and the signal if that ended it.
func (a *Process) Code() int { return a.code }

// Ended is closed when the application has ended; nil without one.
func (a *Process) Ended() <-chan struct{} {
	if a == nil {
		return nil
	}
	return a.ended
}

// Signal passes a signal on.
func (a *Process) Signal(s os.Signal) {
	if a == nil {
		return
	}
	select {
	case <-a.ended: // the pid may be another's
	default:
		_ = syscall.Kill(a.pid, s.(syscall.Signal))
	}
}

// Stop asks the application to end. Only the first call counts.
func (a *Process) Stop(s os.Signal) {
	if a != nil {
		a.asked.Do(func() { a.Signal(s) })
	}
}

// Kill ends what is left of the application and of its process group.
func (a *Process) Kill() {
	if a != nil {
		_ = syscall.Kill(-a.pid, syscall.SIGKILL)
	}
}
