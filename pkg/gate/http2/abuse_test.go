package http2

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// flood sends up to the given number of frames, many in one write, until the connection
// ends.
func (c *client) flood(times int, frame func(id uint32) []byte) {
	var b []byte
	for i := range times {
		b = append(b, frame(uint32(2*i+1))...)
		if len(b) > 16<<10 || i == times-1 {
			if c.do(func() error { _, err := c.conn.Write(b); return err }) != nil {
				return
			}
			b = b[:0]
		}
	}
}

func frame(t h2.Type, flags h2.Flags, id uint32, payload string) []byte {
	n := len(payload)
	b := append([]byte{byte(n >> 16), byte(n >> 8), byte(n), byte(t), byte(flags)}, u32(id)...)
	return append(b, payload...)
}

const (
	getHead  = "\x82\x86\x84\x01\x01h" // GET / to the host h
	postHead = "\x83\x86\x84\x01\x01h"
)

func headersFrame(id uint32, end bool) []byte {
	if end {
		return frame(h2.Headers, h2.FlagEndHeaders|h2.FlagEndStream, id, getHead)
	}
	return frame(h2.Headers, h2.FlagEndHeaders, id, postHead)
}

func concat(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// attacks end the connection of the attacker.
var attacks = []struct {
	name  string
	fault string
	code  http2.ErrCode
	run   func(c *client)
}{
	{"rapid reset", "resets", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(100_000, func(id uint32) []byte {
			return concat(headersFrame(id, true), frame(h2.RSTStream, 0, id, u32(8)))
		})
	}},
	{"resets caused by WINDOW_UPDATE of 0", "resets", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(100_000, func(id uint32) []byte {
			return concat(headersFrame(id, false), frame(h2.WindowUpdate, 0, id, u32(0)))
		})
	}},
	{"resets caused by windows that overflow", "resets", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(100_000, func(id uint32) []byte {
			return concat(headersFrame(id, false), frame(h2.WindowUpdate, 0, id, u32(1<<31-1)))
		})
	}},
	{"resets caused by HEADERS on half-closed streams", "resets", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(100_000, func(id uint32) []byte { return concat(headersFrame(id, true), headersFrame(id, true)) })
	}},
	{"resets caused by DATA on half-closed streams", "resets", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(100_000, func(id uint32) []byte { return concat(headersFrame(id, true), frame(h2.Data, 0, id, "x")) })
	}},
	{"resets caused by PRIORITY with a dependency on itself", "resets", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(100_000, func(id uint32) []byte {
			return concat(headersFrame(id, false), frame(h2.Priority, 0, id, u32(id)+"\x10"))
		})
	}},
	{"resets caused by HEADERS with a dependency on itself", "resets", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(100_000, func(id uint32) []byte {
			return frame(h2.Headers, h2.FlagEndHeaders|h2.FlagEndStream|h2.FlagPriority, id, u32(id)+"\x10"+getHead)
		})
	}},
	{"resets caused by PRIORITY of a wrong length", "resets", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(100_000, func(id uint32) []byte { return concat(headersFrame(id, false), frame(h2.Priority, 0, id, "x")) })
	}},
	{"resets caused by bodies that are too long", "resets", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(100_000, func(id uint32) []byte {
			return concat(frame(h2.Headers, h2.FlagEndHeaders, id, postHead+"\x0f\x0d\x011"), frame(h2.Data, 0, id, "xx"))
		})
	}},
	{"resets caused by bodies that are too short", "resets", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(100_000, func(id uint32) []byte {
			return concat(frame(h2.Headers, h2.FlagEndHeaders, id, postHead+"\x0f\x0d\x012"), frame(h2.Data, h2.FlagEndStream, id, "x"))
		})
	}},
	{"resets caused by malformed heads", "resets", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(100_000, func(id uint32) []byte {
			return frame(h2.Headers, h2.FlagEndHeaders|h2.FlagEndStream, id, "\x82\x86\x84\x00\x01A\x01b")
		})
	}},
	{"resets of closed streams", "resets", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.works()
		c.flood(1_000_000, func(uint32) []byte { return frame(h2.RSTStream, 0, 1, u32(8)) })
	}},
	{"HEADERS on a stream that was reset", "empty-frames", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(1, func(id uint32) []byte { return concat(headersFrame(id, false), frame(h2.WindowUpdate, 0, id, u32(0))) })
		c.flood(1_000_000, func(uint32) []byte { return headersFrame(1, true) })
	}},
	{"DATA on a stream that was reset", "empty-frames", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(1, func(id uint32) []byte { return concat(headersFrame(id, false), frame(h2.WindowUpdate, 0, id, u32(0))) })
		c.flood(1_000_000, func(uint32) []byte { return frame(h2.Data, 0, 1, "x") })
	}},
	{"CONTINUATION without end", "header-block", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.works() // lets the client acknowledge SETTINGS before the field block begins
		c.flood(1, func(uint32) []byte { return frame(h2.Headers, 0, 3, getHead) })
		part := strings.Repeat("\x00\x01x\x01y", 1000)
		c.flood(100_000, func(uint32) []byte { return frame(h2.Continuation, 0, 3, part) })
	}},
	{"empty CONTINUATION frames", "header-block", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.works()
		c.flood(1, func(uint32) []byte { return frame(h2.Headers, 0, 3, getHead) })
		c.flood(1_000_000, func(uint32) []byte { return frame(h2.Continuation, 0, 3, "") })
	}},
	{"many references to a large entry", "header-block", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		entry := "\x40\x01x\x7f\xa1\x1e" + strings.Repeat("y", 4000)
		c.flood(1, func(id uint32) []byte {
			return frame(h2.Headers, h2.FlagEndHeaders|h2.FlagEndStream, id, getHead+entry+strings.Repeat("\xbe", 10_000))
		})
	}},
	{"empty DATA", "empty-frames", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(1, func(id uint32) []byte { return headersFrame(id, false) })
		c.flood(1_000_000, func(uint32) []byte { return frame(h2.Data, 0, 1, "") })
	}},
	{"DATA with padding only", "empty-frames", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(1, func(id uint32) []byte { return headersFrame(id, false) })
		c.flood(1_000_000, func(uint32) []byte { return frame(h2.Data, 8, 1, "\x03xxx") })
	}},
	{"SETTINGS", "empty-frames", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(1_000_000, func(uint32) []byte { return frame(h2.Settings, 0, 0, "") })
	}},
	{"SETTINGS that change the windows of many streams", "empty-frames", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(250, func(id uint32) []byte { return headersFrame(id, false) })
		n := uint32(0)
		c.flood(1_000_000, func(uint32) []byte { n++; return frame(h2.Settings, 0, 0, "\x00\x04"+u32(n%2)) })
	}},
	{"PING", "empty-frames", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(1_000_000, func(uint32) []byte { return frame(h2.Ping, 0, 0, "12345678") })
	}},
	{"acknowledgements of PING", "empty-frames", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(1_000_000, func(uint32) []byte { return frame(h2.Ping, h2.FlagAck, 0, "12345678") })
	}},
	{"PRIORITY", "empty-frames", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(1_000_000, func(uint32) []byte { return frame(h2.Priority, 0, 1, u32(3)+"\x10") })
	}},
	{"frames of an unknown type", "empty-frames", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(1_000_000, func(uint32) []byte { return frame(0xbe, 0, 0, "x") })
	}},
	{"WINDOW_UPDATE of the connection", "empty-frames", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(1_000_000, func(uint32) []byte { return frame(h2.WindowUpdate, 0, 0, u32(1)) })
	}},
	{"WINDOW_UPDATE of a closed stream", "empty-frames", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.works()
		c.flood(1_000_000, func(uint32) []byte { return frame(h2.WindowUpdate, 0, 1, u32(1)) })
	}},
	{"GOAWAY", "empty-frames", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(1_000_000, func(uint32) []byte { return frame(h2.GoAway, 0, 0, u32(0)+u32(0)) })
	}},
	{"more streams than allowed", "resets", http2.ErrCodeEnhanceYourCalm, func(c *client) {
		c.flood(100_000, func(id uint32) []byte { return headersFrame(id, false) })
	}},
	{"a connection window above the maximum", "flow-control", http2.ErrCodeFlowControl, func(c *client) {
		c.flood(1, func(uint32) []byte { return frame(h2.WindowUpdate, 0, 0, u32(1<<31-1)) })
	}},
	{"SETTINGS that raise a stream window above the maximum", "flow-control", http2.ErrCodeFlowControl, func(c *client) {
		c.flood(1, func(id uint32) []byte {
			return concat(headersFrame(id, false), frame(h2.WindowUpdate, 0, id, u32(1<<31-1-65535)), frame(h2.Settings, 0, 0, "\x00\x04"+u32(65536)))
		})
	}},
	{"SETTINGS with an invalid window", "settings", http2.ErrCodeFlowControl, func(c *client) {
		c.flood(1, func(uint32) []byte { return frame(h2.Settings, 0, 0, "\x00\x04"+u32(1<<31)) })
	}},
	{"acknowledgements of SETTINGS", "settings", http2.ErrCodeProtocol, func(c *client) {
		c.flood(10, func(uint32) []byte { return frame(h2.Settings, h2.FlagAck, 0, "") })
	}},
	{"DATA beyond the window of the connection", "flow-control", http2.ErrCodeFlowControl, func(c *client) {
		c.flood(240, func(id uint32) []byte {
			return concat(headersFrame(id, false), frame(h2.Data, 0, id, strings.Repeat("x", 16<<10)), frame(h2.Data, 0, id, strings.Repeat("x", 16<<10)),
				frame(h2.Data, 0, id, strings.Repeat("x", 16<<10)), frame(h2.Data, 0, id, strings.Repeat("x", 15<<10)))
		})
	}},
}

