package http1

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

const upgradeRequest = "GET /tunnel HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

const upgradeResponse = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

// Each row produces one outcome. The rig checks at its end that all counts are zero.
func TestEveryEndOfARequestIsObservedOnce(t *testing.T) {
	block := func(c *containerRequest) bool { c.awaitEnd(); return false }
	sends := func(s string) func(*containerRequest) bool {
		return func(c *containerRequest) bool { c.write(s); return false }
	}
	oneSlot := exchange.Config{ConcurrencyLimit: 1, QueueCapacity: 1}
	idleOutcomes := map[gate.Outcome]int{}
	for _, c := range []struct {
		name   string
		config exchange.Config
		silent bool
		serve  func(*containerRequest) bool
		act    func(r *rig)
		want   map[gate.Outcome]int
		status int // of the last request
	}{
		{name: "served", serve: func(c *containerRequest) bool { return c.respond("ok") },
			act:  func(r *rig) { r.client().get("/").want(200, "ok") },
			want: map[gate.Outcome]int{gate.Served: 1}, status: 200},
		{name: "served with an error from the container", serve: sends("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"),
			act:  func(r *rig) { r.client().get("/").want(503, "") },
			want: map[gate.Outcome]int{gate.Served: 1}, status: 503},
		{name: "tunnelled", serve: sends(upgradeResponse + "bye"),
			act: func(r *rig) {
				c := r.client().send(upgradeRequest)
				c.readUntil("bye")
				c.close()
			},
			want: map[gate.Outcome]int{gate.Tunnelled: 1}, status: 101},
		{name: "queue full", config: oneSlot, serve: block,
			act: func(r *rig) {
				first := r.client().get("/1")
				r.until(1, 0)
				second := r.client().get("/2")
				r.until(1, 1)
				r.client().get("/3").wantReply(gate.QueueFull)
				second.close()
				r.until(1, 0)
				first.close()
			},
			want: map[gate.Outcome]int{gate.QueueFull: 1, gate.ClientGone: 2}, status: 499},
		{name: "queue wait expired", config: exchange.Config{ConcurrencyLimit: 1, QueueCapacity: 1, QueueMaxWait: time.Millisecond}, serve: block,
			act: func(r *rig) {
				first := r.client().get("/1")
				r.until(1, 0)
				r.client().get("/2").wantReply(gate.QueueWaitExpired)
				first.reset()
			},
			want: map[gate.Outcome]int{gate.QueueWaitExpired: 1, gate.ClientGone: 1}, status: 499},
		{name: "request timeout", config: exchange.Config{RequestTimeout: time.Millisecond}, serve: block,
			act:  func(r *rig) { r.client().get("/").wantReply(gate.RequestTimeout) },
			want: map[gate.Outcome]int{gate.RequestTimeout: 1}, status: 504},
		{name: "request timeout in the queue", config: exchange.Config{ConcurrencyLimit: 1, QueueCapacity: 1, RequestTimeout: 20 * time.Millisecond}, serve: block,
			act: func(r *rig) {
				first := r.client().get("/1")
				second := r.client().get("/2")
				first.wantReply(gate.RequestTimeout)
				second.wantReply(gate.RequestTimeout)
			},
			want: map[gate.Outcome]int{gate.RequestTimeout: 2}, status: 504},
		{name: "response start timeout", config: exchange.Config{ResponseStartTimeout: time.Millisecond}, serve: block,
			act:  func(r *rig) { r.client().get("/").wantReply(gate.ResponseStartTimeout) },
			want: map[gate.Outcome]int{gate.ResponseStartTimeout: 1}, status: 504},
		{name: "idle timeout", config: exchange.Config{IdleTimeout: time.Millisecond}, serve: block,
			act:  func(r *rig) { r.client().get("/").wantReply(gate.IdleTimeout) },
			want: map[gate.Outcome]int{gate.IdleTimeout: 1}, status: 504},
		{name: "idle timeout during a response", config: exchange.Config{IdleTimeout: 20 * time.Millisecond},
			serve: func(c *containerRequest) bool {
				c.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
				c.awaitEnd()
				return false
			},
			act: func(r *rig) {
				// On a busy machine, the container may start only after the timeout. Then
				// the client gets a local reply, and the test repeats the request.
				for late := true; late; idleOutcomes[gate.IdleTimeout]++ {
					a := r.client().get("/").response()
					late = a.outcome() == gate.IdleTimeout.String()
					if !late && (a.err == nil || a.body != "half") {
						r.t.Errorf("got %q, %v; want half a response", a.body, a.err)
					}
				}
			},
			want: idleOutcomes, status: 200},
		{name: "client disconnected", serve: block,
			act: func(r *rig) {
				c := r.client().get("/")
				r.until(1, 0)
				c.close()
			},
			want: map[gate.Outcome]int{gate.ClientGone: 1}, status: 499},
		{name: "client disconnected during its upload", serve: block,
			act: func(r *rig) {
				c := r.client().send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf")
				r.until(1, 0)
				c.reset()
			},
			want: map[gate.Outcome]int{gate.ClientGone: 1}, status: 499},
		{name: "upstream not listening", config: exchange.Config{UpstreamWait: time.Millisecond, QueueCapacity: 1}, silent: true,
			act:  func(r *rig) { r.client().get("/").wantReply(gate.UpstreamNotListening) },
			want: map[gate.Outcome]int{gate.UpstreamNotListening: 1}, status: 503},
		{name: "connect queue full", config: exchange.Config{UpstreamWait: time.Hour, QueueCapacity: 0}, silent: true,
			act:  func(r *rig) { r.client().get("/").wantReply(gate.QueueFull) },
			want: map[gate.Outcome]int{gate.QueueFull: 1}, status: 503},
		{name: "upstream closed", serve: func(*containerRequest) bool { return false },
			act:  func(r *rig) { r.client().get("/").wantReply(gate.UpstreamClosed) },
			want: map[gate.Outcome]int{gate.UpstreamClosed: 1}, status: 502},
		{name: "upstream reset", serve: (*containerRequest).reset,
			act:  func(r *rig) { r.client().get("/").wantReply(gate.UpstreamReset) },
			want: map[gate.Outcome]int{gate.UpstreamReset: 1}, status: 502},
		{name: "upstream malformed", serve: sends("hello\r\n\r\n"),
			act:  func(r *rig) { r.client().get("/").wantReply(gate.UpstreamMalformed) },
			want: map[gate.Outcome]int{gate.UpstreamMalformed: 1}, status: 502},
		{name: "upstream broke off", serve: sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"),
			act: func(r *rig) {
				if a := r.client().get("/").response(); a.err == nil {
					r.t.Errorf("the response ended without an error: %q", a.body)
				}
			},
			want: map[gate.Outcome]int{gate.UpstreamBrokeOff: 1}, status: 200},
		{name: "bad chunk in the first segment", serve: block,
			act: func(r *rig) {
				r.client().send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n").wantReply(gate.BadRequest)
			},
			want: map[gate.Outcome]int{gate.BadRequest: 1}, status: 400},
		{name: "bad chunk later", serve: block,
			act: func(r *rig) {
				c := r.client().send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
				r.until(1, 0)
				c.send("xyz\r\n").wantReply(gate.BadRequest)
			},
			want: map[gate.Outcome]int{gate.BadRequest: 1}, status: 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.config, options{silent: c.silent}, c.serve)
			c.act(r)
			r.wantOutcomes(c.want)
			n := 0
			for _, k := range c.want {
				n += k
			}
			if got := r.observer.last(t, n).Status; got != c.status {
				t.Errorf("status %d, want %d", got, c.status)
			}
			r.until(0, 0)
		})
	}
}

