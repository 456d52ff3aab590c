package http1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/server"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

func descriptorsByType(t *testing.T) map[string]int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, fd := range all {
		what, err := os.Readlink("/proc/self/fd/" + fd.Name())
		// Readlink fails for the directory's descriptor, because ReadDir has closed it.
		if err == nil {
			kind, _, _ := strings.Cut(what, "[")
			counts[kind]++
		}
	}
	return counts
}

func TestShutdownLetsRequestsInFlightAndQueuedFinish(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, exchange.Config{ConcurrencyLimit: 2, QueueCapacity: 10}, options{loops: 2}, func(c *containerRequest) bool {
		c.await(release)
		return c.respond(c.target)
	})
	var clients []*testClient
	for i := range 5 {
		clients = append(clients, r.client().get(fmt.Sprintf("/%d", i)))
		r.until(min(i+1, 2), max(0, i-1))
	}
	ended := make(chan error, 1)
	go func() { ended <- r.shutdown(testkit.Timeout) }()
	testkit.Until(t, "the listeners to close", func() bool {
		c, err := net.Dial("tcp", r.addr)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	select {
	case err := <-ended:
		t.Fatalf("shut down with requests in flight: %v", err)
	default:
	}
	close(release)
	for i, c := range clients {
		c.want(200, fmt.Sprintf("/%d", i))
		c.wantEnd()
	}
	if err := testkit.Receive(t, "the end of the shutdown", ended); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	r.wantOutcomes(map[gate.Outcome]int{gate.Served: 5})
}

func TestShutdownClosesIdleConnections(t *testing.T) {
	t.Parallel()
	var over atomic.Int64
	r := newRig(t, exchange.Config{}, options{loops: 2}, func(c *containerRequest) bool { over.Inc(); return c.respond("ok") })
	fresh := r.client()
	used := r.client().get("/")
	used.want(200, "ok")
	begun := r.client().send("GET / HT")
	testkit.Until(t, "three connections", func() bool { return connections(r) == 3 })
	if err := r.shutdown(testkit.Timeout); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	for _, c := range []*testClient{fresh, used, begun} {
		c.wantEnd()
	}
	if n := over.Load(); n != 1 {
		t.Errorf("%d requests at the container, want 1", n)
	}
}

func connections(r *rig) int {
	return countConns(r, func(*conn) bool { return true })
}

// countConns counts the client connections, on all loops, for which match returns true.
func countConns(r *rig, match func(*conn) bool) (n int) {
	for _, e := range r.engines {
		counted := make(chan int, 1)
		e.loop.Post(func() {
			k := 0
			for _, l := range []*connSet{&e.silent, &e.reading, &e.conns} {
				for c := range l.All() {
					if match(c) {
						k++
					}
				}
			}
			counted <- k
		})
		n += testkit.Receive(r.t, "the count of a loop", counted)
	}
	return n
}

// If the shutdown did not wait, the connections in the listen backlog of the busy loop
// would be reset.
func TestShutdownWaitsForABusyLoop(t *testing.T) {
	r := newRig(t, exchange.Config{}, options{}, func(c *containerRequest) bool { return c.respond("served") })
	var clients []*testClient
	ended := make(chan error, 1)
	r.whileBlocked(func() {
		for range 10 {
			clients = append(clients, r.client().get("/"))
		}
		go func() { ended <- r.server.Shutdown(context.Background()) }()
		testkit.Until(t, "the shutdown to begin", r.engines[0].worker.ShuttingDown)
		time.Sleep(300 * time.Millisecond) // longer than the shutdown waits for silent clients
	})
	for _, c := range clients {
		c.want(200, "served")
	}
	if err := testkit.Receive(t, "the end of the shutdown", ended); err != nil {
		t.Error(err)
	}
}

// The clients of these connections may already be sending their first request.
func TestRequestsOnConnectionsOpenedBeforeAShutdownAreServed(t *testing.T) {
	const backlog = 128
	r := newRig(t, exchange.Config{}, options{}, func(c *containerRequest) bool { return c.respond("served") })
	var clients []*testClient
	ended := make(chan error, 1)
	silent, requested := r.client(), make(chan struct{})
	testkit.Until(t, "the silent connection", func() bool { return connections(r) == 1 })
	r.whileBlocked(func() {
		for range backlog { // more connections than the loop accepts in one iteration
			clients = append(clients, r.client().get("/"))
		}
		r.server.BeginShutdown()
		// The loop runs this function right after it has stopped accepting. So the request
		// is sent while the shutdown waits for silent clients.
		r.engines[0].loop.Post(func() { silent.get("/"); close(requested) })
		go func() { ended <- r.server.Shutdown(context.Background()) }()
	})
	testkit.Receive(t, "a loop that has stopped accepting", requested)
	clients = append(clients, silent)
	for _, c := range clients {
		c.want(200, "served")
	}
	if err := testkit.Receive(t, "the end of the shutdown", ended); err != nil {
		t.Error(err)
	}
}

func TestShutdownWaitsForRequestsButEndsTunnelsAfterDrainTunnel(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, exchange.Config{DrainTunnel: time.Millisecond}, options{}, func(c *containerRequest) bool {
		if c.target == "/tunnel" {
			c.write(upgradeResponse)
			c.awaitEnd()
			return false
		}
		c.await(release)
		return c.respond("ok")
	})
	tunnel := r.client().send(upgradeRequest)
	tunnel.readUntil("\r\n\r\n")
	request := r.client().get("/")
	r.until(2, 0)
	ended := make(chan error, 1)
	go func() { ended <- r.shutdown(testkit.Timeout) }()
	// The request usually ends later than DrainTunnel, so that the tunnel ends first.
	time.AfterFunc(20*time.Millisecond, func() { close(release) })
	request.want(200, "ok")
	if err := testkit.Receive(t, "the end of the shutdown", ended); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	tunnel.wantEnd()
}

