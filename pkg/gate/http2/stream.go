package http2

import (
	"math"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/wire"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// stream is the common part of downStream and upStream, which embed it. It has the state,
// windows and buffers of both directions. It is the exchange.Source of the DATA that the
// peer sends, and the exchange.Sink of the DATA that the gate sends to the peer.
type stream struct {
	c     *conn
	x     *exchange.Exchange // exchange to wake on events of the stream
	id    uint32
	state h2.State // RFC 9113 section 5.1

	recvState  recvState
	sendState  sendState
	withhold   withhold
	reset      bool // reset by the peer, or ended with the connection
	malformed  bool // the message is malformed (RFC 9113 section 8.1.1)
	keepReplay bool // consumed bytes are copied to replayBuffer
	inBlocked  bool // the stream is in conn.blocked
	paced      bool // the pacer started the stream; its response returns a credit to the pacer

	msg  h2.Message
	recv h2.ReceiveWindow
	send h2.SendWindow

	buf          *buffer // unconsumed bytes are buf.b[bufStart:]; nil = none
	bufStart     int32
	connCredit   int32 // number of received bytes whose credit has not been returned to the connection window
	replayed     int32 // number of bytes put back by rewind; their flow-control credit has already been returned
	quota        int32 // bytes that this stream may write while conn.blocked is not empty
	consumed     int64 // number of bytes passed to the sink
	replayBuffer []byte
	trailers     []byte // received trailers as field lines

	check      wire.BodyCheck
	lastDataAt int64 // position of the last DATA frame in the connection's output; 0 = none
}

// recvState tells how much of the message from the peer has been received and forwarded.
type recvState uint8

const (
	recvOpen      recvState = iota // DATA may follow
	recvEnded                      // END_STREAM has arrived; bytes may still be buffered
	recvForwarded                  // all bytes and the end have been passed to the sink
)

// sendState tells how much of the message to the peer has been written.
type sendState uint8

const (
	sendIdle  sendState = iota
	sendOpen            // the head is written
	sendEnded           // END_STREAM is written
)

// withhold tells whether received DATA is kept from the sink. Before an extended CONNECT
// is accepted, DATA is not part of the request (RFC 8441 section 5).
type withhold uint8

const (
	withholdNothing withhold = iota
	withholdBody             // DATA is buffered until Switch
	withholdEnded            // like withholdBody; in addition, Pump has told the sink that the request has no body
)

func (s *stream) begin(c *conn, x *exchange.Exchange, id uint32, state h2.State) {
	*s = stream{
		c: c, x: x, id: id, state: state, replayBuffer: s.replayBuffer[:0],
		recv: h2.NewReceiveWindow(streamWindow), send: h2.NewSendWindow(c.settings.InitialWindow),
	}
}

// base implements tableStream.
func (s *stream) base() *stream { return s }

// endReceived reports whether END_STREAM has arrived.
func (s *stream) endReceived() bool { return s.recvState != recvOpen }

func (s *stream) noteEndReceived() {
	if s.recvState == recvOpen {
		s.recvState = recvEnded
	}
}

// close releases the stream's buffers, and returns its credit to the connection window.
func (s *stream) close() {
	s.c.blocked.remove(s)
	s.c.eng.removeBuffered(s.buffered())
	s.dropReplay()
	if s.connCredit > 0 {
		s.c.releaseCredit(int(s.connCredit))
		s.connCredit = 0
	}
	s.dropBuffer()
	s.trailers = nil
}

func (s *stream) dropBuffer() {
	if s.buf != nil {
		s.c.eng.putBuffer(s.buf)
		s.buf, s.bufStart = nil, 0
	}
}

// buffered returns the number of bytes that have been received but not consumed.
func (s *stream) buffered() int {
	if s.buf == nil {
		return 0
	}
	return len(s.buf.b) - int(s.bufStart)
}

// receiveData buffers a piece of a DATA frame whose stream state has been checked.
func (s *stream) receiveData(d *h2.Frame) *h2.Error {
	c := s.c
	if d.First {
		if err := s.recv.Receive(d.Length, h2.Stream); err != nil {
			c.releaseCredit(int(d.Length)) // the whole frame has already been charged to the connection window
			return err
		}
		if d.Padding > 0 {
			c.releaseCredit(int(d.Padding))
			s.releaseCredit(int(d.Padding))
		}
	}
	n := len(d.Payload)
	if err := s.msg.Data(n, d.EndStream); err != nil {
		c.releaseCredit(n)
		return err
	}
	if n > 0 {
		s.appendBuffer(d.Payload)
		c.eng.addBuffered(n)
		if c.earlyCredit || !c.eng.overBudget() {
			c.releaseCredit(n)
		} else {
			s.connCredit += int32(n)
		}
	}
	if d.EndStream {
		s.noteEndReceived()
	}
	s.x.Wake()
	return nil
}

func (s *stream) appendBuffer(p []byte) {
	e := s.c.eng
	if s.buf == nil {
		s.buf, s.bufStart = e.getBuffer(len(p)), 0
	}
	if s.bufStart > 0 && len(s.buf.b)+len(p) > cap(s.buf.b) {
		s.buf.b = s.buf.b[:copy(s.buf.b, s.buf.b[s.bufStart:])]
		s.bufStart = 0
	}
	if len(s.buf.b)+len(p) > cap(s.buf.b) {
		larger := e.getBuffer(len(s.buf.b) + len(p))
		larger.b = append(larger.b, s.buf.b...)
		e.putBuffer(s.buf)
		s.buf = larger
	}
	s.buf.b = append(s.buf.b, p...)
}

// releaseCredit returns the credit for n bytes to the window of the stream.
func (s *stream) releaseCredit(n int) { s.sendWindowUpdate(s.recv.Release(n)) }

// resize changes the size of the receive window.
func (s *stream) resize(n uint32) { s.sendWindowUpdate(s.recv.Resize(n)) }

// sendWindowUpdate sends a WINDOW_UPDATE, unless increment is 0 or the peer has ended its
// direction.
func (s *stream) sendWindowUpdate(increment uint32) {
	if increment > 0 && !s.endReceived() && !s.state.Closed() {
		s.c.queue(h2.AppendWindowUpdate(s.c.outBuffer(), s.id, increment))
	}
}

// Pump implements exchange.Source.
func (s *stream) Pump(dst exchange.Sink) (moved bool) {
	if s.withhold != withholdNothing {
		if s.withhold == withholdBody {
			s.withhold = withholdEnded
			dst.Finish(nil)
			moved = true
		}
		m, _ := dst.Flush()
		return moved || m
	}
	for s.buffered() > 0 && !dst.Broken() {
		n := dst.Write(s.buf.b[s.bufStart:])
		if n == 0 {
			// The sink accepts no bytes. If the window of its peer is exhausted, the wait
			// may be long. A buffer that is mostly empty is then replaced by a smaller
			// one. A sink without windows (HTTP/1) always waits for its peer.
			if w, ok := dst.(interface{ windowClosed() bool }); !ok || w.windowClosed() {
				s.buf, s.bufStart = s.c.eng.fit(s.buf, s.bufStart)
			}
			m, _ := dst.Flush()
			return moved || m
		}
		moved = true
		s.consume(n)
	}
	if s.buffered() == 0 && s.recvState == recvEnded {
		s.recvState = recvForwarded
		dst.Finish(s.trailers)
		moved = true
	}
	m, _ := dst.Flush()
	return moved || m
}

// consume removes n bytes, which the sink has accepted, from the buffer.
func (s *stream) consume(n int) {
	if s.keepReplay {
		s.appendReplay(n)
	}
	s.consumed += int64(n)
	s.c.eng.removeBuffered(n)
	if s.bufStart += int32(n); int(s.bufStart) == len(s.buf.b) {
		s.dropBuffer()
	}
	replayed := min(n, int(s.replayed))
	s.replayed -= int32(replayed)
	n -= replayed
	if credit := min(n, int(s.connCredit)); credit > 0 {
		s.connCredit -= int32(credit)
		s.c.releaseCredit(credit)
	}
	if s.c.earlyCredit && !s.endReceived() {
		s.adaptWindow()
	}
	s.releaseCredit(n)
}

// adaptWindow adapts the size of the receive window to the client's reading speed and to
// the memory pressure.
func (s *stream) adaptWindow() {
	size := s.recv.Size()
	grow, shrink := windowChange(size, s.consumed, s.c.eng.pressure())
	if !grow && !shrink {
		return
	}
	if n := nextStreamWindow(size, s.x.Capacity(), grow, shrink); n != size {
		s.resize(n)
	}
}

// appendReplay copies the next n bytes to the replay buffer. If the body is too long or
// memory pressure is high, it drops the replay buffer, and the request can no longer be
// retried.
func (s *stream) appendReplay(n int) {
	e := s.c.eng
	if len(s.replayBuffer)+n > maxReplay || e.pressure() >= pressureHigh {
		s.dropReplay()
		return
	}
	e.addBuffered(n)
	s.replayBuffer = append(s.replayBuffer, s.buf.b[s.bufStart:][:n]...)
}

func (s *stream) dropReplay() {
	s.c.eng.removeBuffered(len(s.replayBuffer))
	s.keepReplay, s.replayBuffer = false, s.replayBuffer[:0]
}

// rewind puts the bytes of the replay buffer back in front of the received bytes. It
// returns false if some consumed bytes are not in the replay buffer.
func (s *stream) rewind() bool {
	if s.consumed != int64(len(s.replayBuffer)) {
		return false
	}
	switch {
	case s.withhold == withholdEnded:
		s.withhold = withholdBody
	case s.recvState == recvForwarded:
		s.recvState = recvEnded
	}
	if s.consumed == 0 {
		return true
	}
	b := s.c.eng.getBuffer(len(s.replayBuffer))
	b.b = append(b.b, s.replayBuffer...)
	if s.buf != nil {
		b.b = append(b.b, s.buf.b[s.bufStart:]...)
		s.c.eng.putBuffer(s.buf)
	}
	s.buf, s.bufStart = b, 0
	s.replayed, s.consumed, s.replayBuffer = s.replayed+int32(len(s.replayBuffer)), 0, s.replayBuffer[:0]
	return true
}

// Consumed implements exchange.Source.
func (s *stream) Consumed() int64 { return s.consumed }

// Ended implements exchange.Source.
func (s *stream) Ended() bool { return s.recvState == recvForwarded || s.withhold == withholdEnded }

// Failed implements exchange.Source.
func (s *stream) Failed() bool { return s.malformed || s.reset && !s.Ended() }

// Malformed implements exchange.Source.
func (s *stream) Malformed() bool { return s.malformed }

// Write implements exchange.Sink. It accepts as many bytes as the windows and the output
// buffer allow. While other streams are blocked, it accepts at most the stream's quota.
func (s *stream) Write(p []byte) int {
	c := s.c
	done := 0
	for done < len(p) && !c.broken && !c.full() {
		n := min(len(p)-done, s.send.Credit(), c.send.Credit(), h2.MinMaxFrameSize)
		if len(c.blocked.streams) > 0 {
			n = min(n, int(s.quota))
		}
		if n == 0 {
			break
		}
		s.lastDataAt = c.position()
		b := h2.AppendDataHeader(c.outBufferFor(n), s.id, n, false)
		c.queue(append(b, p[done:done+n]...))
		s.send.Consume(n)
		c.send.Consume(n)
		c.meter.Useful(n)
		s.quota = max(0, s.quota-int32(n))
		s.check.Sent(n)
		done += n
	}
	if done < len(p) && s.send.Credit() > 0 {
		c.blocked.add(s)
	}
	return done
}

// Capacity implements exchange.Sink.
func (s *stream) Capacity() int {
	c := s.c
	if s.sendState == sendEnded || s.Broken() {
		return math.MaxInt // written bytes are discarded
	}
	n := min(s.send.Credit(), c.send.Credit(), c.unwrittenLimit()-c.pending())
	if len(c.blocked.streams) > 0 {
		n = min(n, int(s.quota))
	}
	if n <= 0 && s.send.Credit() > 0 {
		c.blocked.add(s)
	}
	return max(n, 0)
}

// windowClosed reports whether the gate cannot send the rest of a body because the peer's
// window for the stream or for the connection is exhausted.
func (s *stream) windowClosed() bool {
	return s.sendState == sendOpen && (s.send.Credit() == 0 || s.c.send.Credit() == 0)
}

// Finish implements exchange.Sink.
func (s *stream) Finish(trailers []byte) {
	if s.sendState == sendEnded {
		return
	}
	s.sendState = sendEnded
	s.check.End()
	c := s.c
	switch {
	case c.broken, !s.state.CanSend():
		// The gate sends nothing, not even trailers: many peers treat HEADERS on a stream
		// that was reset as a connection error.
		return
	case len(trailers) > 0:
		b := c.outBuffer()
		start := len(b)
		b = wire.AppendLines(h2.BeginHeaders(b), &c.hpack().enc, trailers)
		c.queue(h2.EndHeaders(b, start, s.id, true, int(c.settings.MaxFrame)))
	case s.lastDataAt > 0 && !c.mayBeSent(s.lastDataAt) && c.out != nil: // the last DATA frame is still buffered: add END_STREAM to it
		c.out.b[c.outStart+int(s.lastDataAt-c.written)+4] |= byte(h2.FlagEndStream)
	default:
		c.queue(h2.AppendDataHeader(c.outBuffer(), s.id, 0, true))
	}
	s.advance(h2.OnDataEnd)
}

// headWritten records that the final head has been queued. end tells whether it had
// END_STREAM.
func (s *stream) headWritten(end bool) {
	s.sendState = sendOpen
	event := h2.OnHeaders
	if end {
		s.sendState, event = sendEnded, h2.OnHeadersEnd
	}
	s.advance(event)
}

// advance applies a queued frame to the state.
func (s *stream) advance(e h2.Event) {
	if to, ok := s.state.Send(e); ok {
		s.state = to
	}
}

// Flush implements exchange.Sink. Frames in the output buffer count as sent, because the
// size of that buffer is bounded.
func (s *stream) Flush() (moved, empty bool) {
	if s.c.full() && !s.c.broken {
		s.c.blocked.add(s)
		return false, false
	}
	return false, true
}

// Broken implements exchange.Sink.
func (s *stream) Broken() bool { return s.reset || s.c.broken }

// updateWindow applies WINDOW_UPDATE of the stream.
func (s *stream) updateWindow(increment uint32) *h2.Error {
	if err := s.send.Update(increment, h2.Stream); err != nil {
		return err
	}
	s.x.Wake()
	return nil
}
