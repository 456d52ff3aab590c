package conformance

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// testTimeout bounds every wait: a fail-safe, far above what any case needs.
const testTimeout = 20 * time.Second

// gate is a running gate. Its cleanup kills it, and fails the test if it died
// before.
type gate struct {
	t           *testing.T
	cmd         *exec.Cmd
	port, admin int
	stderr      bytes.Buffer  // whole after exited
	exited      chan struct{} // closed after Wait
}

// startGate runs the gate in front of 127.0.0.1:userPort. Settings are
// NAME=value and override the defaults.
func startGate(t *testing.T, userPort int, settings ...string) *gate {
	t.Helper()
	var g *gate
	for range 5 {
		g = launchGate(t, userPort, settings)
		if g.listens() {
			t.Cleanup(g.end)
			return g
		}
		// A port picked free may be taken by the time it is bound; nothing
		// else may end the gate.
		if !strings.Contains(g.stderr.String(), "in use") {
			break
		}
	}
	t.Fatalf("the gate ended before it listened: %v\n%s", g.cmd.ProcessState, &g.stderr)
	return nil
}

func launchGate(t *testing.T, userPort int, settings []string) *gate {
	t.Helper()
	// Not t.TempDir: the path of a Unix socket has to be short.
	dir, err := os.MkdirTemp("", "q")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	g := &gate{t: t, port: freePort(t), admin: freePort(t), exited: make(chan struct{})}
	g.cmd = exec.Command(queueBinary)
	g.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"),
		fmt.Sprintf("QUEUE_SERVING_PORT=%d", g.port),
		fmt.Sprintf("ADMIN_PORT=%d", g.admin),
		fmt.Sprintf("USER_PORT=%d", userPort),
		"DRAIN_SOCKET=" + filepath.Join(dir, "drain.sock"),
		"CERT_DIR=" + filepath.Join(dir, "none"),
		"QUEUE_SERVING_TLS_PORT=0", "AUTOSCALER_METRICS_PORT=0", "METRICS_PORT=0", "STATUS_PORT=0",
		"SERVING_READINESS_PROBE=none",
	}, settings...)
	g.cmd.Stderr = &g.stderr
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = g.cmd.Wait() // how it ended is read from the state
		close(g.exited)
	}()
	return g
}

// listens waits until the gate accepts on both ports; false means that it ended.
func (g *gate) listens() bool {
	deadline := time.After(testTimeout)
	for {
		if accepts(g.port) && accepts(g.admin) {
			return g.running()
		}
		select {
		case <-g.exited:
			return false
		case <-deadline:
			_ = g.cmd.Process.Kill()
			<-g.exited
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

func (g *gate) running() bool {
	select {
	case <-g.exited:
		return false
	default:
		return true
	}
}

func (g *gate) end() {
	died := !g.running()
	_ = g.cmd.Process.Kill()
	<-g.exited
	if died {
		g.t.Errorf("the gate died: %v", g.cmd.ProcessState)
	}
	if g.t.Failed() {
		g.t.Logf("stderr of the gate:\n%s", &g.stderr)
	}
}

func (g *gate) drain() {
	g.t.Helper()
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gate) address() string { return at(g.port) }

// at is where the pod has this port.
func at(port int) string { return net.JoinHostPort(podIP, strconv.Itoa(port)) }

func (g *gate) url(path string) string { return "http://" + g.address() + path }

// reason asks for readiness and returns why the gate is not ready: the word for
// the cause, or "" if it is ready.
func (g *gate) reason() string {
	g.t.Helper()
	request, err := http.NewRequest(http.MethodGet, g.url("/"), nil)
	if err != nil {
		g.t.Fatal(err)
	}
	request.Header.Set("K-Network-Probe", "queue")
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testTimeout}).Do(request)
	if err != nil {
		g.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	if answer.StatusCode == http.StatusOK && string(body) == "queue" {
		return ""
	}
	_, cause, _ := strings.Cut(answer.Header.Get("K-Readiness-Reason"), ": ")
	if answer.StatusCode != http.StatusServiceUnavailable || cause == "" {
		g.t.Fatalf("neither ready nor not, with a reason: status %d, header %q, body %q", answer.StatusCode, answer.Header, body)
	}
	return cause
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", testTimeout, what)
		}
	}
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
