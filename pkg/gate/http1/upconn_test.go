package http1

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/atomic"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

func (r *rig) awaitConnectQueue(n int64) {
	r.t.Helper()
	testkit.Until(r.t, fmt.Sprintf("%d requests in the connect queue", n), func() bool { return int64(r.gate.Connects.Len()) == n })
}

// stopListening closes the container's listener and connections. The port stays bound and
// refuses connections.
func (r *rig) stopListening() {
	r.t.Helper()
	_ = r.container.ln.Close()
	r.container.mu.Lock()
	for conn := range r.container.conns {
		_ = conn.Close()
	}
	r.container.mu.Unlock()
}

func TestQueuedRequestsAreSentInOrderOnceTheContainerListens(t *testing.T) {
	for _, limit := range []int{0, 40} {
		t.Run(fmt.Sprintf("limit %d", limit), func(t *testing.T) {
			var order []string
			r := newRig(t, exchange.Config{ConcurrencyLimit: limit, QueueCapacity: 100, UpstreamWait: time.Hour}, options{silent: true, serial: true}, func(c *containerRequest) bool {
				order = append(order, c.target)
				c.respond(c.target)
				return false
			})
			const requests = 30
			var clients []*testClient
			var want []string
			for i := range requests {
				want = append(want, fmt.Sprintf("/%d", i))
				clients = append(clients, r.client().get(want[i]))
				r.awaitConnectQueue(int64(i + 1))
			}
			if n := r.gate.Admission.InFlight(); n != requests {
				t.Errorf("%d of %d queued requests count as in flight", n, requests)
			}
			r.listen()
			for i, c := range clients {
				c.want(200, want[i])
			}
			r.wantOutcomes(map[gate.Outcome]int{gate.Served: requests})
			late, last := 0, -1
			for _, target := range order {
				if i := slices.Index(want, target); i > last {
					last = i
				} else {
					late++
				}
			}
			// A busy kernel may deliver SYNs out of order.
			if len(order) != requests || late > 2 {
				t.Errorf("order at the container %v", order)
			}
			r.awaitConnectQueue(0)
		})
	}
}

func TestRequestsInTheConnectQueueAreReleasedOnAllLoops(t *testing.T) {
	r := newRig(t, exchange.Config{QueueCapacity: 100, UpstreamWait: time.Hour}, options{loops: 3, silent: true}, func(c *containerRequest) bool {
		body, err := c.readBody()
		return err == nil && c.respond(c.target+body)
	})
	var clients []*testClient
	for i := range 30 {
		clients = append(clients, r.client().post(fmt.Sprintf("/%d", i), "body"))
	}
	r.awaitConnectQueue(30)
	r.listen()
	for i, c := range clients {
		c.want(200, fmt.Sprintf("/%dbody", i))
	}
}

func TestQueuedRequestsShareConnectionsIfTheDescriptorBudgetIsTooSmall(t *testing.T) {
	// Of the 40 descriptors, 5 belong to the loop, 5 are guaranteed to upstream
	// connections, and 20 are used by clients. The other 10 are left for further upstream
	// connections.
	const clients, budget = 20, 40
	release := make(chan struct{})
	r := newRig(t, exchange.Config{QueueCapacity: 100, UpstreamWait: time.Hour, Descriptors: exchange.NewDescriptors(budget)}, options{silent: true}, func(c *containerRequest) bool {
		c.await(release)
		return c.respond(c.target)
	})
	var all []*testClient
	for i := range clients {
		all = append(all, r.client().get(fmt.Sprintf("/%d", i)))
	}
	r.awaitConnectQueue(clients)
	r.listen()
	testkit.Until(t, "the descriptors to be used up", func() bool { return r.gate.Descriptors.Free() == 0 })
	testkit.Until(t, "the connect queue to be empty", func() bool { return r.gate.Connects.Len() == 0 })
	close(release)
	for i, c := range all {
		c.want(200, fmt.Sprintf("/%d", i))
	}
}

