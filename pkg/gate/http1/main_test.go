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
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/server"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engineCall is a request as the scripted container gets it.
type engineCall struct {
	container *engineContainer
	conn      *net.TCPConn
	in        *bufio.Reader
	method    string
	target    string
	length    int  // of the body, -1 = chunked
	reused    bool // not the first one of its connection
}

// answer sends a complete response and reports that the connection stays open.
func (c *engineCall) answer(body string) bool {
	_, err := fmt.Fprintf(c.conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return err == nil
}

func (c *engineCall) write(s string) bool {
	_, err := io.WriteString(c.conn, s)
	return err == nil
}

// reset closes the connection with RST.
func (c *engineCall) reset() bool {
	_ = c.conn.SetLinger(0)
	return false
}

// readBody takes a body with a length.
func (c *engineCall) readBody() (string, error) {
	b := make([]byte, max(0, c.length))
	n, err := io.ReadFull(c.in, b)
	return string(b[:n]), err
}

// awaitEnd returns when the gate has closed its direction or the connection.
func (c *engineCall) awaitEnd() { _, _ = io.Copy(io.Discard, c.in) }

// await waits for news, at most until the end of the test.
func (c *engineCall) await(news <-chan struct{}) {
	select {
	case <-news:
	case <-c.container.stop:
	}
}

// engineContainer is a user container in this process. serve is called for each
// request, with unread body, and reports whether the connection stays open.
type engineContainer struct {
	serve  func(*engineCall) bool
	serial bool // takes a connection only after the one before has ended
	ln     net.Listener
	stop   chan struct{} // closed at the end of the test

	mu    sync.Mutex
	conns map[*net.TCPConn]struct{}
	made  int
	all   sync.WaitGroup
}

func (c *engineContainer) run(ln net.Listener) {
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
				c.converse(conn.(*net.TCPConn))
				continue
			}
			c.all.Go(func() { c.converse(conn.(*net.TCPConn)) })
		}
	})
}

