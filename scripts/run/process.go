package main

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// stopTimeout is the time between SIGTERM and SIGKILL.
const stopTimeout = 15 * time.Second

// A process is a child in a separate process group, so that Ctrl-C on the
// terminal reaches only run, which stops the children in order. Its standard
// input is empty.
type process struct {
	cmd *exec.Cmd
	// ended receives one error when the process exits, also for exit status 0.
	ended chan error
	// gone is closed when the process has been waited for.
	gone chan struct{}
}

// startProcess must be called on the main thread. A nil env means run's
// environment.
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

// stop returns when the process has exited: immediately if it already has,
// otherwise after SIGTERM, or after SIGKILL if it does not exit within
// stopTimeout.
func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.gone:
	case <-time.After(stopTimeout):
		p.cmd.Process.Kill()
		<-p.gone
	}
}