// The descriptor budget has no free descriptor, and the container does not listen. All
// requests must reach the connect queue when one descriptor is released.
func TestRequestsInTheConnectQueueDoNotReturnToTheDescriptorQueue(t *testing.T) {
	const served, clients = 5, 300 // numbers of admitted requests and of waiting requests
	var begun atomic.Int64
	release := make(chan struct{})
	descriptors := exchange.NewDescriptors(2 * (served + clients))
	r := newRig(t, exchange.Config{ConcurrencyLimit: served, QueueCapacity: clients, UpstreamWait: time.Hour, UpstreamRestartWait: time.Hour, Descriptors: descriptors}, options{}, func(c *containerRequest) bool {
		begun.Inc()
		c.await(release)
		return c.respond(c.target)
	})
	for range served {
		defer r.client().get("/").want(200, "/")
	}
	defer close(release)
	testkit.Until(t, "the container to have its requests", func() bool { return begun.Load() == served })
	for range clients {
		r.client().get("/")
	}
	r.until(served, clients)
	for descriptors.TryAcquire() {
		defer descriptors.Release()
	}
	_ = r.container.ln.Close()
	r.gate.Admission.SetLimit(served + clients)
	r.until(served+clients, 0)
	descriptors.Release()
	defer descriptors.TryAcquire()
	r.awaitConnectQueue(clients)
}

func TestARequestInTheConnectQueueEndsWhenItsWaitExpires(t *testing.T) {
	for _, limit := range []int{0, 1} {
		r := newRig(t, exchange.Config{ConcurrencyLimit: limit, QueueCapacity: 5, UpstreamWait: 10 * time.Millisecond}, options{silent: true}, nil)
		c := r.client()
		for range 2 { // the client's connection stays open
			a := c.get("/").wantReply(gate.UpstreamNotListening)
			if a.body != "user container is not listening\n" || a.header.Get("Retry-After") != "1" || a.closing {
				t.Errorf("%q, Retry-After %q, closing %v", a.body, a.header.Get("Retry-After"), a.closing)
			}
		}
		r.awaitConnectQueue(0)
	}
}

func TestTimeoutsApplyInTheConnectQueue(t *testing.T) {
	for _, c := range []struct {
		config exchange.Config
		want   gate.Outcome
	}{
		{exchange.Config{RequestTimeout: 10 * time.Millisecond}, gate.RequestTimeout},
		{exchange.Config{ResponseStartTimeout: 10 * time.Millisecond}, gate.ResponseStartTimeout},
		{exchange.Config{IdleTimeout: 10 * time.Millisecond}, gate.IdleTimeout},
	} {
		c.config.UpstreamWait, c.config.QueueCapacity = time.Hour, 5
		r := newRig(t, c.config, options{silent: true}, nil)
		r.client().get("/").wantReply(c.want)
		r.awaitConnectQueue(0)
	}
}

func TestTheConnectQueueIsLimitedByTheQueueCapacity(t *testing.T) {
	r := newRig(t, exchange.Config{QueueCapacity: 3, UpstreamWait: time.Hour}, options{loops: 2, silent: true}, func(c *containerRequest) bool {
		return c.respond(c.target)
	})
	var clients []*testClient
	for i := range 3 {
		clients = append(clients, r.client().get(fmt.Sprintf("/%d", i)))
		r.awaitConnectQueue(int64(i + 1))
	}
	for range 3 {
		r.client().get("/more").wantReply(gate.QueueFull)
	}
	clients[1].close() // frees its position in the queue
	r.awaitConnectQueue(2)
	clients[1] = r.client().get("/1")
	r.awaitConnectQueue(3)
	r.listen()
	for i, c := range clients {
		c.want(200, fmt.Sprintf("/%d", i))
	}
}

func TestRequestsInTheConnectQueueHoldTheirSlots(t *testing.T) {
	r := newRig(t, exchange.Config{ConcurrencyLimit: 1, QueueCapacity: 1, UpstreamWait: time.Hour}, options{silent: true}, func(c *containerRequest) bool {
		return c.respond(c.target)
	})
	first := r.client().get("/1")
	r.awaitConnectQueue(1)
	second := r.client().get("/2")
	r.until(1, 1)
	r.client().get("/3").wantReply(gate.QueueFull)
	r.listen()
	first.want(200, "/1")
	second.want(200, "/2")
}