// serveZeroWindow is a container whose stream windows stay at zero. It responds to /works
// only.
func serveZeroWindow(t *testing.T) *container {
	return serveFrames(t, []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}, func(p *peer, f http2.Frame) bool {
		if f, ok := f.(*http2.MetaHeadersFrame); ok && f.PseudoValue("path") == "/works" {
			p.respond(f.StreamID, "")
		}
		return true
	})
}

func TestAnAttackEndsOnlyItsConnection(t *testing.T) {
	t.Parallel()
	hold := func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/works" {
			<-r.Context().Done()
		}
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			up := serveH2C(t, hold)
			if a.fault == "flow-control" {
				up = serveZeroWindow(t)
			}
			r := newRig(t, up)
			innocent := r.dial()
			innocent.works()
			c := r.dial()
			done := make(chan struct{})
			go func() { defer close(done); a.run(c) }()
			for during := true; during; {
				innocent.works()
				select {
				case <-done:
					during = false
				default:
				}
			}
			c.wantGoAway(a.code)
			// The gate must reply to the frames of some attacks. Such an attack may
			// exceed the limit of unread replies before it exceeds the limit under test.
			// Then the gate counts the fault "unread" instead of the expected one.
			if f := r.faults(); f[a.fault] == 0 && (f["unread"] == 0 || a.code != http2.ErrCodeEnhanceYourCalm) {
				t.Errorf("faults %v, want %s", r.faults(), a.fault)
			}
			innocent.works()
			until(t, "one connection", func() bool { return r.protocol.Stats().Connections == 1 })
			until(t, "nothing in flight", func() bool { return r.gate.Admission.InFlight() == 0 })
		})
	}
}