func TestATunnelThatEndsInTimeIsNotAborted(t *testing.T) {
	r := newRig(t, exchange.Config{DrainTunnel: time.Hour}, options{}, func(c *containerRequest) bool {
		c.write(upgradeResponse)
		_, _ = io.Copy(c.conn, c.in)
		return false
	})
	tunnel := r.client().send(upgradeRequest)
	tunnel.readUntil("\r\n\r\n")
	ended := make(chan error, 1)
	go func() { ended <- r.shutdown(2 * testkit.Timeout) }()
	for range 100 {
		tunnel.send("ping.").readUntil("ping.")
	}
	select {
	case err := <-ended:
		t.Fatalf("shut down with a tunnel open: %v", err)
	default:
	}
	_ = tunnel.conn.CloseWrite()
	tunnel.wantEnd()
	if err := testkit.Receive(t, "the end of the shutdown", ended); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	r.wantOutcomes(map[gate.Outcome]int{gate.Tunnelled: 1})
}

func TestShutdownDoesNotWaitForARequestThatBecomesATunnel(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, exchange.Config{}, options{}, func(c *containerRequest) bool {
		c.await(release)
		c.write(upgradeResponse)
		c.awaitEnd()
		return false
	})
	tunnel := r.client().send(upgradeRequest)
	r.until(1, 0)
	ended := make(chan error, 1)
	go func() { ended <- r.shutdown(testkit.Timeout / 3) }()
	time.AfterFunc(20*time.Millisecond, func() { close(release) })
	if err := testkit.Receive(t, "the end of the shutdown", ended); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	tunnel.close()
}

func TestShutdownAbortsRemainingConnectionsWhenItsContextEnds(t *testing.T) {
	r := newRig(t, exchange.Config{ConcurrencyLimit: 1, QueueCapacity: 1, DrainTunnel: time.Hour}, options{loops: 2}, func(c *containerRequest) bool {
		c.awaitEnd()
		return false
	})
	clients := []*testClient{r.client().get("/1")}
	r.until(1, 0)
	clients = append(clients, r.client().get("/2"))
	r.until(1, 1)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.server.Shutdown(ctx) }()
	cancel()
	if err := testkit.Receive(t, "the end of the shutdown", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("shutdown: %v, want %v", err, context.Canceled)
	}
	for _, c := range clients {
		c.wantEnd()
	}
	r.wantAllReleased()
}

