package e2e

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

func (g *gate) ends(code int) {
	g.t.Helper()
	g.mayEnd = true
	if got := g.exitCode(); got != code {
		g.t.Fatalf("the gate ended with code %d, want %d; stderr:\n%s", got, code, g.Stderr.String())
	}
}

func TestADrainServesUntilItIsQuiet(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			k := startContainer(t)
			// On a busy machine, the next request may come seconds after the last one.
			// The drain must not end between them.
			g := startGate(t, k, "DRAIN_QUIET_SECONDS=3")
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
				a := c.response("GET")
				a.is(200, "ok")
				a.field("Connection", "close")
				c.closed()
			}
			g.ends(0)
			checkElapsed(t, last, 3*time.Second)
		})
	}
}

func TestADrainEndsAtOnceWhenNothingIsOpen(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "DRAIN_QUIET_SECONDS=0")
	idle, _ := reused(t, k, g) // does not delay the drain
	start := time.Now()
	g.signal(syscall.SIGTERM)
	g.ends(0)
	t.Logf("ended after %v", time.Since(start))
	idle.closed()
}

func TestRequestsInFlightAndQueuedCompleteInADrain(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "DRAIN_QUIET_SECONDS=0", "CONTAINER_CONCURRENCY=1")
	c, p := inFlight(t, k, g, "/0")
	next := queued(t, g, "/1")
	upload := dial(t, g)
	upload.send("POST /2 HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 4\r\n\r\nbo")
	g.awaitRead(upload)
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
		b := to.response("GET")
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
			c.closed()
			checkElapsed(t, start, 700*time.Millisecond)
			p.awaitClose()
			g.ends(0)
		})
	}
}

func TestADrainEndsWithItsLastTunnel(t *testing.T) {
	t.Parallel()
	for _, quiet := range []string{"0", "0.1"} {
		k := startContainer(t)
		g := startGate(t, k, "DRAIN_QUIET_SECONDS="+quiet, "DRAIN_TUNNEL_SECONDS=600")
		c, p := upgraded(t, k, g, "", "")
		g.signal(syscall.SIGTERM)
		g.logs("draining: completing open requests")
		for range 3 {
			c.send("up")
			p.expect("up")
			p.send("down")
			c.expect("down")
		}
		c.close()
		p.awaitClose()
		p.close()
		g.ends(0)
	}
}

func TestASecondSignalEndsADrainWithCode1(t *testing.T) {
	t.Parallel()
	for _, second := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		k := startContainer(t)
		g := startGate(t, k, "DRAIN_QUIET_SECONDS=600")
		c, p := inFlight(t, k, g, "/")
		g.signal(syscall.SIGTERM)
		g.awaitDraining()
		g.signal(second)
		g.ends(1)
		c.readAll()
		p.awaitClose()
	}
}

func (g *gate) waitForDrain(t *testing.T) *client {
	t.Helper()
	return g.waitForDrainAt(t, "/wait-for-drain")
}

func (g *gate) waitForDrainAt(t *testing.T, target string) *client {
	t.Helper()
	c := dialAddr(t, g.admin)
	c.send("GET " + target + " HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n")
	return c
}

func TestWaitForDrainWithoutASignalReturnsAfterASecondAndChangesNothing(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "ADMIN_PORT=free")
	start := time.Now()
	w := g.waitForDrain(t)
	for !w.pending() {
		p := dial(t, g)
		p.get("/", "User-Agent: kube-probe/1", "K-Network-Probe: queue").is(200, "queue")
		p.close()
		<-time.After(20 * time.Millisecond)
	}
	checkElapsed(t, start, time.Second)
	w.response("GET").is(200, "")
	c := dial(t, g)
	c.get("/", "User-Agent: kube-probe/1", "K-Network-Probe: queue").is(200, "queue")
	c.send(request("GET", "/"))
	q := k.accept()
	q.head()
	q.send(okBody)
	a := c.response("GET")
	a.is(200, "ok")
	a.lacks("Connection")
}

