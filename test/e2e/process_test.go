package e2e

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/queuegate/queuegate/test/internal/launch"
)

type process struct {
	*launch.Process
	t *testing.T
}

// streams are the stdout and stderr of a process. If nil, the output is collected in
// process.
type streams struct{ stdout, stderr *os.File }

// startProcess starts a binary with exactly this environment.
func startProcess(t *testing.T, env []string, path string, args ...string) *process {
	t.Helper()
	return startProcessOn(t, streams{}, env, path, args...)
}

func startProcessOn(t *testing.T, s streams, env []string, path string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = env
	if s.stdout != nil {
		cmd.Stdout = s.stdout
	}
	if s.stderr != nil {
		cmd.Stderr = s.stderr
	}
	p, err := launch.Start(cmd)
	must(t, err)
	t.Cleanup(p.Kill)
	return &process{p, t}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("sending %v to pid %d: %v", s, p.Cmd.Process.Pid, err)
	}
}

func (p *process) exitCode() int {
	p.t.Helper()
	if !p.EndsIn(testTimeout) {
		p.t.Fatalf("pid %d still runs after %v; stderr:\n%s", p.Cmd.Process.Pid, testTimeout, p.Stderr.String())
	}
	return p.Cmd.ProcessState.ExitCode()
}