func TestReadingPausesWhileAClientLeavesResponsesUnread(t *testing.T) {
	for name, head := range map[string][]string{
		"container responses": request("GET", "/works"),
		"OPTIONS *":           request("OPTIONS", "*"),
		"rejections":          request("GET", "/rejected"),
		"gRPC rejections":     request("POST", "/rejected", "content-type", "application/grpc"),
	} {
		t.Run(name, func(t *testing.T) {
			hold := make(chan struct{})
			up := serveHTTP1(t, func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/blocked" {
					<-hold
				}
			})
			reject := strings.Contains(name, "rejections")
			r := newRig(t, up, func(o *options) {
				if o.smallSendBuffer = true; reject {
					o.gate.ConcurrencyLimit, o.gate.QueueCapacity = 1, 0
				}
			})
			defer close(hold)
			if reject {
				_ = r.dial().get("/blocked")
				until(t, "one in flight", func() bool { return r.gate.Admission.InFlight() == 1 })
			}
			c := r.dialUnread()
			block := c.fields(head)
			done := make(chan struct{})
			go func() {
				defer close(done)
				// Each round opens 200 streams. The announced limit is maxStreams.
				for n := uint32(0); n < 20_000 && len(r.faults()) == 0; n++ {
					var b []byte
					for i := range uint32(200) {
						b = append(b, frame(h2.Headers, h2.FlagEndHeaders|h2.FlagEndStream, 2*(200*n+i)+1, string(block))...)
					}
					if _, err := c.conn.Write(b); err != nil {
						return
					}
					served := make(chan struct{})
					r.part.loop.Post(func() { r.part.loop.Post(func() { close(served) }) })
					<-served
				}
			}()
			most, paused := 0, false
			until(t, "the gate to stop reading from the client, or to close its connection", func() bool {
				r.on(func() {
					for x := range r.part.clients.all() {
						most, paused = max(most, x.pending()), paused || x.paused
					}
				})
				return paused || most > 4<<20 || len(r.faults()) > 0
			})
			if most > 1<<20 {
				t.Errorf("%d bytes were buffered for a client that does not read", most)
			}
			_ = c.conn.Close()
			<-done
		})
	}
}