// The preStop hook of the application calls /wait-for-drain. The preStop hook of the gate
// is `queue drain`, which begins the drain. A busy node may start the second hook seconds
// after the first. The parameter begins-within is the maximum time for which
// /wait-for-drain waits for a drain to begin.
func TestWaitForDrainWaitsForTheRequestedTime(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "ADMIN_PORT=free", "DRAIN_QUIET_SECONDS=0.2")
	g.mayEnd = true
	start := time.Now()
	g.waitForDrainAt(t, "/wait-for-drain?begins-within=0s").response("GET").is(200, "")
	w := g.waitForDrainAt(t, "/wait-for-drain?begins-within=1m")
	g.waitForDrainAt(t, "/wait-for-drain?begins-within=1.5s").response("GET").is(200, "")
	checkElapsed(t, start, 1500*time.Millisecond)
	c, p := inFlight(t, k, g, "/")
	d := startProcess(t, g.env, queueBinary, "drain")
	g.logs("draining: completing open requests") // after the quiet period, the gate no longer accepts probes
	if w.pending() {
		t.Error("got a response while a request was in flight")
	}
	finish(c, p)
	w.response("GET").is(200, "")
	if code := d.exitCode(); code != 0 {
		t.Errorf("queue drain ended with code %d; stderr:\n%s", code, d.Stderr.String())
	}
}

func TestWaitForDrainReportsAnInvalidDuration(t *testing.T) {
	t.Parallel()
	g := startGate(t, startContainer(t), "ADMIN_PORT=free")
	for _, invalid := range []string{"10", "-1s", "61s", "soon"} {
		g.waitForDrainAt(t, "/wait-for-drain?begins-within="+invalid).response("GET").
			is(400, `begins-within="`+invalid+`" is not a duration from 0s to 1m0s`)
	}
}

func TestWaitForDrainReturnsWhenTheDrainEnds(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"call first", "signal first"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			k := startContainer(t)
			g := startGate(t, k, "ADMIN_PORT=free", "DRAIN_QUIET_SECONDS=3")
			var w *client
			start := time.Now()
			if order == "call first" {
				w = g.waitForDrainAt(t, "/wait-for-drain?begins-within=1m")
				g.signal(syscall.SIGTERM)
				g.awaitDraining()
			} else {
				g.signal(syscall.SIGTERM)
				g.awaitDraining()
				w = g.waitForDrain(t)
			}
			w.response("GET").is(200, "")
			checkElapsed(t, start, 3*time.Second)
			g.ends(0)
		})
	}
}

// The kubelet sends SIGTERM to the container only after the container's preStop hook has
// ended. The hook must therefore end while WebSockets are open, because the container
// closes them when it gets SIGTERM.
func TestAContainerCanCloseItsWebSocketsDuringADrain(t *testing.T) {
	t.Parallel()
	for hook, ask := range map[string]func(*testing.T, *gate) (awaitResponse func()){
		"wait-for-drain": func(t *testing.T, g *gate) func() {
			g.signal(syscall.SIGTERM)
			g.logs("draining: completing open requests") // after the quiet period, the gate no longer accepts probes
			w := g.waitForDrain(t)
			return func() { w.response("GET").is(200, "") }
		},
		"queue drain": func(t *testing.T, g *gate) func() {
			d := startProcess(t, g.env, queueBinary, "drain")
			g.logs("draining: completing open requests")
			return func() {
				if code := d.exitCode(); code != 0 {
					t.Fatalf("queue drain ended with code %d; stderr:\n%s", code, d.Stderr.String())
				}
				// A native sidecar gets its first SIGTERM after `queue drain`.
				g.signal(syscall.SIGTERM)
			}
		},
	} {
		t.Run(hook, func(t *testing.T) {
			t.Parallel()
			k := startContainer(t)
			g := startGate(t, k, "ADMIN_PORT=free", "DRAIN_QUIET_SECONDS=0.2", "DRAIN_TUNNEL_SECONDS=600")
			socket, app := upgraded(t, k, g, "", "")
			c, p := inFlight(t, k, g, "/")
			awaitResponse := ask(t, g)
			eventually(t, "the quiet period is over", func() bool {
				c, err := net.Dial("tcp", g.addr)
				if err == nil {
					_ = c.Close()
				}
				return err != nil
			})
			finish(c, p)
			awaitResponse()
			const goingAway = "\x88\x02\x03\xe9" // close frame with code 1001 (RFC 6455 section 5.5.1)
			app.send(goingAway)
			socket.expect(goingAway)
			const reply = "\x88\x82\x00\x00\x00\x00\x03\xe9"
			socket.send(reply)
			app.expect(reply)
			app.close()
			socket.closed()
			socket.close()
			g.ends(0)
		})
	}
}

