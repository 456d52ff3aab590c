package e2e

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/queuegate/queuegate/test/e2e/remote"
)

// onlyPlain has parts of the names of tests that do not work through overtls: they
// observe the gate's process or sockets, measure milliseconds, or use HTTP/2.
var onlyPlain = []string{"OneGiB", "TenThousandIdle", "ClientConnectionsHaveKeepAlive", "OverHTTP2", "WhenDescriptorsRunOut", "ConnectionsAreRetired", "ExhaustTheDescriptors", "InKernelBuffers"}

func isOnlyPlain(name string) bool {
	return slices.ContainsFunc(onlyPlain, func(part string) bool { return strings.Contains(name, part) })
}

// TestTheHTTP1ContractAppliesOverTLS repeats the tests of sections C and D of ROWS.md
// with TLS between their clients and the gate.
func TestTheHTTP1ContractAppliesOverTLS(t *testing.T) {
	rows, err := rowsOf("C", "D")
	must(t, err)
	for _, part := range onlyPlain {
		if !slices.ContainsFunc(rows, func(name string) bool { return strings.Contains(name, part) }) {
			t.Errorf("onlyPlain: no test has %s in its name", part)
		}
	}
	awaitRepetition(t)
}

func TestTLS12AndTLS13ServeConsecutiveRequests(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startTLSGate(t, k)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := g.config()
		config.MinVersion, config.MaxVersion = version, version
		c := dialTLS(t, g, config)
		c.send(request("GET", "/1") + "POST /2 HTTP/1.1\r\nHost: gate.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
		p := k.accept()
		a := parseHead(t, p.head())
		if a.line != "GET /1 HTTP/1.1" || a.get("X-Forwarded-For") != "127.0.0.1" {
			t.Fatalf("the container got %s", a.head)
		}
		p.send(okBody)
		c.response("GET").is(200, "ok")
		p.head()
		if body, _ := p.chunked(); body != "abc" {
			t.Fatalf("the container got the body %q", body)
		}
		p.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n")
		b := c.response("POST")
		b.is(200, "hello")
		if b.trailers != "X-Sum: 1\r\n" {
			t.Errorf("trailers %q", b.trailers)
		}
	}
}

func TestProbesGetResponsesOverTLS(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startTLSGate(t, k)
	c := dialTLS(t, g, nil)
	c.get("/healthz", "User-Agent: kube-probe/1", "K-Network-Probe: queue").is(200, "queue")
	c.get("/healthz", "K-Network-Probe: probe", "K-Network-Hash: h").field("K-Network-Hash", "h")
	k.unseen("a probe")
}

func TestLargeBodiesOverTLSUseBoundedMemory(t *testing.T) {
	t.Parallel()
	const size = 96 << 20
	k := startContainer(t)
	g := startTLSGate(t, k)
	c := dialTLS(t, g, nil)
	c.send(request("GET", "/warm"))
	p := k.accept()
	p.head()
	p.send(okClose)
	p.close()
	c.response("GET").is(200, "ok")

	c = dialTLS(t, g, nil)
	growth := g.peakMemory()
	c.send(fmt.Sprintf("POST /both HTTP/1.1\r\nHost: gate.test\r\nContent-Length: %d\r\n\r\n", size))
	up := &upload{done: make(chan error, 1)}
	go func() { up.done <- up.run(c.tls, size, 0) }()
	p = k.accept()
	readHeadOnly(p)
	must(t, p.conn.Drain(size, false))
	must(t, <-up.done)
	p.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size))
	filled := make(chan error, 1)
	go func() { filled <- p.conn.Fill(size, 64<<10, false) }()
	c.head()
	must(t, remote.CheckPattern(&limited{c.r, size}, size))
	must(t, <-filled)
	growsLess(t, "96 MiB up and down over TLS", growth(), 8<<20)
}

func TestATunnelOverTLSForwardsHalfClosesInBothDirections(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startTLSGate(t, k)
	open := func() (*tlsClient, *peer) {
		c := dialTLS(t, g, nil)
		c.send(request("GET", "/ws", "Connection: Upgrade", "Upgrade: websocket"))
		p := k.accept()
		p.head()
		p.send(switching)
		c.head()
		return c, p
	}
	c, p := open()
	c.send("last words")
	c.sayEnd() // sends no FIN
	if got, err := p.readAll(); got != "last words" || err != nil {
		t.Fatalf("the container got %q, %v", got, err)
	}
	p.send("still here")
	p.close()
	if got, err := c.readAll(); got != "still here" || err != nil {
		t.Fatalf("the client got %q, %v", got, err)
	}

	c, p = open()
	p.send("last words")
	p.closeWrite()
	if got, err := c.readAll(); got != "last words" || err != nil { // the stream ended with close_notify
		t.Fatalf("the client got %q, %v", got, err)
	}
	c.send("still here")
	c.sayEnd()
	if got, err := p.readAll(); got != "still here" || err != nil {
		t.Fatalf("the container got %q, %v", got, err)
	}

	c, p = open()
	c.send("cut")
	c.closeWrite() // a FIN without close_notify
	p.awaitClose()
	c.closed()
}

