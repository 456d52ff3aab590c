package launch

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a child.
type Process struct {
	Cmd            *exec.Cmd
	Stdout, Stderr Output        // of a Cmd that names no other
	Exited         chan struct{} // closed once Cmd.ProcessState is there
}

// Start starts cmd. A process that is still there when the tests end, because
// they were killed or have panicked, ends with them.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{Cmd: cmd, Exited: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = &p.Stdout
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &p.Stderr
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	go func() {
		_ = cmd.Wait() // the exit code is read from the state
		close(p.Exited)
	}()
	return p, nil
}

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.Exited:
		return false
	default:
		return true
	}
}

// EndsIn waits for the end of the process, and reports whether it came.
func (p *Process) EndsIn(timeout time.Duration) bool {
	select {
	case <-p.Exited:
		return true
	case <-time.After(timeout):
		return false
	}
}

// Kill ends the process without warning, a stopped one too, and waits for its end.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill() // one that has ended is no matter
	<-p.Exited
}

// Fault returns the first line on stderr that tells of a data race, a panic or
// a broken invariant, "" if there is none.
func (p *Process) Fault() string {
	for line := range strings.Lines(p.Stderr.String()) {
		for _, bad := range []string{"DATA RACE", "panic", "BUG:", "fatal error"} {
			if strings.Contains(line, bad) {
				return line
			}
		}
	}
	return ""
}

// Output collects what a process writes; it may be read meanwhile.
type Output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
