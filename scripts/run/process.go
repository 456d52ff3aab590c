package main

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// stopTimeout is what a process has between SIGTERM and SIGKILL.
const stopTimeout = 15 * time.Second

// A process is a child in a group of its own, so that Ctrl-C on the terminal
// reaches run alone, which then decides the order. Its standard input is
// empty.
type process struct {
	cmd *exec.Cmd
	// ended receives one error when the process exits, also for exit status 0.
	ended chan error
	// gone is closed when the process has been waited for.
	gone chan struct{}
}

// startProcess must be called on the main thread. A nil env is our own.
func startProcess(logs io.Writer, env []string, binary string, args ...string) (*process, error) {
	cmd := exec.Command(binary, args...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = logs, logs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", binary, err)
	}
	p := &process{cmd: cmd, ended: make(chan error, 1), gone: make(chan struct{})}
	go p.wait()
	return p, nil
}

func (p *process) wait() {
	err := p.cmd.Wait()
	if err == nil {
		err = errors.New("exit status 0")
	}
	p.ended <- err
	close(p.gone)
}

// stop returns when the process is gone: at once if it has ended, else after
// SIGTERM, or after SIGKILL if that did not do within stopTimeout.
func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.gone:
	case <-time.After(stopTimeout):
		p.cmd.Process.Kill()
		<-p.gone
	}
}
