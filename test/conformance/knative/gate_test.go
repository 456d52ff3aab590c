package knative

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/test/internal/launch"
)

// testTimeout limits every wait. It only ends tests that would hang.
const testTimeout = 2 * time.Minute

// tcpProbe only needs a container that listens.
const tcpProbe = `SERVING_READINESS_PROBE={"tcpSocket":{"port":%d},"successThreshold":1}`

var queueBinary string

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "knative:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "knative")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if queueBinary, err = launch.GateBinary(dir); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

type gate struct {
	*launch.Gate
	t           *testing.T
	port, admin int
}

// startGate runs the gate in front of userPort. The gate must not exit before the test
// ends.
func startGate(t *testing.T, userPort int, settings ...string) *gate {
	t.Helper()
	started, err := launch.StartGate(launch.Options{Binary: queueBinary, UserPort: userPort, Timeout: testTimeout,
		Settings: slices.Concat([]string{"ADMIN_PORT=free", "DRAIN_QUIET_SECONDS=30"}, settings)})
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{Gate: started, t: t, port: started.Ports["QUEUE_SERVING_PORT"], admin: started.Ports["ADMIN_PORT"]}
	t.Cleanup(func() {
		exited := !g.Running()
		g.End()
		if exited {
			t.Errorf("the gate exited: %v", g.Cmd.ProcessState)
		}
		if t.Failed() {
			t.Logf("stderr of the gate:\n%s", g.Stderr.String())
		}
	})
	return g
}

// drain sends SIGTERM, and waits until the gate is not ready.
func (g *gate) drain() {
	g.t.Helper()
	if err := g.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		g.t.Fatal(err)
	}
	eventually(g.t, "the drain has begun", func() bool {
		response, err := http.Get("http://" + launch.Address(g.admin) + "/health/ready")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusServiceUnavailable
	})
}

func (g *gate) url(path string) string { return "http://" + launch.Address(g.port) + path }

// serve runs h over HTTP/1.1 until the test ends.
func serve(t *testing.T, h http.Handler) (port int) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// eventually polls until condition returns true.
func eventually(t *testing.T, description string, condition func() bool) {
	t.Helper()
	testkit.Until(t, description, condition)
}
