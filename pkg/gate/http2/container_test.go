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

	"go.uber.org/atomic"
	"golang.org/x/net/http2"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/pkg/gate"
)

// collector collects the request bodies that a container receives, by connection and
// stream.
type collector struct {
	mu     sync.Mutex
	bodies map[[2]int64]*strings.Builder
}

func (c *collector) add(p *peer, f http2.Frame) (id uint32, body string, whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bodies == nil {
		c.bodies = map[[2]int64]*strings.Builder{}
	}
	id = f.Header().StreamID
	key := [2]int64{p.number, int64(id)}
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		c.bodies[key] = &strings.Builder{}
		return id, "", f.StreamEnded()
	case *http2.DataFrame:
		if b := c.bodies[key]; b != nil {
			_, _ = b.Write(f.Data())
			return id, b.String(), f.StreamEnded()
		}
	}
	return id, "", false
}

func TestStreamsAboveTheContainersGOAWAYAreRetried(t *testing.T) {
	var all collector
	const n, last = 8, 5 // GOAWAY is sent after n requests; streams 1, 3 and 5 are served
	var first []uint32
	up := serveFrames(t, nil, func(p *peer, f http2.Frame) bool {
		id, body, whole := all.add(p, f)
		switch {
		case !whole:
		case p.number > 1:
			p.respond(id, body)
		default:
			if first = append(first, id); len(first) < n {
				return true
			}
			_ = p.do(func() error { return p.WriteGoAway(last, http2.ErrCodeNo, nil) })
			for _, id := range first {
				if id <= last {
					p.respond(id, "first connection")
				}
			}
		}
		return true
	})
	r := newRig(t, up, func(o *options) { o.protocol = 2 })
	c := r.dial()
	var ids []uint32
	for i := range n {
		id := c.open(false, request("POST", "/")...)
		_ = c.data(id, false, "hello ")
		_ = c.data(id, true, fmt.Sprint(i))
		ids = append(ids, id)
	}
	served := 0
	for i, id := range ids {
		switch g := c.await(id); string(g.body) {
		case "first connection":
			served++
		case fmt.Sprint("hello ", i):
		default:
			t.Errorf("request %d: %v %q", i, g.head, g.body)
		}
	}
	if served != 3 {
		t.Errorf("%d requests were served on the first connection", served)
	}
	if n := r.gate.Retries.Load(); n != 5 {
		t.Errorf("%d retries", n)
	}
}

func TestARequestResetWithREFUSED_STREAMIsRetriedWithItsBody(t *testing.T) {
	for _, c := range []struct {
		name, body, status string
		parts              int
	}{
		{"without a body", "", "200", 1},
		{"with a body", "hello", "200", 1},
		{"with a body in several frames", "hello", "200", 3},
		{"with a body beyond the replay buffer", strings.Repeat("x", 10_000), "502", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all collector
			refused := 0
			up := serveFrames(t, nil, func(p *peer, f http2.Frame) bool {
				id, body, whole := all.add(p, f)
				switch {
				case !whole:
				case refused < 3:
					refused++
					_ = p.do(func() error { return p.WriteRSTStream(id, http2.ErrCodeRefusedStream) })
				default:
					p.respond(id, body)
				}
				return true
			})
			r := newRig(t, up, func(o *options) { o.protocol = 2 })
			client := r.dial()
			id := client.open(c.body == "", request("POST", "/")...)
			for i := range c.parts {
				if c.body != "" {
					_ = client.data(id, i == c.parts-1, c.body)
					r.on(func() {})
				}
			}
			g := client.await(id)
			if g.status() != c.status || c.status == "200" && string(g.body) != strings.Repeat(c.body, c.parts) {
				t.Errorf("%v %q", g.head, g.body)
			}
			status, body := r.get("/") // from an HTTP/1 client
			if status != 200 {
				t.Errorf("%d %q", status, body)
			}
		})
	}
}

func TestAMalformedResponseIsNotRetried(t *testing.T) {
	var received atomic.Int64
	up := serveFrames(t, nil, func(p *peer, f http2.Frame) bool {
		if h, ok := f.(*http2.MetaHeadersFrame); ok {
			if received.Inc() == 1 {
				p.respond(h.StreamID, "")
			} else {
				p.head(h.StreamID, true, ":status", "200", "connection", "close")
			}
		}
		return true
	})
	r := newRig(t, up, func(o *options) { o.protocol = 2 })
	client := r.dial()
	for i, status := range []string{"200", "502"} {
		if g := client.await(client.open(true, request("GET", "/")...)); g.status() != status || received.Load() != int64(i+1) {
			t.Errorf("%v, the container received %d requests", g.head, received.Load())
		}
	}
}

