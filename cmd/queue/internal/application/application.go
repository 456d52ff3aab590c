// Package application runs the application of `queue -- COMMAND` in its own process
// group. The application and its descendants end with the gate.
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
	"time"

	"golang.org/x/sys/unix"
)

// Exit codes of an application that cannot be started, as in shells.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // plus the signal number
)

// Process is the started process and its process group. Exited, GroupExited, Signal, Stop
// and Kill may be called on nil, for a gate without an application.
type Process struct {
	pid           int // PID of the process, and ID of its process group
	starter       *starter
	freezer       *Freezer      // nil: it is never frozen
	terminal      *terminal     // nil: no job control
	exited        chan struct{} // closed when the process has ended; code is set before
	groupExited   chan struct{} // closed when no process of the group is left
	code          int
	exitText      string    // how it has ended
	isInterrupted bool      // result of IsInterrupted
	stopOnce      sync.Once // the first call of Stop sends the signal

	// mu guards hasGroupExited and hasExited, and is held while a signal is sent. After
	// the process has ended, the kernel may give its PID to another process, which must
	// not get the signal. The same applies to the ID of the group.
	mu             sync.Mutex
	hasGroupExited bool // all processes of the group have ended, so do not signal the group
	hasExited      bool // the process has ended, so do not signal it
}

// Start starts the command in a new process group, so that Ctrl-C reaches only the gate.
// The command inherits the gate's environment with PORT=port, but without the variables
// that are named in excluded. The gate becomes a subreaper (prctl(2)), so that the kernel
// makes it the parent of orphaned descendants. The parameter freezer may be nil.
func Start(command []string, port int, freezer *Freezer, excluded ...string) (*Process, error) {
	path, err := lookPath(command[0])
	if err != nil {
		return nil, err
	}
	// Catch SIGPIPE and discard it. If it was ignored, a child would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	stdin, term, err := input()
	if err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("becoming the parent of orphaned descendants: %w", err)
	}
	s := &starter{
		path: path, command: command, environment: environment(os.Environ(), port, excluded), stdin: stdin, terminal: term, freezer: freezer,
		children: make(chan os.Signal, 1), requests: make(chan chan<- started),
	}
	signal.Notify(s.children, syscall.SIGCHLD)
	go s.run()
	return s.start()
}

// starter starts the application and waits for all children of the gate.
type starter struct {
	path        string
	command     []string
	environment []string
	stdin       *os.File
	terminal    *terminal
	freezer     *Freezer
	children    chan os.Signal
	requests    chan chan<- started
}

// started is the result of a start.
type started struct {
	process *Process
	err     error
}

// run locks its thread forever, because the kernel sends Pdeathsig when the forking
// thread ends.
func (s *starter) run() {
	runtime.LockOSThread()
	a := new(Process) // before the first start
	for {
		select {
		case <-s.children:
			a.reap()
		case reply := <-s.requests:
			next, err := s.fork()
			if err == nil {
				a = next
			}
			reply <- started{next, err}
		}
	}
}

func (s *starter) start() (*Process, error) {
	reply := make(chan started, 1)
	s.requests <- reply
	r := <-reply
	return r.process, r.err
}

func (s *starter) fork() (*Process, error) {
	atEnd := syscall.SIGTERM // Pdeathsig, sent if the gate is killed
	if s.freezer != nil {
		atEnd = syscall.SIGKILL // a frozen process does not handle other signals
	}
	s.terminal.beforeFork()
	pid, err := s.freezer.fork(func() (int, error) {
		return syscall.ForkExec(s.path, s.command, &syscall.ProcAttr{
			Env:   s.environment,
			Files: []uintptr{s.stdin.Fd(), os.Stdout.Fd(), os.Stderr.Fd()},
			Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: atEnd},
		})
	})
	s.terminal.afterFork()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", s.path, err)
	}
	s.terminal.begin(pid)
	return &Process{pid: pid, starter: s, freezer: s.freezer, terminal: s.terminal, exited: make(chan struct{}), groupExited: make(chan struct{})}, nil
}

// Restart starts the command again and returns a new Process. The receiver continues to
// describe the previous process. Call Restart after the channel of GroupExited has been
// closed. It returns an error if another process listens on port.
func (a *Process) Restart(port int) (*Process, error) {
	if isListening(port) {
		if err := CheckFree(port); err != nil {
			return nil, err
		}
	}
	return a.starter.start()
}

// isListening reports whether an attempt to bind port fails. The usual reason is that a
// process listens on port. CheckFree is slower, but exact.
func isListening(port int) bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	return unix.Bind(fd, &unix.SockaddrInet4{Port: port}) != nil
}

