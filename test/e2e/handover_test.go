package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/queuegate/queuegate/test/internal/launch"
)

// upgrade runs `queue upgrade` for g, and returns the successor.
func (g *gate) upgrade(settings ...string) *gate {
	g.t.Helper()
	env := slices.Concat(g.env, settings)
	next := &gate{process: startProcess(g.t, env, queueBinary, "upgrade"), addr: g.addr, admin: g.admin, socket: g.socket, env: env}
	g.t.Cleanup(next.checkHealth)
	return next
}

// awaitUpgradeEnd waits until no upgrade of g is in progress. The gate logs the end of an
// upgrade just before that.
func (g *gate) awaitUpgradeEnd() {
	g.t.Helper()
	eventually(g.t, "no upgrade is in progress", func() bool {
		conn, err := net.Dial("unix", g.socket)
		must(g.t, err)
		defer conn.Close()
		_, _ = io.WriteString(conn, "upgrade\n")
		// If the gate gets the line more than a second after it has accepted the
		// connection, it closes the connection. Then eventually tries again.
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || strings.Contains(line, "another upgrade is in progress") {
			return false
		}
		must(g.t, conn.(*net.UnixConn).CloseWrite())
		_, _ = io.Copy(io.Discard, conn) // the gate closes it when this upgrade has ended
		return true
	})
}

func TestAnUpgradeCompletesRequestsAndEndsTheRunningGate(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	// With the default quiet period the old gate closes idle connections after 5 s.
	g := startGate(t, k, "ADMIN_PORT=free", "DRAIN_QUIET_SECONDS=60")
	c, p := inFlight(t, k, g, "/old")
	idle, q := reused(t, k, g)
	q.close()
	next := g.upgrade("SERVER_TIMING=true", "DRAIN_QUIET_SECONDS=0")
	g.logs("no further connections are accepted")

	finish(inFlight(t, k, next, "/new"))
	dialAddr(t, g.admin).get("/health/ready").is(200, "Service is ready")
	for _, conn := range []*client{c, idle} { // both connections are to the old gate
		if conn == idle {
			conn.send(request("GET", "/idle"))
			p = k.acceptFor("/idle")
		}
		p.send(okClose)
		a := conn.response("GET")
		a.is(200, "ok")
		a.field("Connection", "close")
		a.lacks("Server-Timing")
		conn.closed()
	}
	g.ends(0)

	if code, _, stderr := runQueue(t, g.env, "drain"); code != 0 {
		t.Errorf("queue drain: code %d, %s", code, stderr)
	}
	next.ends(0)
}

func TestAGateCanBeUpgradedSeveralTimesInSuccession(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for range 3 {
		next := g.upgrade()
		g.ends(0)
		finish(inFlight(t, k, next, "/"))
		g = next
	}
}

func TestProbesSucceedOnConnectionsToAGateWhoseSuccessorHasTakenOver(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c := dial(t, g)
	c.get("/", "K-Network-Probe: queue", "User-Agent: kube-probe/1").is(200, "queue")
	g.upgrade()
	g.logs("no further connections are accepted")
	a := c.get("/", "K-Network-Probe: queue", "User-Agent: kube-probe/1")
	a.is(200, "queue")
	a.field("Connection", "close")
	g.ends(0)
}

func TestAFailedUpgradeChangesNothing(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	other, err := net.Listen("tcp", ":0")
	must(t, err)
	defer other.Close()
	port := other.Addr().(*net.TCPAddr).Port
	failed := g.upgrade(fmt.Sprintf("ADMIN_PORT=%d", port))
	failed.mayEnd = true
	if code := failed.exitCode(); code != 1 || !strings.Contains(failed.Stderr.String(), "ADMIN_PORT") {
		t.Errorf("code %d, stderr:\n%s", code, failed.Stderr.String())
	}
	g.logs("this gate continues")
	finish(inFlight(t, k, g, "/"))
	if code, _, stderr := runQueue(t, append(g.env, "QUEUE_CAPACITY=many"), "upgrade"); code != 2 {
		t.Errorf("with a wrong setting: code %d, %s", code, stderr)
	}
	g.awaitUpgradeEnd()
	next := g.upgrade()
	g.ends(0)
	finish(inFlight(t, k, next, "/"))
}