func TestAfterASilentCloseOnlyIdempotentRequestsAreRetried(t *testing.T) {
	for method, want := range map[string]int64{"POST": 1, "GET": 2} {
		t.Run(method, func(t *testing.T) {
			var received atomic.Int64
			up := serveRaw(t, func(conn net.Conn) {
				_, _ = io.ReadFull(conn, make([]byte, len(http2.ClientPreface)))
				framer := http2.NewFramer(conn, conn)
				for {
					f, err := framer.ReadFrame()
					if err != nil {
						return
					}
					if f.Header().Type == http2.FrameHeaders {
						received.Inc()
						return
					}
				}
			})
			r := newRig(t, up, func(o *options) { o.protocol = 2 })
			client := r.dial()
			if g := client.await(client.open(true, request(method, "/")...)); g.status() != "502" || received.Load() != want {
				t.Errorf("%v, the container received %d requests", g.head, received.Load())
			}
		})
	}
}

func TestAConnectionWhosePINGIsNotAcknowledgedIsClosed(t *testing.T) {
	for _, acknowledges := range []bool{true, false} {
		t.Run(fmt.Sprintf("acknowledged %v", acknowledges), func(t *testing.T) {
			pings, held := make(chan struct{}, 2), make(chan uint32, 1)
			var container *peer
			up := serveFrames(t, nil, func(p *peer, f http2.Frame) bool {
				switch f := f.(type) {
				case *http2.MetaHeadersFrame:
					container = p
					held <- f.StreamID
				case *http2.PingFrame:
					if acknowledges {
						_ = p.do(func() error { return p.WritePing(true, f.Data) })
					}
					pings <- struct{}{}
				}
				return true
			})
			r := newRig(t, up, func(o *options) { o.protocol = 2 })
			c := r.dial()
			id := c.get("/")
			stream := testkit.Receive(t, "the request", held)
			silent := func(dead bool) {
				t.Helper()
				until(t, "the acknowledgement of PING", func() (ok bool) {
					r.on(func() { ok = len(r.part.pool.conns) == 0 || dead || r.part.pool.conns[0].pingDeadline == 0 })
					return ok
				})
				r.on(func() {
					for _, u := range r.part.pool.conns {
						u.lastReadAt -= livenessTimeout
						u.pingDeadline = max(0, u.pingDeadline-livenessTimeout)
						u.watchLiveness()
						u.watchLiveness() // a second call before the acknowledgement has no effect
					}
				})
			}
			silent(false)
			testkit.Receive(t, "a PING", pings)
			silent(!acknowledges)
			if acknowledges {
				testkit.Receive(t, "another PING", pings)
				container.respond(stream, "late")
				c.want(id, "200", "late")
			} else if g := c.await(id); g.status() != "502" || g.head["k-gate-outcome"] != "upstream-closed" {
				t.Errorf("%v", g.head)
			}
		})
	}
}

func TestAContainerWhoseWindowStaysAtZeroEndsUploadsAfterTheIdleTimeout(t *testing.T) {
	up := serveFrames(t, []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}, func(*peer, http2.Frame) bool { return true })
	r := newRig(t, up, func(o *options) { o.protocol, o.gate.IdleTimeout = 2, 300*time.Millisecond })
	c := r.dial()
	id := c.open(false, request("POST", "/")...)
	_ = c.data(id, false, "some")
	if g := c.await(id); g.status() != "504" {
		t.Errorf("%v", g.head)
	}
	if f := r.faults(); len(f) > 0 {
		t.Errorf("faults %v, want none for the client", f)
	}
}

func TestManyHangingStreamsDoNotAffectOthers(t *testing.T) {
	t.Parallel()
	up := serveFrames(t, nil, func(p *peer, f http2.Frame) bool {
		if f, ok := f.(*http2.MetaHeadersFrame); ok && field(f, ":path") == "/works" {
			p.respond(f.StreamID, "")
		}
		return true
	})
	r := newRig(t, up, func(o *options) { o.protocol = 2 })
	const conns = 24
	var clients []*client
	innocent := r.dial()
	for range conns {
		c := r.dialUnread()
		clients = append(clients, c)
		c.flood(maxStreams, func(id uint32) []byte { return headersFrame(id, false) })
		innocent.works()
	}
	until(t, "all requests to be in flight", func() bool { return r.gate.Admission.InFlight() == conns*maxStreams })
	for range 100 {
		innocent.works()
	}
	for _, c := range clients {
		_ = c.conn.Close()
	}
	until(t, "nothing in flight", func() bool { return r.gate.Admission.InFlight() == 0 })
	until(t, "no stream towards the container", func() (none bool) {
		r.on(func() {
			none = true
			for _, u := range r.part.pool.conns {
				none = none && len(u.table.open) == 0
			}
		})
		return none
	})
	innocent.works()
}

type panickingObserver struct{}

func (panickingObserver) Begin(x *gate.Record) {
	if string(x.Target) == "/panic" {
		panic("on purpose")
	}
}
func (panickingObserver) End(*gate.Record)      {}
func (panickingObserver) Rejected(gate.Outcome) {}
func (panickingObserver) Probed(*gate.Record)   {}

