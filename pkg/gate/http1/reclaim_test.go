package http1

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// newRigWithDescriptors starts a rig with descriptors for n client connections. Responses
// to /blocked wait until release is closed.
func newRigWithDescriptors(t *testing.T, n, loops int) (r *rig, release chan struct{}) {
	t.Helper()
	release = make(chan struct{})
	const total = 31
	r = newRig(t, exchange.Config{Descriptors: exchange.NewDescriptors(total)}, options{loops: loops}, func(c *containerRequest) bool {
		if c.target == "/blocked" {
			c.await(release)
		}
		return c.respond("ok")
	})
	r.gate.Descriptors.Reserve(r.gate.Descriptors.Free() - n)
	return r, release
}

// awaitIdle waits until all connections are idle for long enough to be reclaimed.
func (r *rig) awaitIdle() {
	r.t.Helper()
	testkit.Until(r.t, "connections to be idle", func() bool {
		return countConns(r, func(c *conn) bool {
			return !c.Busy() && c.eng.loop.Now()-c.Since < int64(exchange.MinIdle)
		}) == 0
	})
}

// connected waits until the gate has n connections, all of them reclaimable.
func (r *rig) connected(n int) {
	r.t.Helper()
	testkit.Until(r.t, fmt.Sprintf("%d connections", n), func() bool { return connections(r) == n })
	r.awaitIdle()
}

func TestTheLongestIdleConnectionIsReclaimedFirst(t *testing.T) {
	t.Parallel()
	for _, loops := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d loops", loops), func(t *testing.T) {
			const n = 16
			r, _ := newRigWithDescriptors(t, n, loops)
			var clients []*testClient
			for i := range n {
				clients = append(clients, r.client())
				testkit.Until(t, "the connection", func() bool { return connections(r) == i+1 })
			}
			clients[0].get("/").want(200, "ok") // now the most recently used
			for i := 1; i < 5; i++ {
				r.awaitIdle()
				if i%2 == 0 {
					r.client().get("/").want(200, "ok")
				} else {
					r.client() // sends nothing
				}
				clients[i].wantEnd()
			}
			// When a new connection needs a descriptor, each loop may close one of its
			// idle connections. With several loops, more are closed than necessary. So
			// only the most recently used connections are certain to be open.
			for _, i := range []int{0, n - 1, n - 2} {
				clients[i].get("/").want(200, "ok")
			}
		})
	}
}

func TestAConnectionWithARequestIsNotReclaimed(t *testing.T) {
	r, release := newRigWithDescriptors(t, 3, 1)
	first, second := r.client().get("/blocked"), r.client().get("/blocked")
	r.until(2, 0)
	idle := r.client()
	r.connected(3)
	third := r.client().get("/blocked")
	r.until(3, 0)
	idle.wantEnd()
	waiting := r.client().get("/") // stays in the backlog, because nothing can be reclaimed
	close(release)
	for _, c := range []*testClient{first, second, third, waiting} {
		c.want(200, "ok")
	}
}

func TestAConnectionWithAPartialHeadIsReclaimedLast(t *testing.T) {
	r, _ := newRigWithDescriptors(t, 3, 1)
	begun := r.client().send("GET / HTTP/1.1\r\nHost: h\r\n")
	r.connected(1)
	idle := r.client().get("/")
	idle.want(200, "ok")
	r.connected(2)
	silent := r.client()
	r.connected(3)
	for _, c := range []*testClient{idle, silent} {
		r.client().send("GET / HTTP/1.1\r\nHost: h\r\n")
		c.wantEnd()
		r.connected(3)
	}
	r.client().get("/").want(200, "ok")
	begun.wantEnd()
}

// holdLingering waits for a connection in lingering close, and postpones the end of this
// close.
func (r *rig) holdLingering() {
	r.t.Helper()
	testkit.Until(r.t, "a lingering connection", func() bool {
		return countConns(r, func(c *conn) bool {
			s := c.session
			if s == nil || s.phase != lingering {
				return false
			}
			s.deadline, s.lingerEnd = s.deadline+int64(testkit.Timeout), s.lingerEnd+int64(testkit.Timeout)
			return true
		}) == 1
	})
}

func TestALingeringConnectionIsReclaimed(t *testing.T) {
	r, _ := newRigWithDescriptors(t, 2, 1)
	lingering := r.client().send("GET / HTTP/1.1\r\n\r\n")
	lingering.wantReply(gate.BadRequest)
	r.holdLingering()
	r.connected(1)
	idle := r.client()
	r.connected(2)
	r.client().get("/").want(200, "ok")
	idle.get("/").want(200, "ok")
}