func TestProbesAndRejectedHeadsAreNotCounted(t *testing.T) {
	r := newRig(t, exchange.Config{ConcurrencyLimit: 1}, options{}, func(c *containerRequest) bool {
		c.awaitEnd()
		return false
	})
	busy := r.client().get("/")
	r.until(1, 0)
	probe := r.client()
	for range 3 {
		probe.send("GET / HTTP/1.1\r\nHost: h\r\nK-Network-Probe: queue\r\n\r\n").want(200, "queue")
		probe.send("GET / HTTP/1.1\r\nHost: h\r\nK-Network-Probe: probe\r\nK-Network-Hash: x\r\n\r\n").want(200, "")
		probe.send("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n").want(200, "")
	}
	probe.send("GET / HTTP/1.1\r\n\r\n").wantReply(gate.BadRequest)
	if begun, ended := r.observer.totals(); begun != 1 || ended != 0 {
		t.Errorf("%d requests begun, %d ended; want 1 and 0", begun, ended)
	}
	busy.close()
	r.wantOutcomes(map[gate.Outcome]int{gate.ClientGone: 1})
}

func TestTimesAndSizesOfARequestAreObserved(t *testing.T) {
	r := newRig(t, exchange.Config{ConcurrencyLimit: 1}, options{}, func(c *containerRequest) bool {
		if _, err := c.readBody(); err != nil {
			return false
		}
		return c.respond(strings.Repeat("x", 100_000))
	})
	c := r.client().send("POST /p HTTP/1.1\r\nHost: h\r\nK-Proxy-Request: activator\r\nContent-Length: 70000\r\n\r\n")
	c.send(strings.Repeat("y", 70_000)).response()
	x := r.observer.last(t, 1)
	if !x.Proxied || x.Status != 200 || x.request != "POST /p" {
		t.Errorf("proxied %v, status %d, request %q", x.Proxied, x.Status, x.request)
	}
	if x.RequestBody != 70_000 || x.ResponseBody != 100_000 {
		t.Errorf("bodies of %d and %d bytes, want 70000 and 100000", x.RequestBody, x.ResponseBody)
	}
	times := []time.Duration{x.Arrived, x.Admitted, x.Forwarded, x.Responded, x.Ended}
	if slices.Contains(times, 0) || !slices.IsSorted(times) {
		t.Errorf("arrived, admitted, forwarded, responded, ended: %v; want all of them, in this order", times)
	}
}

