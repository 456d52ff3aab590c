package e2e

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ends fails unless the gate ends with this code.
func (g *gate) ends(code int) {
	g.t.Helper()
	g.mayEnd = true
	if got := g.exitCode(); got != code {
		g.t.Fatalf("the gate ended with code %d, want %d; stderr:\n%s", got, code, g.stderr.String())
	}
}

func TestADrainServesUntilItIsQuiet(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			k := startContainer(t)
			g := startGate(t, k, "DRAIN_QUIET_SECONDS=1")
			old, p := reused(t, k, g)
			p.close()
			g.signal(s)
			g.awaitDraining()
			var last time.Time
			for _, c := range []*client{old, dial(t, g), dial(t, g)} {
				last = time.Now()
				c.send(request("GET", "/draining"))
				q := k.acceptFor("/draining")
				q.send(okClose)
				a := c.answer("GET")
				a.is(200, "ok")
				a.field("Connection", "close")
				c.closed()
			}
			g.ends(0)
			since(t, last, time.Second)
		})
	}
}

func TestADrainEndsAtOnceWhenNothingIsOpen(t *testing.T) {
	k := startContainer(t)
	g := startGate(t, k, "DRAIN_QUIET_SECONDS=0")
	idle, _ := reused(t, k, g) // an idle connection does not hold it up
	start := time.Now()
	g.signal(syscall.SIGTERM)
	g.ends(0)
	t.Logf("ended after %v", time.Since(start))
	idle.closed()
}

func TestRequestsInFlightAndQueuedCompleteInADrain(t *testing.T) {
	k := startContainer(t)
	g := startGate(t, k, "DRAIN_QUIET_SECONDS=0", "CONTAINER_CONCURRENCY=1")
	c, p := inFlight(t, k, g, "/0")
	next := queued(t, g, "/1")
	upload := dial(t, g)
	upload.send("POST /2 HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 4\r\n\r\nbo")
	g.taken(upload)
	g.signal(syscall.SIGTERM)
	g.awaitDraining()
	p.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha")
	c.head()
	c.expect("ha")
	p.send("lf")
	c.expect("lf")
	for range 2 {
		q := p
		if !p.waitsFor(k) {
			q = k.accept()
		}
		a := parseHead(t, q.head())
		to := next
		if strings.HasPrefix(a.line, "POST") {
			q.expect("bo")
			upload.send("dy")
			q.expect("dy")
			to = upload
		}
		q.send(okClose)
		p = q
		b := to.answer("GET")
		b.is(200, "ok")
		b.field("Connection", "close")
	}
	g.ends(0)
}

func TestADrainWaitsForTunnelsAtMostDrainTunnelSeconds(t *testing.T) {
	t.Parallel()
	for _, quiet := range []string{"0", "0.2"} {
		t.Run("quiet "+quiet, func(t *testing.T) {
			t.Parallel()
			k := startContainer(t)
			g := startGate(t, k, "DRAIN_QUIET_SECONDS="+quiet, "DRAIN_TUNNEL_SECONDS=0.7")
			c, p := upgraded(t, k, g, "", "")
			start := time.Now()
			g.signal(syscall.SIGTERM)
			c.send("still")
			p.expect("still")
			c.closed()
			since(t, start, 700*time.Millisecond)
			p.gone()
			g.ends(0)
		})
	}
}

func TestADrainEndsWithItsLastTunnel(t *testing.T) {
	for _, quiet := range []string{"0", "0.1"} {
		k := startContainer(t)
		g := startGate(t, k, "DRAIN_QUIET_SECONDS="+quiet, "DRAIN_TUNNEL_SECONDS=600")
		c, p := upgraded(t, k, g, "", "")
		g.signal(syscall.SIGTERM)
		for range 3 {
			c.send("up")
			p.expect("up")
			p.send("down")
			c.expect("down")
		}
		c.close()
		p.gone()
		p.close()
		g.ends(0)
	}
}

func TestASecondSignalEndsADrainWithCode1(t *testing.T) {
	for _, second := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		k := startContainer(t)
		g := startGate(t, k, "DRAIN_QUIET_SECONDS=600")
		c, p := inFlight(t, k, g, "/")
		g.signal(syscall.SIGTERM)
		g.awaitDraining()
		g.signal(second)
		g.ends(1)
		c.rest()
		p.gone()
	}
}

// waitForDrain calls the admin port and gives the answer when it is there.
func (g *gate) waitForDrain(t *testing.T) *client {
	t.Helper()
	c := dialAddr(t, g.admin)
	c.send("GET /wait-for-drain HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n")
	return c
}

