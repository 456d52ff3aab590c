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
type flow struct {
	l     *link
	x     *exchange.Exchange // woken by events of the stream
	id    uint32
	state h2.State

	over      bool // the peer has ended its direction
	withheld  bool // the body is not part of the request: extended CONNECT before the switch
	given     bool // all has been given on, the end included
	reset     bool // by the peer, or with the connection
	malformed bool
	keeps     bool // what is taken is kept, in case the request has to be sent again
	started   bool // the head has been written
	finished  bool // END_STREAM has been written
	queued    bool // stands in the link's line
	paced     bool // others begin when the head is written: see turns

	msg      h2.Message
	recv     h2.ReceiveWindow
	send     h2.SendWindow
	in       *buffer // what has come and not been taken is in.b[r:]; nil = nothing
	r        int32
	owed     int32  // octets that have not been given back to the window of the connection
	trailers []byte // field lines
	taken    int64
	kept     []byte // all that was taken, while keeps
	again    int32  // octets that come for the second time: the windows have them back

	turn     int32 // octets that may be added although others stand there
	check    wire.BodyCheck
	lastData int64 // the place of the last DATA frame, if any
}

func (f *flow) open(l *link, x *exchange.Exchange, id uint32, state h2.State) {
	*f = flow{
		l: l, x: x, id: id, state: state, kept: f.kept[:0],
		recv: h2.NewReceiveWindow(streamWindow), send: h2.NewSendWindow(l.settings.InitialWindow),
	}
}

