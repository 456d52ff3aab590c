package e2e

import (
	"syscall"
	"testing"
)

// healthOf sends a GET to the admin port.
func (g *gate) healthOf(path string) response {
	g.t.Helper()
	g.awaitPorts(g.admin)
	c := dialAddr(g.t, g.admin)
	defer c.close()
	a := c.get(path)
	a.field("Content-Type", "text/plain; charset=utf-8")
	return a
}

func TestHealthReportsTheGateAndTheContainer(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	a.status.Store(503)
	g := startGateFor(t, a, `{"httpGet":{},"timeoutSeconds":60}`, "ADMIN_PORT=free", "DRAIN_QUIET_SECONDS=600", "READINESS_WAIT=20ms", "READINESS_FRESHNESS=1h")
	g.becomesNotReady(activator, "user-container: refused")
	for _, path := range []string{"/health/ready", "/healthz"} {
		g.healthOf(path).is(503, "user-container: refused")
	}
	g.healthOf("/health/alive").is(200, "Service is alive")
	a.listen(a.website)
	g.becomesNotReady(activator, "user-container: status 503")
	g.healthOf("/health/ready").is(503, "user-container: status 503")
	a.status.Store(200)
	g.becomesReady(activator)
	for _, path := range []string{"/health/ready", "/healthz"} {
		g.healthOf(path).is(200, "Service is ready")
	}
	g.healthOf("/health/alive").is(200, "Service is alive")
	if got := g.healthOf("/health/other").status; got != 404 {
		t.Errorf("an unknown path got %d", got)
	}
	g.signal(syscall.SIGTERM)
	g.awaitDraining()
	for _, path := range []string{"/health/ready", "/healthz"} {
		g.healthOf(path).is(503, "shutting down")
	}
	g.healthOf("/health/alive").is(200, "Service is alive")
}

func TestHealthWithoutAReadinessProbeIsReady(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	g := startGate(t, &container{port: a.port}, "ADMIN_PORT=free")
	for _, path := range []string{"/health/ready", "/healthz"} {
		g.healthOf(path).is(200, "Service is ready")
	}
}
