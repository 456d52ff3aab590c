package torture

import (
	"bytes"
	"fmt"
	"io"
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

// patience bounds every wait: far above the request clock of the gate. What is
// neither answered nor cut by then is lost.
const patience = 45 * time.Second

const requestClockSeconds = 20

// child is a process that is killed when the test ends, should it still run.
type child struct {
	*exec.Cmd
	log    lockedBuffer
	exited chan struct{} // closed after Wait
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func start(t *testing.T, cmd *exec.Cmd) *child {
	t.Helper()
	p := &child{Cmd: cmd, exited: make(chan struct{})}
	cmd.Stderr = &p.log
	must(t, cmd.Start())
	go func() {
		_ = cmd.Wait() // the exit code is read from the state
		close(p.exited)
	}()
	t.Cleanup(p.kill)
	return p
}

// kill ends the process without warning, and waits for its end.
func (p *child) kill() {
	_ = p.Process.Kill() // a stopped process too; one that has ended is no matter
	<-p.exited
}

func (p *child) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// gate is a running gate.
type gate struct {
	*child
	addr, tls, metrics string
}

// startGate runs the gate in front of a container's port. A setting "ulimit
// -n 64" or "cgroup path" is a limit of the process; others are variables.
func startGate(t *testing.T, userPort int, settings ...string) *gate {
	t.Helper()
	for range 5 {
		port, secure, figures := freePort(t), freePort(t), freePort(t)
		g := &gate{addr: local(port), tls: local(secure), metrics: local(figures)}
		dir := t.TempDir()
		env := []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"),
			fmt.Sprintf("QUEUE_SERVING_PORT=%d", port), fmt.Sprintf("QUEUE_SERVING_TLS_PORT=%d", secure),
			fmt.Sprintf("METRICS_PORT=%d", figures), fmt.Sprintf("USER_PORT=%d", userPort),
			fmt.Sprintf("DRAIN_SOCKET=@torture-%d-%d", os.Getpid(), port),
			fmt.Sprintf("REVISION_TIMEOUT_SECONDS=%d", requestClockSeconds),
			"CERT_DIR=" + filepath.Join(dir, "none"), "ADMIN_PORT=0", "AUTOSCALER_METRICS_PORT=0", "STATUS_PORT=0",
			"SERVING_READINESS_PROBE=none", "DRAIN_QUIET_SECONDS=0",
		}
		shell := ""
		for _, s := range settings {
			if limit, ok := strings.CutPrefix(s, "ulimit "); ok {
				shell += "ulimit " + limit + " && "
			} else if group, ok := strings.CutPrefix(s, "cgroup "); ok {
				shell += "echo $$ >" + group + "/cgroup.procs && "
			} else {
				env = append(env, s)
			}
		}
		cmd := exec.Command("/bin/sh", "-c", shell+`exec "$0"`, queueBinary)
		cmd.Env = env
		g.child = start(t, cmd)
		if g.awaitListening(t) {
			return g
		}
		if !strings.Contains(g.log.String(), "in use") {
			t.Fatalf("the gate ended before it listened: %v\n%s", g.ProcessState, g.log.String())
		}
	}
	t.Fatal("no free port in five attempts")
	return nil
}

func (g *gate) awaitListening(t *testing.T) bool {
	t.Helper()
	for _, addr := range []string{g.metrics, g.addr} {
		if !eventually(func() bool { return !g.running() || connects(addr) }) {
			t.Fatalf("the gate does not listen on %s\n%s", addr, g.log.String())
		}
	}
	return g.running()
}

func connects(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// eventually waits for a condition that is bound to come true.
func eventually(done func() bool) bool {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if done() {
			return true
		}
	}
	return false
}

// figures scrapes the gate; names carry their labels.
func (g *gate) figures() (map[string]float64, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
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

// sockets counts the open ones of the gate.
func (g *gate) sockets() int {
	dir := fmt.Sprintf("/proc/%d/fd", g.Process.Pid)
	entries, _ := os.ReadDir(dir) // a process that has ended has none
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// rss is the gate's resident memory in MiB.
func (g *gate) rss() float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", g.Process.Pid))
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(fields[1])
	return float64(pages*os.Getpagesize()) / (1 << 20)
}

// container is the process that stands in for a user container; it can be
// killed and started again.
type container struct {
	t     *testing.T
	port  int
	speak string // http1 or h2c
	seen  *os.File
	*child
}

func startContainer(t *testing.T, speak string, seen *os.File) *container {
	t.Helper()
	k := &container{t: t, port: freePort(t), speak: speak, seen: seen}
	k.start()
	return k
}

func (k *container) start() {
	k.t.Helper()
	cmd := exec.Command(containerBinary, strconv.Itoa(k.port), k.speak)
	cmd.ExtraFiles = []*os.File{k.seen}
	k.child = start(k.t, cmd)
	if !eventually(func() bool { return connects(local(k.port)) || !k.running() }) || !k.running() {
		k.t.Fatalf("the container does not listen: %s", k.log.String())
	}
}

func (p *child) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Errorf("sending %v to pid %d: %v", s, p.Process.Pid, err)
	}
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

var portsGiven = map[int]bool{}

// freePort picks one below the range that the kernel gives to outgoing
// connections, and none twice.
func freePort(t *testing.T) int {
	t.Helper()
	rng := random("ports", len(portsGiven)+os.Getpid())
	for range 1000 {
		port := 15000 + rng.IntN(17000)
		if portsGiven[port] {
			continue
		}
		portsGiven[port] = true
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			continue
		}
		_ = l.Close()
		return port
	}
	t.Fatal("no free port")
	return 0
}
