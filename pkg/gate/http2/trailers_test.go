package http2

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/queuegate/queuegate/internal/testkit"
)

// trailers ends a request with a trailer.
func (c *client) trailers(id uint32, fields ...string) {
	_ = c.do(func() error {
		return c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.fields(fields), EndHeaders: true, EndStream: true})
	})
}

// serveEarlyResponses is a net/http handler that responds to /early without reading the
// body, and to /blocked after release is closed.
func serveEarlyResponses(begun chan struct{}, release chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/blocked":
			begun <- struct{}{}
			<-release
		case strings.HasPrefix(r.URL.Path, "/early"):
			var spin time.Duration
			_, _ = fmt.Sscanf(r.URL.Path, "/early/%d", &spin)
			for end := time.Now().Add(spin); time.Now().Before(end); {
			}
			w.WriteHeader(413)
		default:
			echo(w, r)
		}
	}
}

func TestTrailersAfterAnEarlyResponseEndNoOtherRequest(t *testing.T) {
	t.Parallel()
	for _, announced := range []bool{false, true} {
		t.Run(fmt.Sprintf("announced %v", announced), func(t *testing.T) {
			const innocents, attacks = 20, 800
			begun, release := make(chan struct{}, innocents), make(chan struct{})
			up := serveHTTP(t, false, true, serveEarlyResponses(begun, release))
			r := newRig(t, up, func(o *options) { o.protocol = 2 })
			innocent := r.dial()
			var held []uint32
			for range innocents {
				held = append(held, innocent.open(true, request("POST", "/blocked")...))
				testkit.Receive(t, "a request that must survive", begun)
			}
			attacker := r.dial()
			var more []string
			if announced {
				more = []string{"trailer", "x-end"}
			}
			var ids []uint32
			for i := range attacks {
				id := attacker.open(false, request("POST", fmt.Sprintf("/early/%d", i%100*2000), more...)...)
				_ = attacker.data(id, false, "some")
				if i%2 == 0 { // odd requests send trailers below, while the response is in flight
					attacker.trailers(id, "x-end", "yes")
				}
				if ids = append(ids, id); len(ids) == 20 {
					for j, id := range ids {
						if j%2 == 1 {
							time.Sleep(50 * time.Microsecond)
							attacker.trailers(id, "x-end", "yes")
						}
					}
					for _, id := range ids {
						if g := attacker.await(id); g.status() != "413" {
							t.Fatalf("%v", g.head)
						}
					}
					ids = ids[:0]
				}
			}
			close(release)
			for _, id := range held {
				innocent.want(id, "200", "")
			}
			attacker.works()
		})
	}
}

// serveTrailers is a container that responds with the request's trailer x-end, and
// to /blocked after release is closed.
func serveTrailers(t *testing.T, begun, release chan struct{}) *container {
	return serveFrames(t, nil, func(p *peer, f http2.Frame) bool {
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			switch {
			case field(f, ":path") == "/blocked":
				begun <- struct{}{}
				go func() {
					<-release
					p.respond(f.StreamID, "")
				}()
			case f.StreamEnded():
				p.respond(f.StreamID, field(f, "x-end"))
			}
		case *http2.DataFrame:
			if f.StreamEnded() {
				p.respond(f.StreamID, "none")
			}
		case *http2.PingFrame:
			_ = p.do(func() error { return p.WritePing(true, f.Data) })
		}
		return true
	})
}

func TestTrailersReachTheContainerDespiteConcurrentRequests(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}, 1), make(chan struct{})
	up := serveTrailers(t, begun, release)
	r := newRig(t, up, func(o *options) { o.protocol = 2 })
	c := r.dial()
	held := c.get("/blocked")
	testkit.Receive(t, "a request that blocks", begun)
	send := func(want string, more ...string) {
		t.Helper()
		id := c.open(false, request("POST", "/", more...)...)
		_ = c.data(id, false, "hello")
		c.trailers(id, "x-end", "yes")
		c.want(id, "200", want)
	}
	send("yes", "trailer", "x-end")
	// The gate discards trailers that are not announced, because another stream of the
	// connection stays open.
	send("none")
	// After the first unannounced trailers, a request without a length gets a connection
	// without other streams. Its unannounced trailers can therefore be sent.
	send("yes")
	close(release)
	c.want(held, "200", "")
}

