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

// engineBudget starts a rig whose clients may have n connections. Requests for /held
// get their response when release is closed.
func engineBudget(t *testing.T, n, loops int) (r *engineRig, release chan struct{}) {
	t.Helper()
	release = make(chan struct{})
	const total = 31
	r = engineServe(t, exchange.Config{Descriptors: exchange.NewDescriptors(total)}, engineOptions{loops: loops}, func(c *engineCall) bool {
		if c.target == "/held" {
			c.await(release)
		}
		return c.answer("ok")
	})
	r.gate.Descriptors.Reserve(r.gate.Descriptors.Free() - n)
	return r, release
}

// waiting waits until all connections have been idle for long enough to be reclaimed.
func (r *engineRig) waiting() {
	r.t.Helper()
	testkit.Until(r.t, "connections to be idle", func() bool {
		return engineCount(r, func(c *conn) bool {
			return !c.Busy() && c.eng.loop.Now()-c.Since < int64(exchange.MinIdle)
		}) == 0
	})
}

// connected waits until the gate has n connections, all of which may be reclaimed.
func (r *engineRig) connected(n int) {
	r.t.Helper()
	testkit.Until(r.t, fmt.Sprintf("%d connections", n), func() bool { return engineConnections(r) == n })
	r.waiting()
}

func TestTheLongestIdleConnectionIsReclaimedFirst(t *testing.T) {
	t.Parallel()
	for _, loops := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d loops", loops), func(t *testing.T) {
			const n = 16
			r, _ := engineBudget(t, n, loops)
			var clients []*engineClient
			for i := range n {
				clients = append(clients, r.client())
				testkit.Until(t, "the connection", func() bool { return engineConnections(r) == i+1 })
			}
			clients[0].get("/").want(200, "ok") // is idle for less than the others now
			for i := 1; i < 5; i++ {
				r.waiting()
				if i%2 == 0 {
					r.client().get("/").want(200, "ok")
				} else {
					r.client() // silent
				}
				clients[i].wantEnd()
			}
			// Loops that have noticed the same connection may close one each.
			for _, i := range []int{0, n - 1, n - 2} {
				clients[i].get("/").want(200, "ok")
			}
		})
	}
}

func TestAConnectionWithARequestIsNotReclaimed(t *testing.T) {
	r, release := engineBudget(t, 3, 1)
	first, second := r.client().get("/held"), r.client().get("/held")
	r.until(2, 0)
	idle := r.client()
	r.connected(3)
	third := r.client().get("/held")
	r.until(3, 0)
	idle.wantEnd()
	waiting := r.client().get("/") // in the backlog: nothing can be reclaimed
	close(release)
	for _, c := range []*engineClient{first, second, third, waiting} {
		c.want(200, "ok")
	}
}

func TestAConnectionWithAPartialHeadIsReclaimedLast(t *testing.T) {
	r, _ := engineBudget(t, 3, 1)
	begun := r.client().send("GET / HTTP/1.1\r\nHost: h\r\n")
	r.connected(1)
	idle := r.client().get("/")
	idle.want(200, "ok")
	r.connected(2)
	silent := r.client()
	r.connected(3)
	for _, c := range []*engineClient{idle, silent} {
		r.client().send("GET / HTTP/1.1\r\nHost: h\r\n")
		c.wantEnd()
		r.connected(3)
	}
	r.client().get("/").want(200, "ok")
	begun.wantEnd()
}

func TestALingeringConnectionIsReclaimed(t *testing.T) {
	r, _ := engineBudget(t, 2, 1)
	lingering := r.client().send("GET / HTTP/1.1\r\n\r\n")
	lingering.wantRefusal(gate.BadRequest)
	r.connected(1)
	idle := r.client()
	r.connected(2)
	r.client().get("/").want(200, "ok")
	idle.get("/").want(200, "ok")
}

func TestALingeringConnectionPausesBetweenReads(t *testing.T) {
	r := engineServe(t, exchange.Config{}, engineOptions{loops: 1}, func(c *engineCall) bool { return c.answer("ok") })
	refused := r.client().send("GET / HTTP/1.1\r\n\r\n")
	refused.wantRefusal(gate.BadRequest)
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
	testkit.Until(t, "some is dropped", func() bool { return dropped() != 0 })
	on(func(s *session) { s.lingerNext = s.now() + int64(time.Minute) })
	refused.send("more")
	testkit.Until(t, "it stays in the socket", func() (there bool) {
		on(func(s *session) { there = !s.conn.sock.Quiet() })
		return there
	})
	on(func(s *session) {
		s.Step()
		if s.conn == nil || s.conn.sock.Quiet() {
			t.Error("it was dropped within the pause")
		}
		s.lingerNext = s.now()
		s.handle.Wake()
	})
	testkit.Until(t, "it is dropped", func() (quiet bool) {
		on(func(s *session) { quiet = s.conn.sock.Quiet() })
		return quiet
	})
}

// TestAReceivedRequestIsServedEvenIfItsConnectionIsTheOldest lets the
// request and the connections that want its place reach the loop at once.
func TestAReceivedRequestIsServedEvenIfItsConnectionIsTheOldest(t *testing.T) {
	r, _ := engineBudget(t, 1, 1)
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
	r, release := engineBudget(t, 6, 1)
	var clients []*engineClient
	for range 6 {
		clients = append(clients, r.client())
	}
	r.connected(6)
	if n := r.gate.Descriptors.Free(); n != 0 {
		t.Errorf("%d descriptors left", n)
	}
	r.whileBlocked(func() {
		for _, c := range clients {
			c.get("/held")
		}
	})
	r.until(6, 0)
	close(release)
	for _, c := range clients {
		c.want(200, "ok")
	}
}

// TestAnIdleClientIsReclaimedForAnUpstreamConnection has more requests than
// the share of the loop in connections to the container.
func TestAnIdleClientIsReclaimedForAnUpstreamConnection(t *testing.T) {
	const share = 31 / 8
	r, release := engineBudget(t, share+2, 1)
	idle := r.client()
	r.connected(1)
	var clients []*engineClient
	for range share + 1 {
		clients = append(clients, r.client().get("/held"))
	}
	r.until(share+1, 0)
	idle.wantEnd()
	testkit.Until(t, "a connection for each request", func() bool { return r.server.Stats().Open == share+1 })
	close(release)
	for _, c := range clients {
		c.want(200, "ok")
	}
	// Conversely, connections above the share are reclaimed for clients.
	r.connected(share + 1)
	r.client().get("/").want(200, "ok")
	for _, c := range clients {
		c.get("/").want(200, "ok")
	}
}

// TestIdleConnectionsAreReclaimedWhenTheSystemHasNoDescriptor lowers the process limit
// to the descriptors that are open, regardless of the budget.
func TestIdleConnectionsAreReclaimedWhenTheSystemHasNoDescriptor(t *testing.T) {
	r := engineServe(t, exchange.Config{}, engineOptions{}, func(c *engineCall) bool { return c.answer("ok") })
	old := r.client().get("/")
	old.want(200, "ok")
	idle := []*engineClient{r.client(), r.client()}
	r.connected(3)
	var clients []*engineClient
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

// lowerDescriptors leaves the process no free descriptor, and gives the limit
// that was before.
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
