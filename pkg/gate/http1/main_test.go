package http1

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/atomic"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/internal/testkit/leak"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/server"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

func TestMain(m *testing.M) { leak.Main(m) }

type containerRequest struct {
	container *container
	conn      *net.TCPConn
	in        *bufio.Reader
	method    string
	target    string
	length    int  // of the body, -1 = chunked
	reused    bool // not the first request of its connection
}

// respond sends a complete response and returns true: the connection stays open.
func (c *containerRequest) respond(body string) bool {
	_, err := fmt.Fprintf(c.conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return err == nil
}

func (c *containerRequest) write(s string) bool {
	_, err := io.WriteString(c.conn, s)
	return err == nil
}

func (c *containerRequest) reset() bool {
	_ = c.conn.SetLinger(0)
	return false
}

// readBody reads a body with a Content-Length.
func (c *containerRequest) readBody() (string, error) {
	b := make([]byte, max(0, c.length))
	n, err := io.ReadFull(c.in, b)
	return string(b[:n]), err
}

// awaitEnd waits until the gate has closed or half-closed the connection.
func (c *containerRequest) awaitEnd() { _, _ = io.Copy(io.Discard, c.in) }

// await waits until a channel is closed or readable, or the test ends.
func (c *containerRequest) await(event <-chan struct{}) {
	select {
	case <-event:
	case <-c.container.stop:
	}
}

// container is a user container in the test process. serve is called for each request and
// reports whether the connection stays open.
type container struct {
	serve  func(*containerRequest) bool
	serial bool // accepts a connection only after the previous one has ended
	ln     net.Listener
	stop   chan struct{} // closed at the end of the test

	mu    sync.Mutex
	conns map[*net.TCPConn]struct{}
	made  int
	all   sync.WaitGroup
}

func (c *container) run(ln net.Listener) {
	c.ln = ln
	c.all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			c.mu.Lock()
			c.conns[conn.(*net.TCPConn)] = struct{}{}
			c.made++
			c.mu.Unlock()
			if c.serial {
				c.serveConn(conn.(*net.TCPConn))
				continue
			}
			c.all.Go(func() { c.serveConn(conn.(*net.TCPConn)) })
		}
	})
}

func (c *container) serveConn(conn *net.TCPConn) {
	defer func() {
		_ = conn.Close()
		c.mu.Lock()
		delete(c.conns, conn)
		c.mu.Unlock()
	}()
	call := &containerRequest{container: c, conn: conn, in: bufio.NewReader(conn)}
	for {
		req, err := http.ReadRequest(call.in)
		if err != nil {
			return
		}
		call.method, call.target, call.length = req.Method, req.RequestURI, int(req.ContentLength)
		if !c.serve(call) {
			return
		}
		call.reused = true
	}
}

func (c *container) end() {
	close(c.stop)
	if c.ln != nil {
		_ = c.ln.Close()
	}
	c.mu.Lock()
	for conn := range c.conns {
		_ = conn.Close()
	}
	c.mu.Unlock()
	c.all.Wait()
}

type endedRequest struct {
	gate.Record
	request string
}

// checkingObserver checks that each Begin has one End.
type checkingObserver struct {
	mu sync.Mutex

	onBegin, onEnd func() // may be nil

	open   map[*gate.Record]string
	begun  int
	others []string // probes and rejected heads
	ended  []endedRequest
	faults []string
}

func (o *checkingObserver) Begin(x *gate.Record) {
	o.mu.Lock()
	if _, twice := o.open[x]; twice {
		o.faults = append(o.faults, "second begin of an exchange")
	}
	o.open[x] = string(x.Method) + " " + string(x.Target)
	o.begun++
	x.Context = o.begun
	if x.Arrived == 0 || x.Ended != 0 || x.Status != 0 || x.Admitted != 0 {
		o.faults = append(o.faults, fmt.Sprintf("begin with %+v", *x))
	}
	hook := o.onBegin
	o.mu.Unlock()
	if hook != nil {
		hook()
	}
}

func (o *checkingObserver) Rejected(outcome gate.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.others = append(o.others, outcome.String())
}

func (o *checkingObserver) Probed(x *gate.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.others = append(o.others, fmt.Sprintf("%s %d for %s %s", x.Outcome, x.Status, x.Method, x.Target))
}

func (o *checkingObserver) End(x *gate.Record) {
	o.mu.Lock()
	request, ok := o.open[x]
	if now := string(x.Method) + " " + string(x.Target); !ok {
		o.faults = append(o.faults, "end without begin")
	} else if now != request {
		o.faults = append(o.faults, fmt.Sprintf("began as %q but ended as %q", request, now))
	}
	delete(o.open, x)
	if x.Context == nil || x.Ended < x.Arrived || x.Admitted > x.Ended || x.Responded > x.Ended {
		o.faults = append(o.faults, fmt.Sprintf("end with %+v", *x))
	}
	o.ended = append(o.ended, endedRequest{*x, request})
	hook := o.onEnd
	o.mu.Unlock()
	if hook != nil {
		hook()
	}
}

