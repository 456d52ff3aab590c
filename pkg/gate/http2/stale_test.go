package http2

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.uber.org/atomic"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate"
)

// script is a container over raw sockets. It answers the first request of each
// connection and then does what the test says with the connection.
type script struct {
	*container
	ln   *net.TCPListener
	seen atomic.Int64 // requests, whole or not
	then func(*net.TCPConn, *bufio.Reader)

	before func(n int64) // is called before the answer to request n; nil = nothing
}

const kept = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func startScript(t *testing.T, then func(*net.TCPConn, *bufio.Reader)) *script {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &script{
		container: &container{t: t, addr: ln.Addr().(*net.TCPAddr).AddrPort()},
		ln:        ln.(*net.TCPListener), then: then,
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := k.ln.AcceptTCP()
			if err != nil {
				return
			}
			k.mu.Lock()
			k.conns++
			k.mu.Unlock()
			all.Go(func() { k.serve(c) })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); all.Wait() })
	return k
}

func (k *script) serve(c *net.TCPConn) {
	defer c.Close()
	r := bufio.NewReader(c)
	req, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	n := k.seen.Inc()
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		k.t.Errorf("reading a request's body: %v", err)
	}
	if k.before != nil {
		k.before(n)
	}
	_, _ = io.WriteString(c, kept)
	k.then(c, r)
}

// endAcknowledged ends c, and returns when the kernel of the gate has the end.
func endAcknowledged(t *testing.T, c *net.TCPConn) {
	_ = c.CloseWrite()
	until(t, "the acknowledgement of the end", func() bool {
		state := byte(unix.BPF_TCP_CLOSE)
		raw, err := c.SyscallConn()
		if err == nil {
			_ = raw.Control(func(fd uintptr) {
				if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
					state = info.State
				}
			})
		}
		return state != unix.BPF_TCP_ESTABLISHED && state != unix.BPF_TCP_FIN_WAIT1
	})
}

// sleep makes the readers of connections sleep: from the first news after hold
// on they do not wake up before their connection is closed, as readers that the
// scheduler has not come to yet.
type sleep struct {
	hold atomic.Bool
	news chan struct{} // one for each connection with something that its reader does not see
}

// drowsy is a connection of the gate to its container.
type drowsy struct {
	*net.TCPConn
	*sleep
	closed chan struct{}
	once   sync.Once
}

func (d *drowsy) Read(p []byte) (int, error) {
	raw, err := d.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = raw.Read(func(fd uintptr) bool { // until there is something, which stays where it is
		var b [1]byte
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return err != unix.EAGAIN
	})
	if err == nil && d.hold.Load() {
		d.news <- struct{}{}
		<-d.closed
		return 0, net.ErrClosed
	}
	return d.TCPConn.Read(p)
}

func (d *drowsy) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.TCPConn.Close()
}

// onDial calls f with each connection to the container before its first use.
func (r *rig) onDial(f func(*conn)) {
	dial := r.server.up.http1.DialContext
	r.server.up.http1.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err == nil {
			f(c.(*conn))
		}
		return c, err
	}
}

// newDrowsyRig is a rig whose connections to the container are drowsy.
func newDrowsyRig(t *testing.T, k *script) (*rig, *sleep) {
	t.Helper()
	r := newRig(t, k.container, func(_ *gate.Config, h *Config) { h.Protocol = HTTP1 })
	all := &sleep{news: make(chan struct{}, 100)}
	r.onDial(func(c *conn) {
		c.Conn = &drowsy{TCPConn: c.Conn.(*net.TCPConn), sleep: all, closed: make(chan struct{})}
	})
	return r, all
}

// asleep waits until every connection to the container has something that its
// reader does not see. (The library closes a connection, now and then, instead
// of keeping it.)
func (r *rig) asleep(readers *sleep) {
	until(r.t, "ends at the gate", func() bool { return len(readers.news) == r.server.Stats().Upstream.Open })
}

func TestARequestThatMeetsAClosedConnectionGoesOutOnAnother(t *testing.T) {
	for _, said := range []string{"", "HTTP/1.1 408 Request Timeout\r\nContent-Length: 4\r\n\r\nevil"} {
		for _, c := range []struct{ method, body string }{
			{"POST", "x"}, {"POST", strings.Repeat("x", 1<<20)}, {"POST", ""}, {"PUT", "x"}, {"GET", ""},
		} {
			t.Run(fmt.Sprintf("%s of %d after %q", c.method, len(c.body), said), func(t *testing.T) {
				idle := make(chan struct{})
				var once sync.Once
				k := startScript(t, func(c *net.TCPConn, r *bufio.Reader) {
					once.Do(func() {
						<-idle
						_, _ = io.WriteString(c, said)
						endAcknowledged(t, c)
					})
					_, _ = r.ReadByte() // the gate's end
				})
				r, readers := newDrowsyRig(t, k)
				if res, body := r.do("POST", "/first", "x"); res.StatusCode != 200 || body != "ok" {
					t.Fatalf("%d %q", res.StatusCode, body)
				}
				readers.hold.Store(true)
				close(idle)
				r.asleep(readers)
				readers.hold.Store(false)
				if res, body := r.do(c.method, "/second", c.body); res.StatusCode != 200 || body != "ok" {
					t.Errorf("%d %v %q", res.StatusCode, res.Header, body)
				}
				if n := k.seen.Load(); n != 2 || k.accepted() != 2 {
					t.Errorf("the container saw %d requests on %d connections, want 2 on 2", n, k.accepted())
				}
				if u := r.server.Stats().Upstream; u.Dials != 2 || u.Reuses != 0 || u.Replays != 0 || u.Open != 1 {
					t.Errorf("%+v", u)
				}
			})
		}
	}
}