func TestProbesAndRejectedHeadsAreObservedSeparately(t *testing.T) {
	r := newRig(t, exchange.Config{}, options{}, func(c *containerRequest) bool { return c.respond("") })
	c := r.client()
	c.send("GET /a HTTP/1.1\r\nHost: h\r\nK-Network-Probe: queue\r\n\r\n").response()
	c.send("GET /b HTTP/1.1\r\nHost: h\r\nK-Network-Probe: probe\r\n\r\n").response()
	c.send("GET /c HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n").response()
	r.observer.mu.Lock()
	defer r.observer.mu.Unlock()
	want := []string{"probed 200 for GET /a", "probe-rejected 400 for GET /b", "bad-request"}
	if got := r.observer.others; !slices.Equal(got, want) || r.observer.begun != 0 {
		t.Errorf("observed %q and %d requests, want %q and none", got, r.observer.begun, want)
	}
}

// The first request has a body that needs the large buffer, and the second request is
// pipelined behind that body. The rig's observer reports a fault if the method or the
// target of a Record differs between Begin and End.
func TestAPipelinedRequestDoesNotChangeTheRecordOfThePreviousRequest(t *testing.T) {
	r := newRig(t, exchange.Config{}, options{}, func(c *containerRequest) bool {
		if c.method != "POST" {
			return c.respond(c.target)
		}
		b := make([]byte, 5+4+3)
		if !c.write("HTTP/1.1 103 Early Hints\r\n\r\n") {
			return false
		}
		_, err := io.ReadFull(c.in, b)
		return err == nil && string(b) == "2\r\nhi\r\n0\r\n\r\n" && c.respond(c.target)
	})
	c := r.client().send("POST /the-first HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
	c.readUntil("\r\n\r\n") // the container has the head
	c.send("2\r\nhi\r\n0\r\n\r\nGET /second HTTP/1.1\r\nHost: h\r\n\r\n")
	c.want(200, "/the-first")
	c.want(200, "/second")
	r.wantOutcomes(map[gate.Outcome]int{gate.Served: 2})
}

func TestAPanickingObserverEndsOnlyItsRequest(t *testing.T) {
	for _, where := range []string{"begin", "end", "both"} {
		t.Run(where, func(t *testing.T) {
			r := newRig(t, exchange.Config{ConcurrencyLimit: 1, QueueCapacity: 10}, options{panics: true}, func(c *containerRequest) bool {
				return c.respond("ok")
			})
			bang := func() { panic("observer") }
			for range 3 {
				r.client().get("/").want(200, "ok")
			}
			r.observer.last(t, 3)
			begin, end := bang, bang
			if where == "end" {
				begin = nil
			} else if where == "begin" {
				end = nil
			}
			r.observer.hook(begin, end)
			for range 3 {
				c := r.client().get("/")
				testkit.Receive(t, "the panic", r.panics)
				c.response()
				c.wantEnd()
			}
			r.observer.hook(nil, nil)
			_, before := r.observer.totals()
			for range 3 {
				r.client().get("/").want(200, "ok")
			}
			r.observer.last(t, before+3) // the last step of the end of a request
			r.until(0, 0)
			if d := r.gate.Drain; d.Requests() != 0 {
				t.Errorf("the drain waits for %d requests", d.Requests())
			}
			r.observer.mu.Lock()
			clear(r.observer.open) // if Begin has panicked, the call of End may be missing
			r.observer.mu.Unlock()
		})
	}
}

func TestATunnelThatEndsWithAPanicIsNotCounted(t *testing.T) {
	r := newRig(t, exchange.Config{ConcurrencyLimit: 1}, options{panics: true}, func(c *containerRequest) bool {
		c.write(upgradeResponse)
		c.awaitEnd()
		return false
	})
	r.observer.hook(nil, func() { panic("observer") })
	c := r.client().send(upgradeRequest)
	c.readUntil("\r\n\r\n")
	if n := r.gate.Drain.Tunnels(); n != 1 {
		t.Errorf("%d tunnels, want 1", n)
	}
	c.close()
	testkit.Receive(t, "the panic", r.panics)
	r.until(0, 0)
}

func TestCountsReturnToZeroAfterManyRequests(t *testing.T) {
	t.Parallel()
	for _, config := range []exchange.Config{
		{ConcurrencyLimit: 3, QueueCapacity: 5, QueueMaxWait: 5 * time.Millisecond, RequestTimeout: 40 * time.Millisecond},
		{ConcurrencyLimit: 2, QueueCapacity: 20, HardConcurrency: true, RequestTimeout: 30 * time.Millisecond},
		{RequestTimeout: 50 * time.Millisecond, ResponseStartTimeout: 20 * time.Millisecond, IdleTimeout: 10 * time.Millisecond, QueueCapacity: 5},
		{ConcurrencyLimit: 1, QueueCapacity: 3, AllowHalfClose: true, RequestTimeout: 30 * time.Millisecond, TunnelMax: 20 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("limit %d", config.ConcurrencyLimit), func(t *testing.T) {
			r := newRig(t, config, options{loops: 2}, serveRandomly)
			var clients sync.WaitGroup
			for range 8 {
				clients.Go(func() {
					for range 60 {
						clientActsRandomly(r)
					}
				})
			}
			clients.Wait()
			testkit.Until(t, "an end for every begin", func() bool {
				begun, ended := r.observer.totals()
				return begun == ended && r.gate.Drain.Requests() == 0 && r.gate.Drain.Tunnels() == 0
			})
			r.until(0, 0)
			r.wantAllReleased()
			if o := r.observer.outcomes(); o[gate.Served] == 0 || o[gate.ClientGone] == 0 {
				t.Errorf("not all kinds of outcomes occurred: %v", o)
			}
		})
	}
}

func serveRandomly(c *containerRequest) bool {
	if c.target == "/tunnel" && rand.IntN(2) == 0 {
		c.write(upgradeResponse + "hi")
		b := make([]byte, 100)
		_, _ = c.conn.Read(b)
		return false
	}
	if rand.IntN(2) == 0 {
		if _, err := c.readBody(); err != nil {
			return false
		}
	}
	switch rand.IntN(9) {
	case 0:
		return false
	case 1:
		return c.reset()
	case 2:
		c.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		return false
	case 3:
		c.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		return c.reset()
	case 4:
		c.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n", 100_000, strings.Repeat("z", 100_000)))
		return c.write("0\r\n\r\n")
	case 5:
		c.awaitEnd()
		return false
	case 6:
		time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
	case 7:
		c.write("HTTP/1.1 103 Early Hints\r\n\r\n")
	}
	return c.respond("ok")
}

func clientActsRandomly(r *rig) {
	c := r.client()
	defer c.close()
	const get = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n"
	write := func(s string) { _, _ = io.WriteString(c.conn, s) } // errors are expected
	pause := func() { time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond) }
	switch rand.IntN(10) {
	case 0:
		write(get)
	case 1:
		write(get)
		pause()
		c.reset()
	case 2:
		write(get[:rand.IntN(len(get))])
		pause()
	case 3:
		write("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("b", rand.IntN(100_000)))
		pause()
	case 4:
		write("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("b", 100_000))
		c.response()
	case 5:
		write(get)
		_ = c.conn.CloseWrite()
		c.response()
	case 6:
		write(get + get + get)
		c.response()
		pause()
	case 7:
		write(upgradeRequest)
		if c.response().status == 101 {
			write("hello")
			pause()
		}
		if rand.IntN(2) == 0 {
			c.reset()
		}
	case 8:
		write("POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
		pause()
		write("nonsense\r\n")
		c.response()
	case 9:
		for range 3 {
			write(get)
			if a := c.response(); a.err != nil || a.closing {
				return
			}
		}
	}
}

type countingModel struct {
	limit, capacity int
	inFlight, queue []int
	outcomes        map[gate.Outcome]int
	begun           int
}

func (m *countingModel) arrive(id int) bool {
	m.begun++
	switch {
	case m.limit == 0 || len(m.inFlight) < m.limit:
		m.inFlight = append(m.inFlight, id)
	case len(m.queue) < m.capacity:
		m.queue = append(m.queue, id)
	default:
		m.outcomes[gate.QueueFull]++
		return true
	}
	return false
}

func (m *countingModel) end(id int, o gate.Outcome) {
	m.outcomes[o]++
	if i := slices.Index(m.queue, id); i >= 0 {
		m.queue = slices.Delete(m.queue, i, i+1)
		return
	}
	i := slices.Index(m.inFlight, id)
	m.inFlight = slices.Delete(m.inFlight, i, i+1)
	if len(m.queue) > 0 {
		m.inFlight = append(m.inFlight, m.queue[0])
		m.queue = m.queue[1:]
	}
}

// scriptedContainer holds each request until the test tells it how to end.
type scriptedContainer struct {
	mu      sync.Mutex
	working map[int]chan string
}

func (s *scriptedContainer) serve(c *containerRequest) bool {
	var id int
	if _, err := fmt.Sscanf(c.target, "/%d", &id); err != nil {
		return false
	}
	if _, err := c.readBody(); err != nil {
		return false
	}
	order := make(chan string, 1)
	s.mu.Lock()
	s.working[id] = order
	s.mu.Unlock()
	var what string
	select {
	case what = <-order:
	case <-c.container.stop:
	}
	switch what {
	case "respond":
		return c.respond(c.target)
	case "reset":
		return c.reset()
	}
	return false
}

func (s *scriptedContainer) tell(id int, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.working[id] <- what
	delete(s.working, id)
}

func (s *scriptedContainer) works(ids []int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if s.working[id] == nil {
			return false
		}
	}
	return len(ids) == len(s.working)
}

// TestRandomSchedulesMatchTheReferenceCounts runs the same random steps with the gate and
// with countingModel. After every step it compares all counts, and the requests on which
// the container works.
func TestRandomSchedulesMatchTheReferenceCounts(t *testing.T) {
	t.Parallel()
	for _, shape := range [][2]int{{1, 3}, {3, 2}, {2, 0}, {4, 10}, {0, 1}} {
		t.Run(fmt.Sprintf("limit %d, capacity %d", shape[0], shape[1]), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 0))
			script := &scriptedContainer{working: map[int]chan string{}}
			r := newRig(t, exchange.Config{ConcurrencyLimit: shape[0], QueueCapacity: shape[1]}, options{loops: 2}, script.serve)
			m := &countingModel{limit: shape[0], capacity: shape[1], outcomes: map[gate.Outcome]int{}}
			clients := map[int]*testClient{}
			for step := range 200 {
				waiting := slices.Concat(m.inFlight, m.queue)
				what := rnd.IntN(6)
				if len(waiting) == 0 || len(waiting) < 12 && what < 3 {
					c := r.client().post(fmt.Sprintf("/%d", step), "body")
					if m.arrive(step) {
						c.wantReply(gate.QueueFull)
						c.close()
					} else {
						clients[step] = c
					}
				} else if id := waiting[rnd.IntN(len(waiting))]; what == 5 || slices.Contains(m.queue, id) {
					if rnd.IntN(2) == 0 {
						clients[id].close()
					} else {
						clients[id].reset()
					}
					if slices.Contains(m.inFlight, id) {
						script.tell(id, "drop")
					}
					m.end(id, gate.ClientGone)
					delete(clients, id)
				} else if what == 4 {
					script.tell(id, "reset")
					clients[id].wantReply(gate.UpstreamReset)
					m.end(id, gate.UpstreamReset)
					clients[id].close()
					delete(clients, id)
				} else {
					script.tell(id, "respond")
					clients[id].want(200, fmt.Sprintf("/%d", id))
					m.end(id, gate.Served)
					clients[id].close()
					delete(clients, id)
				}
				r.until(len(m.inFlight), len(m.queue))
				testkit.Until(t, fmt.Sprintf("requests %v at the container", m.inFlight), func() bool { return script.works(m.inFlight) })
				r.wantOutcomes(m.outcomes)
				if begun, _ := r.observer.totals(); begun != m.begun {
					t.Errorf("%d requests begun, want %d", begun, m.begun)
				}
				if d := r.gate.Drain.Requests(); int(d) != len(waiting) && int(d) != len(m.inFlight)+len(m.queue) {
					t.Errorf("the drain counts %d requests", d)
				}
				if t.Failed() {
					t.Fatalf("step %d", step)
				}
			}
		})
	}
}

