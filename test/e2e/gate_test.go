package e2e

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/queuegate/queuegate/test/internal/launch"
)

// testTimeout limits every wait. It only ends tests that would hang.
const testTimeout = 2 * time.Minute

// gate is a running gate. Its cleanup fails the test if the gate has died, or has
// reported a data race or a broken invariant.
type gate struct {
	*process
	addr, admin string
	socket      string // drain socket, for `queue drain`
	env         []string
	mayEnd      bool // the gate may end during the test
}

// startGate runs the gate in front of k. Settings are those of launch.Options.
func startGate(t *testing.T, k *container, settings ...string) *gate {
	t.Helper()
	return startGateOn(t, streams{}, k, settings...)
}

func startGateOn(t *testing.T, s streams, k *container, settings ...string) *gate {
	t.Helper()
	started, err := launch.StartGate(launch.Options{
		Binary: queueBinary, UserPort: k.port, Settings: slices.Concat([]string{"QUEUE_SERVING_TLS_PORT=free"}, settings),
		Stdout: s.stdout, Stderr: s.stderr, Timeout: testTimeout,
	})
	must(t, err)
	t.Cleanup(started.End)
	g := &gate{
		process: &process{started.Process, t}, socket: started.Socket, env: started.Env,
		addr: started.Addr("QUEUE_SERVING_PORT"), admin: started.Addr("ADMIN_PORT"),
	}
	t.Cleanup(g.checkHealth)
	return g
}

// baseEnv switches off all optional features.
func baseEnv(t *testing.T) []string {
	t.Helper()
	return append(launch.BaseEnv(shortTempDir(t)), fmt.Sprintf("QUEUE_SERVING_TLS_PORT=%d", freePort(t)))
}

// awaitListening waits until the gate accepts connections, or returns false if it ended.
func (g *gate) awaitListening() bool {
	g.t.Helper()
	eventually(g.t, "the gate listens, or has ended", func() bool { return launch.Accepts(g.addr) || !g.Running() })
	return g.Running()
}

func (g *gate) checkHealth() {
	if !g.mayEnd && !g.Running() {
		g.t.Errorf("the gate died: %v", g.Cmd.ProcessState)
	}
	if fault := g.Fault(); fault != "" {
		g.t.Errorf("the gate reported %q", fault)
	}
	if log := g.Stderr.String(); g.t.Failed() && log != "" {
		g.t.Logf("stderr of the gate:\n%s", log)
	}
}

// runQueue runs the gate's binary to its end.
func runQueue(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := startProcess(t, env, queueBinary, args...)
	code = p.exitCode()
	return code, p.Stdout.String(), p.Stderr.String()
}

var freePort = launch.FreePort

func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := launch.ShortDir()
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