func TestASecondUpgradeAtTheSameTimeIsRefused(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	var first net.Conn
	// The gate responds with a line that offers its listening sockets. From this time on
	// an upgrade is in progress. If the gate gets no line within a second, it closes the
	// connection.
	eventually(t, "the gate offers its sockets", func() bool {
		conn, err := net.Dial("unix", g.socket)
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		first = conn
		_, _ = io.WriteString(conn, "upgrade\n")
		_, err = bufio.NewReader(conn).ReadString('\n')
		return err == nil
	})
	if code, _, stderr := runQueue(t, g.env, "upgrade"); code != 1 || !strings.Contains(stderr, "another upgrade is in progress") {
		t.Errorf("code %d, stderr:\n%s", code, stderr)
	}
	must(t, first.Close())
	g.logs("this gate continues")
	g.awaitUpgradeEnd()
	next := g.upgrade()
	g.ends(0)
	finish(inFlight(t, k, next, "/"))
}

// The container does not listen. So the successor waits a second for its first readiness
// result before it takes over. The test kills the running gate before the takeover.
func TestASuccessorServesIfTheRunningGateIsKilled(t *testing.T) {
	t.Parallel()
	k := startSilentContainer(t)
	g := startGate(t, k, "SERVING_READINESS_PROBE=")
	g.mayEnd = true
	next := g.upgrade()
	g.logs("a successor is starting")
	g.signal(syscall.SIGKILL)
	<-g.Exited
	next.logs(`"message":"serving"`)
	k.listen()
	finish(inFlight(t, k, next, "/"))
}

func TestASignalToASuccessorThatIsNotReadyDoesNotEndTheRunningGate(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			var k *container
			var g, next *gate
			code := 0
			// On a busy machine the successor may take over before it gets the signal. Then
			// it exits with code 0, and the test tries again.
			for attempt := 0; attempt < 10 && code == 0; attempt++ {
				if g != nil {
					g.mayEnd = true
				}
				k = startSilentContainer(t)
				g = startGate(t, k, "SERVING_READINESS_PROBE=")
				next = g.upgrade()
				next.mayEnd = true
				g.logs("a successor is starting")
				next.signal(s)
				code = next.exitCode()
			}
			if code != 1 || !strings.Contains(next.Stderr.String(), "a signal has ended the upgrade") {
				t.Errorf("code %d, stderr:\n%s", code, next.Stderr.String())
			}
			g.logs("this gate continues")
			k.listen()
			finish(inFlight(t, k, g, "/"))
		})
	}
}

func TestADrainDuringAnUpgradeOfTheGateEndsBothGates(t *testing.T) {
	t.Parallel()
	var next *gate
	// On a busy machine the successor may take over before the drain begins. Then the test
	// tries again.
	for attempt, serves := 0, true; attempt < 10 && serves; attempt++ {
		g := startGate(t, startSilentContainer(t), "SERVING_READINESS_PROBE=")
		next = g.upgrade()
		next.mayEnd = true
		g.logs("a successor is starting")
		g.signal(syscall.SIGTERM)
		g.ends(0)
		eventually(t, "the successor ends or serves", func() bool {
			serves = strings.Contains(next.Stderr.String(), `"message":"serving"`)
			return serves || !next.Running()
		})
	}
	if code := next.exitCode(); code != 1 || !strings.Contains(next.Stderr.String(), "is draining") {
		t.Errorf("code %d, stderr:\n%s", code, next.Stderr.String())
	}
}

func TestAnUpgradeWithoutAGateFailsClearly(t *testing.T) {
	t.Parallel()
	socket := shortTempDir(t) + "/none.sock"
	code, _, stderr := runQueue(t, append(baseEnv(t), "DRAIN_SOCKET="+socket), "upgrade")
	if code != 1 || !strings.Contains(stderr, socket) {
		t.Errorf("code %d, stderr %q; want 1 and the socket's path", code, stderr)
	}
}