// Clients abort requests at random while the container continues to work on them.
func TestHardLimitIsNeverExceededAtTheContainer(t *testing.T) {
	t.Parallel()
	const limit = 3
	var working, most atomic.Int64
	r := newRig(t, exchange.Config{ConcurrencyLimit: limit, QueueCapacity: 50, HardConcurrency: true, RequestTimeout: time.Hour}, options{loops: 2},
		func(c *containerRequest) bool {
			n := working.Inc()
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			if rand.IntN(3) == 0 { // stream the response
				c.write("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n")
				for range 4 {
					c.write(strings.Repeat("x", 49_000))
					time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
				}
				working.Dec()
				return c.write(strings.Repeat("x", 4_000))
			}
			time.Sleep(time.Duration(rand.IntN(1500)) * time.Microsecond)
			working.Dec()
			if rand.IntN(10) == 0 {
				return rand.IntN(2) == 0 && c.reset()
			}
			return c.respond("ok")
		})
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 80 {
				c := r.client()
				c.send("GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
				switch rand.IntN(4) {
				case 0:
					c.response()
				case 1:
					time.Sleep(time.Duration(rand.IntN(1500)) * time.Microsecond)
				case 2:
					time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond)
					c.reset()
				case 3:
					if res, err := http.ReadResponse(c.in, nil); err == nil {
						_, _ = io.CopyN(io.Discard, res.Body, rand.Int64N(100_000))
					}
				}
				c.close()
			}
		})
	}
	clients.Wait()
	r.until(0, 0)
	if n := most.Load(); n > limit || n < 2 {
		t.Fatalf("%d requests at the container at once; want at most %d, and some at once", n, limit)
	}
	begun, _ := r.observer.totals()
	r.observer.last(t, begun)
	for _, o := range []gate.Outcome{gate.InternalError, gate.RequestTimeout} {
		if n := r.observer.outcomes()[o]; n != 0 {
			t.Errorf("%d requests ended as %v", n, o)
		}
	}
}