func TestAPanicEndsOnlyItsStreamOrConnection(t *testing.T) {
	overBothProtocols(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/blocked" {
			<-r.Context().Done()
		}
	}, func(t *testing.T, up *container, h2c bool) {
		r := newRig(t, up, func(o *options) { o.panics, o.gate.Observer = true, panickingObserver{} })
		innocent, c := r.dial(), r.dial()
		innocent.works()
		c.works()
		if g := c.await(c.get("/panic")); !g.reset || g.code != http2.ErrCodeInternal {
			t.Errorf("a stream: %+v", g)
		}
		c.works()
		_ = c.get("/blocked")
		until(t, "a request", func() bool { return r.gate.Admission.InFlight() == 1 })
		r.on(func() {
			for x := range r.part.clients.all() {
				if len(x.table.open) > 0 {
					x.blocked.streams = []*stream{nil}
				}
			}
		})
		_ = c.do(func() error { return c.WritePing(false, [8]byte{}) })
		until(t, "the end of the connection", c.over)
		until(t, "nothing in flight", func() bool { return r.gate.Admission.InFlight() == 0 })
		innocent.works()
		n := r.panics.Load()
		if h2c {
			r.on(func() { r.part.pool.conns[0].blocked.streams = []*stream{nil} })
			if g := innocent.await(innocent.get("/works")); g.status() != "500" && g.status() != "200" {
				t.Errorf("a connection to the container: %v", g.head)
			}
			innocent.works()
			n++
		}
		if n != r.panics.Load() || n < 2 {
			t.Errorf("%d panics were contained", r.panics.Load())
		}
	})
}

// The container stops reading before the request is written, and closes the connection.
func TestARequestThatWasNeverWrittenIsRetried(t *testing.T) {
	end := make(chan struct{})
	stop := sync.OnceFunc(func() { close(end) })
	defer stop()
	up := serveFrames(t, []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 1 << 30}}, func(p *peer, f http2.Frame) bool {
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if p.number > 1 || field(f, ":path") == "/works" {
				p.respond(f.StreamID, "again")
				return true
			}
			_ = p.do(func() error { return p.WriteWindowUpdate(0, 1<<30) })
			<-end
			return false
		}
		return true
	})
	r := newRig(t, up, func(o *options) { o.protocol = 2 })
	c := r.dial()
	c.works()
	const each = 48 << 10
	uploads := []uint32{}
	sent := -65_535
	// The socket counts as full after this time without a write. A TCP acknowledgement,
	// which frees buffer space, may be delayed by 200 ms.
	const settled = 300 * time.Millisecond
	var written int64
	var since time.Time
	full := false
	until(t, "the socket to accept no more frames", func() (blocked bool) {
		c.mu.Lock()
		credit := int(c.window) - sent
		c.mu.Unlock()
		if credit >= each && !full {
			id := c.open(false, request("POST", "/upload")...)
			for range each / (16 << 10) {
				_ = c.data(id, false, strings.Repeat("x", 16<<10))
			}
			uploads, sent = append(uploads, id), sent+each
		}
		r.on(func() {
			u := r.part.pool.conns[0]
			if u.written != written {
				written, since = u.written, time.Now()
			}
			full = u.pending() >= maxUnwritten
			blocked = full && time.Since(since) > settled
		})
		return blocked
	})
	ids := []uint32{c.open(true, request("POST", "/")...), c.get("/")}
	until(t, "all requests", func() bool { return r.gate.Admission.InFlight() == len(uploads)+2 })
	stop()
	for _, id := range ids {
		c.want(id, "200", "again")
	}
	if g := c.await(uploads[0]); g.status() != "502" {
		t.Errorf("a request that had been written: %+v", g)
	}
}

// recordingObserver waits for the end of each request for /timed. It then sends a copy of
// the request's record to a channel.
type recordingObserver struct {
	panickingObserver
	ended chan gate.Record
}

func (o recordingObserver) Begin(*gate.Record) {}

func (o recordingObserver) End(x *gate.Record) {
	if string(x.Target) == "/timed" {
		o.ended <- *x
	}
}

// The service time starts when the head is queued, before it is written.
func TestTheServiceTimeStartsWhenTheRequestIsForwarded(t *testing.T) {
	const takes = 50 * time.Millisecond
	overBothProtocols(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/timed" {
			time.Sleep(takes)
		}
	}, func(t *testing.T, up *container, h2c bool) {
		o := recordingObserver{ended: make(chan gate.Record, 10)}
		r := newRig(t, up, func(p *options) { p.gate.Observer = o })
		c := r.dial()
		c.works()
		for range 2 { // on a new connection to the container, and on a reused one
			c.want(c.get("/timed"), "200", "")
			x := testkit.Receive(t, "the end of a request", o.ended)
			if times := []time.Duration{x.Arrived, x.Admitted, x.Forwarded, x.Responded, x.Ended}; !slices.IsSorted(times) || x.UpstreamTime() < takes || x.Responded-x.Forwarded < takes {
				t.Errorf("h2c %v: arrived, admitted, forwarded, responded, ended: %v; the container needs %v", h2c, times, takes)
			}
		}
	})
}
