package http2

import (
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// upConn is a connection to the container over HTTP/2, which carries many
// exchanges.
type upConn struct {
	link
	handle  loop.Handle
	conn    *upstream.Conn
	pool    *Pool
	ids     h2.OurStreams
	streams []*upStream // that are open, by identifier
	used    bool        // has carried a request before
	proven  bool        // SETTINGS has come: the container speaks HTTP/2
	leaving bool        // the container takes no further streams
	live    bool
	sharing sharing
	apartBy int64  // deadline of sharing unless shared; 0 = none
	window  uint32 // what the container may send ahead on a stream
	asked   uint32 // the same in the last SETTINGS
	until   int64  // when the container must have proven itself, or answered a PING
	heardAt int64  // when the last bytes came
	pingBy  int64  // when an answer to a PING is due; 0 = none is
	credit  int64  // when the container last sent a WINDOW_UPDATE for the connection
	resets  uint16 // weighted count of stream resets by either side
	hangUps uint16 // number of PINGs sent after resets of uploads
}

// upPing marks the PING that tells a dead container from a slow one.
var upPing = [8]byte{'a', 'l', 'i', 'v', 'e', '?'}

// hangUpPing returns the payload of the nth PING that follows the reset of an
// upload.
func hangUpPing(n uint16) [8]byte {
	p := [8]byte{'g', 'o', 'n', 'e'}
	binary.BigEndian.PutUint16(p[6:], n)
	return p
}

// hangUpAcked ends the streams whose resets the container has read, as its PING
// acknowledgement proves.
func (c *upConn) hangUpAcked(payload [8]byte) {
	n := binary.BigEndian.Uint16(payload[6:])
	if payload != hangUpPing(n) {
		return
	}
	for _, s := range slices.Clone(c.streams) {
		if s.hungUp != 0 && int16(n-s.hungUp) >= 0 { // serial-number comparison: the counter wraps
			s.fail(gate.UpstreamReset)
		}
	}
}

// open begins HTTP/2 on a new connection.
func (p *Pool) open(conn *upstream.Conn) *upConn {
	c := &upConn{conn: conn, pool: p, live: true}
	c.link.init(p.eng, &conn.Sock, c)
	c.handle.Bind(p.eng.loop, c)
	c.handle.Begin()
	conn.Sock.Handle(&c.handle)
	c.eager = true
	c.window = p.ahead(firstWindow)
	c.asked = c.window
	c.heardAt = p.eng.loop.Now()
	c.credit = c.heardAt
	c.limitHeads(maxAnswerHead)
	b := append(c.room(), h2.Preface...)
	b = h2.AppendSettings(b,
		h2.Setting{ID: h2.SettingEnablePush, Value: 0},
		h2.Setting{ID: h2.SettingInitialWindowSize, Value: c.window},
		h2.Setting{ID: h2.SettingMaxHeaderListSize, Value: maxAnswerHead})
	c.acks.Sent()
	c.hold(h2.AppendWindowUpdate(b, 0, upWindow-h2.InitialWindow))
	c.recv = h2.NewReceiveWindow(upWindow)
	if p.choice.Known() != upstream.H2C {
		c.until = p.eng.loop.Now() + provingTimeout
		c.handle.Until(c.until)
	}
	p.conns = append(p.conns, c)
	return c
}

// unprovenStreams limits the streams on a connection before the container's
// SETTINGS have arrived. No container should allow fewer (RFC 9113 section 6.5.2),
// and some close the connection if there is one more.
const unprovenStreams = 100

// hasRoom reports whether another stream can be opened.
func (c *upConn) hasRoom() bool {
	most := min(c.settings.MaxConcurrentStreams, maxUpStreams)
	if !c.proven {
		most = min(c.pool.most, unprovenStreams)
	}
	return c.live && !c.leaving && c.sharing == shared && len(c.streams) < int(most) && !c.ids.Exhausted()
}

// creditTime is how long a connection window may stay exhausted before new uploads
// avoid the connection.
const creditTime = int64(20 * time.Millisecond)

// starved reports whether the connection window is exhausted because the container
// does not read the uploads.
func (c *upConn) starved() bool {
	return c.send.Left() < h2.MinMaxFrameSize && c.eng.loop.Now() >= c.credit+creditTime
}

// countReset adds a stream reset of the given weight. Containers close a connection
// after a number of resets, which ends the requests of other clients too.
func (c *upConn) countReset(weight uint16) {
	if c.resets += weight; c.resets >= mostResets {
		c.leaving = true
	}
}

// Step is loop.Routine.
func (c *upConn) Step() {
	if !c.live {
		return
	}
	defer c.contain()
	if c.eng.loop.Closing() {
		c.cut(gate.UpstreamClosed)
		return
	}
	if c.pending() > 0 && c.wire.Writable() && !c.atEnd {
		c.atEnd = true
		c.eng.loop.AtEnd(c)
	}
	if c.wire.Readable() {
		c.heardAt, c.pingBy = c.eng.loop.Now(), 0
	}
	c.waiting.wake(&c.link)
	more, ended, err := c.receive(readBytes)
	switch {
	case !c.live:
		return
	case err != nil:
		if !c.proven {
			c.mistaken(gate.UpstreamMalformed, err != errNoSettings)
			return
		}
		c.fault(err.Fault)
		c.retire(err.Code, gate.UpstreamMalformed)
		return
	case ended || c.wire.Failed():
		if !c.proven {
			c.mistaken(c.endedHow(), false)
			return
		}
		c.cut(c.endedHow())
		return
	case more:
		c.handle.Wake()
	}
	c.watch()
}

// endedHow tells a reset from a close.
func (c *upConn) endedHow() gate.Outcome {
	if c.wire.Failed() {
		return gate.UpstreamReset
	}
	return gate.UpstreamClosed
}

// watch looks after a container that does not prove itself, or is silent while
// it owes an answer.
func (c *upConn) watch() {
	now := c.eng.loop.Now()
	if c.apartBy != 0 && now >= c.apartBy {
		if apartTooLong(c); !c.live {
			return
		}
	}
	switch {
	case c.until != 0 && !c.proven:
		if now >= c.until {
			c.mistaken(gate.UpstreamMalformed, false)
			return
		}
		c.handle.Until(c.until)
	case len(c.streams) == 0:
		c.handle.Until(c.apartBy)
	case now < c.heardAt+pingAfter:
		c.handle.Until(gate.Earliest(c.heardAt+pingAfter, c.apartBy))
	case c.pingBy == 0:
		c.pingBy = now + pingAfter
		c.hold(h2.AppendPing(c.room(), false, upPing))
		c.handle.Until(gate.Earliest(c.pingBy, c.apartBy))
	case now < c.pingBy:
		c.handle.Until(gate.Earliest(c.pingBy, c.apartBy))
	default:
		c.cut(gate.UpstreamClosed)
	}
}

// retire closes the connection with a word; streams that are open end with o.
func (c *upConn) retire(code h2.Code, o gate.Outcome) {
	c.hold(h2.AppendGoAway(c.room(), 0, code))
	c.flush()
	c.cut(o)
}

// mistaken ends a connection on which the container has not shown that it speaks
// HTTP/2. A response in another protocol (foreign) proves that the container did
// not understand the requests; a close or silence without a byte proves nothing.
func (c *upConn) mistaken(why gate.Outcome, foreign bool) {
	for _, s := range c.streams {
		s.unprocessed, s.reused = foreign, true
		s.mistaken = foreign && c.pool.choice.Detects()
	}
	if foreign {
		c.pool.choice.NotHTTP2()
	} else {
		c.pool.choice.MissedHTTP2(c.eng.loop.Now())
	}
	c.cut(why)
}

func (c *upConn) contain() {
	if v := recover(); v != nil {
		stack := debug.Stack()
		c.cut(gate.InternalError)
		c.eng.worker.Panicked(fmt.Errorf("%v\n%s", v, stack))
	}
}

// Flush is loop.Flusher.
func (c *upConn) Flush() {
	if !c.live {
		return
	}
	defer c.contain()
	c.flush()
	if c.broken {
		c.handle.Wake() // what has come before the error is read first
	}
}

// flushed is frameHandler.
func (c *upConn) flushed() {}

// wake is frameHandler.
func (c *upConn) wake() { c.handle.Wake() }

func (c *upConn) find(id uint32) *upStream {
	return find(c.streams, id)
}

// handleFrame is frameHandler.
func (c *upConn) handleFrame(f *h2.Frame) *h2.Error {
	if !c.proven {
		if f.Type != h2.Settings || f.Ack() {
			return errNoSettings
		}
		c.proven, c.until = true, 0
		c.pool.proved()
	}
	switch f.Type {
	case h2.Headers:
		return c.headers(f)
	case h2.Data:
		return c.data(f)
	case h2.Settings:
		err := c.applySettings(f, true, func(ch h2.Changes) *h2.Error {
			for _, s := range c.streams {
				if err := changeWindow(&s.flow, ch); err != nil {
					return err
				}
			}
			return nil
		})
		if f.Ack() && err == nil {
			c.windowsSet()
		}
		c.pool.list, c.pool.most = c.settings.MaxHeaderList, c.settings.MaxConcurrentStreams
		wakeLate(c)
		c.pool.line.WakeAll() // there may be room for more streams, and extended CONNECT
		return err
	case h2.Ping:
		if !f.Ack() {
			return c.ping(f)
		}
		c.hangUpAcked([8]byte(f.Payload))
		if c.sharing == trailersSent && [8]byte(f.Payload) == trailersPing {
			c.share(shared, 0)
		}
	case h2.WindowUpdate:
		if f.Stream == 0 {
			if err := c.send.Update(f.Increment, h2.Connection); err != nil {
				return err
			}
			c.credit = c.eng.loop.Now()
			c.waiting.wake(&c.link)
			return nil
		}
		return c.streamFrame(f)
	case h2.RSTStream, h2.Priority:
		return c.streamFrame(f)
	case h2.GoAway:
		c.goneAway(f)
	}
	return nil
}

var errNoSettings = &h2.Error{Code: h2.ProtocolError, Fault: h2.FaultProtocol, Reason: "no SETTINGS at first"}

// admits applies the state of a stream to an event; without a stream the frame
// is passed over, unless an error ends the connection.
func (c *upConn) admits(id uint32, event h2.Event) (*upStream, *h2.Error) {
	s := c.find(id)
	var stream *flow
	state, err := h2.Idle, (*h2.Error)(nil)
	if s != nil {
		stream = &s.flow
	} else if state, err = c.ids.StateOf(id, c.history); err != nil {
		return nil, err
	}
	accepted, err := receiveEvent(stream, state, event)
	switch {
	case accepted:
		return s, nil
	case err == nil:
		return nil, nil
	}
	if err.Scope == h2.Connection {
		return nil, err
	}
	if s != nil {
		c.reset(s, err)
	}
	return nil, nil
}

// reset ends a stream for a fault of the container.
func (c *upConn) reset(s *upStream, err *h2.Error) {
	c.fault(err.Fault)
	s.heard = true // an answer, if a bad one: the request is not sent again
	s.sendReset(err.Code)
	s.fail(gate.UpstreamMalformed)
}

func (c *upConn) streamFrame(f *h2.Frame) *h2.Error {
	event, _ := h2.EventOf(f)
	s, err := c.admits(f.Stream, event)
	if err != nil || s == nil {
		return err
	}
	if f.Err != nil {
		c.reset(s, f.Err)
		return nil
	}
	switch f.Type {
	case h2.RSTStream:
		s.receiveReset(f.Code)
	case h2.WindowUpdate:
		if err := s.updateWindow(f.Increment); err != nil {
			c.reset(s, err)
		}
	}
	return nil
}

func (c *upConn) data(f *h2.Frame) *h2.Error {
	if f.First {
		if err := c.recv.Receive(f.Length, h2.Connection); err != nil {
			return err
		}
		if c.adapt() {
			c.pool.adapt()
		}
	}
	if !f.CarriesNothing() {
		c.meter.Useful(len(f.Payload))
	}
	event, _ := h2.EventOf(f)
	s, err := c.admits(f.Stream, event)
	if err != nil {
		return err
	}
	if s == nil {
		c.dropData(f)
		return nil
	}
	if err := s.receiveData(f); err != nil {
		c.reset(s, err)
	}
	return nil
}

// adapt tells the container what it may send ahead. It reports whether that is
// something else than before.
func (c *upConn) adapt() bool {
	want := c.pool.ahead(c.window)
	if want == c.asked || c.acks.Pending() > 0 {
		return false
	}
	c.asked = want
	c.acks.Sent()
	c.hold(h2.AppendSettings(c.room(), h2.Setting{ID: h2.SettingInitialWindowSize, Value: want}))
	if want > c.window {
		c.windowsSet() // it may send more before it acknowledges
	}
	return true
}

// windowsSet applies what the container has acknowledged.
func (c *upConn) windowsSet() {
	n := int32(c.asked) - int32(c.window)
	if n == 0 {
		return
	}
	c.window = c.asked
	for _, s := range c.streams {
		s.recv.Shift(n)
		switch {
		case s.recv.Size() > streamWindow: // it had been widened
			resize(&s.flow, streamWindow)
		case s.recv.Size() < leastWindow: // it had been narrowed by itself, and nothing could come any more
			resize(&s.flow, leastWindow)
		default:
			s.passed(0)
		}
		if n < 0 && s.held() > 0 {
			s.x.Wake() // ReadAhead may widen the window; without that, no event would wake x
		}
	}
}

func (c *upConn) headers(f *h2.Frame) *h2.Error {
	h := &c.eng.head
	if err := c.hpack().dec.Decode(f.Payload, h); err != nil {
		return err
	}
	c.meter.Useful(0)
	event, _ := h2.EventOf(f)
	s, err := c.admits(f.Stream, event)
	if err != nil || s == nil {
		return err
	}
	if f.Err != nil {
		c.reset(s, f.Err)
		return nil
	}
	if err := s.receiveHead(h, f.EndStream); err != nil {
		c.reset(s, err)
	}
	return nil
}

// goneAway takes the container's GOAWAY: streams beyond the last one that it
// names have not been processed.
func (c *upConn) goneAway(f *h2.Frame) {
	c.leaving = true
	for _, s := range slices.Clone(c.streams) {
		if s.id > f.LastStream {
			s.unprocessed = true
			s.fail(gate.UpstreamClosed)
		}
	}
	c.streamEnded()
}

// streamEnded closes a connection that takes no streams and has none.
func (c *upConn) streamEnded() {
	if c.leaving && len(c.streams) == 0 {
		c.cut(gate.UpstreamClosed)
		return
	}
	c.shareAgain()
	c.pool.line.WakeAll()
	c.pool.dialer.Feed()
}

// cut closes the connection; streams that are open end with o.
func (c *upConn) cut(o gate.Outcome) {
	if !c.live {
		return
	}
	c.live, c.broken = false, true
	for _, s := range slices.Clone(c.streams) {
		s.fail(o)
	}
	if i := slices.Index(c.pool.conns, c); i >= 0 {
		c.pool.conns = slices.Delete(c.pool.conns, i, i+1)
	}
	c.conn.Close()
	c.dropOut()
	c.unfinished.drop(c.eng.gate.Heads)
	c.handle.Done()
	c.pool.line.WakeAll()
}
