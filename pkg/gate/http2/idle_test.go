package http2

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"go.uber.org/atomic"
	"golang.org/x/net/http2"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

func TestAnUnfinishedHeadEndsItsConnection(t *testing.T) {
	whole := headersFrame(3, true)
	for name, part := range map[string][]byte{
		"a field block without its end": frame(h2.Headers, 0, 3, getHead),
		"half of a frame":               whole[:len(whole)-2],
		"half of a frame's header":      whole[:4],
		"a frame and half of another":   append(frame(h2.Ping, 0, 0, "12345678"), whole[:4]...),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, serveHTTP1(t, func(http.ResponseWriter, *http.Request) {}), func(o *options) { o.engine.HeadTimeout = 100 * time.Millisecond })
			innocent, c := r.dial(), r.dial()
			innocent.works()
			c.works()
			if _, err := c.conn.Write(part); err != nil {
				t.Fatal(err)
			}
			c.wantGoAway(http2.ErrCodeEnhanceYourCalm)
			if f := r.faults(); f["idle"] != 1 {
				t.Errorf("faults %v", f)
			}
			innocent.works()
		})
	}
}

func TestATricklingFieldBlockDoesNotExtendTheHeadTimeout(t *testing.T) {
	r := newRig(t, serveHTTP1(t, func(http.ResponseWriter, *http.Request) {}), func(o *options) { o.engine.HeadTimeout = 100 * time.Millisecond })
	c := r.dial()
	c.works()
	_ = c.raw(http2.FrameHeaders, 0, 3, getHead)
	until(t, "the end of the connection", func() bool {
		_ = c.raw(http2.FrameContinuation, 0, 3, "")
		r.on(func() {}) // if the loop is delayed, no further frames are sent meanwhile
		// With this pause, about 20 CONTINUATION frames are sent before the timeout. So
		// the limit of 256 frames per field block is not reached.
		time.Sleep(5 * time.Millisecond)
		return c.over()
	})
	c.wantGoAway(http2.ErrCodeEnhanceYourCalm)
	if f := r.faults(); f["idle"] != 1 {
		t.Errorf("faults %v", f)
	}
}

func TestAHeadThatArrivesInPiecesIsServed(t *testing.T) {
	r := newRig(t, serveHTTP1(t, func(http.ResponseWriter, *http.Request) {}), func(o *options) { o.engine.HeadTimeout = 2 * testkit.Timeout })
	c := r.dial()
	c.works()
	for i, b := range headersFrame(3, true) {
		_, _ = c.conn.Write([]byte{b})
		if i%5 == 0 {
			r.on(func() {}) // lets the loop read
		}
	}
	c.want(3, "200", "")
	r.on(func() {
		for x := range r.part.clients.all() {
			if x.input.beganAt != 0 || x.Set() != &r.part.clients.idle {
				t.Error("the complete head counts as incomplete")
			}
		}
	})
}

func TestAResponseIsResetAfterTheIdleTimeoutIfItsWindowStaysAtZero(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"the stream", "the connection"} {
		t.Run(of, func(t *testing.T) {
			overBothProtocols(t, serveZeros, func(t *testing.T, up *container, _ bool) {
				r := newRig(t, up, func(o *options) { o.gate.IdleTimeout = time.Second })
				var settings []http2.Setting
				if of == "the stream" {
					settings = append(settings, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
				}
				c := r.dial(settings...)
				c.autoCredit = false
				g := c.await(c.get("/?1000000"))
				for g.status() == "504" { // on a busy machine the response may begin too late
					g = c.await(c.get("/?1000000"))
				}
				if !g.reset || g.ended {
					t.Errorf("reset %v, ended %v", g.reset, g.ended)
				}
				if f := r.faults(); f["idle"] != 1 {
					t.Errorf("faults %v", f)
				}
				until(t, "nothing in flight", func() bool { return r.gate.Admission.InFlight() == 0 })
				g = c.await(c.get("/works"))
				for g.status() == "504" {
					g = c.await(c.get("/works"))
				}
				if g.status() != "200" {
					t.Errorf("a further request on the connection failed: %+v (connection closed: %v)", g, c.over())
				}
			})
		})
	}
}

// rigWithDescriptors returns a rig with descriptors for n client connections.
func rigWithDescriptors(t *testing.T, n int, h http.HandlerFunc) *rig {
	r := newRig(t, serveHTTP1(t, h), func(o *options) { o.gate.Descriptors = exchange.NewDescriptors(31) })
	r.gate.Descriptors.Reserve(r.gate.Descriptors.Free() - n)
	return r
}

