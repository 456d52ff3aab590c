package browser

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/queuegate/queuegate/test/internal/launch"
)

// gate is a running gate, which is killed at the end of the test.
type gate struct {
	*launch.Gate
	t       *testing.T
	options launch.Options
}

// startGate runs the gate in front of userPort. Settings are those of launch.Options.
func startGate(t *testing.T, userPort int, settings ...string) *gate {
	t.Helper()
	return launchGate(t, launch.Options{Binary: queueBinary, UserPort: userPort, Timeout: failsafe, Settings: slices.Concat([]string{
		"STATUS_PORT=free", "DRAIN_QUIET_SECONDS=30",
		"SERVING_LOGGING_LEVEL=error", // the tests cause thousands of warnings
	}, settings)})
}

func launchGate(t *testing.T, o launch.Options) *gate {
	t.Helper()
	g, err := launch.StartGate(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.End()
		if t.Failed() {
			t.Logf("stderr of the gate:\n%s", g.Stderr.String())
		}
	})
	return &gate{g, t, o}
}

// restart starts a new gate on the same ports.
func (g *gate) restart() *gate {
	g.t.Helper()
	o := g.options
	for name, port := range g.Ports {
		o.Settings = append(slices.Clip(o.Settings), fmt.Sprintf("%s=%d", name, port))
	}
	return launchGate(g.t, o)
}

func (g *gate) drain() {
	g.t.Helper()
	g.signal(syscall.SIGTERM)
}

func (g *gate) signal(s syscall.Signal) {
	g.t.Helper()
	if err := g.Cmd.Process.Signal(s); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gate) url(path string) string { return "http://" + g.Addr("QUEUE_SERVING_PORT") + path }

// page returns the URL of the status page.
func (g *gate) page() string { return "http://" + g.Addr("STATUS_PORT") }