func TestAClosedServerReleasesEveryDescriptor(t *testing.T) {
	for _, graceful := range []bool{true, false} {
		t.Run(fmt.Sprintf("graceful %v", graceful), func(t *testing.T) {
			serve := func() {
				g := &exchange.Gate{Config: exchange.Config{}}
				if err := g.Init(); err != nil {
					t.Fatal(err)
				}
				rig := &rig{}
				p := &observedProtocol{rig: rig}
				s, err := server.NewServer(g, server.Config{HTTP1: p, Upstream: upstream.Config{Address: netip.MustParseAddrPort("127.0.0.1:1")}, Loops: 3})
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					ln, err := net.Listen("tcp", "127.0.0.1:0")
					if err != nil {
						t.Fatal(err)
					}
					if err := s.Serve(ln.(*net.TCPListener)); err != nil {
						t.Fatal(err)
					}
					c, err := net.Dial("tcp", ln.Addr().String())
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
				}
				for _, e := range rig.engines {
					listening := make(chan struct{})
					e.loop.Post(func() { close(listening) })
					testkit.Receive(t, "a loop", listening)
				}
				if graceful {
					if err := s.Shutdown(context.Background()); err != nil {
						t.Errorf("shutdown: %v", err)
					}
				}
				s.Close()
			}
			serve() // opens descriptors that stay open
			before := descriptorsByType(t)
			for range 3 {
				serve()
			}
			for kind, n := range descriptorsByType(t) {
				if n > before[kind] {
					t.Errorf("%d descriptors of %s before, %d after", before[kind], kind, n)
				}
			}
		})
	}
}

// The kernel may give all connections to one loop, so there are several attempts.
func TestQueueIsServedInOrderAcrossLoops(t *testing.T) {
	for range 20 {
		if serveQueue(t) > 1 {
			return
		}
	}
	t.Fatal("one loop had all connections in each attempt")
}

