package http2

import (
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// upConn is a connection to the container.
type upConn struct {
	conn
	handle          loop.Handle
	dialed          *upstream.Conn
	pool            *Pool
	ids             h2.OurStreams
	table           streamTable[*upStream]
	usedBefore      bool // the connection has carried a request
	proven          bool // SETTINGS has arrived: the container speaks HTTP/2
	draining        bool // no new streams are opened
	live            bool
	uploads         uploads
	sharing         sharing
	sharingDeadline int64  // deadline of the present state of sharing; 0 = none
	ackedWindow     uint32 // SETTINGS_INITIAL_WINDOW_SIZE that the container has acknowledged
	sentWindow      uint32 // SETTINGS_INITIAL_WINDOW_SIZE in the last SETTINGS sent
	provingDeadline int64  // deadline for the container's SETTINGS; 0 = none
	lastReadAt      int64
	pingDeadline    int64  // deadline for the acknowledgement of upPing; 0 = none is expected
	lastCreditAt    int64  // time of the last WINDOW_UPDATE for the connection
	resets          uint16 // weighted count of stream resets by either side
	cancelPings     uint16 // number of PINGs sent after resets of uploads
}

// upPing is the payload of the PING that checks whether the container is alive.
var upPing = [8]byte{'a', 'l', 'i', 'v', 'e', '?'}

// cancelPing returns the payload of the nth PING that follows the reset of an upload.
func cancelPing(n uint16) [8]byte {
	p := [8]byte{'g', 'o', 'n', 'e'}
	binary.BigEndian.PutUint16(p[6:], n)
	return p
}

// cancelAcked ends the streams whose reset was sent before the acknowledged PING, because
// the container has read these resets.
func (c *upConn) cancelAcked(payload [8]byte) {
	n := binary.BigEndian.Uint16(payload[6:])
	if payload != cancelPing(n) {
		return
	}
	for _, s := range slices.Clone(c.table.open) {
		if s.cancelPing != 0 && int16(n-s.cancelPing) >= 0 { // compare as serial numbers, because the counter wraps
			s.fail(gate.UpstreamReset)
		}
	}
}

// open begins HTTP/2 on a new connection.
func (p *Pool) open(conn *upstream.Conn) *upConn {
	c := &upConn{dialed: conn, pool: p, live: true}
	c.init(p.eng, &conn.Sock, c)
	c.handle.Bind(p.eng.loop, c)
	c.handle.Begin()
	conn.Sock.SetHandler(&c.handle)
	c.earlyCredit = true
	c.ackedWindow = p.initialWindow(firstWindow)
	c.sentWindow = c.ackedWindow
	c.lastReadAt = p.eng.loop.Now()
	c.lastCreditAt = c.lastReadAt
	c.setMaxHeaderList(maxUpstreamHead)
	b := append(c.outBuffer(), h2.Preface...)
	b = h2.AppendSettings(b,
		h2.Setting{ID: h2.SettingEnablePush, Value: 0},
		h2.Setting{ID: h2.SettingInitialWindowSize, Value: c.ackedWindow},
		h2.Setting{ID: h2.SettingMaxHeaderListSize, Value: maxUpstreamHead})
	c.acks.Sent()
	c.queue(h2.AppendWindowUpdate(b, 0, upConnWindow-h2.InitialWindow))
	c.recv = h2.NewReceiveWindow(upConnWindow)
	if p.choice.Known() != upstream.H2C {
		c.provingDeadline = p.eng.loop.Now() + provingTimeout
		c.handle.SetDeadline(c.provingDeadline)
	}
	p.conns = append(p.conns, c)
	return c
}

// acceptsStreams reports whether another stream can be opened.
func (c *upConn) acceptsStreams() bool { return c.sharing == shared && c.hasStreamSlot() }

// hasStreamSlot reports whether the limits of the connection allow another stream.
func (c *upConn) hasStreamSlot() bool {
	limit := min(c.settings.MaxConcurrentStreams, maxStreamsUpstream)
	if !c.proven {
		limit = min(c.pool.maxConcurrent, unprovenStreams)
	}
	return c.live && !c.draining && len(c.table.open) < int(limit) && !c.ids.Exhausted()
}

// starved reports whether the connection window has had less than one frame of 16 KiB left
// for creditTimeout, because the container does not read the uploads.
func (c *upConn) starved() bool {
	return c.send.Credit() < h2.MinMaxFrameSize && c.eng.loop.Now() >= c.lastCreditAt+creditTimeout
}

// countReset counts a stream reset with a weight. Containers close a connection after a
// number of resets, which ends the requests of other clients too. The gate stops opening
// streams on the connection earlier, at maxResets.
func (c *upConn) countReset(weight uint16) {
	if c.resets += weight; c.resets >= maxResets {
		c.draining = true
	}
}

// Step implements loop.Routine.
func (c *upConn) Step() {
	if !c.live {
		return
	}
	defer c.recoverPanic()
	if c.eng.loop.Closing() {
		c.abort(gate.UpstreamClosed)
		return
	}
	c.queueFlush()
	if c.sock.Readable() {
		c.lastReadAt, c.pingDeadline = c.eng.loop.Now(), 0
	}
	c.blocked.wake(&c.conn)
	more, closed, err := c.receive(readBytes)
	switch {
	case !c.live:
		return
	case err != nil:
		if !c.proven {
			c.endUnproven(gate.UpstreamMalformed, err != errNoSettings)
			return
		}
		c.countFault(err.Fault)
		c.retire(err.Code, gate.UpstreamMalformed)
		return
	case closed || c.sock.Failed():
		if !c.proven {
			c.endUnproven(c.closeOutcome(), false)
			return
		}
		c.abort(c.closeOutcome())
		return
	case more:
		c.handle.Wake()
	}
	c.watchLiveness()
}

// closeOutcome returns the outcome of the open requests after the container has closed or
// reset the connection.
func (c *upConn) closeOutcome() gate.Outcome {
	if c.sock.Failed() {
		return gate.UpstreamReset
	}
	return gate.UpstreamClosed
}

// watchLiveness handles the deadlines of the connection that have passed, and sets the
// next one. It ends the connection if the container has not sent SETTINGS in time. It
// calls expireSharing if trailers wait too long, or if the PING after them is not
// acknowledged in time. If streams are open and no byte arrives for livenessTimeout, it
// sends a PING. If no byte arrives for another livenessTimeout, it closes the connection.
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
			c.endUnproven(gate.UpstreamMalformed, false)
			return
		}
		c.handle.SetDeadline(c.provingDeadline)
	case len(c.table.open) == 0:
		c.handle.SetDeadline(c.sharingDeadline)
	case now < c.lastReadAt+livenessTimeout:
		c.handle.SetDeadline(gate.Earliest(c.lastReadAt+livenessTimeout, c.sharingDeadline))
	case c.pingDeadline == 0:
		c.pingDeadline = now + livenessTimeout
		c.queue(h2.AppendPing(c.outBuffer(), false, upPing))
		c.handle.SetDeadline(gate.Earliest(c.pingDeadline, c.sharingDeadline))
	case now < c.pingDeadline:
		c.handle.SetDeadline(gate.Earliest(c.pingDeadline, c.sharingDeadline))
	default:
		c.abort(gate.UpstreamClosed)
	}
}