// waitUntilIdle waits until all connections without a stream may be reclaimed.
func (r *rig) waitUntilIdle() {
	r.t.Helper()
	until(r.t, "connections to be idle", func() (all bool) {
		r.on(func() {
			all = true
			for c := range r.part.clients.all() {
				all = all && (len(c.table.open) > 0 || r.part.loop.Now()-c.Since >= int64(exchange.MinIdle))
			}
		})
		return all
	})
}

func TestTheLongestIdleConnectionIsReclaimedFirst(t *testing.T) {
	hold := make(chan struct{})
	const n = 8
	r := rigWithDescriptors(t, n, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/blocked" {
			<-hold
		}
	})
	var clients []*client
	for range n {
		c := r.dial()
		c.works()
		clients = append(clients, c)
	}
	held := clients[0].get("/blocked")
	until(t, "a request under way", func() bool { return r.gate.Admission.InFlight() == 1 })
	_, _ = clients[1].conn.Write(headersFrame(3, true)[:4]) // an incomplete head
	clients[2].works()                                      // makes clients[2] the most recently used connection
	for i := 3; i < 6; i++ {
		r.waitUntilIdle()
		r.dial().works()
		clients[i].wantGoAway(http2.ErrCodeNo)
		clients[i].mu.Lock()
		if last := clients[i].goAways[0].LastStreamID; last != 1 {
			t.Errorf("GOAWAY up to stream %d", last)
		}
		clients[i].mu.Unlock()
	}
	for _, i := range []int{2, 6, 7} {
		clients[i].works()
	}
	close(hold)
	clients[0].want(held, "200", "")
	_, _ = clients[1].conn.Write(headersFrame(3, true)[4:])
	clients[1].want(3, "200", "")
}

func TestAConnectionWithAPartialHeadIsReclaimedLast(t *testing.T) {
	const n = 4
	r := rigWithDescriptors(t, n, func(http.ResponseWriter, *http.Request) {})
	var clients []*client
	for i := range n {
		c := r.dial()
		c.works()
		if i == 0 || i == 2 {
			_, _ = c.conn.Write(headersFrame(3, true)[:4])
		}
		clients = append(clients, c)
	}
	for _, i := range []int{1, 3, 0} {
		r.waitUntilIdle()
		c := r.dial()
		c.works()
		_, _ = c.conn.Write(headersFrame(3, true)[:4])
		until(t, fmt.Sprint("the end of client ", i), clients[i].over)
	}
}

func TestUpstreamConnectionsAreReclaimedForClients(t *testing.T) {
	const streams, clients, budget = 30, 20, 40
	var begun atomic.Int64
	all := make(chan struct{})
	// Each stream needs its own connection.
	up := serveFrames(t, []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 1}}, func(p *peer, f http2.Frame) bool {
		if f, ok := f.(*http2.MetaHeadersFrame); ok {
			id := f.StreamID
			if field(f, ":path") != "/works" {
				if begun.Inc() == streams {
					close(all)
				}
				go func() {
					<-all
					p.respond(id, "")
				}()
			} else {
				p.respond(id, "")
			}
		}
		return true
	})
	r := newRig(t, up, func(o *options) { o.protocol, o.gate.Descriptors = upstream.H2C, exchange.NewDescriptors(budget) })
	c := r.dial()
	c.works()
	var ids []uint32
	for i := range streams {
		ids = append(ids, c.get("/blocked"))
		until(t, "the request and SETTINGS", func() (both bool) {
			r.on(func() {
				both = begun.Load() == int64(i+1)
				for _, u := range r.part.pool.conns {
					both = both && u.proven
				}
			})
			return both
		})
	}
	for _, id := range ids {
		c.want(id, "200", "")
	}
	open := func() (n int) {
		r.on(func() { n = len(r.part.pool.conns) })
		return n
	}
	if n := open(); n < streams {
		t.Errorf("%d connections to the container, want %d at least", n, streams)
	}
	var others []*client
	for range clients {
		other := r.dial()
		other.works()
		others = append(others, other)
	}
	if n := open(); n > budget-clients {
		t.Errorf("%d connections to the container with %d clients; the budget is %d", n, clients, budget)
	}
	for _, other := range others {
		other.works() // its connection was not reclaimed
	}
	r.on(func() {
		for _, u := range r.part.pool.conns {
			u.lastReadAt -= trimAfter
		}
		r.part.pool.trim()
	})
	if n := open(); n != maxIdleConns {
		t.Errorf("%d connections to the container after the burst, want %d", n, maxIdleConns)
	}
	for _, other := range others {
		other.works()
	}
	c.works()
}