func TestALingeringConnectionPausesBetweenReads(t *testing.T) {
	r := newRig(t, exchange.Config{}, options{loops: 1}, func(c *containerRequest) bool { return c.respond("ok") })
	refused := r.client().send("GET / HTTP/1.1\r\n\r\n")
	refused.wantReply(gate.BadRequest)
	e := r.engines[0]
	on := func(f func(*session)) {
		t.Helper()
		done := make(chan struct{})
		e.loop.Post(func() {
			defer close(done)
			if e.conns.First() == nil {
				t.Error("the connection has ended")
				return
			}
			f(e.conns.First().session)
		})
		testkit.Receive(t, "the loop", done)
	}
	dropped := func() (n int64) { on(func(s *session) { n = s.lingerNext }); return n }
	refused.send("more")
	testkit.Until(t, "the first bytes to be discarded", func() bool { return dropped() != 0 })
	on(func(s *session) {
		s.lingerNext = s.now() + int64(time.Minute)
		s.deadline, s.lingerEnd = s.deadline+int64(testkit.Timeout), s.lingerEnd+int64(testkit.Timeout)
	})
	refused.send("more")
	testkit.Until(t, "the bytes to stay in the socket", func() (there bool) {
		on(func(s *session) { there = !s.conn.sock.Quiet() })
		return there
	})
	on(func(s *session) {
		s.Step()
		if s.conn == nil || s.conn.sock.Quiet() {
			t.Error("the bytes were read during the pause")
		}
		s.lingerNext = s.now()
		s.handle.Wake()
	})
	testkit.Until(t, "the bytes to be discarded", func() (quiet bool) {
		on(func(s *session) { quiet = s.conn.sock.Quiet() })
		return quiet
	})
}

// A request on the oldest connection reaches the loop in the same iteration as new
// connections that need a descriptor.
func TestAConnectionIsNotReclaimedIfARequestHasArrivedOnIt(t *testing.T) {
	r, _ := newRigWithDescriptors(t, 1, 1)
	old := r.client()
	r.connected(1)
	r.whileBlocked(func() {
		old.get("/")
		for range 5 {
			r.client()
		}
	})
	old.want(200, "ok")
}

func TestRequestsReachTheContainerWhileClientsHoldAllDescriptors(t *testing.T) {
	r, release := newRigWithDescriptors(t, 6, 1)
	var clients []*testClient
	for range 6 {
		clients = append(clients, r.client())
	}
	r.connected(6)
	if n := r.gate.Descriptors.Free(); n != 0 {
		t.Errorf("%d descriptors left", n)
	}
	r.whileBlocked(func() {
		for _, c := range clients {
			c.get("/blocked")
		}
	})
	r.until(6, 0)
	close(release)
	for _, c := range clients {
		c.want(200, "ok")
	}
}

// More upstream connections are needed than the loop's share.
func TestAnIdleClientIsReclaimedForAnUpstreamConnection(t *testing.T) {
	const share = 31 / 8
	r, release := newRigWithDescriptors(t, share+2, 1)
	idle := r.client()
	r.connected(1)
	var clients []*testClient
	for range share + 1 {
		clients = append(clients, r.client().get("/blocked"))
	}
	r.until(share+1, 0)
	idle.wantEnd()
	testkit.Until(t, "a connection for each request", func() bool { return r.server.Stats().Open == share+1 })
	close(release)
	for _, c := range clients {
		c.want(200, "ok")
	}
	// The loop has one upstream connection more than its guaranteed share. This
	// connection is closed to free a descriptor for the next client.
	r.connected(share + 1)
	r.client().get("/").want(200, "ok")
	for _, c := range clients {
		c.get("/").want(200, "ok")
	}
}

// The test lowers RLIMIT_NOFILE. The system then refuses new descriptors although the
// gate's descriptor budget is not exhausted.
func TestIdleConnectionsAreReclaimedWhenTheSystemHasNoDescriptor(t *testing.T) {
	r := newRig(t, exchange.Config{}, options{}, func(c *containerRequest) bool { return c.respond("ok") })
	old := r.client().get("/")
	old.want(200, "ok")
	idle := []*testClient{r.client(), r.client()}
	r.connected(3)
	var clients []*testClient
	var limit unix.Rlimit
	r.whileBlocked(func() {
		clients = append(clients, r.client(), r.client())
		limit = lowerDescriptors(t)
	})
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) }()
	for _, c := range clients {
		c.get("/").want(200, "ok")
	}
	old.wantEnd()
	idle[0].wantEnd()
	idle[1].get("/").want(200, "ok")
}

// lowerDescriptors lowers RLIMIT_NOFILE to the number of open descriptors and returns the
// previous limit.
func lowerDescriptors(t *testing.T) (before unix.Rlimit) {
	t.Helper()
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(fd), Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	return before
}