// retire closes the connection with GOAWAY. Open streams end with o.
func (c *upConn) retire(code h2.Code, o gate.Outcome) {
	c.queue(h2.AppendGoAway(c.outBuffer(), 0, code))
	c.flush()
	c.abort(o)
}

// endUnproven ends a connection on which the container has not sent SETTINGS. foreign
// means that the container responded in another protocol, which proves that it did not
// understand the requests. A close or a timeout without a byte proves nothing.
func (c *upConn) endUnproven(cause gate.Outcome, foreign bool) {
	for _, s := range c.table.open {
		s.reused = true
		switch {
		case foreign && c.pool.choice.Detects():
			s.processing = protocolMismatch
		case foreign:
			s.processing = unprocessed
		}
	}
	if foreign {
		c.pool.choice.NotHTTP2()
	} else {
		c.pool.choice.MissedHTTP2(c.eng.loop.Now())
	}
	c.abort(cause)
}

func (c *upConn) recoverPanic() {
	if v := recover(); v != nil {
		stack := debug.Stack()
		c.abort(gate.InternalError)
		c.eng.worker.ReportPanic(fmt.Errorf("%v\n%s", v, stack))
	}
}

// Flush implements loop.Flusher.
func (c *upConn) Flush() {
	if !c.live {
		return
	}
	defer c.recoverPanic()
	c.flush()
	if c.broken {
		c.handle.Wake() // read the bytes that arrived before the error
	}
}

