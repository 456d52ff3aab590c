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
	conn
	handle          loop.Handle
	dialed          *upstream.Conn
	pool            *Pool
	ids             h2.OurStreams
	streams         []*upStream // that are open, by identifier
	usedBefore      bool        // has carried a request before
	proven          bool        // SETTINGS has come: the container speaks HTTP/2
	leaving         bool        // the container takes no further streams
	live            bool
	sharing         sharing
	sharingDeadline int64  // deadline of sharing unless shared; 0 = none
	ackedWindow     uint32 // what the container may send ahead on a stream
	sentWindow      uint32 // the same in the last SETTINGS
	provingDeadline int64  // when the container must have proven itself, or answered a PING
	lastReadAt      int64  // when the last bytes came
	pingDeadline    int64  // when an answer to a PING is due; 0 = none is
	lastCreditAt    int64  // when the container last sent a WINDOW_UPDATE for the connection
	resets          uint16 // weighted count of stream resets by either side
	cancelPings     uint16 // number of PINGs sent after resets of uploads
}

// upPing marks the PING that tells a dead container from a slow one.
var upPing = [8]byte{'a', 'l', 'i', 'v', 'e', '?'}

// hangUpPing returns the payload of the nth PING that follows the reset of an
// upload.
func cancelPing(n uint16) [8]byte {
	p := [8]byte{'g', 'o', 'n', 'e'}
	binary.BigEndian.PutUint16(p[6:], n)
	return p
}

// hangUpAcked ends the streams whose resets the container has read, as its PING
// acknowledgement proves.
func (c *upConn) cancelAcked(payload [8]byte) {
	n := binary.BigEndian.Uint16(payload[6:])
	if payload != cancelPing(n) {
		return
	}
	for _, s := range slices.Clone(c.streams) {
		if s.cancelPing != 0 && int16(n-s.cancelPing) >= 0 { // serial-number comparison: the counter wraps
			s.fail(gate.UpstreamReset)
		}
	}
}

