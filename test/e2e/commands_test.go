package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/test/internal/launch"
)

func deadline() time.Time { return time.Now().Add(testTimeout) }

// probes runs `queue probe` with the environment of g.
func (g *gate) probes(args ...string) (code int, text string) {
	g.t.Helper()
	code, stdout, stderr := runQueue(g.t, g.env, append([]string{"probe"}, args...)...)
	if stdout != "" {
		g.t.Errorf("probe printed %q to stdout", stdout)
	}
	return code, stderr
}

func TestQueueProbeCanProbeAsKubeletActivatorOrIngress(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	for _, args := range [][]string{nil, {"--as", "kubelet"}, {"--as=activator"}, {"--as", "ingress", "--timeout", "5s"}} {
		code, text := 0, ""
		// On a busy machine the response may be late.
		eventually(t, "a response in time", func() bool {
			code, text = g.probes(args...)
			return !strings.Contains(text, "no response from")
		})
		if code != 0 || text != "" {
			t.Errorf("%q: code %d, %q", args, code, text)
		}
	}
}

func TestQueueProbePrintsWhyTheGateIsNotReady(t *testing.T) {
	t.Parallel()
	k := startSilentContainer(t)
	g := startGate(t, k, "SERVING_READINESS_PROBE=", "CONTAINER_NAMES=web")
	for prober, want := range map[string]string{"kubelet": "refused", "activator": "no response"} {
		code, text := 0, ""
		// The kubelet's response arrives 100 ms before its timeout, or later on a busy
		// machine. So one success in several attempts suffices.
		eventually(t, prober+": "+want, func() bool {
			code, text = g.probes("--as", prober)
			return strings.Contains(text, want)
		})
		if code != 1 || !strings.HasPrefix(text, "queue: ") {
			t.Errorf("%s: code %d, %q", prober, code, text)
		}
	}
	if code, text := g.probes("--as=ingress", "--timeout=1m"); code != 0 { // the gate responds even before the container listens
		t.Errorf("ingress: code %d, %q", code, text)
	}
	k.listen()
	g.becomesReady(kubelet)
	blocked := dial(t, g)
	blocked.send(request("GET", "/")) // keeps the drain from ending
	k.acceptFor("/")
	g.signal(syscall.SIGTERM)
	g.awaitDraining()
	g.mayEnd = true
	for _, prober := range []string{"kubelet", "activator", "ingress"} {
		if code, text := g.probes("--as", prober, "--timeout=1m"); code != 1 || !strings.Contains(text, "shutting down") {
			t.Errorf("%s while draining: code %d, %q", prober, code, text)
		}
	}
}

func TestQueueProbeWithoutAGateFailsClearly(t *testing.T) {
	t.Parallel()
	hangs, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer hangs.Close()
	other := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") })}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go other.Serve(l)
	defer other.Close()
	for _, c := range []struct {
		port   int
		prober string
		want   string
	}{
		{freePort(t), "kubelet", "no gate listens on 127.0.0.1:"},
		{hangs.Addr().(*net.TCPAddr).Port, "activator", "within 300ms"},
		{l.Addr().(*net.TCPAddr).Port, "activator", "not from a gate"},
		{l.Addr().(*net.TCPAddr).Port, "ingress", "lacks the requested hash"},
	} {
		args := []string{"probe", "--as", c.prober, "--port", fmt.Sprint(c.port)}
		if c.want != "within 300ms" {
			args = append(args, "--timeout=1m")
		}
		code, _, stderr := runQueue(t, nil, args...)
		if code != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("code %d, %q; want %q", code, stderr, c.want)
		}
	}
	if code, _, stderr := runQueue(t, nil, "probe", "--ass=x"); code != 2 || !strings.Contains(stderr, "did you mean --as?") {
		t.Errorf("code %d, %q", code, stderr)
	}
}