func TestWaitForDrainWithoutASignalReturnsAfterASecondAndChangesNothing(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "ADMIN_PORT=on")
	start := time.Now()
	w := g.waitForDrain(t)
	for !w.pending() {
		p := dial(t, g)
		p.get("/", "User-Agent: kube-probe/1", "K-Network-Probe: queue").is(200, "queue")
		p.close()
		<-time.After(20 * time.Millisecond)
	}
	since(t, start, time.Second)
	w.answer("GET").is(200, "")
	c := dial(t, g)
	c.get("/", "User-Agent: kube-probe/1", "K-Network-Probe: queue").is(200, "queue")
	c.send(request("GET", "/"))
	q := k.accept()
	q.head()
	q.send(okBody)
	a := c.answer("GET")
	a.is(200, "ok")
	a.lacks("Connection")
}

func TestWaitForDrainIsHeldUntilTheDrainEnds(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"call first", "signal first"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			k := startContainer(t)
			g := startGate(t, k, "ADMIN_PORT=on", "DRAIN_QUIET_SECONDS=1.5")
			var w *client
			start := time.Now()
			if order == "call first" {
				w = g.waitForDrain(t)
				g.signal(syscall.SIGTERM)
				g.awaitDraining()
			} else {
				g.signal(syscall.SIGTERM)
				g.awaitDraining()
				w = g.waitForDrain(t)
			}
			w.answer("GET").is(200, "")
			since(t, start, 1500*time.Millisecond)
			g.ends(0)
		})
	}
}

func TestHangupChangesNothing(t *testing.T) {
	k := startContainer(t)
	g := startGate(t, k)
	c, p := inFlight(t, k, g, "/")
	for range 3 {
		g.signal(syscall.SIGHUP)
	}
	dial(t, g).get("/", "K-Network-Probe: queue").is(200, "queue")
	finish(c, p)
	c, p = inFlight(t, k, g, "/next")
	finish(c, p)
}

func TestQueueDrainStartsADrainAndWaitsForItsEnd(t *testing.T) {
	k := startContainer(t)
	g := startGate(t, k)
	c, p := inFlight(t, k, g, "/")
	d := startProcess(t, g.env, queueBinary, "drain")
	g.awaitDraining()
	if !d.running() {
		t.Fatalf("queue drain ended with code %d while a request was in flight; stderr:\n%s", d.exitCode(), d.stderr.String())
	}
	g.mayEnd = true
	p.send(okClose)
	a := c.answer("GET")
	a.is(200, "ok")
	a.field("Connection", "close")
	if code := d.exitCode(); code != 0 {
		t.Fatalf("queue drain ended with code %d; stderr:\n%s", code, d.stderr.String())
	}
	// The signal of the pod's end comes later; it is not a second signal.
	_ = g.cmd.Process.Signal(syscall.SIGTERM) // the gate may have ended
	g.ends(0)
}

func TestQueueDrainWithoutAGateFailsClearly(t *testing.T) {
	socket := shortTempDir(t) + "/none.sock"
	code, _, stderr := runQueue(t, append(baseEnv(t), "DRAIN_SOCKET="+socket), "drain")
	if code != 1 || !strings.Contains(stderr, socket) {
		t.Errorf("code %d, stderr %q; want 1 and the socket's path", code, stderr)
	}
}

func TestADrainSocketLeftBehindDoesNotHinderAStart(t *testing.T) {
	k := startContainer(t)
	first := startGate(t, k)
	first.mayEnd = true
	first.signal(syscall.SIGKILL)
	<-first.exited
	second := startGate(t, k, "DRAIN_SOCKET="+first.socket)
	c, p := inFlight(t, k, second, "/")
	d := startProcess(t, second.env, queueBinary, "drain")
	second.awaitDraining()
	finish(c, p)
	second.mayEnd = true
	if code := d.exitCode(); code != 0 {
		t.Fatalf("queue drain ended with code %d; stderr:\n%s", code, d.stderr.String())
	}
}

func TestTheGateListensBeforeItReportsReadyAndOutlivesTheContainer(t *testing.T) {
	k := startContainer(t)
	g := startGate(t, k)
	// The first connection that is accepted is served, readiness included.
	dial(t, g).get("/", "User-Agent: kube-probe/1", "K-Network-Probe: queue").is(200, "queue")
	c, p := reused(t, k, g)
	p.close()
	c.close()
	must(t, k.Client.Close())
	<-k.exited
	dial(t, g).get("/", "K-Network-Probe: probe", "K-Network-Hash: h").is(200, "")
	g.signal(syscall.SIGTERM)
	g.ends(0)
}