func TestAHeadAboveTheLimitIsRejectedAndTheConnectionStaysOpen(t *testing.T) {
	r := newRig(t, serveHTTP1(t, func(http.ResponseWriter, *http.Request) {}))
	c := r.dial()
	c.want(c.get("/", "x", strings.Repeat("y", 15<<10)), "200", "")
	id := c.get("/", "a", strings.Repeat("y", 10000))
	c.want(id, "200", "")
	var many []string
	for i := range 4100 {
		many = append(many, fmt.Sprint("f", i%10), "")
	}
	id = c.open(true, request("GET", "/", many...)...)
	if g := c.await(id); g.status() != "431" || g.head["k-gate-outcome"] != "head-too-large" {
		t.Errorf("%v, connection over %v %v", g.head, c.over(), c.goAways)
	}
	c.works()
}

func TestHeadsOfAllStreamsShareABudget(t *testing.T) {
	t.Parallel()
	r := newRig(t, serveHTTP1(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/works" {
			<-r.Context().Done()
		}
	}), func(o *options) { o.gate.HeadMemory = 2 << 20 })
	entry := "\x40\x01x\x7f\xa1\x1e" + strings.Repeat("y", 4000)
	var clients []*client
	for range 4 { // each client sends 1 MB, which decodes to 15 MB of heads
		c := r.dial()
		clients = append(clients, c)
		c.flood(250, func(id uint32) []byte {
			return frame(h2.Headers, h2.FlagEndHeaders|h2.FlagEndStream, id, getHead+entry+strings.Repeat("\xbe", 14))
		})
		c.last = 499
	}
	until(t, "a rejection", func() bool { g := clients[3].of(499); return g.over() })
	if g := clients[3].of(499); g.status() != "503" || g.head["k-gate-outcome"] != "out-of-memory-budget" || g.head["retry-after"] != "1" {
		t.Errorf("%v", g.head)
	}
	if b := r.gate.Heads; b.Used() > b.Limit() || b.Used() < b.Limit()/4 {
		t.Errorf("%d of %d bytes in use", b.Used(), b.Limit())
	}
	r.dial().works()
	for _, c := range clients {
		_ = c.conn.Close()
	}
	until(t, "the budget to be free", func() bool { return r.gate.Heads.Used() == 0 })
}

