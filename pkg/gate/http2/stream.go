package http2

import (
	"math"
	"slices"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/wire"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// flow is what a stream has in either role: its state, and the two directions
// of its body. It is the gate.Source of what the peer sends and the gate.Sink
// of what it gets.
type stream struct {
	c     *conn
	x     *exchange.Exchange // woken by events of the stream
	id    uint32
	state h2.State

	over       bool // the peer has ended its direction
	withheld   bool // the body is not part of the request: extended CONNECT before the switch
	given      bool // all has been given on, the end included
	reset      bool // by the peer, or with the connection
	malformed  bool
	keepReplay bool // what is taken is kept, in case the request has to be sent again
	started    bool // the head has been written
	finished   bool // END_STREAM has been written
	inBlocked  bool // stands in the link's line
	begunPaced bool // others begin when the head is written: see turns

	msg          h2.Message
	recv         h2.ReceiveWindow
	send         h2.SendWindow
	buf          *buffer // what has come and not been taken is in.b[r:]; nil = nothing
	bufStart     int32
	connCredit   int32  // octets that have not been given back to the window of the connection
	trailers     []byte // field lines
	consumed     int64
	replayBuffer []byte // all that was taken, while keeps
	replayed     int32  // octets that come for the second time: the windows have them back

	quota      int32 // octets that may be added although others stand there
	check      wire.BodyCheck
	lastDataAt int64 // the place of the last DATA frame, if any
}

func (f *stream) open(l *conn, x *exchange.Exchange, id uint32, state h2.State) {
	*f = stream{
		c: l, x: x, id: id, state: state, replayBuffer: f.replayBuffer[:0],
		recv: h2.NewReceiveWindow(streamWindow), send: h2.NewSendWindow(l.settings.InitialWindow),
	}
}

// ident is what streams are found by.
func (f *stream) ident() uint32 { return f.id }

// find returns one of streams, which stand in the order of their identifiers, or
// nil.
func find[S interface {
	comparable
	ident() uint32
}](streams []S, id uint32) (s S) {
	i, ok := slices.BinarySearchFunc(streams, id, func(s S, id uint32) int { return int(s.ident()) - int(id) })
	if ok {
		s = streams[i]
	}
	return s
}

// receiveEvent applies what a received frame is to a stream that is in the given
// state; f is nil where the stream is over. A frame that is not accepted and is
// no error is passed over.
func receiveEvent(f *stream, state h2.State, event h2.Event) (accepted bool, err *h2.Error) {
	if f != nil {
		state = f.state
	}
	to, verdict := state.Receive(event)
	if verdict != h2.Accept {
		return false, verdict.Err()
	}
	if f != nil {
		f.state = to
	}
	return true, nil
}

// close gives back what the stream holds.
func (f *stream) close() {
	f.c.blocked.leave(f)
	f.c.eng.removeBuffered(f.buffered())
	f.dropReplay()
	if f.connCredit > 0 {
		f.c.releaseCredit(int(f.connCredit))
		f.connCredit = 0
	}
	f.dropBuffer()
	f.trailers = nil
}

func (f *stream) dropBuffer() {
	if f.buf != nil {
		f.c.eng.putBuffer(f.buf)
		f.buf, f.bufStart = nil, 0
	}
}

// held is what has come and not been taken.
func (f *stream) buffered() int {
	if f.buf == nil {
		return 0
	}
	return len(f.buf.b) - int(f.bufStart)
}

// receiveData takes a piece of a DATA frame whose state has been checked.
func (f *stream) receiveData(d *h2.Frame) *h2.Error {
	if d.First {
		if err := f.recv.Receive(d.Length, h2.Stream); err != nil {
			f.c.releaseCredit(int(d.Length)) // of the connection it has been taken
			return err
		}
		if d.Padding > 0 {
			f.c.releaseCredit(int(d.Padding))
			f.releaseCredit(int(d.Padding))
		}
	}
	n := len(d.Payload)
	if err := f.msg.Data(n, d.EndStream); err != nil {
		f.c.releaseCredit(n)
		return err
	}
	if n > 0 {
		if f.buf == nil {
			f.buf, f.bufStart = f.c.eng.getBuffer(n), 0
		}
		if f.bufStart > 0 && len(f.buf.b)+n > cap(f.buf.b) { // what has gone does not stay in front
			f.buf.b = f.buf.b[:copy(f.buf.b, f.buf.b[f.bufStart:])]
			f.bufStart = 0
		}
		if len(f.buf.b)+n > cap(f.buf.b) {
			wider := f.c.eng.getBuffer(len(f.buf.b) + n)
			wider.b = append(wider.b, f.buf.b...)
			f.c.eng.putBuffer(f.buf)
			f.buf = wider
		}
		f.buf.b = append(f.buf.b, d.Payload...)
		f.c.eng.addBuffered(n)
		if f.c.earlyCredit || !f.c.eng.short() { // else when they have been taken
			f.c.releaseCredit(n)
		} else {
			f.connCredit += int32(n)
		}
	}
	f.over = f.over || d.EndStream
	f.x.Wake()
	return nil
}

// passed gives octets back to the window of the stream.
func (f *stream) releaseCredit(n int) { f.announce(f.recv.Pass(n)) }

// announce sends a WINDOW_UPDATE, unless increment is 0 or the peer sends no more.
func (f *stream) announce(increment uint32) {
	if increment > 0 && !f.over && !f.state.Closed() {
		f.c.queue(h2.AppendWindowUpdate(f.c.room(), f.id, increment))
	}
}

// Pump is gate.Source.
func (f *stream) Pump(dst exchange.Sink) (moved bool) {
	if f.withheld {
		if !f.given {
			f.given = true
			dst.Finish(nil)
			moved = true
		}
		m, _ := dst.Flush()
		return moved || m
	}
	for f.buffered() > 0 && !dst.Broken() {
		n := dst.Write(f.buf.b[f.bufStart:])
		if n == 0 {
			if w, ok := dst.(interface{ blocked() bool }); !ok || w.blocked() { // for longer than until others have had their turn
				f.buf, f.bufStart = f.c.eng.fit(f.buf, f.bufStart)
			}
			m, _ := dst.Flush()
			return moved || m
		}
		moved = true
		f.consume(n)
	}
	if f.buffered() == 0 && f.over && !f.given {
		f.given = true
		dst.Finish(f.trailers)
		moved = true
	}
	m, _ := dst.Flush()
	return moved || m
}

// take passes over n octets that have been given on.
func (f *stream) consume(n int) {
	if f.keepReplay {
		f.appendReplay(n)
	}
	f.consumed += int64(n)
	f.c.eng.removeBuffered(n)
	if f.bufStart += int32(n); int(f.bufStart) == len(f.buf.b) {
		f.dropBuffer()
	}
	again := min(n, int(f.replayed))
	f.replayed -= int32(again)
	n -= again
	if back := min(n, int(f.connCredit)); back > 0 {
		f.connCredit -= int32(back)
		f.c.releaseCredit(back)
	}
	if f.c.earlyCredit && !f.over {
		f.adaptWindow()
	}
	f.releaseCredit(n)
}

// adapt lets the container send more ahead of an answer of which the client has
// taken some and takes more, and no more than that where memory is short.
func (f *stream) adaptWindow() {
	size := f.recv.Size()
	wider, pressed := size < streamWindow && f.consumed >= int64(size/2), f.c.eng.pressed()
	if !wider && !pressed {
		return
	}
	want := uint32(min(streamWindow, f.x.Capacity()))
	if pressed {
		want = min(want, pressuredWindow)
	}
	if want = max(want, minWindow); want < size && pressed || want > size && wider {
		resize(f, want)
	}
}

// resize makes the window of a stream n octets large.
func resize(f *stream, n uint32) { f.announce(f.recv.Resize(n)) }

// mostKept is the longest body of which a copy is kept until an answer comes.
const maxReplay = 2 << 10

// keep copies n octets that are about to be taken, unless the body is long or
// memory is tight.
func (f *stream) appendReplay(n int) {
	if len(f.replayBuffer)+n > maxReplay || f.c.eng.tight() {
		f.dropReplay()
		return
	}
	f.c.eng.addBuffered(n)
	f.replayBuffer = append(f.replayBuffer, f.buf.b[f.bufStart:][:n]...)
}

// forget keeps no copy any more.
func (f *stream) dropReplay() {
	f.c.eng.removeBuffered(len(f.replayBuffer))
	f.keepReplay, f.replayBuffer = false, f.replayBuffer[:0]
}

// rewind makes the body come again from its beginning, if that is still there.
func (f *stream) rewind() bool {
	if f.consumed != int64(len(f.replayBuffer)) {
		return false
	}
	f.given = false
	if f.consumed == 0 {
		return true
	}
	b := f.c.eng.getBuffer(len(f.replayBuffer))
	b.b = append(b.b, f.replayBuffer...)
	if f.buf != nil {
		b.b = append(b.b, f.buf.b[f.bufStart:]...)
		f.c.eng.putBuffer(f.buf)
	}
	f.buf, f.bufStart = b, 0
	f.replayed, f.consumed, f.replayBuffer = f.replayed+int32(len(f.replayBuffer)), 0, f.replayBuffer[:0]
	return true
}

// Taken is gate.Source.
func (f *stream) Taken() int64 { return f.consumed }

// Ended is gate.Source.
func (f *stream) Ended() bool { return f.given }

// Failed is gate.Source.
func (f *stream) Failed() bool { return f.malformed || f.reset && !f.given }

// Malformed is gate.Source.
func (f *stream) Malformed() bool { return f.malformed }

// Write is gate.Sink. Where others wait, a stream adds no more than its turn
// allows.
func (f *stream) Write(p []byte) int {
	l := f.c
	done := 0
	for done < len(p) && !l.broken && !l.full() {
		n := min(len(p)-done, f.send.Left(), l.send.Left(), h2.MinMaxFrameSize)
		if len(l.blocked.streams) > 0 {
			n = min(n, int(f.quota))
		}
		if n == 0 {
			break
		}
		f.lastDataAt = l.position()
		b := h2.AppendDataHeader(l.roomFor(n), f.id, n, false)
		l.queue(append(b, p[done:done+n]...))
		f.send.Take(n)
		l.send.Take(n)
		l.meter.Useful(n)
		f.quota = max(0, f.quota-int32(n))
		f.check.Sent(n)
		done += n
	}
	if done < len(p) && f.send.Left() > 0 {
		l.blocked.join(f)
	}
	return done
}

// Capacity is gate.Sink.
func (f *stream) Capacity() int {
	l := f.c
	if f.finished || f.Broken() {
		return math.MaxInt // what comes is for no peer
	}
	n := min(f.send.Left(), l.send.Left(), l.outLimit()-l.pending())
	if len(l.blocked.streams) > 0 {
		n = min(n, int(f.quota))
	}
	if n <= 0 && f.send.Left() > 0 {
		l.blocked.join(f)
	}
	return max(n, 0)
}

// blocked reports that the peer's window, of the stream or of the connection, is
// closed to what has been begun.
func (f *stream) windowClosed() bool {
	return f.started && !f.finished && (f.send.Left() == 0 || f.c.send.Left() == 0)
}

// Finish is gate.Sink.
func (f *stream) Finish(trailers []byte) {
	if f.finished {
		return
	}
	f.finished = true
	f.check.End()
	l := f.c
	switch {
	case l.broken, !f.state.CanSend(): // many peers treat HEADERS on a reset stream as a connection error
		return
	case len(trailers) > 0:
		b := l.room()
		start := len(b)
		b = wire.AppendLines(h2.BeginHeaders(b), &l.hpack().enc, trailers)
		l.queue(h2.EndHeaders(b, start, f.id, true, int(l.settings.MaxFrame)))
	case f.lastDataAt > 0 && !l.mayBeSent(f.lastDataAt) && l.out != nil: // it can still be changed
		l.out.b[l.o+int(f.lastDataAt-l.written)+4] |= byte(h2.FlagEndStream)
	default:
		l.queue(h2.AppendDataHeader(l.room(), f.id, 0, true))
	}
	f.advance(h2.OnDataEnd)
}

// sent moves the state on for a frame that is written.
func (f *stream) advance(e h2.Event) {
	if to, ok := f.state.Send(e); ok {
		f.state = to
	}
}

// Flush is gate.Sink. What stands among the frames of the connection counts as
// gone: that is bounded.
func (f *stream) Flush() (moved, empty bool) {
	if f.c.full() && !f.c.broken {
		f.c.blocked.join(f)
		return false, false
	}
	return false, true
}

// Broken is gate.Sink.
func (f *stream) Broken() bool { return f.reset || f.c.broken }

// updateWindow takes a WINDOW_UPDATE of the stream.
func (f *stream) updateWindow(increment uint32) *h2.Error {
	if err := f.send.Update(increment, h2.Stream); err != nil {
		return err
	}
	f.x.Wake()
	return nil
}

// changeWindow applies a change of SETTINGS_INITIAL_WINDOW_SIZE. It wakes a
// stream that its window has held up, and no other: a peer may have hundreds.
func changeWindow(f *stream, ch h2.Changes) *h2.Error {
	closed := f.send.Left() == 0
	if err := f.send.Change(ch); err != nil {
		return err
	}
	if closed && f.started && f.send.Left() > 0 {
		f.x.Wake()
	}
	return nil
}