func (c *engineContainer) converse(conn *net.TCPConn) {
	defer func() {
		_ = conn.Close()
		c.mu.Lock()
		delete(c.conns, conn)
		c.mu.Unlock()
	}()
	call := &engineCall{container: c, conn: conn, in: bufio.NewReader(conn)}
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

// end closes everything and waits for the goroutines.
func (c *engineContainer) end() {
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

// engineEnd is what an observer got at the end of a request.
type engineEnd struct {
	gate.Record
	request string
}

// engineObserver checks that Begin and End come in pairs.
type engineObserver struct {
	mu sync.Mutex

	onBegin, onEnd func() // may be nil

	open   map[*gate.Record]string
	begun  int
	aside  []string // events besides requests
	ended  []engineEnd
	faults []string
}

func (o *engineObserver) Begin(x *gate.Record) {
	o.mu.Lock()
	if _, twice := o.open[x]; twice {
		o.faults = append(o.faults, "begin of an exchange that is open already")
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

func (o *engineObserver) Rejected(outcome gate.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.aside = append(o.aside, outcome.String())
}

func (o *engineObserver) Probed(x *gate.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.aside = append(o.aside, fmt.Sprintf("%s %d for %s %s", x.Outcome, x.Status, x.Method, x.Target))
}

func (o *engineObserver) End(x *gate.Record) {
	o.mu.Lock()
	request, ok := o.open[x]
	if now := string(x.Method) + " " + string(x.Target); !ok {
		o.faults = append(o.faults, "end without begin")
	} else if now != request {
		o.faults = append(o.faults, fmt.Sprintf("began as %q and ended as %q", request, now))
	}
	delete(o.open, x)
	if x.Context == nil || x.Ended < x.Arrived || x.Admitted > x.Ended || x.Responded > x.Ended {
		o.faults = append(o.faults, fmt.Sprintf("end with %+v", *x))
	}
	o.ended = append(o.ended, engineEnd{*x, request})
	hook := o.onEnd
	o.mu.Unlock()
	if hook != nil {
		hook()
	}
}

// hook sets functions for Begin and End to call.
func (o *engineObserver) hook(begin, end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.onBegin, o.onEnd = begin, end
}

func (o *engineObserver) outcomes() map[gate.Outcome]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	counts := map[gate.Outcome]int{}
	for i := range o.ended {
		counts[o.ended[i].Outcome]++
	}
	return counts
}

func (o *engineObserver) totals() (begun, ended int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.begun, len(o.ended)
}

// last waits for n requests to have ended and returns the last one.
func (o *engineObserver) last(t *testing.T, n int) engineEnd {
	t.Helper()
	testkit.Until(t, fmt.Sprintf("the end of %d requests", n), func() bool { _, ended := o.totals(); return ended >= n })
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended[n-1]
}

// engineRig is a gate between clients and a scripted container.
type engineRig struct {
	t         *testing.T
	gate      *exchange.Gate
	server    *server.Server
	engines   []*engine
	container *engineContainer
	observer  *engineObserver
	addr      string
	panics    chan any // nil: a panic fails the test
	panicked  atomic.Bool
	port      int // descriptor that holds the container's port while it does not listen
}

// observed makes the engines of the protocol known to the rig.
type observed struct {
	Protocol
	rig *engineRig
}

func (p *observed) NewPart(w *server.Worker) server.Part {
	e := newEngine(&p.Protocol, w)
	p.rig.engines = append(p.rig.engines, e)
	return e
}

// engineOptions says how a rig differs from the plain one.
type engineOptions struct {
	loops  int  // 0 = 1
	silent bool // the container does not listen before listen is called
	serial bool // it takes one connection at a time
	panics bool // panics are expected
}

// engineServe starts a rig. At the end of the test it checks that nothing is
// left of any request.
func engineServe(t *testing.T, config exchange.Config, o engineOptions, handle func(*engineCall) bool) *engineRig {
	t.Helper()
	r := &engineRig{t: t, port: -1, observer: &engineObserver{open: map[*gate.Record]string{}}}
	config.Observer = r.observer
	g := &exchange.Gate{Config: config}
	err := g.Init()
	if err != nil {
		t.Fatal(err)
	}
	r.gate = g
	r.container = &engineContainer{serve: handle, serial: o.serial, stop: make(chan struct{}), conns: map[*net.TCPConn]struct{}{}}
	t.Cleanup(r.container.end)
	address := r.bind()
	if !o.silent {
		r.listen()
	}
	if o.panics {
		r.panics = make(chan any, 1000)
	}
	r.server, err = server.NewServer(g, server.Config{HTTP1: &observed{rig: r}, Upstream: upstream.Config{Address: address}, Loops: max(1, o.loops), Panicked: func(v any) {
		if r.panics != nil {
			r.panics <- v
		} else if r.panicked.Swap(true) {
			t.Error("and another panic")
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

// bind takes a port for the container: connections to it are refused until
// listen is called.
func (r *engineRig) bind() netip.AddrPort {
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

// listen lets the container accept connections.
func (r *engineRig) listen() {
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

// end closes the server and checks that it leaves nothing behind.
func (r *engineRig) end() {
	r.server.Close()
	r.wantNothingLeft()
}

func (r *engineRig) wantNothingLeft() {
	r.t.Helper()
	a, d := r.gate.Admission, r.gate.Drain
	if a.InFlight() != 0 || a.QueueDepth() != 0 {
		r.t.Errorf("%d in flight and %d waiting are left", a.InFlight(), a.QueueDepth())
	}
	if d.Requests() != 0 || d.Tunnels() != 0 {
		r.t.Errorf("the drain still knows of %d requests and %d tunnels", d.Requests(), d.Tunnels())
	}
	if n := r.gate.Connects.Len(); n != 0 {
		r.t.Errorf("%d requests are still held", n)
	}
	o := r.observer
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.open) != 0 {
		r.t.Errorf("%d requests of %d were not ended: %v", len(o.open), o.begun, o.open)
	}
	if len(o.faults) > 0 {
		r.t.Errorf("observer: %d times something like %s", len(o.faults), o.faults[0])
	}
	o.faults = nil
}

// until waits for the gate's counts.
func (r *engineRig) until(inFlight, waiting int) {
	r.t.Helper()
	a := r.gate.Admission
	testkit.Until(r.t, fmt.Sprintf("%d in flight and %d waiting", inFlight, waiting), func() bool {
		return a.InFlight() == inFlight && a.QueueDepth() == waiting
	})
}

// wantOutcomes waits until as many requests have ended, and compares.
func (r *engineRig) wantOutcomes(want map[gate.Outcome]int) {
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

func (r *engineRig) shutdown(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return r.server.Shutdown(ctx)
}

// whileBlocked runs f while no loop does anything: all that f causes reaches
// the loops at once.
func (r *engineRig) whileBlocked(f func()) {
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

// engineClient is one client connection.
type engineClient struct {
	t    *testing.T
	conn *net.TCPConn
	in   *bufio.Reader
}

func (r *engineRig) client() *engineClient {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testkit.Timeout))
	return &engineClient{r.t, conn.(*net.TCPConn), bufio.NewReader(conn)}
}

func (c *engineClient) send(s string) *engineClient {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, s); err != nil {
		c.t.Errorf("sending: %v", err)
	}
	return c
}

// get sends a GET without waiting for the answer.
func (c *engineClient) get(target string) *engineClient {
	c.t.Helper()
	return c.send("GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")
}

// post sends a POST with a body in the same segment.
func (c *engineClient) post(target, body string) *engineClient {
	c.t.Helper()
	return c.send("POST " + target + " HTTP/1.1\r\nHost: h\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

// engineAnswer is an answer as a client gets it; err says how its body broke.
type engineAnswer struct {
	status  int
	header  http.Header
	body    string
	closing bool
	err     error
}

func (a engineAnswer) outcome() string { return a.header.Get("K-Gate-Outcome") }

func (c *engineClient) answer() engineAnswer {
	c.t.Helper()
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return engineAnswer{err: err, header: http.Header{}}
	}
	body, err := io.ReadAll(res.Body)
	return engineAnswer{res.StatusCode, res.Header, string(body), res.Close, err}
}

// want reads an answer and compares.
func (c *engineClient) want(status int, body string) engineAnswer {
	c.t.Helper()
	a := c.answer()
	if a.err != nil || a.status != status || a.body != body {
		c.t.Errorf("answer %d %q (%v), want %d %q", a.status, a.body, a.err, status, body)
	}
	return a
}

// wantRefusal reads a local reply.
func (c *engineClient) wantRefusal(o gate.Outcome) engineAnswer {
	c.t.Helper()
	a := c.answer()
	if a.err != nil || a.status != o.Meaning().Status || a.outcome() != o.String() {
		c.t.Errorf("answer %d, outcome %q (%v); want %d, %q", a.status, a.outcome(), a.err, o.Meaning().Status, o)
	}
	return a
}

// wantEnd expects the connection to end, orderly or not, without another byte.
func (c *engineClient) wantEnd() {
	c.t.Helper()
	b, err := io.ReadAll(c.in)
	if len(b) > 0 {
		c.t.Errorf("%q before the end (%v)", b[:min(200, len(b))], err)
	}
	if os.IsTimeout(err) {
		c.t.Error("the connection does not end")
	}
}

func (c *engineClient) close() { _ = c.conn.Close() }

// reset closes with RST.
func (c *engineClient) reset() {
	_ = c.conn.SetLinger(0)
	_ = c.conn.Close()
}

// readUntil reads up to and including the given text.
func (c *engineClient) readUntil(text string) string {
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