// serveQueue queues 60 requests, checks that they are served in order, and returns the
// number of loops that had connections.
func serveQueue(t *testing.T) (used int) {
	const queued = 60
	proceed := make(chan struct{})
	var mu sync.Mutex
	var order []string
	r := newRig(t, exchange.Config{ConcurrencyLimit: 1, QueueCapacity: queued}, options{loops: 4}, func(c *containerRequest) bool {
		mu.Lock()
		order = append(order, c.target)
		mu.Unlock()
		c.await(proceed)
		return c.respond(c.target)
	})
	var clients []*testClient
	var want []string
	for i := range queued + 1 {
		want = append(want, fmt.Sprintf("/%d", i))
		clients = append(clients, r.client().get(want[i]))
		r.until(1, i)
	}
	for _, e := range r.engines {
		some := make(chan bool, 1)
		e.loop.Post(func() {
			some <- slices.ContainsFunc([]*connSet{&e.silent, &e.reading, &e.conns}, func(l *connSet) bool { return l.First() != nil })
		})
		if testkit.Receive(t, "a step of a loop", some) {
			used++
		}
	}
	close(proceed)
	for i, c := range clients {
		c.want(200, want[i])
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(order, want) {
		t.Errorf("order at the container %v", order)
	}
	return used
}

func TestManyLoopsServeManyConnections(t *testing.T) {
	r := newRig(t, exchange.Config{ConcurrencyLimit: 5, QueueCapacity: 1000}, options{loops: 3}, func(c *containerRequest) bool {
		body, err := c.readBody()
		return err == nil && c.respond(c.target+body)
	})
	var clients sync.WaitGroup
	for i := range 30 {
		clients.Go(func() {
			c := r.client()
			for k := range 20 {
				target := fmt.Sprintf("/%d/%d", i, k)
				c.post(target, "body").want(200, target+"body")
			}
			c.get("/last").get("/pipelined")
			c.want(200, "/last")
			c.want(200, "/pipelined")
		})
	}
	clients.Wait()
	r.wantOutcomes(map[gate.Outcome]int{gate.Served: 30 * 22})
	if p := r.server.Stats(); p.Reuses < p.Dials {
		t.Errorf("pool: %+v", p)
	}
}

func TestASessionReusedAfterAnAbortedRequestServesTheNextRequestCorrectly(t *testing.T) {
	const stream = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
	abort := map[string]func(r *rig, c *testClient){
		"blocked upload": func(r *rig, c *testClient) {
			go func() {
				_, _ = io.WriteString(c.conn, "POST /stuck HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n"+strings.Repeat("x", 16<<20))
			}()
			testkit.Until(r.t, "the upload to be stuck", func() bool {
				stuck := make(chan bool, 1)
				e := r.engines[0]
				e.loop.Post(func() {
					upload := (*reader)(nil)
					if e.conns.First() != nil && e.conns.First().session != nil {
						upload = &e.conns.First().session.client.reader
					}
					stuck <- upload != nil && (len(upload.decoded) > 0 || upload.pipe != nil && upload.pipe.Buffered() > 0)
				})
				return testkit.Receive(r.t, "a step of the loop", stuck)
			})
		},
		"half an upload": func(_ *rig, c *testClient) {
			c.send("POST /abort HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\n")
		},
		"awaited response": func(_ *rig, c *testClient) { c.get("/abort") },
		"half a response":  func(_ *rig, c *testClient) { c.get("/stream").readUntil("half") },
		"an ending tunnel": func(_ *rig, c *testClient) { c.send(upgradeRequest).readUntil("half") },
	}
	for name, begin := range abort {
		t.Run(name, func(t *testing.T) {
			busy := make(chan struct{})
			r := newRig(t, exchange.Config{ConcurrencyLimit: 1}, options{}, func(c *containerRequest) bool {
				switch c.target {
				case "/abort":
					b := make([]byte, 10)
					_, _ = io.ReadFull(c.in, b)
				case "/stuck":
					c.await(nil)
				case "/stream":
					c.write(stream + strings.Repeat("x", 50_000) + "half")
					c.awaitEnd()
				case "/tunnel":
					c.write(upgradeResponse + "half")
					c.awaitEnd()
				case "/busy":
					c.await(busy)
					return c.respond("busy")
				case "/body":
					if !c.write("HTTP/1.1 103 Early Hints\r\n\r\n") {
						return false
					}
					body, err := c.readBody()
					return err == nil && c.respond(body)
				default:
					t.Errorf("request for %s", c.target)
				}
				return false
			})
			// The free list returns the session that was added last. So the request after
			// an aborted request gets the session of the aborted request.
			partial := r.client().send("POST /refused HTTP/1.1\r\nHo")
			testkit.Until(t, "the partial head", func() bool { return busyConns(r) == 1 })
			ended := 0
			for range 2 {
				c := r.client()
				begin(r, c)
				r.until(1, 0)
				if name == "half an upload" {
					c.send("12345")
				}
				c.reset()
				ended++
				r.observer.last(t, ended)
				testkit.Until(t, "the session to be free", func() bool { return busyConns(r) == 1 })

				const text = "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n"
				body := r.client().send(fmt.Sprintf("POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", len(text)))
				body.readUntil("\r\n\r\n")
				body.send(text).want(200, text)
				ended++
				r.observer.last(t, ended)

				// This request arrives completely but does not fit into the buffer of the
				// head.
				const head = "POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 5000\r\n\r\n"
				long := strings.Repeat("x", requestBytes-len(head)) + text
				long += strings.Repeat("x", 5000-len(long))
				body.close()
				testkit.Until(t, "the session to be free", func() bool { return busyConns(r) == 1 })
				c = r.client()
				begin(r, c)
				r.until(1, 0)
				if name == "half an upload" {
					c.send("12345")
				}
				c.reset()
				ended++
				r.observer.last(t, ended)
				testkit.Until(t, "the session to be free", func() bool { return busyConns(r) == 1 })
				body = r.client().send(head + long)
				body.readUntil("\r\n\r\n")
				body.want(200, long)
				ended++
				r.observer.last(t, ended)
				body.close()
			}
			occupied := r.client().get("/busy")
			r.until(1, 0)
			partial.send("st: h\r\nContent-Length: 36\r\nX: 0123456789012345678901234567890123456789\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n.")
			partial.wantReply(gate.QueueFull)
			close(busy)
			occupied.want(200, "busy")
			_ = partial.conn.CloseWrite()
			partial.wantEnd()
		})
	}
}

func busyConns(r *rig) int {
	return countConns(r, func(c *conn) bool { return c.session != nil })
}

func TestIdleResponsesAndTunnelsKeepNoLargeBuffers(t *testing.T) {
	const streams = 2 * 16
	r := newRig(t, exchange.Config{}, options{}, func(c *containerRequest) bool {
		if c.target == "/tunnel" {
			c.write(upgradeResponse)
			_, _ = io.Copy(c.conn, c.in)
			return false
		}
		c.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range 3 {
			c.write("186a0\r\n" + strings.Repeat("x", 100_000) + "\r\n4\r\nrest\r\n")
		}
		c.awaitEnd()
		return false
	})
	var clients []*testClient
	for i := range streams {
		c := r.client()
		if i%2 == 0 {
			c.get("/")
			for range 3 {
				c.readUntil("rest")
			}
		} else {
			c.send(upgradeRequest).readUntil("\r\n\r\n")
			c.send("ping").readUntil("ping")
		}
		clients = append(clients, c)
	}
	testkit.Until(t, "the large buffers to be released", func() bool {
		counted := make(chan int, 1)
		e := r.engines[0]
		e.loop.Post(func() {
			n := 0
			for c := range e.conns.All() {
				if s := c.session; s != nil && s.client.reader.bulk != nil {
					n++
				}
			}
			counted <- n
		})
		return testkit.Receive(t, "the count of the loop", counted) == 0
	})
	if n := r.gate.Drain.Requests() + r.gate.Drain.Tunnels(); n != streams {
		t.Errorf("%d of %d streams are open", n, streams)
	}
	for _, c := range clients {
		c.close()
	}
	r.observer.last(t, streams)
}

// One side half-closes and later resets the connection; the other side is silent.
func TestTunnelEndsWithAResetAfterAHalfClose(t *testing.T) {
	for _, who := range []string{"client", "container"} {
		t.Run(who, func(t *testing.T) {
			quit := make(chan struct{})
			over := make(chan struct{})
			r := newRig(t, exchange.Config{}, options{}, func(c *containerRequest) bool {
				c.write(upgradeResponse)
				if who == "client" {
					c.awaitEnd() // the half-close
					b := make([]byte, 1)
					for { // silent until the connection ends
						select {
						case <-c.container.stop:
							return false
						case <-over:
							return false
						case <-time.After(time.Millisecond):
							_, _ = c.conn.Read(b)
						}
					}
				}
				_ = c.conn.CloseWrite()
				c.await(quit)
				return c.reset()
			})
			c := r.client().send(upgradeRequest)
			c.readUntil("\r\n\r\n")
			if who == "client" {
				_ = c.conn.CloseWrite()
				testkit.Until(t, "the half-close to be forwarded", func() bool {
					forwarded := make(chan bool, 1)
					e := r.engines[0]
					e.loop.Post(func() { forwarded <- e.conns.First() != nil && e.conns.First().session.client.reader.ended })
					return testkit.Receive(t, "a step of the loop", forwarded)
				})
				c.reset()
			} else {
				c.wantEnd() // the half-close
				close(quit)
			}
			r.wantOutcomes(map[gate.Outcome]int{gate.Tunnelled: 1})
			close(over)
		})
	}
}

// Closing a socket with unread bytes would send a reset, which could destroy the
// response.
func TestAShutdownWaitsForClientsThatAreStillSending(t *testing.T) {
	r := newRig(t, exchange.Config{}, options{loops: 1}, func(c *containerRequest) bool { return c.respond("ok") })
	c := r.client().send("GET / HTTP/1.1\r\n\r\n")
	c.wantReply(gate.BadRequest)
	p := r.engines[0].cfg
	testkit.Until(t, "the lingering connection", func() bool { return p.NumClosing() == 1 })
	ended := make(chan error, 1)
	go func() { ended <- r.server.Shutdown(context.Background()) }()
	testkit.Until(t, "the shutdown to begin", r.engines[0].worker.ShuttingDown)
	c.close()
	if err := testkit.Receive(t, "the end of the shutdown", ended); err != nil {
		t.Error(err)
	}
	if n := p.NumClosing(); n != 0 {
		t.Errorf("%d connections are unfinished", n)
	}
}