func TestAClientThatDisconnectsInTheConnectQueueFreesItsPosition(t *testing.T) {
	var order []string
	r := newRig(t, exchange.Config{QueueCapacity: 10, UpstreamWait: time.Hour}, options{silent: true, serial: true}, func(c *containerRequest) bool {
		order = append(order, c.target)
		c.respond(c.target)
		return false
	})
	var clients []*testClient
	for i := range 6 {
		clients = append(clients, r.client().get(fmt.Sprintf("/%d", i)))
		r.awaitConnectQueue(int64(i + 1))
	}
	clients[0].close() // its request is the first in the queue and tries to connect
	r.awaitConnectQueue(5)
	clients[2].reset()
	r.awaitConnectQueue(4)
	r.listen()
	want := []string{"/1", "/3", "/4", "/5"}
	for i, k := range []int{1, 3, 4, 5} {
		clients[k].want(200, want[i])
	}
	r.wantOutcomes(map[gate.Outcome]int{gate.ClientGone: 2, gate.Served: 4})
	slices.Sort(order) // connections complete in any order
	if !slices.Equal(order, want) {
		t.Errorf("at the container %v, want %v", order, want)
	}
}

func TestRequestsWaitForARestartOnlyUpToUpstreamRestartWait(t *testing.T) {
	r := newRig(t, exchange.Config{QueueCapacity: 10, UpstreamWait: time.Hour, UpstreamRestartWait: 10 * time.Millisecond}, options{}, func(c *containerRequest) bool {
		return c.respond("ok")
	})
	c := r.client().get("/")
	c.want(200, "ok")
	r.stopListening()
	c.get("/").wantReply(gate.UpstreamNotListening)
}

func TestConnectionsAreReused(t *testing.T) {
	r := newRig(t, exchange.Config{}, options{}, func(c *containerRequest) bool {
		_, err := c.readBody()
		return err == nil && c.respond("ok")
	})
	for range 10 { // each from another client connection
		r.client().get("/").want(200, "ok")
		r.client().post("/", "body").want(200, "ok")
	}
	if p := r.server.Stats(); p.Dials != 1 || p.Reuses != 19 || p.Retries != 0 {
		t.Errorf("pool: %+v, want 1 dial and 19 reuses", p)
	}
}

// TestAConnectionClosedByTheContainerIsNeverUsed closes each connection after its
// response. The requests are not retryable, so each request on a closed connection would
// fail.
func TestAConnectionClosedByTheContainerIsNeverUsed(t *testing.T) {
	for _, how := range []string{"closed at once", "closed once idle", "reset once idle"} {
		t.Run(how, func(t *testing.T) {
			read, closed := make(chan struct{}), make(chan struct{}, 1)
			r := newRig(t, exchange.Config{}, options{}, func(c *containerRequest) bool {
				if _, err := c.readBody(); err != nil {
					return false
				}
				c.respond(c.target)
				if how == "closed at once" {
					_ = c.conn.CloseWrite()
					return false
				}
				c.await(read) // the client has the response
				if how == "reset once idle" {
					_ = c.conn.SetLinger(0)
				}
				_ = c.conn.Close()
				closed <- struct{}{}
				return false
			})
			c := r.client()
			for i := range 200 {
				target := fmt.Sprintf("/%d", i)
				if a := c.post(target, "body").response(); a.status != 200 || a.body != target {
					t.Fatalf("request %d was sent on a closed connection: %d %q (%v)", i, a.status, a.body, a.err)
				}
				if how == "closed at once" {
					r.awaitClosed(i + 1) // the FIN has been sent
					continue
				}
				testkit.Send(t, "an idle connection", read, struct{}{})
				testkit.Receive(t, "the close", closed)
			}
			if p := r.server.Stats(); p.Retries != 0 || p.Dials != 200 {
				t.Errorf("pool: %+v, want 200 dials", p)
			}
		})
	}
}

