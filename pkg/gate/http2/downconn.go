package http2

import (
	"fmt"
	"net/netip"
	"runtime/debug"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/server"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// connState is the state of a client's connection.
//
//	awaitingPreface → open   the preface has arrived
//	open → announced         the gate queues a GOAWAY with the highest stream identifier
//	announced → draining     the gate queues the final GOAWAY: goAwayGrace after the client
//	                         has acknowledged goAwayPing, or after goAwayTimeout
//	draining → closing       no stream is left
//	any → closing            the client violates the protocol or disconnects, or the gate
//	                         closes the connection
type connState uint8

const (
	awaitingPreface connState = iota
	open
	announced
	draining
	closing
)

var connStateNames = [...]string{"awaiting preface", "open", "announced", "draining", "closing"}

// String returns the name of s.
func (s connState) String() string { return connStateNames[s] }

// downConn is a client's connection.
type downConn struct {
	conn
	server.Idle[downConn, *downConn]

	table      streamTable[*downStream]
	peers      h2.PeerStreams
	lastServed uint32 // highest identifier of a stream that is served; later streams are ignored
	starting   startQueue
	handle     loop.Handle
	socket     loop.Sock
	peer       netip.AddrPort
	deadline   int64
	lingering  *lingering // nil until a lingering close begins
	headBytes  int32      // number of bytes that its streams have charged to the memory for heads
	state      connState
	live       bool  // set by begin, cleared by abort
	paused     bool  // the gate reads no frames until the client has read responses
	startedIn  uint8 // last iteration in which a stream started without the pacer
}

func (c *downConn) enter(next connState) {
	if l := c.eng.gate.States; l != nil && c.state != next {
		l.ConnState(c.peer, "http/2", c.state, next)
	}
	c.state = next
}

// goAwayPing is the payload of the PING that follows a GOAWAY. Its acknowledgement shows
// that a round trip has passed.
var goAwayPing = [8]byte{'g', 'o', ' ', 'a', 'w', 'a', 'y', 0}

// begin sends SETTINGS and handles the bytes that the protocol detection has read.
func (c *downConn) begin(read []byte) {
	e := c.eng
	c.init(e, &c.socket, c)
	c.handle.Begin()
	c.live, c.lastServed = true, h2.MaxStreamID
	e.clients.add(c)
	list := e.cfg.MaxHeaderList
	if list == 0 {
		list = h2.DefaultMaxList
	}
	c.setMaxHeaderList(list)
	c.input.metered = true
	b := h2.AppendSettings(c.outBuffer(),
		h2.Setting{ID: h2.SettingMaxConcurrentStreams, Value: maxStreams},
		h2.Setting{ID: h2.SettingInitialWindowSize, Value: streamWindow},
		h2.Setting{ID: h2.SettingMaxHeaderListSize, Value: uint32(list)},
		h2.Setting{ID: h2.SettingEnableConnectProtocol, Value: 1})
	c.acks.Sent()
	c.queue(b)
	c.deadline = e.loop.Now() + prefaceTimeout
	c.handle.SetDeadline(c.deadline)
	c.input.partial = append(c.input.partial, read...)
	defer c.recoverPanic()
	if c.takePreface() {
		rest := c.input.partial
		c.input.partial = nil
		if err := c.conn.handle(rest); err != nil {
			c.fail(err)
			return
		}
	}
	c.Step()
}

// takePreface removes the preface from the input once it is complete. Input that does
// not match the preface ends the connection.
func (c *downConn) takePreface() bool {
	possible, complete := h2.MatchPreface(c.input.partial)
	switch {
	case !possible:
		c.countFault(h2.FaultProtocol)
		c.abort()
	case complete:
		c.input.partial = c.input.partial[len(h2.Preface):]
		c.enter(open)
		c.deadline = 0
		c.handle.SetDeadline(0)
		if c.eng.draining {
			c.goAway()
		}
		return true
	}
	return false
}

// Step implements loop.Routine.
func (c *downConn) Step() {
	if !c.live {
		return
	}
	defer c.recoverPanic()
	now := c.eng.loop.Now()
	switch {
	case c.eng.loop.Closing():
		c.abort()
		return
	case c.deadline != 0 && now >= c.deadline:
		if !c.expired() {
			return
		}
	}
	switch c.state {
	case awaitingPreface:
		if !c.readPreface() {
			return
		}
	case closing:
		c.lingering.read(c)
		return
	}
	c.queueFlush()
	c.blocked.wake(&c.conn)
	if c.paused = c.pending() >= maxUnread; c.paused {
		if c.sock.Failed() {
			c.abort()
			return
		}
		if c.input.beganAt == 0 {
			c.input.beganAt = now
		}
		c.watchInput()
		return // the client has unread responses; more requests would only add to them
	}
	if c.input.beganAt != 0 && !c.input.incomplete() {
		// While reading was paused, a timeout ran. It ends now, because reading resumes
		// and no frame is incomplete.
		c.input.beganAt = 0
	}
	more, closed, err := c.receive(c.readQuota())
	switch {
	case !c.sock.Open():
		return
	case err != nil:
		c.fail(err)
		return
	case closed || c.sock.Failed():
		c.abort()
		return
	case more:
		c.handle.Wake()
	}
	c.watchInput()
}

// readQuota returns the maximum number of bytes of one read.
func (c *downConn) readQuota() int {
	switch e := c.eng; {
	case c.recv.Size() >= connWindow:
		return readBytes
	case e.framesThisIteration() > framesForFewBytes:
		return fewHeadReadBytes
	}
	return headReadBytes
}

// watchInput ends the connection if a frame or a field block stays incomplete for
// headTimeout, or if reading stays paused for that time.
func (c *downConn) watchInput() {
	l := &c.eng.clients.idle
	if c.input.beganAt != 0 {
		l = &c.eng.clients.reading
	}
	if c.Set() != l {
		l.Touch(c)
	}
	if c.input.beganAt == 0 || c.state == closing {
		return
	}
	if deadline := c.input.beganAt + c.eng.cfg.headTimeout(); deadline > c.eng.loop.Now() {
		c.handle.SetDeadline(gate.Earliest(c.deadline, deadline))
	} else {
		c.fail(errSlowHead)
	}
}

var errSlowHead = &h2.Error{Code: h2.EnhanceYourCalm, Fault: h2.FaultIdle, Reason: "head or frame not complete within the timeout"}

// readPreface reads until the preface is complete.
func (c *downConn) readPreface() bool {
	var b [64]byte
	for {
		n, err := c.sock.Read(b[:len(h2.Preface)-len(c.input.partial)])
		if err == loop.ErrAgain {
			return false
		}
		if err != nil {
			c.abort()
			return false
		}
		c.input.partial = append(c.input.partial, b[:n]...)
		if c.takePreface() {
			c.input.partial = nil
			return true
		}
		if !c.sock.Open() {
			return false
		}
	}
}

// expired is called when the deadline of the connection has passed. It returns false if
// the connection has ended.
func (c *downConn) expired() bool {
	c.deadline = 0
	switch c.state {
	case announced:
		c.stopAccepting()
		return c.sock.Open()
	case closing:
		if c.lingering.extend(c) {
			return true
		}
		fallthrough
	default:
		c.abort()
		return false
	}
}

func (c *downConn) recoverPanic() {
	if v := recover(); v != nil {
		stack := debug.Stack()
		c.abort()
		c.eng.worker.ReportPanic(fmt.Errorf("%v\n%s", v, stack))
	}
}

// Flush implements loop.Flusher.
func (c *downConn) Flush() {
	defer c.recoverPanic()
	c.flush()
	switch {
	case c.broken:
		c.abort()
	case c.paused && c.pending() < maxUnread:
		c.handle.Wake()
	}
}

// flushed implements role.
func (c *downConn) flushed() {
	if c.state == closing && !c.broken {
		c.sock.CloseWrite()
	}
}

// wake implements role.
func (c *downConn) wake() { c.handle.Wake() }

// handleFrame implements role.
func (c *downConn) handleFrame(f *h2.Frame) *h2.Error {
	switch f.Type {
	case h2.Headers:
		return c.receiveHeaders(f)
	case h2.Data:
		return c.receiveDataFrame(f)
	case h2.Settings:
		return c.receiveSettings(f, false, c.table.changeWindows)
	case h2.Ping:
		if !f.Ack() {
			return c.acknowledge(f)
		}
		if c.state == announced && [8]byte(f.Payload) == goAwayPing {
			// Some clients, such as net/http, may acknowledge the PING before they write
			// the HEADERS of streams that they have already opened. goAwayGrace is the time
			// for those HEADERS.
			c.deadline = min(c.deadline, c.eng.loop.Now()+goAwayGrace)
			c.handle.SetDeadline(c.deadline)
		}
	case h2.WindowUpdate:
		if f.Stream == 0 && f.Err == nil {
			return c.receiveConnUpdate(f)
		}
		return c.receiveStreamFrame(f)
	case h2.RSTStream, h2.Priority:
		return c.receiveStreamFrame(f)
	}
	return nil
}

// goAway announces that the connection will stop accepting streams. Streams that the
// client opens before it reads the GOAWAY are still served (RFC 9113 section 6.8).
func (c *downConn) goAway() {
	if c.state != open {
		return // takePreface calls goAway again once the preface has arrived
	}
	c.enter(announced)
	b := h2.AppendGoAway(c.outBuffer(), h2.MaxStreamID, h2.NoError)
	c.queue(h2.AppendPing(b, false, goAwayPing))
	c.deadline = c.eng.loop.Now() + goAwayTimeout
	c.handle.SetDeadline(c.deadline)
}

// stopAccepting sends the final GOAWAY. Streams opened later are ignored.
func (c *downConn) stopAccepting() {
	c.enter(draining)
	c.deadline, c.lastServed = 0, c.peers.Last()
	c.handle.SetDeadline(0)
	c.queue(h2.AppendGoAway(c.outBuffer(), c.lastServed, h2.NoError))
	c.streamEnded()
}

// streamEnded closes the connection if it is draining and has no stream left.
func (c *downConn) streamEnded() {
	if idle := &c.eng.clients.idle; len(c.table.open) == 0 && c.Set() == idle {
		idle.Touch(c)
	}
	if c.state == draining && len(c.table.open) == 0 {
		c.close()
	}
}

// retire closes an idle connection to free its descriptor.
func (c *downConn) retire() {
	if c.state != awaitingPreface {
		c.queue(h2.AppendGoAway(c.outBuffer(), c.peers.Last(), h2.NoError))
		c.flush()
	}
	c.sock.Finish()
	c.abort()
}

// fail ends the connection because the client violated the protocol or a limit.
func (c *downConn) fail(err *h2.Error) {
	if c.state == closing {
		c.abort()
		return
	}
	c.countFault(err.Fault)
	c.queue(h2.AppendGoAway(c.outBuffer(), c.peers.Last(), err.Code))
	c.resetStreams()
	c.close()
}

// resetStreams marks all streams as reset. The pacer then ends them step by step, because
// ending hundreds in one iteration would delay the loop.
func (c *downConn) resetStreams() {
	for _, s := range c.table.open {
		s.reset = true
		c.starting.add(s)
	}
	if len(c.table.open) > 0 {
		c.eng.pacer.handle.Wake()
	}
}

// abort closes the connection immediately.
func (c *downConn) abort() {
	if !c.live {
		return
	}
	c.enter(closing)
	c.live, c.broken = false, true
	c.resetStreams()
	c.sock.Close()
	c.dropOut()
	c.input.discard(c.eng.gate.Heads)
	c.eng.clients.remove(c)
	c.eng.gate.Descriptors.Release()
	c.handle.End()
}
