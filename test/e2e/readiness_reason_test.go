package e2e

import (
	"net"
	"testing"
)

func TestReasonsAreShownOnlyToThePlatformAndThePod(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	g := startGateFor(t, a, `{"httpGet":{}}`, "ADMIN_PORT=free", "READINESS_WAIT=20ms")
	anybody := []string{"User-Agent: curl/8.5.0", "K-Network-Probe: queue"}
	autoscaler := []string{"User-Agent: Knative-Autoscaling-Probe", "K-Network-Probe: queue"}
	// This probe comes from a loopback address, and thus from the pod. The gate therefore
	// shows the reason to any prober.
	g.becomesNotReady(anybody, "user-container: refused")
	g.awaitPorts(g.admin)
	for _, address := range addressesOutside(t) {
		get := func(port, path string, fields ...string) response {
			t.Helper()
			c := dialAddr(t, net.JoinHostPort(address, port))
			defer c.close()
			return c.get(path, fields...)
		}
		_, port, _ := net.SplitHostPort(g.addr)
		for _, prober := range [][]string{kubelet, activator, autoscaler} {
			get(port, "/", prober...).notReady("user-container: refused")
		}
		get(port, "/", anybody...).notReady("not ready")
		get(port, "/", anybody[1]).notReady("not ready")
		_, port, _ = net.SplitHostPort(g.admin)
		get(port, "/health/ready").is(503, "not ready")
		get(port, "/healthz", kubelet[0]).is(503, "user-container: refused")
	}
}

// addressesOutside returns the addresses of the machine, except loopback addresses. A
// connection from this machine to such an address has the same address as its source, so
// the gate sees a peer that is not on loopback.
func addressesOutside(t *testing.T) []string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var outside []string
	for _, a := range all {
		if ip := a.(*net.IPNet).IP; ip.IsGlobalUnicast() {
			outside = append(outside, ip.String())
		}
	}
	return outside
}
