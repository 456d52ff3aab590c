package http2

import (
	"fmt"
	"net/netip"
	"runtime/debug"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// connState is what a client's connection does.
//
//	prefaced → open        the preface has come
//	open     → announced   GOAWAY with the highest stream identifier has gone out
//	announced → refusing   a round trip and a while later: GOAWAY with the last stream
//	refusing → closing     no stream is left
//	any      → closing     a fault of the peer, or its end
type connState uint8

const (
	awaitingPreface connState = iota
	open
	announced
	draining
	closing
)

// conn is a client's connection.
type downConn struct {
	conn
	streams    []*downStream // that are open, by identifier
	peers      h2.PeerStreams
	lastServed uint32 // streams beyond it are not served any more
	starting   startQueue
	handle     loop.Handle
	sock       loop.Sock
	peer       netip.AddrPort
	idleList   *connList
	prev, next *downConn
	deadline   int64
	idleSince  int64           // when it began to wait for a stream, or for the rest of a head
	lingering  *lingeringClose // nil before closing
	headBytes  int32           // octets of the gate's budget that its streams hold
	state      connState
	live       bool  // handle has begun
	paused     bool  // the client does not read: nothing is read from it
	startedIn  uint8 // the turn in which a stream has begun at once
}

// goAwayPing marks the PING that measures the round trip of a GOAWAY.
var goAwayPing = [8]byte{'g', 'o', ' ', 'a', 'w', 'a', 'y', 0}

// begin sends the gate's SETTINGS and takes what has been read already.
func (c *downConn) begin(read []byte) {
	e := c.eng
	c.conn.init(e, &c.sock, c)
	c.handle.Begin()
	c.live, c.lastServed = true, h2.MaxStreamID
	e.clients.add(c)
	list := e.cfg.MaxHeaderList
	if list == 0 {
		list = h2.DefaultMaxList
	}
	c.setMaxHeaderList(list)
	c.metered = true
	b := h2.AppendSettings(c.room(),
		h2.Setting{ID: h2.SettingMaxConcurrentStreams, Value: maxStreams},
		h2.Setting{ID: h2.SettingInitialWindowSize, Value: streamWindow},
		h2.Setting{ID: h2.SettingMaxHeaderListSize, Value: uint32(list)},
		h2.Setting{ID: h2.SettingEnableConnectProtocol, Value: 1})
	c.acks.Sent()
	c.queue(b)
	c.deadline = e.loop.Now() + prefaceTimeout
	c.handle.Until(c.deadline)
	c.rest = append(c.rest, read...)
	defer c.recoverPanic()
	if c.takePreface() {
		rest := c.rest
		c.rest = nil
		if err := c.conn.handle(rest); err != nil {
			c.fail(err)
			return
		}
	}
	c.step()
}

// takePreface reports whether the preface has come. The connection ends where
// something else has.
func (c *downConn) takePreface() bool {
	possible, whole := h2.MatchPreface(c.rest)
	switch {
	case !possible:
		c.fault(h2.FaultProtocol)
		c.abort()
	case whole:
		c.rest = c.rest[len(h2.Preface):]
		c.state, c.deadline = open, 0
		c.handle.Until(0)
		if c.eng.leaving {
			c.goAway()
		}
		return true
	}
	return false
}

// Step is loop.Routine.
func (c *downConn) Step() {
	if !c.live {
		return
	}
	defer c.recoverPanic()
	c.step()
}

func (c *downConn) step() {
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
		c.lingering.linger(c)
		return
	}
	if c.pending() > 0 && c.sock.Writable() && !c.flushQueued {
		c.flushQueued = true
		c.eng.loop.AtEnd(c)
	}
	c.blocked.wake(&c.conn)
	if c.paused = c.pending() >= maxUnread; c.paused {
		if c.sock.Failed() {
			c.abort()
			return
		}
		if c.since == 0 {
			c.since = now
		}
		c.watchInput()
		return // what is asked for while replies are not read would only add to them
	}
	if c.since != 0 && !c.incomplete() {
		c.since = 0 // it was stalled
	}
	more, ended, err := c.receive(c.readQuota())
	switch {
	case !c.sock.Open():
		return
	case err != nil:
		c.fail(err)
		return
	case ended || c.sock.Failed():
		c.abort()
		return
	case more:
		c.handle.Wake()
	}
	c.watchInput()
}

// portion is how much of what has come is read at once.
func (c *downConn) readQuota() int {
	switch e := c.eng; {
	case c.recv.Size() >= connWindow:
		return readBytes
	case e.framesThisIteration() > manyFrames:
		return minHeadBytes
	}
	return headBytes
}

// watchHead bounds how long the rest of a frame or of a field block may take,
// and how long what waits may not be read.
func (c *downConn) watchInput() {
	l := &c.eng.clients.idle
	if c.since != 0 {
		l = &c.eng.clients.reading
	}
	if c.idleList != l {
		c.moveTo(l)
	}
	if c.since == 0 || c.state == closing {
		return
	}
	if by := c.since + c.eng.cfg.headTimeout(); by > c.eng.loop.Now() {
		c.handle.Until(gate.Earliest(c.deadline, by))
	} else {
		c.fail(errSlowHead)
	}
}

var errSlowHead = &h2.Error{Code: h2.EnhanceYourCalm, Fault: h2.FaultIdle, Reason: "a head does not come to its end"}

// readPreface reads until the preface is there.
func (c *downConn) readPreface() bool {
	var b [64]byte
	for {
		n, err := c.sock.Read(b[:len(h2.Preface)-len(c.rest)])
		if err == loop.ErrAgain {
			return false
		}
		if err != nil {
			c.abort()
			return false
		}
		c.rest = append(c.rest, b[:n]...)
		if c.takePreface() {
			c.rest = nil
			return true
		}
		if !c.sock.Open() {
			return false
		}
	}
}

