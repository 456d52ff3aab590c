package e2e

import (
	"io"
	"strings"
	"testing"
	"time"
)

// timedOut fails unless this is the local reply for a timeout.
func (a response) timedOut() {
	a.t.Helper()
	a.is(504, "request timeout")
	a.field("Content-Type", "text/plain; charset=utf-8")
	a.lacks("X-Content-Type-Options")
	a.byGate()
	if a.line != "HTTP/1.1 504 Gateway Timeout" {
		a.t.Errorf("status line %q", a.line)
	}
}

// checkElapsed fails if the time since start is shorter than d by more than 20 ms. It accepts
// every longer time, because a timeout may expire late.
func checkElapsed(t *testing.T, start time.Time, d time.Duration) {
	t.Helper()
	if elapsed := time.Since(start); elapsed < d-20*time.Millisecond {
		t.Errorf("after %v, want not before %v", elapsed, d)
	}
}

// The tests below have a timeout of one second, and a busy machine may delay the test or
// the container for longer. So they repeat a step that the gate has ended by the timeout.

// servedInTime sends requests on c until the container has responded to one in time.
func servedInTime(t *testing.T, k *container, c *client) {
	t.Helper()
	eventually(t, "a response is in time", func() bool {
		c.send(request("GET", "/next"))
		p := k.acceptFor("/next")
		_, _ = io.WriteString(p.w, okClose) // after the timeout, the gate has closed the connection
		p.close()
		a := c.response("GET")
		if a.status == 504 {
			a.timedOut()
			return false
		}
		a.is(200, "ok")
		return true
	})
}

// upgradedInTime opens a tunnel.
func upgradedInTime(t *testing.T, k *container, g *gate) (c *client, p *peer) {
	t.Helper()
	eventually(t, "an upgrade is in time", func() bool {
		c = dial(t, g)
		c.send(request("GET", "/ws", "Connection: Upgrade", "Upgrade: websocket"))
		p = k.accept()
		p.head()
		_, _ = io.WriteString(p.w, switching) // after the timeout, the gate has closed the connection
		return parseHead(t, c.head()).status == 101
	})
	return c, p
}

// begunInTime sends requests until the container begins a response before the gate's
// timeout. It sends the first request on c, or on a new connection if c is nil. The
// parameter first has the bytes with which the container begins each response. The client
// reads the head in these bytes. The result start is a time just before the container
// sent them.
func begunInTime(t *testing.T, k *container, g *gate, c *client, first string) (_ *client, p *peer, start time.Time) {
	t.Helper()
	eventually(t, "a response begins in time", func() bool {
		if c == nil {
			c = dial(t, g)
		}
		c.send(request("GET", "/next"))
		p = k.acceptFor("/next")
		start = time.Now()
		_, _ = io.WriteString(p.w, first) // after the timeout, the gate has closed the connection
		if parseHead(t, c.head()).status == 504 {
			c = nil
			return false
		}
		return true
	})
	return c, p, start
}

func TestTheRequestTimeoutGives504AndKeepsTheConnection(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "REVISION_TIMEOUT_SECONDS=1")
	c := dial(t, g)
	start := time.Now()
	c.send("POST / HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 4\r\n\r\nbody")
	p := k.accept()
	p.head()
	p.expect("body")
	c.response("POST").timedOut()
	checkElapsed(t, start, time.Second)
	p.awaitClose()
	servedInTime(t, k, c)
}

func TestTheRequestTimeoutAppliesInTheQueue(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "REVISION_TIMEOUT_SECONDS=1", "CONTAINER_CONCURRENCY=1")
	tunnel, p := upgradedInTime(t, k, g)
	start := time.Now()
	c := dial(t, g)
	c.get("/queued").timedOut()
	checkElapsed(t, start, time.Second)
	k.unseen("a request that timed out in the queue")
	tunnel.close()
	p.awaitClose()
	p.close()
	servedInTime(t, k, c)
}

func TestTheRequestTimeoutCutsAResponseInProgress(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "REVISION_TIMEOUT_SECONDS=1")
	for _, x := range []struct{ head, part string }{
		{"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", "half"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "4\r\nhalf\r\n"},
	} {
		eventually(t, "a response begins in time", func() bool {
			c := dial(t, g)
			start := time.Now()
			c.send(request("GET", "/"))
			p := k.accept()
			p.head()
			_, _ = io.WriteString(p.w, x.head+x.part) // after the timeout, the gate has closed the connection
			if parseHead(t, c.head()).status == 504 {
				return false
			}
			if got, _ := c.readAll(); got != x.part {
				t.Errorf("the client got %q, want %q and a cut", got, x.part)
			}
			checkElapsed(t, start, time.Second)
			p.awaitClose()
			return true
		})
	}
}

func TestTheRequestTimeoutResetsAResponseDelimitedByClose(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "REVISION_TIMEOUT_SECONDS=1")
	eventually(t, "a response begins in time", func() bool {
		c := dial(t, g)
		c.send("GET / HTTP/1.0\r\nHost: gate.test\r\n\r\n")
		p := k.accept()
		p.head()
		_, _ = io.WriteString(p.w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n") // after the timeout, the gate has closed the connection
		if parseHead(t, c.head()).status == 504 {
			return false
		}
		c.expect("half")
		if got, err := c.readAll(); got != "" || err == nil {
			t.Errorf("the client got %q and a FIN: it cannot detect that the body was truncated", got)
		}
		p.awaitClose()
		return true
	})
}