// environment returns the variables of the slice all, except for those named in the slice
// excluded, and sets PORT to port.
func environment(all []string, port int, excluded []string) []string {
	var rest []string
	for _, pair := range all {
		if name, _, _ := strings.Cut(pair, "="); name != "PORT" && !slices.Contains(excluded, name) {
			rest = append(rest, pair)
		}
	}
	return append(rest, "PORT="+strconv.Itoa(port))
}

// lookPath finds an executable as shells do.
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

// StartCode returns the exit code of shells for a start error: 127 if the command was
// not found, otherwise 126.
func StartCode(err error) int {
	if errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitNotExecutable
}

// reap waits for the children that have ended: the application and adopted descendants.
func (a *Process) reap() {
	options := syscall.WNOHANG
	if a.terminal != nil {
		options |= syscall.WUNTRACED
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, options, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			break
		}
		switch {
		case pid == a.pid && status.Stopped():
			a.terminal.stopped(status.StopSignal())
		case pid == a.pid:
			a.end(status)
		}
	}
	a.noteGroup()
}

func (a *Process) end(status syscall.WaitStatus) {
	a.code = status.ExitStatus()
	a.exitText = fmt.Sprintf("exit code %d", a.code)
	if status.Signaled() {
		a.code = exitSignal + int(status.Signal())
		a.exitText = fmt.Sprintf("%v (signal %d)", status.Signal(), status.Signal())
	}
	a.isInterrupted = a.terminal.reclaim() && (a.code == 0 || a.code == exitSignal+int(syscall.SIGINT))
	a.mu.Lock()
	a.hasExited = true
	a.mu.Unlock()
	close(a.exited)
}

// noteGroup checks whether the group still exists. The kernel does not reuse the ID of
// an existing group.
func (a *Process) noteGroup() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hasExited && !a.hasGroupExited && syscall.Kill(-a.pid, 0) == syscall.ESRCH {
		a.hasGroupExited = true
		close(a.groupExited)
	}
}

// PID returns the PID of the process, which is also the ID of its process group.
func (a *Process) PID() int { return a.pid }

// Code returns the exit code of the ended process. If a signal has ended the process, the
// result is 128 plus the number of the signal, as in shells.
func (a *Process) Code() int { return a.code }

// ExitText describes how the process ended: its exit code, or the signal that ended it.
func (a *Process) ExitText() string { return a.exitText }

// IsInterrupted reports whether Ctrl-C presumably ended the process: it was in the
// terminal's foreground, so the gate got no SIGINT, and it exited with code 0 or 130.
func (a *Process) IsInterrupted() bool { return a.isInterrupted }

// Exited returns a channel that is closed when the process has ended; nil if there is no
// application.
func (a *Process) Exited() <-chan struct{} {
	if a == nil {
		return nil
	}
	return a.exited
}

// GroupExited returns a channel that is closed when all processes of the application's
// group have ended; nil if there is no application.
func (a *Process) GroupExited() <-chan struct{} {
	if a == nil {
		return nil
	}
	return a.groupExited
}

// Signal sends a signal to the process. It sends SIGWINCH to the whole process group, as
// a terminal does when its size changes.
func (a *Process) Signal(s os.Signal) {
	if a == nil {
		return
	}
	if s == syscall.SIGWINCH {
		a.signalGroup(syscall.SIGWINCH)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.hasExited {
		_ = syscall.Kill(a.pid, s.(syscall.Signal))
	}
}

// Stop thaws the group and sends it a signal, because wrappers such as shells and npm
// do not forward signals. Further calls have no effect.
func (a *Process) Stop(s os.Signal) {
	if a != nil {
		a.stopOnce.Do(func() {
			_ = a.freezer.Thaw()
			a.signalGroup(s.(syscall.Signal))
		})
	}
}

func (a *Process) signalGroup(s syscall.Signal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.hasGroupExited {
		_ = syscall.Kill(-a.pid, s)
	}
}

// restTimeout is how long KillRest waits for the end of killed descendants.
const restTimeout = time.Second

// KillRest kills the remaining descendants of the gate, which may hold the port, and
// waits for their end.
func (a *Process) KillRest() {
	for deadline := time.Now().Add(restTimeout); len(descendants(os.Getpid())) > 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		a.Kill()
	}
}

// killPasses limits the passes in which Kill looks for new descendants.
const killPasses = 10

// Kill ends the group and all other descendants of the gate.
func (a *Process) Kill() {
	if a == nil {
		return
	}
	a.signalGroup(syscall.SIGKILL)
	_ = a.freezer.Thaw() // in cgroup v1, frozen processes do not end
	for range killPasses {
		remaining := descendants(os.Getpid())
		if len(remaining) == 0 {
			return
		}
		for _, pid := range remaining {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