// flushed implements role.
func (c *upConn) flushed() {}

// wake implements role.
func (c *upConn) wake() { c.handle.Wake() }

// handleFrame implements role.
func (c *upConn) handleFrame(f *h2.Frame) *h2.Error {
	if !c.proven {
		if f.Type != h2.Settings || f.Ack() {
			return errNoSettings
		}
		c.proven, c.provingDeadline = true, 0
		c.pool.http2Proven(c)
	}
	switch f.Type {
	case h2.Headers:
		return c.receiveHeaders(f)
	case h2.Data:
		return c.receiveDataFrame(f)
	case h2.Settings:
		err := c.receiveSettings(f, true, c.table.changeWindows)
		if f.Ack() && err == nil {
			c.applyWindowSetting()
		}
		c.pool.maxHeaderList, c.pool.maxConcurrent = c.settings.MaxHeaderList, c.settings.MaxConcurrentStreams
		wakePendingTrailers(c)
		c.pool.streamQueue.WakeAll() // the new SETTINGS may allow more streams, or extended CONNECT
		return err
	case h2.Ping:
		if !f.Ack() {
			return c.acknowledge(f)
		}
		c.cancelAcked([8]byte(f.Payload))
		if c.sharing == trailersSent && [8]byte(f.Payload) == trailersPing {
			c.setSharing(shared, 0)
		}
	case h2.WindowUpdate:
		if f.Stream == 0 {
			c.lastCreditAt = c.eng.loop.Now()
			return c.receiveConnUpdate(f)
		}
		return c.receiveStreamFrame(f)
	case h2.RSTStream, h2.Priority:
		return c.receiveStreamFrame(f)
	case h2.GoAway:
		c.receiveGoAway(f)
	}
	return nil
}

var errNoSettings = &h2.Error{Code: h2.ProtocolError, Fault: h2.FaultProtocol, Reason: "the first frame is not SETTINGS"}

// admit applies a frame to the state of its stream. It returns a nil stream if the frame
// must be ignored. An error ends the connection.
func (c *upConn) admit(f *h2.Frame) (*upStream, *h2.Error) {
	s, accepted, err := c.table.receive(&c.ids, f)
	switch {
	case accepted:
		return s, nil
	case err == nil || err.Scope == h2.Connection:
		return nil, err
	case s != nil:
		c.reset(s, err)
	}
	return nil, nil
}

// reset ends a stream because the container violated the protocol.
func (c *upConn) reset(s *upStream, err *h2.Error) {
	c.countFault(err.Fault)
	s.responseBegan = true // the response is invalid, so the request must not be retried
	s.sendReset(err.Code)
	s.fail(gate.UpstreamMalformed)
}

// receiveStreamFrame applies RST_STREAM, PRIORITY and WINDOW_UPDATE of a stream.
func (c *upConn) receiveStreamFrame(f *h2.Frame) *h2.Error {
	s, err := c.admit(f)
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

// receiveDataFrame applies one piece of a DATA frame.
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
	s, err := c.admit(f)
	if err != nil {
		return err
	}
	if s == nil {
		c.discardData(f)
		return nil
	}
	if err := s.receiveData(f); err != nil {
		c.reset(s, err)
	}
	return nil
}

