package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
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

// application is the process that the gate has started behind itself. Its
// methods may be called on nil, which is a gate without one.
type application struct {
	pid   int
	ended chan struct{} // closed when it has ended and code is there
	code  int
	asked sync.Once // to end
}

// startApplication starts a command with PORT=port, in a process group of its
// own: what Ctrl-C sends to the group in the foreground is for the gate alone,
// which decides when to pass it on.
func startApplication(command []string, port int) (*application, error) {
	path, err := lookPath(command[0])
	if err != nil {
		return nil, err
	}
	// A child inherits what is ignored, and this process ignores SIGPIPE. What
	// is caught has its default there, and is dropped here.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	stdin, err := applicationStdin()
	if err != nil {
		return nil, err
	}
	a := &application{ended: make(chan struct{})}
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	started := make(chan error, 1)
	go func() {
		// The kernel ends the application with the thread that has started it:
		// this one lives as long as the gate.
		runtime.LockOSThread()
		a.pid, err = syscall.ForkExec(path, command, &syscall.ProcAttr{
			Env:   applicationEnvironment(os.Environ(), port),
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

// applicationStdin is this process's, but for a terminal: an application in the
// background that reads it would be stopped.
func applicationStdin() (*os.File, error) {
	if _, err := unix.IoctlGetTermios(0, unix.TCGETS); err == nil {
		return os.Open(os.DevNull)
	}
	return os.Stdin, nil
}

// applicationEnvironment is that of the gate with PORT, and without systemd's
// socket, which is the gate's.
func applicationEnvironment(environment []string, port int) []string {
	var own []string
	for _, pair := range environment {
		if name, _, _ := strings.Cut(pair, "="); name != "PORT" && name != notifySocket {
			own = append(own, pair)
		}
	}
	return append(own, "PORT="+strconv.Itoa(port))
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

// startCode is the exit code for an application that could not be started.
func startCode(err error) int {
	if errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitNotExecutable
}

// reap takes leave of children that have ended: the application, and as the
// first process of a container those that others have left behind.
func (a *application) reap(children <-chan os.Signal) {
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

// end is closed when the application has ended.
func (a *application) end() <-chan struct{} {
	if a == nil {
		return nil
	}
	return a.ended
}

// signal passes a signal on.
func (a *application) signal(s os.Signal) {
	if a == nil {
		return
	}
	select {
	case <-a.ended: // the pid may be another's
	default:
		_ = syscall.Kill(a.pid, s.(syscall.Signal))
	}
}

// stop asks the application to end. Only the first call counts.
func (a *application) stop(s os.Signal) {
	if a != nil {
		a.asked.Do(func() { a.signal(s) })
	}
}

// kill ends what is left of the application and of its process group.
func (a *application) kill() {
	if a != nil {
		_ = syscall.Kill(-a.pid, syscall.SIGKILL)
	}
}
