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
	prefaced connState = iota
	open
	announced
	refusing
	closing
)

// conn is a client's connection.
type conn struct {
	clientStreams
	handle     loop.Handle
	sock       loop.Sock
	peer       netip.AddrPort
	list       *connList
	prev, next *conn
	until      int64
	since      int64   // when it began to wait for a stream, or for the rest of a head
	ending     *ending // nil before closing
	heads      int32   // octets of the gate's budget that its streams hold
	state      connState
	live       bool  // handle has begun
	stalled    bool  // the client does not read: nothing is read from it
	begunIn    uint8 // the turn in which a stream has begun at once
}

// goAwayPing marks the PING that measures the round trip of a GOAWAY.
var goAwayPing = [8]byte{'g', 'o', ' ', 'a', 'w', 'a', 'y', 0}

// begin sends the gate's SETTINGS and takes what has been read already.
func (c *conn) begin(read []byte) {
	e := c.eng
	c.link.init(e, &c.sock, c)
	c.handle.Begin()
	c.live, c.most = true, h2.MaxStreamID
	e.clients.add(c)
	list := e.cfg.MaxHeaderList
	if list == 0 {
		list = h2.DefaultMaxList
	}
	c.limitHeads(list)
	c.metered = true
	b := h2.AppendSettings(c.room(),
		h2.Setting{ID: h2.SettingMaxConcurrentStreams, Value: maxStreams},
		h2.Setting{ID: h2.SettingInitialWindowSize, Value: streamWindow},
		h2.Setting{ID: h2.SettingMaxHeaderListSize, Value: uint32(list)},
		h2.Setting{ID: h2.SettingEnableConnectProtocol, Value: 1})
	c.acks.Sent()
	c.hold(b)
	c.until = e.loop.Now() + prefaceTimeout
	c.handle.Until(c.until)
	c.rest = append(c.rest, read...)
	defer c.contain()
	if c.takePreface() {
		rest := c.rest
		c.rest = nil
		if err := c.link.handle(rest); err != nil {
			c.fail(err)
			return
		}
	}
	c.step()
}

// takePreface reports whether the preface has come. The connection ends where
// something else has.
func (c *conn) takePreface() bool {
	possible, whole := h2.MatchPreface(c.rest)
	switch {
	case !possible:
		c.fault(h2.FaultProtocol)
		c.cut()
	case whole:
		c.rest = c.rest[len(h2.Preface):]
		c.state, c.until = open, 0
		c.handle.Until(0)
		if c.eng.leaving {
			c.goAway()
		}
		return true
	}
	return false
}

// Step is loop.Routine.
func (c *conn) Step() {
	if !c.live {
		return
	}
	defer c.contain()
	c.step()
}

func (c *conn) step() {
	now := c.eng.loop.Now()
	switch {
	case c.eng.loop.Closing():
		c.cut()
		return
	case c.until != 0 && now >= c.until:
		if !c.timedOut() {
			return
		}
	}
	switch c.state {
	case prefaced:
		if !c.readPreface() {
			return
		}
	case closing:
		c.ending.linger(c)
		return
	}
	if c.pending() > 0 && c.sock.Writable() && !c.atEnd {
		c.atEnd = true
		c.eng.loop.AtEnd(c)
	}
	c.waiting.wake(&c.link)
	if c.stalled = c.pending() >= mostUnread; c.stalled {
		if c.sock.Failed() {
			c.cut()
			return
		}
		if c.partial == 0 {
			c.partial = now
		}
		c.watchHead()
		return // what is asked for while replies are not read would only add to them
	}
	if c.partial != 0 && !c.incomplete() {
		c.partial = 0 // it was stalled
	}
	more, ended, err := c.receive(c.portion())
	switch {
	case !c.sock.Open():
		return
	case err != nil:
		c.fail(err)
		return
	case ended || c.sock.Failed():
		c.cut()
		return
	case more:
		c.handle.Wake()
	}
	c.watchHead()
}

// portion is how much of what has come is read at once.
func (c *conn) portion() int {
	switch e := c.eng; {
	case c.recv.Size() >= connWindow:
		return readBytes
	case e.framesOfTurn() > manyFrames:
		return fewHeadBytes
	}
	return headBytes
}

// watchHead bounds how long the rest of a frame or of a field block may take,
// and how long what waits may not be read.
func (c *conn) watchHead() {
	l := &c.eng.clients.idle
	if c.partial != 0 {
		l = &c.eng.clients.reading
	}
	if c.list != l {
		c.moveTo(l)
	}
	if c.partial == 0 || c.state == closing {
		return
	}
	if by := c.partial + c.eng.cfg.headTimeout(); by > c.eng.loop.Now() {
		c.handle.Until(gate.Earliest(c.until, by))
	} else {
		c.fail(errSlowHead)
	}
}

var errSlowHead = &h2.Error{Code: h2.EnhanceYourCalm, Fault: h2.FaultIdle, Reason: "a head does not come to its end"}

