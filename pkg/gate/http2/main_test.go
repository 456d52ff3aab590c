package http2

import (
	"flag"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/atomic"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/internal/testkit/leak"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/http1"
	"github.com/queuegate/queuegate/pkg/gate/server"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

func TestMain(m *testing.M) {
	// Parallel tests mostly wait for timeouts and sockets. So 6 of them may run at once,
	// also on a machine with fewer CPUs.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	leak.Main(m)
}

var until = testkit.Until

// container is a listener in the test process that stands for the user container.
type container struct {
	t     *testing.T
	ln    net.Listener
	conns atomic.Int64 // number of accepted connections
}

func (c *container) addr() netip.AddrPort { return c.ln.Addr().(*net.TCPAddr).AddrPort() }

// serveHTTP serves h with net/http over the given protocols.
func serveHTTP(t *testing.T, http1, h2c bool, h http.HandlerFunc) *container {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &container{t: t, ln: ln}
	srv := &http.Server{Handler: h, Protocols: new(http.Protocols), ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			c.conns.Inc()
		}
	}}
	srv.Protocols.SetHTTP1(http1)
	srv.Protocols.SetUnencryptedHTTP2(h2c)
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	return c
}

func serveHTTP1(t *testing.T, h http.HandlerFunc) *container { return serveHTTP(t, true, false, h) }
func serveH2C(t *testing.T, h http.HandlerFunc) *container   { return serveHTTP(t, false, true, h) }

// serveRaw calls serve with each connection, and closes the connection when serve returns
// or the test ends.
func serveRaw(t *testing.T, serve func(net.Conn)) *container {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &container{t: t, ln: ln}
	var all sync.WaitGroup
	var mu sync.Mutex
	open, over := map[net.Conn]struct{}{}, false
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = struct{}{}
			if over {
				_ = conn.Close()
			}
			mu.Unlock()
			c.conns.Inc()
			all.Go(func() {
				serve(conn)
				_ = conn.Close()
				mu.Lock()
				delete(open, conn)
				mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		over = true
		for conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return c
}

// rig is a server with one loop, listening on a port.
type rig struct {
	t            *testing.T
	gate         *exchange.Gate
	server       *server.Server
	http1        *http1.Protocol
	protocol     *observedProtocol
	choice       *upstream.Choice
	part         *Engine
	addr         string
	panics       atomic.Int64
	expectPanics bool
}

// observedProtocol stores the engine in the rig.
type observedProtocol struct {
	*Protocol
	rig *rig
}

func (p *observedProtocol) NewEngine(w *server.Worker) server.Engine {
	p.rig.part, p.rig.choice = newEngine(p.Protocol, w), w.Choice
	return p.rig.part
}

type options struct {
	gate            exchange.Config
	engine          *Protocol
	protocol        upstream.Protocol
	panics          bool
	smallSendBuffer bool // small send buffers in the kernel, so that the gate buffers unread output early
}

func newRig(t *testing.T, c *container, set ...func(*options)) *rig {
	t.Helper()
	o := options{engine: &Protocol{Scheme: "http"}, gate: exchange.Config{RequestTimeout: 5 * time.Minute, QueueCapacity: 10_000, UpstreamWait: testkit.Timeout, UpstreamRestartWait: testkit.Timeout}}
	for _, f := range set {
		f(&o)
	}
	g := &exchange.Gate{Config: o.gate}
	err := g.Init()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, gate: g, http1: &http1.Protocol{}, expectPanics: o.panics}
	r.protocol = &observedProtocol{o.engine, r}
	panicked := func(v any) {
		if r.panics.Inc(); !r.expectPanics {
			t.Errorf("panic: %v", v)
		}
	}
	r.server, err = server.NewServer(g, server.Config{
		HTTP1: r.http1, HTTP2: r.protocol, Loops: 1,
		Upstream: upstream.Config{Address: c.addr()}, Speaks: o.protocol, Panicked: panicked,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.end)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if o.smallSendBuffer {
		raw, err := ln.(*net.TCPListener).SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 16<<10) })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r.addr = ln.Addr().String()
	if err := r.server.Serve(ln.(*net.TCPListener)); err != nil {
		t.Fatal(err)
	}
	return r
}

// end closes the server and checks that all requests, slots and memory are released.
func (r *rig) end() {
	r.server.Close()
	a, d := r.gate.Admission, r.gate.Drain
	if a.InFlight() != 0 || a.QueueDepth() != 0 || d.Requests() != 0 || d.Tunnels() != 0 || r.gate.Connects.Len() != 0 {
		r.t.Errorf("not released: %d in flight, %d queued, %d requests, %d tunnels, %d in the connect queue",
			a.InFlight(), a.QueueDepth(), d.Requests(), d.Tunnels(), r.gate.Connects.Len())
	}
	if h, b := r.gate.Heads.Used(), r.gate.Bodies.Used(); h != 0 || b != 0 {
		r.t.Errorf("not released: %d bytes for heads, %d for bodies", h, b)
	}
	if n := r.protocol.Stats().Connections; n != 0 {
		r.t.Errorf("%d connections are still open", n)
	}
}

// on runs f on the loop.
func (r *rig) on(f func()) {
	r.t.Helper()
	done := make(chan struct{})
	r.part.loop.Post(func() { defer close(done); f() })
	testkit.Receive(r.t, "the loop", done)
}

// inEachIteration calls f in each iteration of the loop until f returns true. Then it
// closes the returned channel. Use it for a state that does not last, because a poll from
// the goroutine of the test may miss it.
func (r *rig) inEachIteration(f func() bool) (done <-chan struct{}) {
	over := make(chan struct{})
	var step func()
	step = func() {
		if f() {
			close(over)
			return
		}
		r.part.loop.Post(step)
	}
	r.part.loop.Post(step)
	return over
}

func (r *rig) faults() map[string]int64 {
	seen := map[string]int64{}
	for name, n := range r.protocol.Stats().Errors {
		if n > 0 {
			seen[name] = n
		}
	}
	return seen
}

// get sends a request over HTTP/1.1 on a new connection.
func (r *rig) get(path string) (int, string) {
	r.t.Helper()
	tr := &http.Transport{DisableKeepAlives: true}
	res, err := (&http.Client{Transport: tr, Timeout: testkit.Timeout}).Get("http://" + r.addr + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}
