package http2

import (
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"go.uber.org/atomic"
	"golang.org/x/net/http2"

	"github.com/queuegate/queuegate/pkg/gate/upstream"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// In one iteration the pacer starts only some streams of the burst, but all streams of
// the other connection.
func TestAClientThatOpensManyStreamsDoesNotDelayOthers(t *testing.T) {
	var served atomic.Int64
	r := newRig(t, serveHTTP1(t, func(http.ResponseWriter, *http.Request) { served.Inc() }))
	many, one := r.dial(), r.dial()
	many.works()
	one.works()
	before := served.Load()
	open := func(c *downConn, first, n uint32) {
		for i := range n {
			if err := c.conn.handle(frame(h2.Headers, h2.FlagEndHeaders|h2.FlagEndStream, first+2*i, getHead)); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.on(func() {
		var burst, other *downConn
		for c := range r.part.clients.all() {
			if c.peer.Port() == uint16(many.conn.LocalAddr().(*net.TCPAddr).Port) {
				burst = c
			} else {
				other = c
			}
		}
		open(burst, 101, maxStreams)
		open(other, 101, 3)
		waiting := func(c *downConn) (n int) {
			for _, s := range c.table.open {
				if s.next != nil {
					n++
				}
			}
			return n
		}
		if n, m := waiting(burst), waiting(other); n != maxStreams-1 || m != 2 {
			t.Errorf("%d and %d streams are queued, want all but the first: %d and 2", n, m, maxStreams-1)
		}
		r.part.pacer.Step()
		// Each stream that opens a connection costs 1+dialUnits. Two more streams may
		// start: the first one reuses a connection and costs only one unit, and the last
		// one may cost more units than are left.
		most := unitsPerIteration/(1+dialUnits) + 2
		if n := maxStreams - waiting(burst) + 3 - waiting(other); n > 2+most {
			t.Errorf("%d streams started in an iteration, want at most %d in addition to the first ones", n, most)
		}
		if waiting(other) != 0 {
			t.Error("streams of another connection are still queued")
		}
		n := waiting(burst)
		if r.part.pacer.Step(); waiting(burst) != n {
			t.Error("connections are opened without a pause")
		}
		// In this function the loop's clock stands still and no response is read. So the
		// pacer gets no new credits, and only baseCredits streams may start.
		for range 2 * baseCredits {
			r.part.pacer.pausedUntil = 0
			r.part.pacer.Step()
		}
		if n := maxStreams - waiting(burst) + 3 - waiting(other); n != 2+baseCredits {
			t.Errorf("%d streams started without a response, want %d in addition to the first ones", n-2, baseCredits)
		}
		// For the next hour, time adds no credits. Only responses do.
		r.part.pacer.refilledAt += int64(time.Hour)
		other.resetStreams()
		if r.part.pacer.Step(); other.starting.last != nil {
			t.Error("a reset stream waits for a response to another")
		}
		// A stream that is reset while queued is never started.
		if err := burst.conn.handle(frame(h2.RSTStream, 0, 101+2*(maxStreams-1), u32(8))); err != nil {
			t.Fatal(err)
		}
	})
	until(t, "all responses", func() bool { return served.Load()-before >= maxStreams-1 })
	until(t, "the end of all streams", func() (over bool) {
		r.on(func() {
			over = r.part.pacer.last == nil
			for c := range r.part.clients.all() {
				over = over && len(c.table.open) == 0 && c.starting.last == nil
			}
		})
		return over
	})
	r.dial().works()
}

// The queued streams are ended over several iterations, and none of them is started.
func TestQueuedStreamsEndWithTheirConnection(t *testing.T) {
	r := newRig(t, serveHTTP1(t, func(http.ResponseWriter, *http.Request) {}))
	c := r.dial()
	c.works()
	var ended *downConn
	r.on(func() {
		for c := range r.part.clients.all() {
			for i := range uint32(maxStreams) {
				if err := c.conn.handle(frame(h2.Headers, h2.FlagEndHeaders, 101+2*i, postHead)); err != nil {
					t.Fatal(err)
				}
			}
			ended = c
			c.abort()
		}
		r.part.pacer.Step()
		if n := len(ended.table.open); n < maxStreams-unitsPerIteration || n == maxStreams {
			t.Errorf("%d of %d streams are left after an iteration", n, maxStreams)
		}
	})
	until(t, "the end of all streams", func() (over bool) {
		r.on(func() { over = r.part.pacer.last == nil && len(ended.table.open) == 0 })
		return over
	})
	r.dial().works()
}

// If many requests are in flight, streams of a burst get new connections.
func TestABurstOfStreamsOpensNewConnectionsAndLeavesIdleConnectionsFree(t *testing.T) {
	const few, many = 3, 100
	var hanging, met atomic.Int64
	all := make(chan struct{})
	r := newRig(t, serveHTTP1(t, func(_ http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == "POST":
			if met.Inc() == few {
				close(all)
			}
			<-all
		case r.Method == "GET" && r.URL.Path != "/works":
			hanging.Inc()
			<-r.Context().Done()
		}
	}))
	c := r.dial()
	c.works()
	dials := func() int64 { return r.part.worker.Stats.Dials.Load() }
	open := func(first, n uint32, head string) {
		r.on(func() {
			for c := range r.part.clients.all() {
				for i := range n {
					if err := c.conn.handle(frame(h2.Headers, h2.FlagEndHeaders|h2.FlagEndStream, first+2*i, head)); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
	open(101, many, getHead)
	until(t, "all requests to block", func() bool { return hanging.Load() == many })
	open(1001, few, postHead)
	until(t, "a few connections are idle", func() bool { return met.Load() == few && r.gate.Admission.InFlight() == many })
	before := dials()
	open(2001, 20, getHead)
	until(t, "all requests to block", func() bool { return hanging.Load() == many+20 })
	// The first of the 20 streams is not a part of the burst, so it reuses an idle
	// connection. The other 19 streams open connections.
	if n := dials() - before; n != 19 {
		t.Errorf("%d connections were opened for 20 streams, want 19", n)
	}
}

// If many streams are open, a burst uses the connection that has the most streams. The
// first stream that a client opens in an iteration is not a part of the burst. It uses
// the connection that has the fewest streams.
func TestABurstOfStreamsSharesTheConnectionWithTheMostStreams(t *testing.T) {
	r := newRig(t, serveFrames(t, nil, func(p *peer, f http2.Frame) bool {
		if f, ok := f.(*http2.MetaHeadersFrame); ok && field(f, ":path") == "/works" {
			p.respond(f.StreamID, "")
		}
		return true
	}), func(o *options) { o.protocol = upstream.H2C })
	r.dial().works()
	begun := 0
	open := func(n int) {
		t.Helper()
		first := uint32(101 + 2*begun)
		r.on(func() {
			for c := range r.part.clients.all() {
				for i := range uint32(n) {
					if err := c.conn.handle(frame(h2.Headers, h2.FlagEndHeaders|h2.FlagEndStream, first+2*i, getHead)); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
		begun += n
		until(t, "all streams to be open", func() (all bool) {
			r.on(func() { all = r.part.pool.streams == begun })
			return all
		})
	}
	sizes := func() (n []int) {
		r.on(func() {
			for _, u := range r.part.pool.conns {
				n = append(n, len(u.table.open))
			}
		})
		return n
	}
	open(10)
	if n := sizes(); !slices.Equal(n, []int{10}) {
		t.Errorf("streams per connection: %v, want a few on one", n)
	}
	open(maxStreams - 20)
	if n := sizes(); !slices.Equal(n, []int{maxStreams - 10}) {
		t.Errorf("streams per connection: %v, want the burst on one", n)
	}
	for i := range 5 {
		open(1)
		if n := sizes(); !slices.Equal(n, []int{maxStreams - 10, 1 + i}) {
			t.Errorf("streams per connection: %v, want the single streams on another", n)
		}
	}
	open(4)
	if n := sizes(); !slices.Equal(n, []int{maxStreams - 10 + 3, 6}) {
		t.Errorf("streams of the connections %v, want three of four with the burst", n)
	}
}