func TestWaitForDrainWaitsForRequestsInProgress(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "ADMIN_PORT=free")
	c, p := inFlight(t, k, g, "/")
	g.signal(syscall.SIGTERM)
	g.awaitDraining()
	w := g.waitForDrain(t)
	start := time.Now()
	// If no drain had begun, /wait-for-drain would respond after 1 s.
	for time.Since(start) < 1500*time.Millisecond {
		if w.pending() {
			t.Fatalf("got a response after %v while a request was in flight", time.Since(start))
		}
		<-time.After(20 * time.Millisecond)
	}
	finish(c, p)
	w.response("GET").is(200, "")
	g.ends(0)
}

func TestSIGHUPWithoutACertificateChangesNothing(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	c, p := inFlight(t, k, g, "/")
	d := startProcess(t, g.env, queueBinary, "drain")
	g.awaitDraining()
	if !d.Running() {
		t.Fatalf("queue drain ended with code %d while a request was in flight; stderr:\n%s", d.exitCode(), d.Stderr.String())
	}
	g.mayEnd = true
	p.send(okClose)
	a := c.response("GET")
	a.is(200, "ok")
	a.field("Connection", "close")
	if code := d.exitCode(); code != 0 {
		t.Fatalf("queue drain ended with code %d; stderr:\n%s", code, d.Stderr.String())
	}
	// After `queue drain` the kubelet sends SIGTERM, which does not count as a second
	// signal.
	_ = g.Cmd.Process.Signal(syscall.SIGTERM) // the gate may have ended
	g.ends(0)
}

func TestQueueDrainWithoutAGateFailsClearly(t *testing.T) {
	t.Parallel()
	socket := shortTempDir(t) + "/none.sock"
	code, _, stderr := runQueue(t, append(baseEnv(t), "DRAIN_SOCKET="+socket), "drain")
	if code != 1 || !strings.Contains(stderr, socket) {
		t.Errorf("code %d, stderr %q; want 1 and the socket's path", code, stderr)
	}
}

func TestAStaleDrainSocketDoesNotPreventAStart(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	first := startGate(t, k)
	first.mayEnd = true
	first.signal(syscall.SIGKILL)
	<-first.Exited
	second := startGate(t, k, "DRAIN_SOCKET="+first.socket)
	c, p := inFlight(t, k, second, "/")
	d := startProcess(t, second.env, queueBinary, "drain")
	second.awaitDraining()
	finish(c, p)
	second.mayEnd = true
	if code := d.exitCode(); code != 0 {
		t.Fatalf("queue drain ended with code %d; stderr:\n%s", code, d.Stderr.String())
	}
}

func TestTheGateRunsUntilSIGTERMAlthoughItsContainerHasEnded(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	// The gate is ready, and responds to readiness probes.
	dial(t, g).get("/", "User-Agent: kube-probe/1", "K-Network-Probe: queue").is(200, "queue")
	c, p := reused(t, k, g)
	p.close()
	c.close()
	must(t, k.Client.Close())
	<-k.Exited
	dial(t, g).get("/", "K-Network-Probe: probe", "K-Network-Hash: h").is(200, "")
	g.signal(syscall.SIGTERM)
	g.ends(0)
}
