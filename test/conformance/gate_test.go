package conformance

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/test/internal/launch"
)

// testTimeout limits every wait. It only ends tests that would hang.
const testTimeout = 2 * time.Minute

// gate is a running gate. Its cleanup fails the test if the gate has exited, unless the
// test allows that.
type gate struct {
	*launch.Gate
	t           *testing.T
	port, admin int
	mayEnd      bool
}

// startGate runs the gate in front of the container that listens on userPort. The
// settings have the format of launch.Options.Settings, for example "QUEUE_CAPACITY=0".
func startGate(t *testing.T, userPort int, settings ...string) *gate {
	t.Helper()
	started, err := launch.StartGate(launch.Options{Binary: queueBinary, UserPort: userPort, Timeout: testTimeout,
		Settings: slices.Concat([]string{"ADMIN_PORT=free", "DRAIN_QUIET_SECONDS=30"}, settings)})
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{Gate: started, t: t, port: started.Ports["QUEUE_SERVING_PORT"], admin: started.Ports["ADMIN_PORT"]}
	t.Cleanup(g.end)
	return g
}

func (g *gate) end() {
	died := !g.Running()
	g.End()
	if died && !g.mayEnd {
		g.t.Errorf("the gate died: %v", g.Cmd.ProcessState)
	}
	if g.t.Failed() {
		g.t.Logf("stderr of the gate:\n%s", g.Stderr.String())
	}
}

func (g *gate) drain() {
	g.t.Helper()
	if err := g.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gate) address() string { return podAddress(g.port) }

// podAddress returns the address of a port of the pod.
func podAddress(port int) string { return net.JoinHostPort(podIP, strconv.Itoa(port)) }

func (g *gate) url(path string) string { return "http://" + g.address() + path }

// reason sends a readiness probe, and returns the cause if the gate is not ready,
// otherwise "".
func (g *gate) reason() string {
	g.t.Helper()
	request, err := http.NewRequest(http.MethodGet, g.url("/"), nil)
	if err != nil {
		g.t.Fatal(err)
	}
	request.Header.Set("K-Network-Probe", "queue")
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testTimeout}).Do(request)
	if err != nil {
		g.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	if response.StatusCode == http.StatusOK && string(body) == "queue" {
		return ""
	}
	_, cause, _ := strings.Cut(response.Header.Get("K-Readiness-Reason"), ": ")
	if response.StatusCode != http.StatusServiceUnavailable || cause == "" {
		g.t.Fatalf("neither ready nor not, with a reason: status %d, header %q, body %q", response.StatusCode, response.Header, body)
	}
	return cause
}

// eventually polls until condition returns true.
func eventually(t *testing.T, description string, condition func() bool) {
	t.Helper()
	testkit.Until(t, description, condition)
}