// timedOut acts on the connection's deadline. It reports whether the step goes
// on.
func (c *downConn) expired() bool {
	c.deadline = 0
	switch c.state {
	case announced:
		c.stopAccepting()
		return c.sock.Open()
	case closing:
		if c.lingering.continues(c) {
			return true
		}
		fallthrough
	default:
		c.abort()
		return false
	}
}

// contain ends the connection after a panic.
func (c *downConn) recoverPanic() {
	if v := recover(); v != nil {
		stack := debug.Stack()
		c.abort()
		c.eng.worker.Panicked(fmt.Errorf("%v\n%s", v, stack))
	}
}

// Flush is loop.Flusher.
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

// flushed is frameHandler.
func (c *downConn) flushed() {
	if c.state == closing && !c.broken {
		c.sock.CloseWrite()
	}
}

// wake is frameHandler.
func (c *downConn) wake() { c.handle.Wake() }

// handleFrame is frameHandler.
func (c *downConn) handleFrame(f *h2.Frame) *h2.Error {
	switch f.Type {
	case h2.Headers:
		return c.receiveHeaders(f)
	case h2.Data:
		return c.receiveDataFrame(f)
	case h2.Settings:
		return c.applySettings(f, false, c.changeWindows)
	case h2.Ping:
		if !f.Ack() {
			return c.ping(f)
		}
		if c.state == announced && [8]byte(f.Payload) == goAwayPing {
			// A client may acknowledge before it writes the head of a stream
			// that it has begun (net/http's does).
			c.deadline = min(c.deadline, c.eng.loop.Now()+goAwayGrace)
			c.handle.Until(c.deadline)
		}
	case h2.WindowUpdate:
		if f.Stream == 0 && f.Err == nil {
			if err := c.send.Update(f.Increment, h2.Connection); err != nil {
				return err
			}
			c.blocked.wake(&c.conn)
			return nil
		}
		return c.streamFrame(f)
	case h2.RSTStream, h2.Priority:
		return c.streamFrame(f)
	}
	return nil
}

// headers acts on a field block, which has to be decoded whatever becomes of
// it.
func (c *downConn) receiveHeaders(f *h2.Frame) *h2.Error {
	h := &c.eng.head
	if err := c.hpack().dec.Decode(f.Payload, h); err != nil {
		return err
	}
	event, _ := h2.EventOf(f)
	if s := c.find(f.Stream); s != nil {
		s, err := c.admits(f.Stream, event)
		if err != nil {
			return err
		}
		if s == nil {
			return c.countLate(0)
		}
		c.meter.Useful(0)
		if err := s.receiveTrailers(h, f); err != nil {
			return c.reset(s, err)
		}
		return nil
	}
	if state, err := c.peers.StateOf(f.Stream, c.history); err != nil || state != h2.Idle {
		if err == nil {
			_, err = c.admits(f.Stream, event)
		}
		if err == nil {
			err = c.countLate(0)
		}
		return err
	}
	c.peers.Open(f.Stream)
	c.meter.Useful(0)
	if f.Stream > c.lastServed {
		c.closeUnopened(f.Stream) // GOAWAY has said that it is not served
		return nil
	}
	return c.openStream(h, f, event)
}

// goAway tells the client that no further streams will be taken, in a way that
// loses none that is on its way (RFC 9113 section 6.8).
func (c *downConn) goAway() {
	if c.state != open {
		return // one that is prefaced says it when the preface has come
	}
	c.state = announced
	b := h2.AppendGoAway(c.room(), h2.MaxStreamID, h2.NoError)
	c.queue(h2.AppendPing(b, false, goAwayPing))
	c.deadline = c.eng.loop.Now() + goAwayTimeout
	c.handle.Until(c.deadline)
}

// refuse takes no further streams.
func (c *downConn) stopAccepting() {
	c.state, c.deadline, c.lastServed = draining, 0, c.peers.Last()
	c.handle.Until(0)
	c.queue(h2.AppendGoAway(c.room(), c.lastServed, h2.NoError))
	c.streamEnded()
}

// streamEnded closes a connection that takes no streams and has none.
func (c *downConn) streamEnded() {
	if len(c.streams) == 0 && c.idleList == &c.eng.clients.idle {
		c.moveTo(c.idleList)
	}
	if c.state == draining && len(c.streams) == 0 {
		c.close()
	}
}

// retire closes a connection without a stream, for the sake of others.
func (c *downConn) retire() {
	if c.state != awaitingPreface {
		c.queue(h2.AppendGoAway(c.room(), c.peers.Last(), h2.NoError))
		c.flush()
	}
	c.sock.Finish()
	c.abort()
}

// fail ends the connection for a fault of the peer.
func (c *downConn) fail(err *h2.Error) {
	if c.state == closing {
		c.abort()
		return
	}
	c.fault(err.Fault)
	c.queue(h2.AppendGoAway(c.room(), c.peers.Last(), err.Code))
	c.resetStreams()
	c.close()
}

// abandon ends all streams, each in its turn.
func (c *downConn) resetStreams() {
	for _, s := range c.streams {
		s.stream.reset = true
		c.starting.join(s)
	}
	if len(c.streams) > 0 {
		c.eng.pacer.handle.Wake()
	}
}

// cut closes the connection at once.
func (c *downConn) abort() {
	if !c.live {
		return
	}
	c.live, c.broken, c.state = false, true, closing
	c.resetStreams()
	c.sock.Close()
	c.dropOut()
	c.partialInput.discard(c.eng.gate.Heads)
	c.eng.clients.remove(c)
	c.eng.gate.Descriptors.Release()
	c.handle.Done()
}