func TestATakenPortGivesAClearErrorAndCode1(t *testing.T) {
	for _, name := range []string{"QUEUE_SERVING_PORT", "ADMIN_PORT"} {
		l, err := net.Listen("tcp", ":0")
		must(t, err)
		port := l.Addr().(*net.TCPAddr).Port
		env := append(baseEnv(t),
			fmt.Sprintf("QUEUE_SERVING_PORT=%d", freePort(t)),
			"DRAIN_SOCKET="+shortTempDir(t)+"/d.sock",
			fmt.Sprintf("%s=%d", name, port))
		code, _, stderr := runQueue(t, env)
		must(t, l.Close())
		if code != 1 || !strings.Contains(stderr, fmt.Sprint(port)) || !strings.Contains(stderr, "in use") {
			t.Errorf("%s: code %d, stderr %q; want 1 and the port in use", name, code, stderr)
		}
	}
}

func TestBadConfigurationIsReportedWholeWithCode2(t *testing.T) {
	bad := []string{
		"CONTAINER_CONCURRENCY=-1", "USER_PORT=x", "QUEUE_SERVING_PORT=0x50", "REVISION_TIMEOUT_SECONDS=0",
		"REVISION_IDLE_TIMEOUT_SECONDS=-2", "QUEUE_CAPACITY=many", "QUEUE_MAX_WAIT=soon", "CONCURRENCY_HARD=perhaps",
		"CLIENT_HALF_CLOSE=never", "DRAIN_QUIET_SECONDS=-1", "SERVING_READINESS_PROBE={}", "SERVING_LOGGING_LEVEL=loud",
	}
	for _, args := range [][]string{nil, {"--check"}} {
		code, _, stderr := runQueue(t, append(baseEnv(t), bad...), args...)
		if code != 2 {
			t.Errorf("%v: code %d, want 2", args, code)
		}
		for _, b := range bad {
			name, value, _ := strings.Cut(b, "=")
			if !strings.Contains(stderr, name) || !strings.Contains(stderr, value) {
				t.Errorf("%v: stderr lacks %s or its value %s:\n%s", args, name, value, stderr)
			}
		}
	}
	for _, probe := range []string{`{"exec":{"command":["true"]}}`, `{"httpGet":{"path":"/"},"tcpSocket":{"port":1}}`, `{`, `[1]`} {
		code, _, stderr := runQueue(t, append(baseEnv(t), "SERVING_READINESS_PROBE="+probe), "--check")
		if code != 2 || !strings.Contains(stderr, "SERVING_READINESS_PROBE") {
			t.Errorf("probe %s: code %d, stderr %q", probe, code, stderr)
		}
	}
}

func TestEmptyValuesOfKnativeMeanUnset(t *testing.T) {
	k := startContainer(t)
	g := startGate(t, k, "ROOT_CA=", "QUEUE_PROXY_TLS_MIN_VERSION=", "QUEUE_PROXY_TLS_MAX_VERSION=", "QUEUE_PROXY_TLS_CIPHER_SUITES=",
		"QUEUE_PROXY_TLS_CURVE_PREFERENCES=", "SERVING_LOGGING_LEVEL=", "SERVING_SERVICE=", "SERVING_READINESS_PROBE=",
		"CONTAINER_CONCURRENCY=0", "REVISION_RESPONSE_START_TIMEOUT_SECONDS=0", "REVISION_IDLE_TIMEOUT_SECONDS=0",
		"REVISION_TIMEOUT_SECONDS=604800", "OBSERVABILITY_CONFIG=", "SERVING_LOGGING_CONFIG=")
	c, p := inFlight(t, k, g, "/")
	finish(c, p)
}

func TestCheckVersionAndHelpPrintAndExit(t *testing.T) {
	for _, x := range []struct {
		arg   string
		wants []string
	}{
		{"--check", []string{"USER_PORT", "4321", "REVISION_TIMEOUT_SECONDS", "300"}},
		{"--version", []string{"go1."}},
		{"--help", []string{"--user-port", "CONTAINER_CONCURRENCY", "queue drain"}},
	} {
		code, stdout, stderr := runQueue(t, append(baseEnv(t), "USER_PORT=4321"), x.arg)
		if code != 0 {
			t.Errorf("%s: code %d, stderr %q", x.arg, code, stderr)
		}
		for _, want := range x.wants {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: stdout lacks %q:\n%s", x.arg, want, stdout)
			}
		}
	}
}

func TestAFlagBeatsTheEnvironment(t *testing.T) {
	code, stdout, stderr := runQueue(t, append(baseEnv(t), "USER_PORT=4321"), "--check", "--user-port", "1234")
	if code != 0 || !strings.Contains(stdout, "1234") || strings.Contains(stdout, "4321") {
		t.Errorf("code %d, stdout %s, stderr %s", code, stdout, stderr)
	}
}