// holdTrailers reports whether trailers wait on the first connection to the container. If
// so, it postpones the time at which the gate discards them.
func (r *rig) holdTrailers() bool {
	u := r.part.pool.conns[0]
	if u.sharing != trailersWaiting {
		return false
	}
	u.sharingDeadline += int64(testkit.Timeout)
	return true
}

func TestTrailersWaitForTheOtherStreamsOfTheirConnection(t *testing.T) {
	begun, release := make(chan struct{}, 1), make(chan struct{})
	up := serveTrailers(t, begun, release)
	r := newRig(t, up, func(o *options) { o.protocol = 2 })
	c := r.dial()
	held := c.get("/blocked")
	testkit.Receive(t, "a request in flight", begun)
	id := c.open(false, request("POST", "/")...)
	_ = c.data(id, false, "hello")
	waiting := r.inEachIteration(r.holdTrailers)
	c.trailers(id, "x-end", "yes")
	testkit.Receive(t, "waiting trailers", waiting)
	c.want(c.get("/"), "200", "") // on another connection
	close(release)
	c.want(held, "200", "")
	c.want(id, "200", "yes")
	until(t, "both connections shared again", func() (all bool) {
		r.on(func() {
			all = len(r.part.pool.conns) == 2
			for _, u := range r.part.pool.conns {
				all = all && u.sharing == shared && len(u.table.open) == 0
			}
		})
		return all
	})
}

func TestNoStreamOpensAfterTrailersUntilTheirPINGIsAcknowledged(t *testing.T) {
	var mu sync.Mutex
	var order []string
	pings := make(chan func(), 10)
	up := serveFrames(t, nil, func(p *peer, f http2.Frame) bool {
		mu.Lock()
		defer mu.Unlock()
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if f.StreamEnded() {
				if field(f, ":path") == "" {
					order = append(order, fmt.Sprint("trailers on ", p.number))
				} else {
					order = append(order, fmt.Sprint("request on ", p.number))
				}
				p.respond(f.StreamID, "")
			}
		case *http2.PingFrame:
			pings <- func() { _ = p.do(func() error { return p.WritePing(true, f.Data) }) }
		}
		return true
	})
	r := newRig(t, up, func(o *options) { o.protocol = 2 })
	c := r.dial()
	id := c.open(false, request("POST", "/", "trailer", "x-end")...)
	c.trailers(id, "x-end", "yes")
	c.want(id, "200", "")
	ack := testkit.Receive(t, "a PING after the trailers", pings)
	c.works()
	ack()
	until(t, "the connection shared again", func() (ok bool) {
		r.on(func() { ok = r.part.pool.conns[0].sharing == shared })
		return ok
	})
	c.works()
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"trailers on 1", "request on 2", "request on 1"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
}

func TestAnUnacknowledgedPINGAfterTrailersClosesTheConnection(t *testing.T) {
	up := serveFrames(t, nil, func(p *peer, f http2.Frame) bool {
		if f, ok := f.(*http2.MetaHeadersFrame); ok && f.StreamEnded() {
			p.respond(f.StreamID, "")
		}
		return true
	})
	r := newRig(t, up, func(o *options) { o.protocol = 2 })
	c := r.dial()
	id := c.open(false, request("POST", "/", "trailer", "x-end")...)
	c.trailers(id, "x-end", "yes")
	c.want(id, "200", "")
	r.on(func() {
		u := r.part.pool.conns[0]
		if u.sharing != trailersSent || u.sharingDeadline == 0 {
			t.Errorf("sharing %d until %d", u.sharing, u.sharingDeadline)
		}
		u.sharingDeadline = 1
		u.watchLiveness()
		if u.live {
			t.Error("the connection is still open")
		}
	})
}

