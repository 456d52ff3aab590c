package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds every wait: a fail-safe, far above what any case needs.
const patience = 15 * time.Second

// gate is a running gate. Its cleanup fails the test if it died or reported a
// race or a broken invariant.
type gate struct {
	*process
	addr, admin string
	socket      string // of queue drain
	env         []string
	mayEnd      bool // the test ends the gate itself
}

// startGate runs the gate in front of k. Settings are NAME=value and override
// the defaults: no side port, no quiet period in a drain, always ready. A
// setting "ulimit -n 64" is a limit of the process, and "arguments a b" are
// arguments of the gate.
func startGate(t *testing.T, k *container, settings ...string) *gate {
	t.Helper()
	return startGateOn(t, streams{}, k, settings...)
}

func startGateOn(t *testing.T, s streams, k *container, settings ...string) *gate {
	t.Helper()
	for range 5 {
		g := launchGate(t, s, k, settings)
		if g.awaitListening() {
			t.Cleanup(g.checkHealth)
			return g
		}
		// A port picked free may be taken by the time it is bound; nothing
		// else may end the gate.
		if !strings.Contains(g.stderr.String(), "in use") {
			t.Fatalf("the gate ended with code %d before it listened; stderr:\n%s", g.exitCode(), g.stderr.String())
		}
	}
	t.Fatal("no free port in five attempts")
	return nil
}

func launchGate(t *testing.T, streams streams, k *container, settings []string) *gate {
	t.Helper()
	g := &gate{}
	port, admin := freePort(t), freePort(t)
	g.addr, g.admin = fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("127.0.0.1:%d", admin)
	g.socket = filepath.Join(shortTempDir(t), "drain.sock")
	g.env = append(baseEnv(t),
		fmt.Sprintf("QUEUE_SERVING_PORT=%d", port),
		fmt.Sprintf("USER_PORT=%d", k.port),
		"DRAIN_SOCKET="+g.socket,
		"DRAIN_QUIET_SECONDS=0")
	path, args := queueBinary, []string(nil)
	for _, s := range settings {
		if limit, ok := strings.CutPrefix(s, "ulimit "); ok {
			path, args = "/bin/sh", []string{"-c", "ulimit " + limit + ` && exec "$0"`, queueBinary}
			continue
		}
		if text, ok := strings.CutPrefix(s, "arguments "); ok {
			args = append(args, strings.Fields(text)...)
			continue
		}
		if s == "ADMIN_PORT=on" {
			s = fmt.Sprintf("ADMIN_PORT=%d", admin)
		}
		g.env = append(g.env, s)
	}
	g.process = startProcessOn(t, streams, g.env, path, args...)
	return g
}

// baseEnv turns everything off that a test does not ask for.
func baseEnv(t *testing.T) []string {
	t.Helper()
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + os.Getenv("HOME"),
		fmt.Sprintf("QUEUE_SERVING_TLS_PORT=%d", freePort(t)),
		"CERT_DIR=" + filepath.Join(shortTempDir(t), "none"),
		"ADMIN_PORT=0", "AUTOSCALER_METRICS_PORT=0", "METRICS_PORT=0", "PROFILING_PORT=0", "STATUS_PORT=0",
		"SERVING_READINESS_PROBE=none", // its connections would be among those that a test counts
	}
}

// awaitListening waits until the gate accepts; false means that it ended.
func (g *gate) awaitListening() bool {
	g.t.Helper()
	deadline := time.After(patience)
	for {
		c, err := net.Dial("tcp", g.addr)
		if err == nil {
			_ = c.Close()
			return g.running()
		}
		select {
		case <-g.exited:
			return false
		case <-deadline:
			g.t.Fatalf("the gate does not listen on %s after %v; stderr:\n%s", g.addr, patience, g.stderr.String())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (g *gate) checkHealth() {
	log := g.stderr.String()
	if !g.mayEnd && !g.running() {
		g.t.Errorf("the gate died: %v", g.cmd.ProcessState)
	}
	for _, bad := range []string{"DATA RACE", "panic", "BUG:", "fatal error"} {
		if strings.Contains(log, bad) {
			g.t.Errorf("the gate reported %q", bad)
		}
	}
	if g.t.Failed() && log != "" {
		g.t.Logf("stderr of the gate:\n%s", log)
	}
}

// runQueue runs the gate's binary to its end.
func runQueue(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := startProcess(t, env, queueBinary, args...)
	code = p.exitCode()
	return code, p.stdout.String(), p.stderr.String()
}

var (
	portsMu    sync.Mutex
	portsGiven = map[int]bool{}
)

// freePort picks a port below the range that the kernel gives to outgoing
// connections, so that none of those takes it, and gives none twice.
func freePort(t *testing.T) int {
	t.Helper()
	portsMu.Lock()
	defer portsMu.Unlock()
	for range 1000 {
		port := 15000 + rand.IntN(17000)
		if portsGiven[port] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			continue
		}
		_ = l.Close()
		portsGiven[port] = true
		return port
	}
	t.Fatal("no free port")
	return 0
}

// shortTempDir has a path that leaves room for the name of a Unix socket,
// which t.TempDir with a long test name does not.
func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "q")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
