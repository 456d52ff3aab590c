package e2e

import (
	"fmt"
	"net"
	"testing"
)

func TestProfilesAreServedOnlyWhereProfilingIsEnabled(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	port := freePort(t)
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	g := startGate(t, k, fmt.Sprintf("PROFILING_PORT=%d", port), `OBSERVABILITY_CONFIG={"runtime":{"profiling":"enabled"}}`)
	g.awaitPorts(addr)
	c := dialAddr(t, addr)
	defer c.close()
	if a := c.get("/debug/pprof/goroutine?debug=1"); a.status != 200 {
		t.Errorf("status %d", a.status)
	}

	off := freePort(t)
	// startGate returns when the serving port accepts connections. The gate opens its
	// other ports before that, so an enabled profiling port would already be open.
	startGate(t, k, fmt.Sprintf("PROFILING_PORT=%d", off))
	if conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", off)); err == nil {
		_ = conn.Close()
		t.Error("profiles are served although they are not enabled")
	}
}