// open begins HTTP/2 on a new connection.
func (p *Pool) open(conn *upstream.Conn) *upConn {
	c := &upConn{dialed: conn, pool: p, live: true}
	c.conn.init(p.eng, &conn.Sock, c)
	c.handle.Bind(p.eng.loop, c)
	c.handle.Begin()
	conn.Sock.Handle(&c.handle)
	c.earlyCredit = true
	c.ackedWindow = p.initialWindow(firstWindow)
	c.sentWindow = c.ackedWindow
	c.lastReadAt = p.eng.loop.Now()
	c.lastCreditAt = c.lastReadAt
	c.setMaxHeaderList(maxAnswerHead)
	b := append(c.room(), h2.Preface...)
	b = h2.AppendSettings(b,
		h2.Setting{ID: h2.SettingEnablePush, Value: 0},
		h2.Setting{ID: h2.SettingInitialWindowSize, Value: c.ackedWindow},
		h2.Setting{ID: h2.SettingMaxHeaderListSize, Value: maxAnswerHead})
	c.acks.Sent()
	c.queue(h2.AppendWindowUpdate(b, 0, upConnWindow-h2.InitialWindow))
	c.recv = h2.NewReceiveWindow(upConnWindow)
	if p.choice.Known() != upstream.H2C {
		c.provingDeadline = p.eng.loop.Now() + provingTimeout
		c.handle.Until(c.provingDeadline)
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
	most := min(c.settings.MaxConcurrentStreams, maxStreamsUpstream)
	if !c.proven {
		most = min(c.pool.maxConcurrent, unprovenStreams)
	}
	return c.live && !c.leaving && c.sharing == shared && len(c.streams) < int(most) && !c.ids.Exhausted()
}

// creditTime is how long a connection window may stay exhausted before new uploads
// avoid the connection.
const creditTime = int64(20 * time.Millisecond)

// starved reports whether the connection window is exhausted because the container
// does not read the uploads.
func (c *upConn) starved() bool {
	return c.send.Left() < h2.MinMaxFrameSize && c.eng.loop.Now() >= c.lastCreditAt+creditTime
}

// countReset adds a stream reset of the given weight. Containers close a connection
// after a number of resets, which ends the requests of other clients too.
func (c *upConn) countReset(weight uint16) {
	if c.resets += weight; c.resets >= maxResets {
		c.leaving = true
	}
}

// Step is loop.Routine.
func (c *upConn) Step() {
	if !c.live {
		return
	}
	defer c.recoverPanic()
	if c.eng.loop.Closing() {
		c.abort(gate.UpstreamClosed)
		return
	}
	if c.pending() > 0 && c.sock.Writable() && !c.flushQueued {
		c.flushQueued = true
		c.eng.loop.AtEnd(c)
	}
	if c.sock.Readable() {
		c.lastReadAt, c.pingDeadline = c.eng.loop.Now(), 0
	}
	c.blocked.wake(&c.conn)
	more, ended, err := c.receive(readBytes)
	switch {
	case !c.live:
		return
	case err != nil:
		if !c.proven {
			c.protocolMismatch(gate.UpstreamMalformed, err != errNoSettings)
			return
		}
		c.fault(err.Fault)
		c.retire(err.Code, gate.UpstreamMalformed)
		return
	case ended || c.sock.Failed():
		if !c.proven {
			c.protocolMismatch(c.endedHow(), false)
			return
		}
		c.abort(c.endedHow())
		return
	case more:
		c.handle.Wake()
	}
	c.watchLiveness()
}

// endedHow tells a reset from a close.
func (c *upConn) endedHow() gate.Outcome {
	if c.sock.Failed() {
		return gate.UpstreamReset
	}
	return gate.UpstreamClosed
}

// watch looks after a container that does not prove itself, or is silent while
// it owes an answer.
func (c *upConn) watchLiveness() {
	now := c.eng.loop.Now()
	if c.sharingDeadline != 0 && now >= c.sharingDeadline {
		if expireSharing(c); !c.live {
			return
		}
	}
	switch {
	case c.provingDeadline != 0 && !c.proven:
		if now >= c.provingDeadline {
			c.protocolMismatch(gate.UpstreamMalformed, false)
			return
		}
		c.handle.Until(c.provingDeadline)
	case len(c.streams) == 0:
		c.handle.Until(c.sharingDeadline)
	case now < c.lastReadAt+pingAfter:
		c.handle.Until(gate.Earliest(c.lastReadAt+pingAfter, c.sharingDeadline))
	case c.pingDeadline == 0:
		c.pingDeadline = now + pingAfter
		c.queue(h2.AppendPing(c.room(), false, upPing))
		c.handle.Until(gate.Earliest(c.pingDeadline, c.sharingDeadline))
	case now < c.pingDeadline:
		c.handle.Until(gate.Earliest(c.pingDeadline, c.sharingDeadline))
	default:
		c.abort(gate.UpstreamClosed)
	}
}

// retire closes the connection with a word; streams that are open end with o.
func (c *upConn) retire(code h2.Code, o gate.Outcome) {
	c.queue(h2.AppendGoAway(c.room(), 0, code))
	c.flush()
	c.abort(o)
}

// mistaken ends a connection on which the container has not shown that it speaks
// HTTP/2. A response in another protocol (foreign) proves that the container did
// not understand the requests; a close or silence without a byte proves nothing.
func (c *upConn) protocolMismatch(why gate.Outcome, foreign bool) {
	for _, s := range c.streams {
		s.unprocessed, s.reused = foreign, true
		s.mismatch = foreign && c.pool.choice.Detects()
	}
	if foreign {
		c.pool.choice.NotHTTP2()
	} else {
		c.pool.choice.MissedHTTP2(c.eng.loop.Now())
	}
	c.abort(why)
}

func (c *upConn) recoverPanic() {
	if v := recover(); v != nil {
		stack := debug.Stack()
		c.abort(gate.InternalError)
		c.eng.worker.Panicked(fmt.Errorf("%v\n%s", v, stack))
	}
}

// Flush is loop.Flusher.
func (c *upConn) Flush() {
	if !c.live {
		return
	}
	defer c.recoverPanic()
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
		c.proven, c.provingDeadline = true, 0
		c.pool.http2Proven()
	}
	switch f.Type {
	case h2.Headers:
		return c.receiveHeaders(f)
	case h2.Data:
		return c.receiveDataFrame(f)
	case h2.Settings:
		err := c.applySettings(f, true, func(ch h2.Changes) *h2.Error {
			for _, s := range c.streams {
				if err := changeWindow(&s.stream, ch); err != nil {
					return err
				}
			}
			return nil
		})
		if f.Ack() && err == nil {
			c.applyWindowSetting()
		}
		c.pool.maxHeaderList, c.pool.maxConcurrent = c.settings.MaxHeaderList, c.settings.MaxConcurrentStreams
		wakePendingTrailers(c)
		c.pool.connectQueue.WakeAll() // there may be room for more streams, and extended CONNECT
		return err
	case h2.Ping:
		if !f.Ack() {
			return c.ping(f)
		}
		c.cancelAcked([8]byte(f.Payload))
		if c.sharing == trailersSent && [8]byte(f.Payload) == trailersPing {
			c.setSharing(shared, 0)
		}
	case h2.WindowUpdate:
		if f.Stream == 0 {
			if err := c.send.Update(f.Increment, h2.Connection); err != nil {
				return err
			}
			c.lastCreditAt = c.eng.loop.Now()
			c.blocked.wake(&c.conn)
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
	var stream *stream
	state, err := h2.Idle, (*h2.Error)(nil)
	if s != nil {
		stream = &s.stream
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
	s.responseBegan = true // an answer, if a bad one: the request is not sent again
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

func (c *upConn) receiveDataFrame(f *h2.Frame) *h2.Error {
	if f.First {
		if err := c.recv.Receive(f.Length, h2.Connection); err != nil {
			return err
		}
		if c.sendWindowSetting() {
			c.pool.sendWindowSettings()
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
func (c *upConn) sendWindowSetting() bool {
	want := c.pool.initialWindow(c.ackedWindow)
	if want == c.sentWindow || c.acks.Pending() > 0 {
		return false
	}
	c.sentWindow = want
	c.acks.Sent()
	c.queue(h2.AppendSettings(c.room(), h2.Setting{ID: h2.SettingInitialWindowSize, Value: want}))
	if want > c.ackedWindow {
		c.applyWindowSetting() // it may send more before it acknowledges
	}
	return true
}

// windowsSet applies what the container has acknowledged.
func (c *upConn) applyWindowSetting() {
	n := int32(c.sentWindow) - int32(c.ackedWindow)
	if n == 0 {
		return
	}
	c.ackedWindow = c.sentWindow
	for _, s := range c.streams {
		s.recv.Shift(n)
		switch {
		case s.recv.Size() > streamWindow: // it had been widened
			resize(&s.stream, streamWindow)
		case s.recv.Size() < minWindow: // it had been narrowed by itself, and nothing could come any more
			resize(&s.stream, minWindow)
		default:
			s.releaseCredit(0)
		}
		if n < 0 && s.buffered() > 0 {
			s.x.Wake() // ReadAhead may widen the window; without that, no event would wake x
		}
	}
}

func (c *upConn) receiveHeaders(f *h2.Frame) *h2.Error {
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
		c.abort(gate.UpstreamClosed)
		return
	}
	c.endSharing()
	c.pool.connectQueue.WakeAll()
	c.pool.dialer.Feed()
}

// cut closes the connection; streams that are open end with o.
func (c *upConn) abort(o gate.Outcome) {
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
	c.dialed.Close()
	c.dropOut()
	c.partialInput.discard(c.eng.gate.Heads)
	c.handle.Done()
	c.pool.connectQueue.WakeAll()
}