func TestIncompleteFieldBlocksShareTheBudgetOfHeads(t *testing.T) {
	r := newRig(t, serveHTTP1(t, func(http.ResponseWriter, *http.Request) {}), func(o *options) { o.gate.HeadMemory = 256 << 10 })
	innocent := r.dial()
	innocent.works()
	part := strings.Repeat("\x00\x01x\x01y", 3000)
	var clients []*client
	for range 10 {
		c := r.dial()
		clients = append(clients, c)
		c.works()
		c.flood(6, func(id uint32) []byte {
			if id == 1 {
				return frame(h2.Headers, 0, 3, part)
			}
			return frame(h2.Continuation, 0, 3, part)
		})
	}
	until(t, "the end of one of the connections", func() bool { return r.faults()["header-block"] > 0 })
	innocent.works()
	if b := r.gate.Heads; b.Used() > b.Limit() {
		t.Errorf("%d of %d bytes in use", b.Used(), b.Limit())
	}
	for _, c := range clients {
		_ = c.conn.Close()
	}
	until(t, "the budget to be free", func() bool { return r.gate.Heads.Used() == 0 })
}

func TestTheBufferOfAnUnreadBodyIsAtMostItsWindow(t *testing.T) {
	r := newRig(t, serveHTTP1(t, serveZeros))
	var f stream
	f.begin(&conn{eng: r.part, role: &downConn{}}, new(exchange.Exchange), 1, h2.Open)
	_ = f.msg.Head(-1, false, false)
	r.on(func() {
		f.x.Bind(r.gate, nil, func() {}, nil)
		f.c.flushQueued, f.state = true, h2.HalfClosedRemote // suppresses WINDOW_UPDATE
		f.recvState = recvEnded
		for range 10_000 {
			f.recv = h2.NewReceiveWindow(streamWindow)
			if err := f.receiveData(&h2.Frame{Type: h2.Data, First: true, Length: 1000, Payload: make([]byte, 1000)}); err != nil {
				t.Fatal(err)
			}
			if f.buffered() > 1000 {
				f.consume(1000)
			}
		}
		if n := cap(f.buf.b); n > streamWindow {
			t.Errorf("a buffer of %d bytes for %d", n, f.buffered())
		}
		f.consume(f.buffered())
	})
}