// sendWindowSetting sends SETTINGS if the initial window of streams must change. It
// reports whether it did.
func (c *upConn) sendWindowSetting() bool {
	want := c.pool.initialWindow(c.ackedWindow)
	if want == c.sentWindow || c.acks.Pending() > 0 {
		return false
	}
	c.sentWindow = want
	c.acks.Sent()
	c.queue(h2.AppendSettings(c.outBuffer(), h2.Setting{ID: h2.SettingInitialWindowSize, Value: want}))
	if want > c.ackedWindow {
		c.applyWindowSetting() // the container may use the new window before it acknowledges it
	}
	return true
}

// applyWindowSetting applies the announced SETTINGS_INITIAL_WINDOW_SIZE to the open
// streams (RFC 9113 section 6.9.2).
func (c *upConn) applyWindowSetting() {
	n := int32(c.sentWindow) - int32(c.ackedWindow)
	if n == 0 {
		return
	}
	c.ackedWindow = c.sentWindow
	for _, s := range c.table.open {
		s.recv.Shift(n)
		switch {
		case s.recv.Size() > streamWindow:
			// The gate had already enlarged the window of this stream. The new
			// SETTINGS_INITIAL_WINDOW_SIZE has made the window even larger, so that it
			// exceeds the maximum.
			s.resize(streamWindow)
		case s.recv.Size() < minWindow:
			// The gate had already shrunk the window of this stream. The new
			// SETTINGS_INITIAL_WINDOW_SIZE has made the window even smaller, perhaps 0 or
			// negative. Without a WINDOW_UPDATE, the container might never send again.
			s.resize(minWindow)
		default:
			s.releaseCredit(0)
		}
		if n < 0 && s.buffered() > 0 {
			s.x.Wake() // ReadAhead may enlarge the window, and no other event would wake x
		}
	}
}

// receiveHeaders applies a field block.
func (c *upConn) receiveHeaders(f *h2.Frame) *h2.Error {
	h := &c.eng.head
	if err := c.hpack().dec.Decode(f.Payload, h); err != nil {
		return err
	}
	c.meter.Useful(0)
	s, err := c.admit(f)
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

// receiveGoAway applies GOAWAY. Streams above its last stream identifier have not been
// processed (RFC 9113 section 6.8).
func (c *upConn) receiveGoAway(f *h2.Frame) {
	c.draining = true
	for _, s := range slices.Clone(c.table.open) {
		if s.id > f.LastStream {
			s.processing = unprocessed
			s.fail(gate.UpstreamClosed)
		}
	}
	c.streamEnded()
}

// streamEnded closes the connection if it is draining and has no stream left.
func (c *upConn) streamEnded() {
	if c.draining && len(c.table.open) == 0 {
		c.abort(gate.UpstreamClosed)
		return
	}
	if len(c.table.open) == 0 && len(c.pool.conns) > maxIdleConns {
		c.eng.loop.ScheduleTrim()
	}
	c.endSharing()
	c.pool.streamQueue.WakeAll()
	c.pool.dialer.WakeFirst()
}

// abort closes the connection immediately. Open streams end with o.
func (c *upConn) abort(o gate.Outcome) {
	if !c.live {
		return
	}
	c.live, c.broken = false, true
	for _, s := range slices.Clone(c.table.open) {
		s.fail(o)
	}
	if i := slices.Index(c.pool.conns, c); i >= 0 {
		c.pool.conns = slices.Delete(c.pool.conns, i, i+1)
	}
	c.dialed.Close()
	c.dropOut()
	c.input.discard(c.eng.gate.Heads)
	c.handle.End()
	c.pool.streamQueue.WakeAll()
}
