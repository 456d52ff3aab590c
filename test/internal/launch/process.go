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

// Process is a child process.
type Process struct {
	Cmd            *exec.Cmd
	Stdout, Stderr Output        // output, unless Cmd has other outputs
	Exited         chan struct{} // closed after Cmd.ProcessState is set
}

// Start starts cmd. The kernel kills the process if the test process ends first.
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
		_ = cmd.Wait() // the exit code is in the process state
		close(p.Exited)
	}()
	return p, nil
}

// Running reports whether the process is still running.
func (p *Process) Running() bool {
	select {
	case <-p.Exited:
		return false
	default:
		return true
	}
}

// EndsIn reports whether the process exits in time.
func (p *Process) EndsIn(timeout time.Duration) bool {
	select {
	case <-p.Exited:
		return true
	case <-time.After(timeout):
		return false
	}
}

// Kill kills the process, even a stopped one, and waits for its exit.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill() // the process may have exited
	<-p.Exited
}

// Fault returns the first line on stderr that reports a data race, a panic or a broken
// invariant, or "".
func (p *Process) Fault() string {
	for line := range strings.Lines(p.Stderr.String()) {
		for _, invalid := range []string{"DATA RACE", "panic", "BUG:", "fatal error"} {
			if strings.Contains(line, invalid) {
				return line
			}
		}
	}
	return ""
}

// Output collects output, and may be read concurrently.
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