// hook sets functions that Begin and End call.
func (o *checkingObserver) hook(begin, end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.onBegin, o.onEnd = begin, end
}

func (o *checkingObserver) outcomes() map[gate.Outcome]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	counts := map[gate.Outcome]int{}
	for i := range o.ended {
		counts[o.ended[i].Outcome]++
	}
	return counts
}

func (o *checkingObserver) totals() (begun, ended int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.begun, len(o.ended)
}

// last waits until n requests have ended and returns the last one.
func (o *checkingObserver) last(t *testing.T, n int) endedRequest {
	t.Helper()
	testkit.Until(t, fmt.Sprintf("the end of %d requests", n), func() bool { _, ended := o.totals(); return ended >= n })
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended[n-1]
}

// rig is a gate between test clients and a container in the test process.
type rig struct {
	t         *testing.T
	gate      *exchange.Gate
	server    *server.Server
	engines   []*engine
	container *container
	observer  *checkingObserver
	addr      string
	panics    chan any // nil: a panic fails the test
	panicked  atomic.Bool
	port      int // descriptor bound to the container's port, to reserve it before the container listens
}

// observedProtocol stores the engines in the rig.
type observedProtocol struct {
	Protocol
	rig *rig
}

func (p *observedProtocol) NewEngine(w *server.Worker) server.Engine {
	e := newEngine(&p.Protocol, w)
	p.rig.engines = append(p.rig.engines, e)
	return e
}

type options struct {
	loops  int  // 0 = 1
	silent bool // the container does not listen until listen is called
	serial bool // the container accepts one connection at a time
	panics bool // panics are expected
}

// newRig starts a rig. At the end of the test, the rig checks that all resources are
// released.
func newRig(t *testing.T, config exchange.Config, o options, handle func(*containerRequest) bool) *rig {
	t.Helper()
	r := &rig{t: t, port: -1, observer: &checkingObserver{open: map[*gate.Record]string{}}}
	config.Observer = r.observer
	g := &exchange.Gate{Config: config}
	err := g.Init()
	if err != nil {
		t.Fatal(err)
	}
	r.gate = g
	r.container = &container{serve: handle, serial: o.serial, stop: make(chan struct{}), conns: map[*net.TCPConn]struct{}{}}
	t.Cleanup(r.container.end)
	address := r.bind()
	if !o.silent {
		r.listen()
	}
	if o.panics {
		r.panics = make(chan any, 1000)
	}
	r.server, err = server.NewServer(g, server.Config{HTTP1: &observedProtocol{rig: r}, Upstream: upstream.Config{Address: address}, Loops: max(1, o.loops), Panicked: func(v any) {
		if r.panics != nil {
			r.panics <- v
		} else if r.panicked.Swap(true) {
			t.Error("another panic")
		} else {
			t.Errorf("panic: %v", v)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.end)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = ln.Addr().String()
	if err := r.server.Serve(ln.(*net.TCPListener)); err != nil {
		t.Fatal(err)
	}
	return r
}

// bind reserves a port for the container. Connections are refused until listen is called.
func (r *rig) bind() netip.AddrPort {
	r.t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	r.port = fd
	r.t.Cleanup(func() {
		if r.port >= 0 {
			_ = unix.Close(r.port)
		}
	})
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		r.t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		r.t.Fatal(err)
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(sa.(*unix.SockaddrInet4).Port))
}

func (r *rig) listen() {
	r.t.Helper()
	if err := unix.Listen(r.port, 1024); err != nil {
		r.t.Fatal(err)
	}
	f := os.NewFile(uintptr(r.port), "container")
	r.port = -1
	ln, err := net.FileListener(f)
	_ = f.Close()
	if err != nil {
		r.t.Fatal(err)
	}
	r.container.run(ln)
}

func (r *rig) end() {
	r.server.Close()
	r.wantAllReleased()
}

func (r *rig) wantAllReleased() {
	r.t.Helper()
	a, d := r.gate.Admission, r.gate.Drain
	if a.InFlight() != 0 || a.QueueDepth() != 0 {
		r.t.Errorf("%d in flight and %d queued are left", a.InFlight(), a.QueueDepth())
	}
	if d.Requests() != 0 || d.Tunnels() != 0 {
		r.t.Errorf("the drain still counts %d requests and %d tunnels", d.Requests(), d.Tunnels())
	}
	if n := r.gate.Connects.Len(); n != 0 {
		r.t.Errorf("%d requests are still in the connect queue", n)
	}
	o := r.observer
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.open) != 0 {
		r.t.Errorf("%d requests of %d were not ended: %v", len(o.open), o.begun, o.open)
	}
	if len(o.faults) > 0 {
		r.t.Errorf("observer: %d faults, the first: %s", len(o.faults), o.faults[0])
	}
	o.faults = nil
}

// until waits until the gate's counts have these values.
func (r *rig) until(inFlight, waiting int) {
	r.t.Helper()
	a := r.gate.Admission
	testkit.Until(r.t, fmt.Sprintf("%d in flight and %d queued", inFlight, waiting), func() bool {
		return a.InFlight() == inFlight && a.QueueDepth() == waiting
	})
}

// wantOutcomes waits until the requests in want have ended, and compares their outcomes.
func (r *rig) wantOutcomes(want map[gate.Outcome]int) {
	r.t.Helper()
	n := 0
	for _, k := range want {
		n += k
	}
	testkit.Until(r.t, fmt.Sprintf("the end of %d requests", n), func() bool { _, ended := r.observer.totals(); return ended >= n })
	if got := r.observer.outcomes(); !maps.Equal(got, want) {
		r.t.Errorf("outcomes %v, want %v", got, want)
	}
}

func (r *rig) shutdown(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return r.server.Shutdown(ctx)
}

// whileBlocked runs f while all loops are blocked, so that each loop sees all events
// caused by f in one iteration.
func (r *rig) whileBlocked(f func()) {
	r.t.Helper()
	release := make(chan struct{})
	defer close(release)
	for _, e := range r.engines {
		blocked := make(chan struct{})
		e.loop.Post(func() { close(blocked); <-release })
		testkit.Receive(r.t, "a loop", blocked)
	}
	f()
}

type testClient struct {
	t    *testing.T
	conn *net.TCPConn
	in   *bufio.Reader
}

func (r *rig) client() *testClient {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testkit.Timeout))
	return &testClient{r.t, conn.(*net.TCPConn), bufio.NewReader(conn)}
}

