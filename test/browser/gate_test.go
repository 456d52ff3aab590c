package browser

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// gate is a running gate. Its cleanup kills it.
type gate struct {
	t            *testing.T
	cmd          *exec.Cmd
	port, status int
	settings     []string
	stderr       bytes.Buffer  // whole after exited
	exited       chan struct{} // closed after Wait
}

// startGate runs the gate in front of 127.0.0.1:userPort. Settings are
// NAME=value and override the defaults.
func startGate(t *testing.T, userPort int, settings ...string) *gate {
	t.Helper()
	for range 5 {
		g := launchGate(t, freePort(t), freePort(t), append([]string{fmt.Sprintf("USER_PORT=%d", userPort)}, settings...))
		if g.listens() {
			return g
		}
		// A port picked free may be taken by the time it is bound; nothing
		// else may end the gate.
		if !strings.Contains(g.stderr.String(), "in use") {
			t.Fatalf("the gate ended before it listened: %v\n%s", g.cmd.ProcessState, &g.stderr)
		}
	}
	t.Fatal("no port stayed free")
	return nil
}

func launchGate(t *testing.T, port, status int, settings []string) *gate {
	t.Helper()
	// Not t.TempDir: the path of a Unix socket has to be short.
	dir, err := os.MkdirTemp("", "q")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t: t, port: port, status: status, settings: settings, exited: make(chan struct{})}
	g.cmd = exec.Command(queueBinary)
	g.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"),
		fmt.Sprintf("QUEUE_SERVING_PORT=%d", port),
		fmt.Sprintf("STATUS_PORT=%d", status),
		"DRAIN_SOCKET=" + filepath.Join(dir, "drain.sock"),
		"CERT_DIR=" + filepath.Join(dir, "none"),
		"QUEUE_SERVING_TLS_PORT=0", "ADMIN_PORT=0", "AUTOSCALER_METRICS_PORT=0", "METRICS_PORT=0",
		"SERVING_READINESS_PROBE=none",
		"SERVING_LOGGING_LEVEL=error", // the tests make thousands of warnings
	}, settings...)
	g.cmd.Stderr = &g.stderr
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = g.cmd.Wait() // how it ended is read from the state
		close(g.exited)
	}()
	t.Cleanup(func() {
		g.kill()
		if t.Failed() {
			t.Logf("stderr of the gate:\n%s", &g.stderr)
		}
		_ = os.RemoveAll(dir)
	})
	return g
}

// again starts a gate on the same ports after this one has ended.
func (g *gate) again() *gate {
	g.t.Helper()
	next := launchGate(g.t, g.port, g.status, g.settings)
	if !next.listens() {
		g.t.Fatalf("the gate did not start again: %v\n%s", next.cmd.ProcessState, &next.stderr)
	}
	return next
}

// listens waits until the gate accepts; false means that it ended.
func (g *gate) listens() bool {
	deadline := time.After(failsafe)
	for {
		if accepts(g.port) && accepts(g.status) {
			return true
		}
		select {
		case <-g.exited:
			return false
		case <-deadline:
			g.kill()
			return false
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func accepts(port int) bool {
	c, err := net.Dial("tcp", at(port))
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

func (g *gate) kill() {
	_ = g.cmd.Process.Kill()
	<-g.exited
}

func (g *gate) drain() {
	g.t.Helper()
	g.signal(syscall.SIGTERM)
}

func (g *gate) signal(s syscall.Signal) {
	g.t.Helper()
	if err := g.cmd.Process.Signal(s); err != nil {
		g.t.Fatal(err)
	}
}

func at(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func (g *gate) url(path string) string { return "http://" + at(g.port) + path }

// page is the origin of the status page.
func (g *gate) page() string { return "http://" + at(g.status) }

// freePort picks a port below the range that the kernel gives to outgoing
// connections, so that none of those takes it.
func freePort(t *testing.T) int {
	t.Helper()
	for range 1000 {
		port := 15000 + rand.IntN(17000)
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}
