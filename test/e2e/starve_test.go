package e2e

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
)

// TestRequestsShareTheConnectionsThatThereAreDescriptorsFor gives the gate
// fewer descriptors than its clients would need connections to the container.
func TestRequestsShareTheConnectionsThatThereAreDescriptorsFor(t *testing.T) {
	t.Parallel()
	const clients, limit = 60, 100
	k := startContainer(t)
	must(t, k.AnswerAll([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")))
	port := freePort(t)
	g := &gate{addr: fmt.Sprintf("127.0.0.1:%d", port)}
	g.env = append(baseEnv(t), fmt.Sprintf("QUEUE_SERVING_PORT=%d", port), fmt.Sprintf("USER_PORT=%d", k.port),
		"DRAIN_SOCKET="+filepath.Join(shortTempDir(t), "s"))
	g.process = startProcess(t, g.env, "/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0"`, limit), queueBinary)
	if !g.awaitListening() {
		t.Fatalf("the gate ended; stderr:\n%s", g.stderr.String())
	}
	t.Cleanup(g.checkHealth)

	var crowd sync.WaitGroup
	conns := make([]*client, clients)
	for i := range conns {
		conns[i] = dial(t, g)
		conns[i].get("/", "K-Network-Probe: probe", "K-Network-Hash: h").field("K-Network-Hash", "h") // it is accepted
	}
	for _, c := range conns {
		crowd.Go(func() {
			for range 50 {
				if a := c.get("/"); a.status != 200 {
					t.Errorf("status %d, %s", a.status, a.get("K-Gate-Outcome"))
					return
				}
			}
		})
	}
	crowd.Wait()
}