// The loop sees the request and the close of the idle connection in the same iteration.
func TestAConnectionWhoseCloseIsNotReportedYetIsNotUsed(t *testing.T) {
	for _, how := range []string{"closed", "reset", "bytes"} {
		t.Run(how, func(t *testing.T) {
			idle, changed := make(chan struct{}), make(chan struct{}, 1)
			r := newRig(t, exchange.Config{}, options{}, func(c *containerRequest) bool {
				if _, err := c.readBody(); err != nil {
					return false
				}
				c.respond(c.target)
				c.await(idle)
				switch how {
				case "closed":
					_ = c.conn.CloseWrite()
				case "reset":
					_ = c.conn.SetLinger(0)
					_ = c.conn.Close()
				case "bytes":
					c.respond("wrong")
				}
				changed <- struct{}{}
				return how == "bytes"
			})
			c := r.client().post("/0", "body")
			c.want(200, "/0")
			for i := range 20 {
				r.observer.last(t, i+1)
				target := fmt.Sprintf("/%d", i+1)
				r.whileBlocked(func() {
					c.post(target, "body")
					testkit.Send(t, "an idle connection", idle, struct{}{})
					testkit.Receive(t, "the close", changed)
				})
				c.want(200, target)
			}
		})
	}
}

func (r *rig) awaitClosed(n int) {
	r.t.Helper()
	testkit.Until(r.t, "the container's close", func() bool {
		r.container.mu.Lock()
		defer r.container.mu.Unlock()
		return r.container.made == n && len(r.container.conns) == 0
	})
}

// TestBytesAfterAResponseCloseTheConnection checks that unsolicited bytes after a
// response, even if they look like a response, reach no other request.
func TestBytesAfterAResponseCloseTheConnection(t *testing.T) {
	const unsolicited = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"
	for _, response := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nright",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nright\r\n0\r\n\r\n",
	} {
		for _, extra := range []string{unsolicited, "\r\n", "x", "HTTP/1.1 100 Continue\r\n\r\n"} {
			for _, later := range []bool{false, true} {
				t.Run(fmt.Sprintf("%.12q after %.20q, later %v", extra, response[17:], later), func(t *testing.T) {
					ended, sent := make(chan struct{}), make(chan struct{}, 1)
					r := newRig(t, exchange.Config{}, options{}, func(c *containerRequest) bool {
						if _, err := c.readBody(); err != nil {
							return false
						}
						if c.reused {
							t.Error("the connection was reused")
						}
						if !later {
							return c.write(response + extra)
						}
						c.write(response)
						c.await(ended)
						ok := c.write(extra)
						sent <- struct{}{}
						return ok
					})
					c := r.client()
					for range 5 {
						c.post("/", "body").want(200, "right")
						if later {
							testkit.Send(t, "an idle connection", ended, struct{}{})
							testkit.Receive(t, "the extra bytes", sent)
						}
					}
					if p := r.server.Stats(); p.Dials != 5 {
						t.Errorf("pool: %+v, want 5 dials", p)
					}
				})
			}
		}
	}
}

func TestConnectionsEndedByTheirResponseAreNotPooled(t *testing.T) {
	for _, response := range []string{
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\n\r\nok",
	} {
		r := newRig(t, exchange.Config{}, options{}, func(c *containerRequest) bool {
			if c.reused {
				t.Errorf("reused after %q", response)
			}
			// The container keeps the connection open if the response has a
			// Content-Length, although the response announces a close.
			return c.write(response) && strings.Contains(response, "Length")
		})
		c := r.client()
		for range 3 {
			c.get("/").want(200, "ok")
		}
		if p := r.server.Stats(); p.Dials != 3 {
			t.Errorf("pool: %+v, want 3 dials", p)
		}
	}
}

