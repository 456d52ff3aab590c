package torture

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/test/internal/launch"
)

// Half of the clients open a connection for each request. The others keep their
// connection until the server closes it.
const (
	restartRate    = 2000 // requests per second of all clients together
	restartClients = 100
	shortRestarts  = 20
	restartPause   = 50 * time.Millisecond
)

// restartable is a server whose process can be replaced while its port stays open.
type restartable interface {
	port() int
	restart(t *testing.T)
	end(t *testing.T)
}

// TestRestartsLoseNoRequest replaces the gate RESTARTS times by `queue upgrade`. If
// RESTARTS is set, it also replaces HAProxy and nginx, if installed, by their own
// commands. Only the gate must not lose a request.
func TestRestartsLoseNoRequest(t *testing.T) {
	restarts, compare := shortRestarts, false
	if text := os.Getenv("RESTARTS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("RESTARTS=%q: want a whole number above 0", text)
		}
		restarts, compare = n, true
	}
	container := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, r.Header.Get("X-Id"))
	}))
	defer container.Close()
	userPort := container.Listener.Addr().(*net.TCPAddr).Port

	t.Run("queue upgrade", func(t *testing.T) {
		if s := underLoad(t, newUpgrades(t, userPort), restarts); s.failed() > 0 {
			t.Errorf("%d requests were lost", s.failed())
		}
	})
	if !compare {
		return
	}
	t.Run("HAProxy", func(t *testing.T) { underLoad(t, newHAProxy(t, userPort), restarts) })
	t.Run("nginx", func(t *testing.T) { underLoad(t, newNginx(t, userPort), restarts) })
}

func underLoad(t *testing.T, s restartable, restarts int) (total restartCounts) {
	t.Helper()
	defer s.end(t)
	stop := make(chan struct{})
	counts := make([]restartCounts, restartClients)
	var clients sync.WaitGroup
	for i := range counts {
		clients.Go(func() { (&restartClient{id: i, port: s.port(), isFresh: i%2 == 0}).run(&counts[i], stop) })
	}
	began := time.Now()
	for range restarts {
		s.restart(t)
		time.Sleep(restartPause)
	}
	took := time.Since(began)
	close(stop)
	clients.Wait()
	for i := range counts {
		total.add(&counts[i])
	}
	t.Logf("%d restarts in %.0f s: %v", restarts, took.Seconds(), &total)
	if rate := float64(total.sent) / took.Seconds(); rate < restartRate/2 {
		t.Logf("the machine was too busy: only %.0f requests per second", rate)
	}
	return total
}

type restartCounts struct {
	sent, completed, newConns   int
	refused, reset, lost, wrong int
	idleClosed                  int // connections that the server closed between two requests
	slowest                     time.Duration
	times                       []time.Duration
	examples                    []string
}

func (c *restartCounts) failed() int { return c.refused + c.reset + c.lost + c.wrong }

func (c *restartCounts) add(o *restartCounts) {
	c.sent, c.completed, c.newConns = c.sent+o.sent, c.completed+o.completed, c.newConns+o.newConns
	c.refused, c.reset, c.lost, c.wrong = c.refused+o.refused, c.reset+o.reset, c.lost+o.lost, c.wrong+o.wrong
	c.idleClosed += o.idleClosed
	c.slowest = max(c.slowest, o.slowest)
	c.times = append(c.times, o.times...)
	c.examples = append(c.examples, o.examples...)
}

func (c *restartCounts) String() string {
	slices.Sort(c.times)
	at := func(q float64) time.Duration {
		if len(c.times) == 0 {
			return 0
		}
		return c.times[int(q*float64(len(c.times)-1))].Round(10 * time.Microsecond)
	}
	text := fmt.Sprintf("%d requests on %d connections, %d answered; %d refused, %d reset, %d lost, %d wrong; %d idle connections closed; p50 %v, p99 %v, p99.9 %v, slowest %v",
		c.sent, c.newConns, c.completed, c.refused, c.reset, c.lost, c.wrong, c.idleClosed, at(0.5), at(0.99), at(0.999), c.slowest.Round(10*time.Microsecond))
	for _, e := range c.examples[:min(len(c.examples), 5)] {
		text += "\n" + e
	}
	return text
}

// fail counts a failure by its kind.
func (c *restartCounts) fail(err error, event string) {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		c.refused++
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		c.reset++
	case errors.Is(err, errWrong):
		c.wrong++
	default:
		c.lost++
	}
	if len(c.examples) < 3 {
		c.examples = append(c.examples, event+": "+err.Error())
	}
}

var errWrong = errors.New("another response than expected")