func TestEveryRequestAfterACloseIsServed(t *testing.T) {
	ended, idle := make(chan struct{}), make(chan struct{})
	k := startScript(t, func(c *net.TCPConn, _ *bufio.Reader) {
		<-idle
		endAcknowledged(t, c)
		ended <- struct{}{}
	})
	r := newRig(t, k.container, func(_ *gate.Config, h *Config) { h.Protocol = HTTP1 })
	const rounds = 200
	for i := range rounds {
		if res, body := r.do("POST", "/", "x"); res.StatusCode != 200 || body != "ok" {
			t.Fatalf("request %d: %d %v %q", i, res.StatusCode, res.Header, body)
		}
		idle <- struct{}{}
		receive(t, "the end of the connection", ended)
	}
	if n := k.seen.Load(); n != rounds {
		t.Errorf("the container saw %d requests, want %d", n, rounds)
	}
}

func TestAPoolOfClosedConnectionsCostsNoRequest(t *testing.T) {
	const many = maxTries + 8
	idle := make(chan struct{})
	k := startScript(t, func(c *net.TCPConn, r *bufio.Reader) {
		<-idle
		endAcknowledged(t, c)
		_, _ = r.ReadByte() // the gate's end
	})
	var first sync.WaitGroup
	first.Add(many)
	k.before = func(n int64) { // the first requests take a connection each
		if n <= many {
			first.Done()
			first.Wait()
		}
	}
	r, readers := newDrowsyRig(t, k)
	var all sync.WaitGroup
	for range many {
		req := r.request("POST", "/", strings.NewReader("x"))
		all.Go(func() {
			res, err := r.client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			_ = res.Body.Close()
		})
	}
	all.Wait()
	readers.hold.Store(true)
	close(idle)
	r.asleep(readers)
	readers.hold.Store(false)
	if res, body := r.do("POST", "/", "x"); res.StatusCode != 200 || body != "ok" {
		t.Errorf("%d %v %q", res.StatusCode, res.Header, body)
	}
	if n := k.seen.Load(); n != many+1 || k.accepted() != many+1 {
		t.Errorf("the container saw %d requests on %d connections, want %d on as many", n, k.accepted(), many+1)
	}
}

func TestARequestOfWhichAPartHasArrivedIsNotSentAgain(t *testing.T) {
	for _, reset := range []bool{false, true} {
		for _, c := range []struct{ method, body string }{{"POST", "x"}, {"POST", strings.Repeat("x", 1<<20)}, {"POST", ""}, {"PATCH", "x"}} {
			t.Run(fmt.Sprintf("%s of %d, reset %v", c.method, len(c.body), reset), func(t *testing.T) {
				var k *script
				k = startScript(t, func(c *net.TCPConn, r *bufio.Reader) {
					if _, err := r.ReadByte(); err != nil {
						return
					}
					k.seen.Inc()
					if reset {
						_ = c.SetLinger(0)
					}
				})
				r := newRig(t, k.container, func(_ *gate.Config, h *Config) { h.Protocol = HTTP1 })
				asked := int64(0)
				until(t, "a request on a connection that was kept", func() bool {
					asked++
					res, body := r.do(c.method, "/", c.body)
					reused := r.server.Stats().Upstream.Reuses == 1
					if want := map[bool]int{false: 200, true: 502}[reused]; res.StatusCode != want {
						t.Errorf("request %d: %d %v %q, want %d", asked, res.StatusCode, res.Header, body, want)
					}
					return reused
				})
				if n := k.seen.Load(); n != asked {
					t.Errorf("the container saw %d requests, want %d", n, asked)
				}
				if u := r.server.Stats().Upstream; u.Dials != asked-1 || u.Replays != 0 {
					t.Errorf("%+v", u)
				}
			})
		}
	}
}

func TestAnIdempotentRequestThatArrivedInPartIsSentAgain(t *testing.T) {
	var k *script
	k = startScript(t, func(c *net.TCPConn, r *bufio.Reader) {
		if _, err := r.ReadByte(); err == nil {
			k.seen.Inc()
		}
	})
	r := newRig(t, k.container, func(_ *gate.Config, h *Config) { h.Protocol = HTTP1 })
	asked := int64(0)
	until(t, "a request on a connection that was kept", func() bool {
		asked++
		if res, body := r.do("GET", "/", ""); res.StatusCode != 200 || body != "ok" {
			t.Errorf("%d %v %q", res.StatusCode, res.Header, body)
		}
		return r.server.Stats().Upstream.Reuses > 0
	})
	if n := k.seen.Load(); n != asked+1 {
		t.Errorf("the container saw %d requests, want %d", n, asked+1)
	}
	if u := r.server.Stats().Upstream; u.Dials != asked || u.Reuses != 1 || u.Replays != 1 {
		t.Errorf("%+v", u)
	}
}

func TestALookBeforeAReuseIsOneSystemCall(t *testing.T) {
	k := startScript(t, func(c *net.TCPConn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			_, _ = io.WriteString(c, kept)
		}
	})
	var looks atomic.Int64
	r := newRig(t, k.container, func(_ *gate.Config, h *Config) { h.Protocol = HTTP1 })
	r.onDial(func(c *conn) {
		probe := c.probe
		c.probe = func(fd uintptr) { looks.Inc(); probe(fd) }
	})
	const many = 20
	for range many {
		if res, _ := r.do("POST", "/", strings.Repeat("x", 100<<10)); res.StatusCode != 200 {
			t.Errorf("%d", res.StatusCode)
		}
	}
	if u := r.server.Stats().Upstream; u.Dials+u.Reuses != many || u.Reuses == 0 || looks.Load() != u.Reuses {
		t.Errorf("%d looks, %+v", looks.Load(), u)
	}
}
