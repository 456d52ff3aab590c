package main

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// stopTimeout is the time from SIGTERM to SIGKILL.
const stopTimeout = 15 * time.Second

// A process is a child of this program. It is in a separate process group, so that Ctrl-C
// does not reach it. Instead this program stops its children in the right order.
type process struct {
	cmd *exec.Cmd
	// exitResult receives one error when the process exits, even if the exit status is 0.
	exitResult chan error
	// exited is closed after cmd.Wait has returned, so the process has exited.
	exited chan struct{}
}

// startProcess starts a child. The caller must be on the main thread, because the kernel
// kills the child (Pdeathsig) when the thread that started it ends. If env is nil, the
// child inherits the environment.
func startProcess(logs io.Writer, env []string, binary string, args ...string) (*process, error) {
	cmd := exec.Command(binary, args...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = logs, logs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", binary, err)
	}
	p := &process{cmd: cmd, exitResult: make(chan error, 1), exited: make(chan struct{})}
	go p.wait()
	return p, nil
}

func (p *process) wait() {
	err := p.cmd.Wait()
	if err == nil {
		err = errors.New("exit status 0")
	}
	p.exitResult <- err
	close(p.exited)
}

// stop sends SIGTERM, and SIGKILL after stopTimeout. It returns when the process has
// exited.
func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		p.cmd.Process.Kill()
		<-p.exited
	}
}
