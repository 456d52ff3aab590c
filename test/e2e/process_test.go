package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a child that is killed when the test ends, should it still run.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr output
	exited         chan struct{} // closed after Wait
}

// streams are where a process writes to; nil is the process's own output.
type streams struct{ stdout, stderr *os.File }

// startProcess starts a binary with exactly this environment.
func startProcess(t *testing.T, env []string, path string, args ...string) *process {
	t.Helper()
	return startProcessOn(t, streams{}, env, path, args...)
}

func startProcessOn(t *testing.T, s streams, env []string, path string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(path, args...), exited: make(chan struct{})}
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if s.stdout != nil {
		p.cmd.Stdout = s.stdout
	}
	if s.stderr != nil {
		p.cmd.Stderr = s.stderr
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", path, err)
	}
	go func() {
		_ = p.cmd.Wait() // the exit code is read from the state
		close(p.exited)
	}()
	t.Cleanup(func() {
		if p.running() {
			_ = p.cmd.Process.Kill()
		}
		<-p.exited
	})
	return p
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("sending %v to pid %d: %v", s, p.cmd.Process.Pid, err)
	}
}

// exitCode waits for the end of the process.
func (p *process) exitCode() int {
	p.t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatalf("pid %d still runs after %v; stderr:\n%s", p.cmd.Process.Pid, patience, p.stderr.String())
		return -1
	}
}

// output collects what a process writes.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