// The response pauses, and the client has received all bytes sent before the pause. Then
// the client disconnects.
func TestAHardLimitHoldsTheSlotOfAResponseWhoseClientDisconnected(t *testing.T) {
	for _, first := range []int{10, 100_000} {
		t.Run(fmt.Sprintf("after %d bytes", first), func(t *testing.T) {
			disconnected, finish := make(chan struct{}), make(chan struct{})
			var finished atomic.Bool
			r := newRig(t, exchange.Config{ConcurrencyLimit: 1, QueueCapacity: 1, HardConcurrency: true}, options{}, func(c *containerRequest) bool {
				if c.target == "/next" {
					if !finished.Load() {
						t.Error("the next request arrived while the container works on the first")
					}
					return c.respond("next")
				}
				c.write(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", first+5, strings.Repeat("x", first)))
				c.awaitEnd()
				close(disconnected)
				c.await(finish)
				finished.Store(true)
				c.write("rest.")
				return false
			})
			c := r.client().get("/stream")
			c.readUntil("\r\n\r\n")
			if _, err := io.ReadFull(c.in, make([]byte, first)); err != nil {
				t.Fatal(err)
			}
			c.close()
			testkit.Receive(t, "the disconnect at the container", disconnected)
			next := r.client().get("/next")
			r.until(1, 1)
			close(finish)
			next.want(200, "next")
			r.wantOutcomes(map[gate.Outcome]int{gate.ClientGone: 1, gate.Served: 1})
		})
	}
}

func TestASoftLimitReleasesTheSlotOfADisconnectedClient(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, exchange.Config{ConcurrencyLimit: 1, QueueCapacity: 1}, options{}, func(c *containerRequest) bool {
		if c.target == "/next" {
			return c.respond("next")
		}
		c.await(release)
		return false
	})
	c := r.client().get("/first")
	r.until(1, 0)
	next := r.client().get("/next")
	r.until(1, 1)
	c.close()
	next.want(200, "next")
}