func TestAnUpgradeOfAGateWithAnApplicationIsRefused(t *testing.T) {
	t.Parallel()
	g := startGateWithApplication(t)
	if code, _, stderr := runQueue(t, g.env, "upgrade"); code != 1 || !strings.Contains(stderr, "queue -- COMMAND") {
		t.Errorf("code %d, stderr:\n%s", code, stderr)
	}
	if code, _, stderr := runQueue(t, g.env, "upgrade", "--", "app"); code != 2 || !strings.Contains(stderr, "starts no application") {
		t.Errorf("code %d, stderr:\n%s", code, stderr)
	}
}

func TestADrainOrUpgradeByAnotherUserIsRefused(t *testing.T) {
	t.Parallel()
	if syscall.Geteuid() != 0 {
		t.Skip("needs root to become another user")
	}
	k := startContainer(t)
	name := fmt.Sprintf("@queuegate-e2e-%d", freePort(t))
	g := startGate(t, k, "DRAIN_SOCKET="+name)
	for _, command := range []string{"drain", "upgrade"} {
		line := ""
		// The gate closes the connection if it gets no line within a second.
		eventually(t, "a reply to "+command, func() (ok bool) {
			other := dialAs(t, 65534, name)
			_, _ = io.WriteString(other, command+"\n")
			var err error
			line, err = bufio.NewReader(other).ReadString('\n')
			return err == nil
		})
		if !strings.Contains(line, "it runs as user 65534") {
			t.Errorf("%s: %q", command, line)
		}
		eventually(t, "a line in the log", func() bool {
			return strings.Contains(g.Stderr.String(), command+" is refused: it runs as user 65534")
		})
	}
	finish(inFlight(t, k, g, "/"))
}

// dialAs connects to a Unix socket as another user.
func dialAs(t *testing.T, user int, socket string) net.Conn {
	t.Helper()
	var conn net.Conn
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlock, so that the thread ends with the goroutine
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(user), uintptr(user), uintptr(user)); errno != 0 {
			err = errno
			return
		}
		conn, err = net.Dial("unix", socket)
	}()
	<-done
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// runQueueDetached runs the gate's binary until it exits. A background process may keep
// its output open.
func runQueueDetached(t *testing.T, env []string, args ...string) (code int, output string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "output")
	file, err := os.Create(path)
	must(t, err)
	defer file.Close()
	code = startProcessOn(t, streams{stdout: file, stderr: file}, env, queueBinary, args...).exitCode()
	text, err := os.ReadFile(path)
	must(t, err)
	return code, string(text)
}

func TestAnUpgradeInTheBackgroundTellsSystemdTheNewProcess(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	m := newManager(t)
	g := startGate(t, k, "NOTIFY_SOCKET="+m.path)
	if text, _ := m.nextNotification(); text != "READY=1" {
		t.Fatalf("systemd is told %q", text)
	}
	env := slices.DeleteFunc(slices.Clone(g.env), func(s string) bool { return strings.HasPrefix(s, "NOTIFY_SOCKET=") }) // with NotifyAccess=main the child has no NOTIFY_SOCKET
	code, stderr := runQueueDetached(t, env, "upgrade", "--background")
	if code != 0 {
		t.Fatalf("code %d, %s", code, stderr)
	}
	text, _ := m.nextNotification()
	number, ok := strings.CutPrefix(text, "MAINPID=")
	pid, err := strconv.Atoi(number)
	if !ok || err != nil {
		t.Fatalf("systemd is told %q", text)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	if text, _ := m.nextNotification(); text != "READY=1" {
		t.Errorf("systemd is told %q, want READY=1", text)
	}
	g.ends(0)
	finish(inFlight(t, k, g, "/"))
	must(t, syscall.Kill(pid, syscall.SIGTERM))
	if text, _ := m.nextNotification(); text != "STOPPING=1" {
		t.Errorf("systemd is told %q, want STOPPING=1", text)
	}
	eventually(t, "the gate in the background ends", func() bool { return !launch.Accepts(g.addr) })
	code, _ = runQueueDetached(t, env, "upgrade", "--background")
	if code != 1 {
		t.Errorf("without a running gate: code %d, want 1", code)
	}
}