func (c *testClient) send(s string) *testClient {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, s); err != nil {
		c.t.Errorf("sending: %v", err)
	}
	return c
}

func (c *testClient) get(target string) *testClient {
	c.t.Helper()
	return c.send("GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")
}

// post sends a POST with a body in the same segment.
func (c *testClient) post(target, body string) *testClient {
	c.t.Helper()
	return c.send("POST " + target + " HTTP/1.1\r\nHost: h\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

// engineResponse is a response received by a client. err is the error of reading its
// body.
type engineResponse struct {
	status  int
	header  http.Header
	body    string
	closing bool
	err     error
}

func (a engineResponse) outcome() string { return a.header.Get("K-Gate-Outcome") }

func (c *testClient) response() engineResponse {
	c.t.Helper()
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return engineResponse{err: err, header: http.Header{}}
	}
	body, err := io.ReadAll(res.Body)
	return engineResponse{res.StatusCode, res.Header, string(body), res.Close, err}
}

func (c *testClient) want(status int, body string) engineResponse {
	c.t.Helper()
	a := c.response()
	if a.err != nil || a.status != status || a.body != body {
		c.t.Errorf("response %d %q (%v), want %d %q", a.status, a.body, a.err, status, body)
	}
	return a
}

// wantReply reads the local reply for o.
func (c *testClient) wantReply(o gate.Outcome) engineResponse {
	c.t.Helper()
	a := c.response()
	if a.err != nil || a.status != o.Meaning().Status || a.outcome() != o.String() {
		c.t.Errorf("response %d, outcome %q (%v); want %d, %q", a.status, a.outcome(), a.err, o.Meaning().Status, o)
	}
	return a
}

// wantEnd expects the end of the connection, by FIN or RST, without further bytes.
func (c *testClient) wantEnd() {
	c.t.Helper()
	b, err := io.ReadAll(c.in)
	if len(b) > 0 {
		c.t.Errorf("%q before the end (%v)", b[:min(200, len(b))], err)
	}
	if os.IsTimeout(err) {
		c.t.Error("the connection does not end")
	}
}

func (c *testClient) close() { _ = c.conn.Close() }

func (c *testClient) reset() {
	_ = c.conn.SetLinger(0)
	_ = c.conn.Close()
}

func (c *testClient) readUntil(text string) string {
	c.t.Helper()
	var got []byte
	for !bytes.HasSuffix(got, []byte(text)) {
		b, err := c.in.ReadByte()
		if err != nil {
			c.t.Errorf("%v after %q", err, got)
			return string(got)
		}
		got = append(got, b)
	}
	return string(got)
}

func wantSame[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