func TestTheResponseStartTimeoutGives504(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "REVISION_RESPONSE_START_TIMEOUT_SECONDS=1", "REVISION_TIMEOUT_SECONDS=60")
	c := dial(t, g)
	start := time.Now()
	c.send(request("GET", "/"))
	p := k.accept()
	p.head()
	c.response("GET").timedOut()
	checkElapsed(t, start, time.Second)
	p.awaitClose()
	// The body may arrive later than the timeout.
	c, p, _ = begunInTime(t, k, g, c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
	<-time.After(1300 * time.Millisecond)
	p.send("cd")
	c.expect("abcd")
}

func TestAnInterimResponseStopsTheResponseStartTimeout(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "REVISION_RESPONSE_START_TIMEOUT_SECONDS=1", "REVISION_TIMEOUT_SECONDS=60")
	c, p, _ := begunInTime(t, k, g, nil, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
	<-time.After(1300 * time.Millisecond)
	finish(c, p)
}

func TestTheIdleTimeoutGives504BeforeTheHeadAndCutsTheResponseAfterIt(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "REVISION_IDLE_TIMEOUT_SECONDS=1", "REVISION_TIMEOUT_SECONDS=60")
	c := dial(t, g)
	start := time.Now()
	c.send(request("GET", "/"))
	p := k.accept()
	p.head()
	c.response("GET").timedOut()
	checkElapsed(t, start, time.Second)
	p.awaitClose()

	c, p, start = begunInTime(t, k, g, c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
	if got, _ := c.readAll(); got != "4\r\nhalf\r\n" {
		t.Errorf("the client got %q", got)
	}
	checkElapsed(t, start, time.Second)
	p.awaitClose()
}

func TestBytesInEitherDirectionRestartTheIdleTimeout(t *testing.T) {
	// On a busy machine a pause may take seconds longer.
	const pause, idleTimeout = 600 * time.Millisecond, 3 * time.Second
	for _, direction := range []string{"upload", "response", "tunnel up", "tunnel down"} {
		t.Run(direction, func(t *testing.T) {
			t.Parallel()
			k := startContainer(t)
			g := startGate(t, k, "REVISION_IDLE_TIMEOUT_SECONDS=3", "REVISION_TIMEOUT_SECONDS=60")
			var c *client
			var p *peer
			switch direction {
			case "upload":
				c = dial(t, g)
				c.send("POST / HTTP/1.1\r\nHost: gate.test\r\nContent-Length: 6\r\n\r\n")
				p = k.accept()
				p.head()
			case "response":
				c, p = inFlight(t, k, g, "/")
				p.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n")
				c.head()
			default:
				c, p = upgraded(t, k, g, "", "")
			}
			up := direction == "upload" || direction == "tunnel up"
			for range 6 {
				<-time.After(pause)
				if up {
					c.send("x")
					p.expect("x")
				} else {
					p.send("x")
					c.expect("x")
				}
			}
			switch direction {
			case "upload":
				finish(c, p)
			case "response":
				c.send(request("GET", "/next"))
				p.head()
				finish(c, p)
			default:
				start := time.Now()
				c.closed() // both sides are silent, so the idle timeout expires
				checkElapsed(t, start, idleTimeout-pause)
				p.awaitClose()
			}
		})
	}
}

func TestAStalledUploadGets504AndTheConnectionIsClosed(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"REVISION_TIMEOUT_SECONDS=1", "REVISION_IDLE_TIMEOUT_SECONDS=1", "REVISION_RESPONSE_START_TIMEOUT_SECONDS=1"} {
		for _, head := range []string{"Content-Length: 10\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n8\r\nhalf"} {
			t.Run(setting+" "+head[:7], func(t *testing.T) {
				t.Parallel()
				k := startContainer(t)
				g := startGate(t, k, setting)
				c := dial(t, g)
				start := time.Now()
				c.send("POST / HTTP/1.1\r\nHost: gate.test\r\n" + head)
				p := k.accept()
				p.head()
				c.response("POST").timedOut()
				checkElapsed(t, start, time.Second)
				c.closed()
				if rest, _ := p.readAll(); strings.HasSuffix(rest, "0\r\n\r\n") {
					t.Errorf("the container got a complete body: %q", rest)
				}
			})
		}
	}
}

func TestRequestAndResponseStartTimeoutsDoNotApplyToTunnels(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "REVISION_TIMEOUT_SECONDS=1", "REVISION_RESPONSE_START_TIMEOUT_SECONDS=1")
	c, p := upgradedInTime(t, k, g)
	<-time.After(1500 * time.Millisecond)
	c.send("alive")
	p.expect("alive")
	p.send("still")
	c.expect("still")
}

func TestTunnelMaxSecondsCutsATunnel(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k, "TUNNEL_MAX_SECONDS=0.5")
	start := time.Now()
	c, p := upgraded(t, k, g, "", "")
	c.closed()
	checkElapsed(t, start, 500*time.Millisecond)
	p.awaitClose()
}

func TestClientConnectionsHaveKeepAliveOf15Seconds(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startGate(t, k)
	check := func(c *client) {
		t.Helper()
		// The kernel's table shows only one timer of a socket. For a short time this may
		// be another timer, such as that of a retransmission. So the check is repeated
		// until the timer is keep-alive.
		var s socket
		var ok bool
		defer func() { t.Logf("in the table %v, timer %d ends in %v", ok, s.timer, s.timerRemaining) }()
		eventually(t, "the kernel's timer is keep-alive within 15s", func() bool {
			s, ok = c.gateSocket()
			return ok && s.timer == 2 && s.timerRemaining > time.Second && s.timerRemaining <= 15*time.Second
		})
	}
	c, p := inFlight(t, k, g, "/")
	check(c)
	finish(c, p)
	check(c)
	tunnel, _ := upgraded(t, k, g, "", "")
	check(tunnel)
}