// readPreface reads until the preface is there.
func (c *conn) readPreface() bool {
	var b [64]byte
	for {
		n, err := c.sock.Read(b[:len(h2.Preface)-len(c.rest)])
		if err == loop.ErrAgain {
			return false
		}
		if err != nil {
			c.cut()
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
func (c *conn) timedOut() bool {
	c.until = 0
	switch c.state {
	case announced:
		c.refuse()
		return c.sock.Open()
	case closing:
		if c.ending.goesOn(c) {
			return true
		}
		fallthrough
	default:
		c.cut()
		return false
	}
}

// contain ends the connection after a panic.
func (c *conn) contain() {
	if v := recover(); v != nil {
		stack := debug.Stack()
		c.cut()
		c.eng.worker.Panicked(fmt.Errorf("%v\n%s", v, stack))
	}
}

// Flush is loop.Flusher.
func (c *conn) Flush() {
	defer c.contain()
	c.flush()
	switch {
	case c.broken:
		c.cut()
	case c.stalled && c.pending() < mostUnread:
		c.handle.Wake()
	}
}

// flushed is frameHandler.
func (c *conn) flushed() {
	if c.state == closing && !c.broken {
		c.sock.CloseWrite()
	}
}

// wake is frameHandler.
func (c *conn) wake() { c.handle.Wake() }

// handleFrame is frameHandler.
func (c *conn) handleFrame(f *h2.Frame) *h2.Error {
	switch f.Type {
	case h2.Headers:
		return c.headers(f)
	case h2.Data:
		return c.data(f)
	case h2.Settings:
		return c.applySettings(f, false, c.changeWindows)
	case h2.Ping:
		if !f.Ack() {
			return c.ping(f)
		}
		if c.state == announced && [8]byte(f.Payload) == goAwayPing {
			// A client may acknowledge before it writes the head of a stream
			// that it has begun (net/http's does).
			c.until = min(c.until, c.eng.loop.Now()+goAwayGrace)
			c.handle.Until(c.until)
		}
	case h2.WindowUpdate:
		if f.Stream == 0 && f.Err == nil {
			if err := c.send.Update(f.Increment, h2.Connection); err != nil {
				return err
			}
			c.waiting.wake(&c.link)
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
func (c *conn) headers(f *h2.Frame) *h2.Error {
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
			return c.ignored(0)
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
			err = c.ignored(0)
		}
		return err
	}
	c.peers.Open(f.Stream)
	c.meter.Useful(0)
	if f.Stream > c.most {
		c.shut(f.Stream) // GOAWAY has said that it is not served
		return nil
	}
	return c.openStream(h, f, event)
}

// goAway tells the client that no further streams will be taken, in a way that
// loses none that is on its way (RFC 9113 section 6.8).
func (c *conn) goAway() {
	if c.state != open {
		return // one that is prefaced says it when the preface has come
	}
	c.state = announced
	b := h2.AppendGoAway(c.room(), h2.MaxStreamID, h2.NoError)
	c.hold(h2.AppendPing(b, false, goAwayPing))
	c.until = c.eng.loop.Now() + goAwayTimeout
	c.handle.Until(c.until)
}

// refuse takes no further streams.
func (c *conn) refuse() {
	c.state, c.until, c.most = refusing, 0, c.peers.Last()
	c.handle.Until(0)
	c.hold(h2.AppendGoAway(c.room(), c.most, h2.NoError))
	c.streamEnded()
}

// streamEnded closes a connection that takes no streams and has none.
func (c *conn) streamEnded() {
	if len(c.streams) == 0 && c.list == &c.eng.clients.idle {
		c.moveTo(c.list)
	}
	if c.state == refusing && len(c.streams) == 0 {
		c.close()
	}
}

// retire closes a connection without a stream, for the sake of others.
func (c *conn) retire() {
	if c.state != prefaced {
		c.hold(h2.AppendGoAway(c.room(), c.peers.Last(), h2.NoError))
		c.flush()
	}
	c.sock.Finish()
	c.cut()
}

// fail ends the connection for a fault of the peer.
func (c *conn) fail(err *h2.Error) {
	if c.state == closing {
		c.cut()
		return
	}
	c.fault(err.Fault)
	c.hold(h2.AppendGoAway(c.room(), c.peers.Last(), err.Code))
	c.abandon()
	c.close()
}

// abandon ends all streams, each in its turn.
func (c *conn) abandon() {
	for _, s := range c.streams {
		s.flow.reset = true
		c.line.join(s)
	}
	if len(c.streams) > 0 {
		c.eng.turns.handle.Wake()
	}
}

// cut closes the connection at once.
func (c *conn) cut() {
	if !c.live {
		return
	}
	c.live, c.broken, c.state = false, true, closing
	c.abandon()
	c.sock.Close()
	c.dropOut()
	c.unfinished.drop(c.eng.gate.Heads)
	c.eng.clients.remove(c)
	c.eng.gate.Descriptors.Release()
	c.handle.Done()
}