// restartClient sends one request at a time.
type restartClient struct {
	id, port int
	isFresh  bool
	conn     *net.TCPConn
	in       *bufio.Reader
}

func (c *restartClient) run(counts *restartCounts, stop <-chan struct{}) {
	tick := time.NewTicker(time.Second * restartClients / restartRate)
	defer tick.Stop()
	time.Sleep(time.Second / restartRate * time.Duration(c.id))
	for n := 0; ; n++ {
		select {
		case <-stop:
			if c.conn != nil {
				_ = c.conn.Close()
			}
			return
		case <-tick.C:
		}
		if c.conn != nil && c.isClosed() {
			counts.idleClosed++
			_ = c.conn.Close()
			c.conn = nil
		}
		began := time.Now()
		counts.sent++
		step, err := c.exchange(counts, n)
		took := time.Since(began)
		if err != nil {
			counts.fail(err, fmt.Sprintf("client %d, request %d, %s after %v", c.id, n, step, took))
			if c.conn != nil {
				_ = c.conn.Close()
				c.conn = nil
			}
			continue
		}
		counts.completed++
		counts.slowest = max(counts.slowest, took)
		counts.times = append(counts.times, took)
	}
}

func (c *restartClient) isClosed() (closed bool) {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return true
	}
	_ = raw.Read(func(fd uintptr) bool {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		closed = err == nil && n == 0 || err != nil && err != unix.EAGAIN
		return true
	})
	return closed
}

func (c *restartClient) exchange(counts *restartCounts, n int) (step string, err error) {
	if c.conn == nil {
		// The clients connect to 200 loopback addresses. With a single address, the
		// client ports would run out in a test that lasts an hour.
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.%d:%d", 1+(c.id+n)%200, c.port), testTimeout)
		if err != nil {
			return "connecting", err
		}
		c.conn, c.in = conn.(*net.TCPConn), bufio.NewReader(conn)
		counts.newConns++
	}
	_ = c.conn.SetDeadline(time.Now().Add(testTimeout))
	id := fmt.Sprintf("%d-%d", c.id, n)
	method, tail := "GET", "\r\n"
	if n%2 == 1 {
		method, tail = "POST", "Content-Length: 4\r\n\r\nbody"
	}
	if c.isFresh {
		tail = "Connection: close\r\n" + tail
	}
	if _, err := fmt.Fprintf(c.conn, "%s / HTTP/1.1\r\nHost: gate.test\r\nX-Id: %s\r\n%s", method, id, tail); err != nil {
		return "writing", err
	}
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return "reading", err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "reading the body", err
	}
	if response.StatusCode != 200 || string(body) != id {
		return "response", fmt.Errorf("%w: %d %.40q", errWrong, response.StatusCode, body)
	}
	if response.Close || c.isFresh {
		_ = c.conn.Close()
		c.conn = nil
	}
	return "", nil
}

// upgrades is a gate with its successors.
type upgrades struct {
	first   *gate
	number  int
	env     []string
	current *child
	old     []*child
}

func newUpgrades(t *testing.T, userPort int) *upgrades {
	g := startGate(t, userPort)
	port, _ := strconv.Atoi(g.addr[strings.LastIndexByte(g.addr, ':')+1:])
	return &upgrades{first: g, number: port, env: g.Cmd.Env, current: g.child}
}

func (u *upgrades) port() int { return u.number }

func (u *upgrades) restart(t *testing.T) {
	t.Helper()
	cmd := exec.Command(queueBinary, "upgrade")
	cmd.Env = u.env
	next, err := launch.Start(cmd)
	must(t, err)
	t.Cleanup(next.Kill)
	if !eventually(func() bool { return strings.Contains(next.Stderr.String(), `"message":"serving"`) || !next.Running() }) || !next.Running() {
		t.Fatalf("the successor does not serve:\n%s", next.Stderr.String())
	}
	u.old, u.current = append(u.old, u.current), next
	u.old = slices.DeleteFunc(u.old, func(p *child) bool { return !p.Running() && u.checkExit(t, p) })
}

// checkExit checks the exit code and the log of a gate.
func (u *upgrades) checkExit(t *testing.T, p *child) bool {
	if code, fault := p.Cmd.ProcessState.ExitCode(), p.Fault(); code != 0 || fault != "" {
		t.Errorf("a gate has ended with code %d\n%s", code, cmp.Or(fault, p.Stderr.String()))
	}
	return true
}

func (u *upgrades) end(t *testing.T) {
	for _, p := range u.old {
		if !p.EndsIn(testTimeout) {
			t.Fatalf("a gate does not end after an upgrade:\n%s", p.Stderr.String())
		}
		u.checkExit(t, p)
	}
}