func TestTrailersBeyondTheContainersHeaderListLimitGet431(t *testing.T) {
	const limit = 2000
	reset := make(chan http2.ErrCode, 10)
	up := serveFrames(t, []http2.Setting{{ID: http2.SettingMaxHeaderListSize, Val: limit}}, func(p *peer, f http2.Frame) bool {
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if n := listSize(f.Fields); n > limit {
				t.Errorf("a header list of %d bytes", n)
			}
			if f.StreamEnded() {
				p.respond(f.StreamID, "")
			}
		case *http2.RSTStreamFrame:
			reset <- f.ErrCode
		}
		return true
	})
	r := newRig(t, up, func(o *options) { o.protocol = 2 })
	c := r.dial()
	for _, more := range [][]string{nil, {"trailer", "x-big"}} {
		id := c.open(false, request("POST", "/", more...)...)
		c.trailers(id, "x-big", strings.Repeat("x", limit))
		if g := c.await(id); g.status() != "431" || g.head["k-gate-outcome"] != "head-too-large" {
			t.Errorf("over HTTP/2: %v", g.head)
		}
		if code := testkit.Receive(t, "a reset", reset); code != http2.ErrCodeCancel {
			t.Errorf("reset with %v", code)
		}
	}
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Big: "+strings.Repeat("x", limit)+"\r\n\r\n")
	status := make([]byte, len("HTTP/1.1 431"))
	if _, err := io.ReadFull(conn, status); err != nil || string(status) != "HTTP/1.1 431" {
		t.Errorf("over HTTP/1: %q, %v", status, err)
	}
	c.works()
	if n := up.conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestClosingAConnectionDiscardsItsWaitingTrailers(t *testing.T) {
	begun := make(chan struct{}, 2)
	end := make(chan struct{})
	up := serveFrames(t, nil, func(p *peer, f http2.Frame) bool {
		if _, ok := f.(*http2.MetaHeadersFrame); ok {
			begun <- struct{}{}
		}
		if _, ok := f.(*http2.DataFrame); ok {
			go func() {
				<-end
				_ = p.conn.Close()
			}()
		}
		return true
	})
	r := newRig(t, up, func(o *options) { o.protocol = 2 })
	c := r.dial()
	held := c.open(true, request("POST", "/")...)
	testkit.Receive(t, "a request in flight", begun)
	id := c.open(false, request("POST", "/")...)
	_ = c.data(id, false, "hello")
	waiting := r.inEachIteration(r.holdTrailers)
	c.trailers(id, "x-end", "yes")
	testkit.Receive(t, "waiting trailers", waiting)
	close(end)
	for _, id := range []uint32{held, id} {
		if g := c.await(id); g.status() != "502" {
			t.Errorf("%v", g.head)
		}
	}
}

// Each request announces trailers. The container does not respond before the heads of all
// requests have arrived.
func TestRequestsThatAnnounceTrailersShareConnectionsOnceMaxExclusiveAreInUse(t *testing.T) {
	const clients, each = 3, 200
	begun, release := make(chan struct{}, clients*each), make(chan struct{})
	up := serveFrames(t, nil, func(p *peer, f http2.Frame) bool {
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if field(f, ":path") == "/" {
				begun <- struct{}{}
				go func() {
					<-release
					p.respond(f.StreamID, "")
				}()
			}
		case *http2.PingFrame:
			_ = p.do(func() error { return p.WritePing(true, f.Data) })
		}
		return true
	})
	r := newRig(t, up, func(o *options) { o.protocol = 2 })
	type call struct {
		c  *client
		id uint32
	}
	var calls []call
	for range clients {
		c := r.dial()
		for range each {
			calls = append(calls, call{c, c.open(false, request("POST", "/", "trailer", "x-end")...)})
		}
	}
	for range calls {
		testkit.Receive(t, "a request at the container", begun)
	}
	if n := up.conns.Load(); n < maxExclusive || n > maxExclusive+clients {
		t.Errorf("%d connections, want at most %d, and one for each client connection", n, maxExclusive)
	}
	close(release)
	for _, e := range calls {
		e.c.trailers(e.id, "x-end", "yes")
		e.c.want(e.id, "200", "")
	}
}