func TestUnreadResponsesShareTheBudgetOfBodies(t *testing.T) {
	t.Parallel()
	overBothProtocols(t, serveZeros, func(t *testing.T, up *container, _ bool) {
		r := newRig(t, up)
		var clients []*client
		for range 8 { // 2,000 streams with windows of 64 KiB: 125 MiB
			c := r.dial(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			clients = append(clients, c)
			for range 250 {
				_ = c.get("/?100000")
			}
		}
		most := 0
		until(t, "all heads", func() bool {
			r.on(func() { most = max(most, r.part.buffered) })
			for _, c := range clients {
				if c.of(499).head == nil {
					return false
				}
			}
			return true
		})
		for range 20 {
			r.dial().works()
			r.on(func() { most = max(most, r.part.buffered) })
		}
		// A container sends with its old windows until it receives the smaller ones. The
		// number of these bytes depends on the machine, so the limit is 1 MiB above the
		// budget.
		if most > int(r.gate.Bodies.Limit())+1<<20 {
			t.Errorf("%d bytes buffered", most)
		}
		_ = clients[0].do(func() error { return clients[0].WriteWindowUpdate(1, 100_000) })
		if g := clients[0].await(1); g.size != 100_000 || !g.ended {
			t.Errorf("a stream whose window opens late got %d bytes", g.size)
		}
		for _, c := range clients {
			_ = c.conn.Close()
		}
		until(t, "no buffered bytes", func() bool { n := 0; r.on(func() { n = r.part.buffered }); return n == 0 && r.gate.Bodies.Used() == 0 })
		c := r.dial()
		if g := c.await(c.get("/?5000000")); g.size != 5_000_000 {
			t.Errorf("%d bytes afterwards", g.size)
		}
	})
}

// Without memory pressure, the gate would read more of the response ahead.
func TestUnderMemoryPressureAStalledResponseIsNotReadAhead(t *testing.T) {
	r := newRig(t, serveH2C(t, serveZeros))
	b := r.gate.Bodies
	if n := b.Limit()/8 + 1; b.Acquire(n) {
		defer b.Release(n)
	}
	c := r.dialUnread(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 5000})
	c.autoCredit = false
	done := make(chan struct{})
	go func() { defer close(done); c.read() }()
	t.Cleanup(func() { _ = c.conn.Close(); <-done })
	id := c.get("/?1000000")
	until(t, "the bytes of the client's window", func() bool { return c.of(id).size == 5000 })
	buffered, size := 0, 0
	until(t, "bytes that the gate has read ahead", func() bool {
		r.on(func() {
			if s := r.part.pool.conns[0].table.open[0]; s.buf != nil && s.recv.Credit() == 0 {
				buffered, size = s.buffered(), cap(s.buf.b)
			}
		})
		return buffered > 0
	})
	if buffered > 2*minWindow || size > 3*minWindow+2*buffered {
		t.Errorf("%d bytes are buffered in %d", buffered, size)
	}
	_ = c.do(func() error {
		_ = c.WriteWindowUpdate(0, 1<<20)
		return c.WriteWindowUpdate(id, 1<<20)
	})
	if g := c.await(id); g.size != 1_000_000 || !g.ended {
		t.Errorf("%d bytes in the end", g.size)
	}
}

func TestUploadsThatTheContainerDoesNotReadShareTheBudgetOfBodies(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	// Ends the handlers. While a body is unread, net/http does not detect that the
	// connection has closed, and does not cancel the request's context.
	defer close(hold)
	overBothProtocols(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/works" {
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		}
	}, func(t *testing.T, up *container, _ bool) {
		r := newRig(t, up)
		var clients []*client
		piece := strings.Repeat("x", 16<<10)
		const streams, each = 100, 20
		for range each { // together 31 MiB, more than the windows allow
			c := r.dial()
			clients = append(clients, c)
			for range streams {
				_ = c.open(false, request("POST", "/")...)
			}
		}
		until(t, "all requests", func() bool { return r.gate.Admission.InFlight() == streams*each })
		most, sent := 0, make([]int, each)
		for round := range streams {
			for i, c := range clients {
				c.mu.Lock()
				left := 65_535 + int(c.window) - sent[i]
				c.mu.Unlock()
				if left >= len(piece) {
					_ = c.data(uint32(2*round+1), false, piece)
					sent[i] += len(piece)
				}
			}
			r.on(func() { most = max(most, r.part.buffered) })
		}
		for range 20 {
			r.dial().works()
			r.on(func() { most = max(most, r.part.buffered) })
		}
		if len(r.faults()) > 0 || most > 16<<20 {
			t.Errorf("%d bytes buffered; faults %v", most, r.faults())
		}
		for _, c := range clients {
			_ = c.conn.Close()
		}
		until(t, "no buffered bytes", func() bool { n := 0; r.on(func() { n = r.part.buffered }); return n == 0 && r.gate.Bodies.Used() == 0 })
	})
}