func TestAClientThatDisconnectsInTheQueueNeverReachesTheContainer(t *testing.T) {
	script := &scriptedContainer{working: map[int]chan string{}}
	var seen atomic.Int64
	r := newRig(t, exchange.Config{ConcurrencyLimit: 1, QueueCapacity: 20}, options{loops: 2}, func(c *containerRequest) bool {
		seen.Inc()
		return script.serve(c)
	})
	first := r.client().post("/0", "")
	r.until(1, 0)
	var queued []*testClient
	for i := range 20 {
		queued = append(queued, r.client().post(fmt.Sprintf("/%d", i+1), ""))
		r.until(1, i+1)
	}
	for i, c := range queued {
		if i%3 == 0 {
			c.reset()
		} else {
			c.close()
		}
	}
	r.until(1, 0)
	testkit.Until(t, "the first request", func() bool { return script.works([]int{0}) })
	script.tell(0, "respond")
	first.want(200, "/0")
	r.wantOutcomes(map[gate.Outcome]int{gate.ClientGone: 20, gate.Served: 1})
	if n := seen.Load(); n != 1 {
		t.Fatalf("%d requests at the container, want 1", n)
	}
}

// The slot is granted at the moment when the client disconnects or the request times out.
func TestASlotGrantedTooLateIsReleased(t *testing.T) {
	for _, why := range []gate.Outcome{gate.ClientGone, gate.RequestTimeout} {
		t.Run(why.String(), func(t *testing.T) {
			config := exchange.Config{ConcurrencyLimit: 1, QueueCapacity: 1}
			if why == gate.RequestTimeout {
				config.RequestTimeout = 5 * time.Millisecond
			}
			r := newRig(t, config, options{}, func(c *containerRequest) bool {
				if why == gate.ClientGone {
					t.Error("the request reached the container")
				}
				c.awaitEnd()
				return false
			})
			for i := range 20 {
				if !r.gate.Admission.TryAcquire() {
					t.Fatal("the slot is not free")
				}
				c := r.client().get("/")
				testkit.Until(t, "the request to be queued or admitted", func() bool {
					begun, _ := r.observer.totals()
					return begun == i+1
				})
				r.whileBlocked(func() {
					if why == gate.ClientGone {
						c.close()
					} else {
						time.Sleep(config.RequestTimeout)
					}
					r.gate.Admission.Release()
				})
				if got := r.observer.last(t, i+1).Outcome; got != why {
					t.Errorf("outcome %v, want %v", got, why)
				}
				r.until(0, 0)
				c.close()
			}
		})
	}
}