// ident is what streams are found by.
func (f *flow) ident() uint32 { return f.id }

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
func receiveEvent(f *flow, state h2.State, event h2.Event) (accepted bool, err *h2.Error) {
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
func (f *flow) close() {
	f.l.waiting.leave(f)
	f.l.eng.dropBody(f.held())
	f.forget()
	if f.owed > 0 {
		f.l.passed(int(f.owed))
		f.owed = 0
	}
	f.dropIn()
	f.trailers = nil
}

func (f *flow) dropIn() {
	if f.in != nil {
		f.l.eng.putIn(f.in)
		f.in, f.r = nil, 0
	}
}

// held is what has come and not been taken.
func (f *flow) held() int {
	if f.in == nil {
		return 0
	}
	return len(f.in.b) - int(f.r)
}

// receiveData takes a piece of a DATA frame whose state has been checked.
func (f *flow) receiveData(d *h2.Frame) *h2.Error {
	if d.First {
		if err := f.recv.Receive(d.Length, h2.Stream); err != nil {
			f.l.passed(int(d.Length)) // of the connection it has been taken
			return err
		}
		if d.Padding > 0 {
			f.l.passed(int(d.Padding))
			f.passed(int(d.Padding))
		}
	}
	n := len(d.Payload)
	if err := f.msg.Data(n, d.EndStream); err != nil {
		f.l.passed(n)
		return err
	}
	if n > 0 {
		if f.in == nil {
			f.in, f.r = f.l.eng.getIn(n), 0
		}
		if f.r > 0 && len(f.in.b)+n > cap(f.in.b) { // what has gone does not stay in front
			f.in.b = f.in.b[:copy(f.in.b, f.in.b[f.r:])]
			f.r = 0
		}
		if len(f.in.b)+n > cap(f.in.b) {
			wider := f.l.eng.getIn(len(f.in.b) + n)
			wider.b = append(wider.b, f.in.b...)
			f.l.eng.putIn(f.in)
			f.in = wider
		}
		f.in.b = append(f.in.b, d.Payload...)
		f.l.eng.holdBody(n)
		if f.l.eager || !f.l.eng.short() { // else when they have been taken
			f.l.passed(n)
		} else {
			f.owed += int32(n)
		}
	}
	f.over = f.over || d.EndStream
	f.x.Wake()
	return nil
}

// passed gives octets back to the window of the stream.
func (f *flow) passed(n int) { f.announce(f.recv.Pass(n)) }

// announce sends a WINDOW_UPDATE, unless increment is 0 or the peer sends no more.
func (f *flow) announce(increment uint32) {
	if increment > 0 && !f.over && !f.state.Closed() {
		f.l.hold(h2.AppendWindowUpdate(f.l.room(), f.id, increment))
	}
}

// Pump is gate.Source.
func (f *flow) Pump(dst exchange.Sink) (moved bool) {
	if f.withheld {
		if !f.given {
			f.given = true
			dst.Finish(nil)
			moved = true
		}
		m, _ := dst.Flush()
		return moved || m
	}
	for f.held() > 0 && !dst.Broken() {
		n := dst.Write(f.in.b[f.r:])
		if n == 0 {
			if w, ok := dst.(interface{ blocked() bool }); !ok || w.blocked() { // for longer than until others have had their turn
				f.in, f.r = f.l.eng.fit(f.in, f.r)
			}
			m, _ := dst.Flush()
			return moved || m
		}
		moved = true
		f.take(n)
	}
	if f.held() == 0 && f.over && !f.given {
		f.given = true
		dst.Finish(f.trailers)
		moved = true
	}
	m, _ := dst.Flush()
	return moved || m
}

// take passes over n octets that have been given on.
func (f *flow) take(n int) {
	if f.keeps {
		f.keep(n)
	}
	f.taken += int64(n)
	f.l.eng.dropBody(n)
	if f.r += int32(n); int(f.r) == len(f.in.b) {
		f.dropIn()
	}
	again := min(n, int(f.again))
	f.again -= int32(again)
	n -= again
	if back := min(n, int(f.owed)); back > 0 {
		f.owed -= int32(back)
		f.l.passed(back)
	}
	if f.l.eager && !f.over {
		f.adapt()
	}
	f.passed(n)
}

// adapt lets the container send more ahead of an answer of which the client has
// taken some and takes more, and no more than that where memory is short.
func (f *flow) adapt() {
	size := f.recv.Size()
	wider, pressed := size < streamWindow && f.taken >= int64(size/2), f.l.eng.pressed()
	if !wider && !pressed {
		return
	}
	want := uint32(min(streamWindow, f.x.Capacity()))
	if pressed {
		want = min(want, tightWindow)
	}
	if want = max(want, leastWindow); want < size && pressed || want > size && wider {
		resize(f, want)
	}
}

// resize makes the window of a stream n octets large.
func resize(f *flow, n uint32) { f.announce(f.recv.Resize(n)) }

// mostKept is the longest body of which a copy is kept until an answer comes.
const mostKept = 2 << 10

// keep copies n octets that are about to be taken, unless the body is long or
// memory is tight.
func (f *flow) keep(n int) {
	if len(f.kept)+n > mostKept || f.l.eng.tight() {
		f.forget()
		return
	}
	f.l.eng.holdBody(n)
	f.kept = append(f.kept, f.in.b[f.r:][:n]...)
}

// forget keeps no copy any more.
func (f *flow) forget() {
	f.l.eng.dropBody(len(f.kept))
	f.keeps, f.kept = false, f.kept[:0]
}

// rewind makes the body come again from its beginning, if that is still there.
func (f *flow) rewind() bool {
	if f.taken != int64(len(f.kept)) {
		return false
	}
	f.given = false
	if f.taken == 0 {
		return true
	}
	b := f.l.eng.getIn(len(f.kept))
	b.b = append(b.b, f.kept...)
	if f.in != nil {
		b.b = append(b.b, f.in.b[f.r:]...)
		f.l.eng.putIn(f.in)
	}
	f.in, f.r = b, 0
	f.again, f.taken, f.kept = f.again+int32(len(f.kept)), 0, f.kept[:0]
	return true
}

// Taken is gate.Source.
func (f *flow) Taken() int64 { return f.taken }

// Ended is gate.Source.
func (f *flow) Ended() bool { return f.given }

// Failed is gate.Source.
func (f *flow) Failed() bool { return f.malformed || f.reset && !f.given }

// Malformed is gate.Source.
func (f *flow) Malformed() bool { return f.malformed }

// Write is gate.Sink. Where others wait, a stream adds no more than its turn
// allows.
func (f *flow) Write(p []byte) int {
	l := f.l
	done := 0
	for done < len(p) && !l.broken && !l.full() {
		n := min(len(p)-done, f.send.Left(), l.send.Left(), h2.MinMaxFrameSize)
		if len(l.waiting.streams) > 0 {
			n = min(n, int(f.turn))
		}
		if n == 0 {
			break
		}
		f.lastData = l.place()
		b := h2.AppendDataHeader(l.roomFor(n), f.id, n, false)
		l.hold(append(b, p[done:done+n]...))
		f.send.Take(n)
		l.send.Take(n)
		l.meter.Useful(n)
		f.turn = max(0, f.turn-int32(n))
		f.check.Sent(n)
		done += n
	}
	if done < len(p) && f.send.Left() > 0 {
		l.waiting.join(f)
	}
	return done
}

// Capacity is gate.Sink.
func (f *flow) Capacity() int {
	l := f.l
	if f.finished || f.Broken() {
		return math.MaxInt // what comes is for no peer
	}
	n := min(f.send.Left(), l.send.Left(), l.outLimit()-l.pending())
	if len(l.waiting.streams) > 0 {
		n = min(n, int(f.turn))
	}
	if n <= 0 && f.send.Left() > 0 {
		l.waiting.join(f)
	}
	return max(n, 0)
}

// blocked reports that the peer's window, of the stream or of the connection, is
// closed to what has been begun.
func (f *flow) blocked() bool {
	return f.started && !f.finished && (f.send.Left() == 0 || f.l.send.Left() == 0)
}

// Finish is gate.Sink.
func (f *flow) Finish(trailers []byte) {
	if f.finished {
		return
	}
	f.finished = true
	f.check.End()
	l := f.l
	switch {
	case l.broken, !f.state.CanSend(): // many peers treat HEADERS on a reset stream as a connection error
		return
	case len(trailers) > 0:
		b := l.room()
		start := len(b)
		b = wire.AppendLines(h2.BeginHeaders(b), &l.hpack().enc, trailers)
		l.hold(h2.EndHeaders(b, start, f.id, true, int(l.settings.MaxFrame)))
	case f.lastData > 0 && !l.left(f.lastData) && l.out != nil: // it can still be changed
		l.out.b[l.o+int(f.lastData-l.gone)+4] |= byte(h2.FlagEndStream)
	default:
		l.hold(h2.AppendDataHeader(l.room(), f.id, 0, true))
	}
	f.sent(h2.OnDataEnd)
}

// sent moves the state on for a frame that is written.
func (f *flow) sent(e h2.Event) {
	if to, ok := f.state.Send(e); ok {
		f.state = to
	}
}

// Flush is gate.Sink. What stands among the frames of the connection counts as
// gone: that is bounded.
func (f *flow) Flush() (moved, empty bool) {
	if f.l.full() && !f.l.broken {
		f.l.waiting.join(f)
		return false, false
	}
	return false, true
}

// Broken is gate.Sink.
func (f *flow) Broken() bool { return f.reset || f.l.broken }

// updateWindow takes a WINDOW_UPDATE of the stream.
func (f *flow) updateWindow(increment uint32) *h2.Error {
	if err := f.send.Update(increment, h2.Stream); err != nil {
		return err
	}
	f.x.Wake()
	return nil
}

// changeWindow applies a change of SETTINGS_INITIAL_WINDOW_SIZE. It wakes a
// stream that its window has held up, and no other: a peer may have hundreds.
func changeWindow(f *flow, ch h2.Changes) *h2.Error {
	closed := f.send.Left() == 0
	if err := f.send.Change(ch); err != nil {
		return err
	}
	if closed && f.started && f.send.Left() > 0 {
		f.x.Wake()
	}
	return nil
}