// The container reads a request on a reused connection and closes the connection without
// a response.
func TestOnAReusedConnectionOnlyIdempotentRequestsAreRetried(t *testing.T) {
	const (
		get  = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n"
		put  = "PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"
		post = "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"
	)
	for _, c := range []struct {
		name    string
		request string
		reset   bool
		every   bool // the container closes new connections too, not only reused ones
		partial string
		want    gate.Outcome
		seen    int64
	}{
		{name: "GET is retried", request: get, want: gate.Served, seen: 2},
		{name: "GET is retried after a reset", request: get, reset: true, want: gate.Served, seen: 2},
		{name: "PUT is retried", request: put, want: gate.Served, seen: 2},
		{name: "POST is not retried", request: post, want: gate.UpstreamClosed, seen: 1},
		{name: "POST is not retried after a reset", request: post, reset: true, want: gate.UpstreamReset, seen: 1},
		{name: "POST without a body is not retried", request: "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", want: gate.UpstreamClosed, seen: 1},
		{name: "PATCH is not retried", request: "PATCH /x HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", want: gate.UpstreamClosed, seen: 1},
		{name: "GET is retried once", request: get, every: true, want: gate.UpstreamClosed, seen: 2},
		{name: "GET is not retried after the first bytes of a response", request: get, partial: "HTTP/1.1 2", want: gate.UpstreamClosed, seen: 1},
		{name: "GET is not retried after an interim response", request: get, partial: "HTTP/1.1 103 Early Hints\r\n\r\n", want: gate.UpstreamClosed, seen: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var seen atomic.Int64
			r := newRig(t, exchange.Config{ConcurrencyLimit: 1}, options{}, func(call *containerRequest) bool {
				body, err := call.readBody()
				if err != nil {
					return false
				}
				if call.target == "/warm" {
					return call.respond("warm")
				}
				seen.Inc()
				if call.reused || c.every {
					call.write(c.partial)
					return c.reset && call.reset()
				}
				return call.respond("again" + body)
			})
			client := r.client().get("/warm")
			client.want(200, "warm")
			client.send(c.request)
			if c.partial != "" && strings.HasSuffix(c.partial, "\r\n\r\n") {
				client.readUntil("\r\n\r\n")
			}
			if c.want == gate.Served {
				client.want(200, "again"+strings.TrimPrefix(c.request[strings.Index(c.request, "\r\n\r\n"):], "\r\n\r\n"))
			} else {
				client.wantReply(c.want)
			}
			if n := seen.Load(); n != c.seen {
				t.Errorf("the container received the request %d times, want %d", n, c.seen)
			}
			if p := r.server.Stats(); p.Retries != c.seen-1 {
				t.Errorf("%d retries, want %d", p.Retries, c.seen-1)
			}
			outcomes := map[gate.Outcome]int{gate.Served: 1}
			outcomes[c.want]++
			r.wantOutcomes(outcomes)
		})
	}
}

// The body does not fit into the replay buffer.
func TestALongUploadIsNotRetried(t *testing.T) {
	const size = 3 << 20
	var seen atomic.Int64
	r := newRig(t, exchange.Config{}, options{}, func(c *containerRequest) bool {
		if c.target == "/warm" {
			return c.respond("warm")
		}
		seen.Inc()
		if _, err := c.in.Discard(100_000); err != nil {
			return false
		}
		return false
	})
	c := r.client().get("/warm")
	c.want(200, "warm")
	go func() {
		_, _ = c.conn.Write([]byte(fmt.Sprintf("PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))))
	}()
	if a := c.response(); a.status != 502 {
		t.Errorf("response %d (%v), want 502", a.status, a.err)
	}
	if n := seen.Load(); n != 1 {
		t.Errorf("the container received the request %d times, want 1", n)
	}
}

func TestAFullPoolClosesItsOldestConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t, exchange.Config{}, options{}, func(c *containerRequest) bool { return c.respond("ok") })
	r.client().get("/").want(200, "ok")
	e := r.engines[0]
	done := make(chan struct{})
	e.loop.Post(func() {
		defer close(done)
		p := &e.pool
		for len(p.idle) < maxIdleUpstreams+5 {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Error(err)
				return
			}
			u := p.adopt(e.worker.Dialer.NewConn())
			if err := e.loop.Register(u.sock, fd, u); err != nil {
				t.Error(err)
				return
			}
			oldest := p.idle[0]
			full := len(p.idle) == maxIdleUpstreams
			p.put(u)
			if !full {
				continue
			}
			for i, u := range p.idle {
				if int(u.poolIndex) != i+1 {
					t.Errorf("connection %d has index %d", i, u.poolIndex-1)
				}
			}
			if oldest.sock.Open() || len(p.idle) != maxIdleUpstreams {
				t.Errorf("oldest open %v, %d idle; want it closed and %d", oldest.sock.Open(), len(p.idle), maxIdleUpstreams)
			}
			return
		}
		t.Error("the pool is larger than its limit")
	})
	testkit.Receive(t, "the loop", done)
}