func TestADisconnectOverTLSReachesTheContainerWithinMilliseconds(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startTLSGate(t, k)
	var delays []time.Duration
	for range 10 {
		for _, leave := range []func(*tlsClient){
			func(c *tlsClient) { c.sayEnd() },
			func(c *tlsClient) { must(t, c.tls.Close()) },
			func(c *tlsClient) { c.closeWrite() },
			func(c *tlsClient) { c.abort() },
		} {
			c := dialTLS(t, g, nil)
			c.send(request("GET", "/"))
			p := k.accept()
			p.head()
			leftAt := time.Now()
			leave(c)
			delays = append(delays, p.awaitClose().Sub(leftAt))
		}
	}
	slices.Sort(delays)
	median := delays[len(delays)/2]
	t.Logf("median %v of %d, longest %v", median, len(delays), delays[len(delays)-1])
	if median >= 50*time.Millisecond {
		t.Errorf("median %v, want less than 50ms", median)
	}
}

func TestAResponseDelimitedByCloseEndsWithCloseNotify(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startTLSGate(t, k)
	var p *peer
	for _, isComplete := range []bool{true, false} {
		c := dialTLS(t, g, nil)
		c.send("GET / HTTP/1.0\r\nHost: gate.test\r\n\r\n")
		if p == nil || !p.waitsFor(k) {
			p = k.accept()
		}
		p.head()
		p.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
		c.head()
		c.expect("hello")
		if isComplete {
			p.send("0\r\n\r\n")
		} else {
			p.close()
		}
		rest, err := io.ReadAll(c.r)
		truncated := errors.Is(err, io.ErrUnexpectedEOF) || err != nil && isReset(err)
		if len(rest) > 0 || truncated == isComplete || isComplete && err != nil {
			t.Errorf("whole %v: %q, %v", isComplete, rest, err)
		}
	}
}

func TestADrainOverTLSAnnouncesTheCloseAndEndsIdleConnectionsWithCloseNotify(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startTLSGate(t, k)
	held, atHeld := inFlight(t, k, g.gate, "/held") // keeps the drain from ending
	idle := dialTLS(t, g, nil)
	idle.send(request("GET", "/"))
	p := k.accept()
	p.head()
	p.send(okBody)
	idle.response("GET").is(200, "ok")
	g.signal(syscall.SIGTERM)
	g.awaitDraining()
	c := dialTLS(t, g, nil)
	c.send(request("GET", "/late"))
	if !p.waitsFor(k) {
		p = k.accept()
	}
	p.head()
	p.send(okBody)
	a := c.response("GET")
	a.is(200, "ok")
	a.field("Connection", "close")
	if rest, err := io.ReadAll(c.r); len(rest) > 0 || err != nil {
		t.Errorf("%q and %v, want the end of TLS", rest, err)
	}
	finish(held, atHeld)
	if rest, err := io.ReadAll(idle.r); len(rest) > 0 || err != nil {
		t.Errorf("%q and %v on the idle connection, want the end of TLS", rest, err)
	}
	g.ends(0)
}

func TestBytesThatAreNotTLSEndOnlyTheirOwnConnection(t *testing.T) {
	t.Parallel()
	k := startContainer(t)
	g := startTLSGate(t, k)
	c := dialAddr(t, g.secure)
	c.send(request("GET", "/"))
	a := c.response("GET")
	a.is(400, "this port speaks TLS only.\n")
	a.field("Proxy-Status", `queuegate; error=http_request_error; details="this port speaks TLS only"`)
	c.closed()
	for _, text := range []string{"\x00\x01\x02", strings.Repeat("\xff", 3000), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"} {
		c := dialAddr(t, g.secure)
		c.send(text)
		if len(text) > 5 {
			atWire(t, c.net) // an alert may arrive
		}
	}
	incomplete := dialAddr(t, g.secure)
	incomplete.send("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
	dialTLS(t, g, nil).get("/", "K-Network-Probe: queue").is(200, "queue")
	k.unseen("something")
}