// In Knative 0.14 the sidecar had an exec probe with the flag -probe-period.
func TestTheProbeFlagOfOldKnativeWaitsForTheGate(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	port := freePort(t)
	// At first another server listens on the gate's port, and closes each connection. The
	// command must not mistake it for the gate.
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	must(t, err)
	env := append(baseEnv(t), fmt.Sprintf("QUEUE_SERVING_PORT=%d", port), fmt.Sprintf("USER_PORT=%d", k.port),
		"DRAIN_SOCKET="+shortTempDir(t)+"/d.sock", "DRAIN_QUIET_SECONDS=0")
	asking := startProcess(t, env, queueBinary, "-probe-period", "0")
	for range 2 {
		c, err := listener.Accept()
		must(t, err)
		must(t, c.Close())
	}
	// A child that has not yet executed its program would have a copy of the listener, and
	// keep the port in use. The lock waits for such children.
	syscall.ForkLock.RLock()
	err = listener.Close()
	syscall.ForkLock.RUnlock()
	must(t, err)
	startProcess(t, env, queueBinary)
	if code := asking.exitCode(); code != 0 {
		t.Errorf("code %d: %s", code, asking.Stderr.String())
	}
	if code, _, stderr := runQueue(t, nil, "-probe-period=1", "--port", fmt.Sprint(freePort(t))); code != 1 || !strings.Contains(stderr, "no gate listens") {
		t.Errorf("code %d, %q", code, stderr)
	}
}

func TestTheVersionAndHelpCommandsPrintAndExit(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"version": "go1.", "help": "queue [flags] -- COMMAND", "help drain": "Usage: queue drain", "help --json": `"variable": "USER_PORT"`, "drain --help": "--drain-socket",
		"probe --help": "--as kubelet|activator|ingress",
	} {
		code, stdout, stderr := runQueue(t, nil, strings.Fields(args)...)
		if code != 0 || !strings.Contains(stdout, want) || stderr != "" {
			t.Errorf("%s: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	if code, _, stderr := runQueue(t, nil, "help", "me"); code != 2 || !strings.Contains(stderr, "want one of probe, drain") {
		t.Errorf("code %d, %q", code, stderr)
	}
}

// openTerminal opens a pseudo-terminal. Bytes written to slave are read from master.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { _ = master.Close() })
	// File.Fd would make the descriptor blocking, and thus disable its deadline.
	raw, err := master.SyscallConn()
	must(t, err)
	var n int
	must(t, raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}))
	must(t, err)
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { _ = slave.Close() })
	return master, slave
}

func TestTheLogOnATerminalIsReadable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ setting, line string }{
		{"SERVING_LOGGING_CONFIG=", `(?m)^\d\d:\d\d:\d\d\.\d{3}  \x1b\[34mINFO\x1b\[0m  serving on http://localhost:\d+/ for the application on port \d+\r?$`},
		{`SERVING_LOGGING_CONFIG={"level":"info"}`, `(?m)^\{.*"message":"serving"`},
	} {
		master, slave := openTerminal(t)
		startGateOn(t, streams{stderr: slave}, &container{port: freePort(t)}, c.setting)
		var text []byte
		must(t, master.SetReadDeadline(deadline()))
		for b := make([]byte, 1<<10); !regexp.MustCompile(c.line).Match(text); {
			n, err := master.Read(b)
			if err != nil {
				t.Fatalf("%v: %q is not like %s", err, text, c.line)
			}
			text = append(text, b[:n]...)
		}
	}
}

func TestSeveralGatesRunOnOneHost(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	row := launch.FreeRow(t, 6)
	for _, sidePorts := range []string{"off", "off", fmt.Sprint(row)} {
		port := freePort(t)
		g := &gate{addr: fmt.Sprintf("127.0.0.1:%d", port)}
		g.process = startProcess(t, []string{"SERVING_READINESS_PROBE=none", "DRAIN_QUIET_SECONDS=0"}, queueBinary,
			"--port", fmt.Sprint(port), "--user-port", fmt.Sprint(k.port), "--side-ports", sidePorts)
		if !g.awaitListening() {
			t.Fatalf("the gate ended: %s", g.Stderr.String())
		}
		if sidePorts != "off" {
			for at, path := range map[int]string{1: "/health/alive", 2: "/metrics", 3: "/metrics"} {
				if a := dialAddr(t, fmt.Sprintf("127.0.0.1:%d", row+at)).get(path); a.status != 200 {
					t.Errorf("port %d: status %d", row+at, a.status)
				}
			}
			dialAddr(t, fmt.Sprintf("127.0.0.1:%d", row+4)).close() // the status page listens on this port
		}
		defer func() {
			if code, _, stderr := runQueue(t, nil, "drain", "--drain-socket", fmt.Sprintf("@queuegate-%d", port)); code != 0 {
				t.Errorf("queue drain: code %d, %s", code, stderr)
			}
			g.ends(0)
		}()
	}
}
