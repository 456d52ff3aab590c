package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The root file system of a pod may be read-only.
func TestTheDrainSocketNeedsNoFile(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	name := fmt.Sprintf("@queuegate-e2e-%d", freePort(t)) // as the default, but this test's own
	g := startGate(t, k, "DRAIN_SOCKET="+name)
	g.mayEnd = true
	if code, _, stderr := runQueue(t, baseEnv(t), "drain", "--drain-socket", name); code != 0 {
		t.Fatalf("queue drain: code %d, %s", code, stderr)
	}
	if code := g.exitCode(); code != 0 {
		t.Errorf("the gate ended with code %d", code)
	}
}

func TestTheDefaultDrainSocketIsAbstract(t *testing.T) {
	t.Parallel()
	_, out, _ := runQueue(t, []string{"PATH=" + os.Getenv("PATH")}, "--check")
	if !strings.Contains(out, "DRAIN_SOCKET=@queuegate") {
		t.Errorf("the default is another:\n%s", out)
	}
}

func TestQueueDrainDoesNotWaitForAGateThatHangs(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	g.signal(syscall.SIGSTOP)
	code, _, stderr := runQueue(t, g.env, "drain")
	g.signal(syscall.SIGCONT)
	if code != 1 || !strings.Contains(stderr, "nothing was heard of the gate") || !strings.Contains(stderr, g.socket) {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
	g.mayEnd = true // it finds the request for a drain
}

func TestTheDrainSocketOutlivesAWantOfDescriptors(t *testing.T) {
	t.Parallel()
	const limit = 64
	k := startContainer(t)
	port := freePort(t)
	g := &gate{addr: fmt.Sprintf("127.0.0.1:%d", port), mayEnd: true}
	g.env = append(baseEnv(t), fmt.Sprintf("QUEUE_SERVING_PORT=%d", port), fmt.Sprintf("USER_PORT=%d", k.port),
		"DRAIN_QUIET_SECONDS=0", "DRAIN_SOCKET="+filepath.Join(shortTempDir(t), "s"))
	g.process = startProcess(t, g.env, "/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0"`, limit), queueBinary)
	if !g.awaitListening() {
		t.Fatalf("the gate ended; stderr:\n%s", g.stderr.String())
	}
	t.Cleanup(g.checkHealth)
	// Requests under way hold two descriptors each.
	var clients []*client
	var peers []*peer
	descriptors := func() int {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.cmd.Process.Pid))
		must(t, err)
		return len(files)
	}
	for descriptors() < limit-4 {
		c, p := inFlight(t, k, g, "/")
		clients, peers = append(clients, c), append(peers, p)
	}
	var idle []net.Conn // what is left goes to connections without a request
	for range 8 {
		c, err := net.Dial("tcp", g.addr)
		must(t, err)
		idle = append(idle, c)
	}
	asking := startProcess(t, g.env, queueBinary, "drain")
	eventually(t, "queue drain waits in the backlog", func() bool {
		list, err := os.ReadFile("/proc/net/unix")
		must(t, err)
		return strings.Count(string(list), g.env[len(g.env)-1][len("DRAIN_SOCKET="):]) > 1
	})
	for _, c := range idle {
		_ = c.Close()
	}
	for i, c := range clients {
		finish(c, peers[i])
	}
	if code := asking.exitCode(); code != 0 {
		t.Errorf("queue drain ended with code %d; stderr:\n%s", code, asking.stderr.String())
	}
	g.ends(0)
}