// competitor is HAProxy or nginx.
type competitor struct {
	number        int
	path, dir     string
	configuration string
}

func (o *competitor) port() int { return o.number }

func newOther(t *testing.T, program, text string) *competitor {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed", program)
	}
	dir, err := launch.ShortDir()
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	o := &competitor{number: launch.FreePort(t), path: path, dir: dir, configuration: filepath.Join(dir, "conf")}
	text = strings.NewReplacer("PORT", strconv.Itoa(o.number), "DIR", o.dir).Replace(text)
	must(t, os.WriteFile(o.configuration, []byte(text), 0o600))
	return o
}

func (o *competitor) awaitListening(t *testing.T, output fmt.Stringer) {
	t.Helper()
	if !eventually(func() bool { return launch.Accepts(launch.Address(o.number)) }) {
		t.Fatalf("%s does not listen:\n%s", o.path, output)
	}
}

type haproxy struct {
	*competitor
	*child
}

func newHAProxy(t *testing.T, userPort int) restartable {
	h := haproxy{competitor: newOther(t, "haproxy", fmt.Sprintf(`global
	stats socket DIR/stats level admin expose-fd listeners
	nbthread 1
	maxconn 2000
defaults
	mode http
	timeout connect 5s
	timeout client 60s
	timeout server 60s
frontend f
	bind :PORT
	default_backend b
backend b
	server s 127.0.0.1:%d
`, userPort))}
	var err error
	h.child, err = launch.Start(exec.Command(h.path, "-W", "-db", "-f", h.configuration))
	must(t, err)
	t.Cleanup(h.Kill)
	h.awaitListening(t, &h.Stderr)
	return h
}

// restart reloads: the master starts a worker, which takes over the listeners.
func (h haproxy) restart(t *testing.T) {
	t.Helper()
	before := h.loaded()
	var sent time.Time
	if !eventually(func() bool {
		if time.Since(sent) > 250*time.Millisecond { // send again, because a master that starts a worker loses signals
			sent = time.Now()
			signal(t, h.child, syscall.SIGUSR2)
		}
		return h.loaded() > before
	}) {
		t.Fatalf("HAProxy starts no worker:\n%s", h.Stderr.String())
	}
}

func (h haproxy) loaded() int { return strings.Count(h.Stderr.String(), "Loading success") }

func (h haproxy) end(*testing.T) { h.Kill() }

func children(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	return strings.Fields(string(text))
}

type nginx struct{ *competitor }

func newNginx(t *testing.T, userPort int) restartable {
	n := nginx{newOther(t, "nginx", fmt.Sprintf(`worker_processes 1;
pid DIR/nginx.pid;
error_log DIR/error.log warn;
events { worker_connections 2000; }
http {
	access_log off;
	client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/f; uwsgi_temp_path DIR/u; scgi_temp_path DIR/s;
	upstream b { server 127.0.0.1:%d; keepalive 64; }
	server {
		listen PORT backlog=4096;
		location / { proxy_pass http://b; proxy_http_version 1.1; proxy_set_header Connection ""; }
	}
}
`, userPort))}
	// nginx replaces its binary only if it runs as a daemon.
	p, err := launch.Start(exec.Command(n.path, "-c", n.configuration, "-p", n.dir))
	must(t, err)
	t.Cleanup(func() { n.end(t) })
	n.awaitListening(t, &p.Stderr)
	return n
}

// restart starts a new binary with the same listeners (USR2), and then ends the old
// master (QUIT).
func (n nginx) restart(t *testing.T) {
	t.Helper()
	old := n.master(t)
	must(t, syscall.Kill(old, syscall.SIGUSR2))
	if !eventually(func() bool { pid, _ := n.pid("nginx.pid"); return pid != 0 && pid != old && len(children(pid)) > 0 }) {
		text, _ := os.ReadFile(filepath.Join(n.dir, "error.log"))
		t.Fatalf("nginx starts no new master:\n%s", text)
	}
	must(t, syscall.Kill(old, syscall.SIGQUIT))
	if !eventually(func() bool { _, err := n.pid("nginx.pid.oldbin"); return err != nil }) {
		t.Fatal("the old master of nginx does not end")
	}
}

func (n nginx) pid(file string) (int, error) {
	text, err := os.ReadFile(filepath.Join(n.dir, file))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func (n nginx) master(t *testing.T) int {
	t.Helper()
	pid, err := n.pid("nginx.pid")
	must(t, err)
	return pid
}

func (n nginx) end(*testing.T) {
	if pid, err := n.pid("nginx.pid"); err == nil {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
}
