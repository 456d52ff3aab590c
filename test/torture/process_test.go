package torture

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/queuegate/queuegate/test/internal/launch"
)

// testTimeout limits every wait. It is far above the gate's request timeout, so a request
// that has no result by then is lost.
const testTimeout = 45 * time.Second

const requestTimeoutSeconds = 20

// child is a process that is killed at the end of the test.
type child = launch.Process

type gate struct {
	*child
	addr, tls, metrics string
}

// startGate runs the gate in front of userPort. Settings are those of launch.Options.
func startGate(t *testing.T, userPort int, settings ...string) *gate {
	t.Helper()
	g, err := launch.StartGate(launch.Options{Binary: queueBinary, UserPort: userPort, Timeout: testTimeout, Settings: slices.Concat([]string{
		"QUEUE_SERVING_TLS_PORT=free", "METRICS_PORT=free", fmt.Sprintf("REVISION_TIMEOUT_SECONDS=%d", requestTimeoutSeconds),
	}, settings)})
	must(t, err)
	t.Cleanup(g.End)
	return &gate{g.Process, g.Addr("QUEUE_SERVING_PORT"), g.Addr("QUEUE_SERVING_TLS_PORT"), g.Addr("METRICS_PORT")}
}

// eventually waits until done returns true, for at most testTimeout.
func eventually(done func() bool) bool {
	for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if done() {
			return true
		}
	}
	return false
}

// figures scrapes the gate's metrics. Keys include the labels.
func (g *gate) figures() (map[string]float64, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testTimeout}
	response, err := client.Get("http://" + g.metrics + "/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	all := map[string]float64{}
	for line := range strings.Lines(string(page)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil && !strings.HasPrefix(name, "#") {
			all[name] = n
		}
	}
	return all, err
}

func (g *gate) sockets() int {
	dir := fmt.Sprintf("/proc/%d/fd", g.Cmd.Process.Pid)
	entries, _ := os.ReadDir(dir) // empty if the process has exited
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// rss returns the gate's resident memory in MiB.
func (g *gate) rss() float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", g.Cmd.Process.Pid))
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(fields[1])
	return float64(pages*os.Getpagesize()) / (1 << 20)
}

// container is a user container that can be killed and restarted.
type container struct {
	t     *testing.T
	port  int
	speak string // http1 or h2c
	seen  *os.File
	*child
}

func startContainer(t *testing.T, speak string, seen *os.File) *container {
	t.Helper()
	k := &container{t: t, port: launch.FreePort(t), speak: speak, seen: seen}
	k.start()
	return k
}

func (k *container) start() {
	k.t.Helper()
	cmd := exec.Command(containerBinary, strconv.Itoa(k.port), k.speak)
	cmd.ExtraFiles = []*os.File{k.seen}
	var err error
	k.child, err = launch.Start(cmd)
	must(k.t, err)
	k.t.Cleanup(k.child.Kill)
	if !eventually(func() bool { return launch.Accepts(launch.Address(k.port)) || !k.Running() }) || !k.Running() {
		k.t.Fatalf("the container does not listen: %s", k.Stderr.String())
	}
}

func signal(t *testing.T, p *child, s syscall.Signal) {
	t.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil {
		t.Errorf("sending %v to pid %d: %v", s, p.Cmd.Process.Pid, err)
	}
}
