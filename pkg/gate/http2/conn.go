package http2

import (
	"slices"

	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// link is what a connection of HTTP/2 has in either role: its socket, the
// state of both directions, and the frames that wait to be written.
type conn struct {
	eng   *Engine
	sock  *loop.Sock
	owner frameHandler
	partialInput
	codec         *codec // nil: no head has come or gone
	meter         h2.Meter
	history       *h2.History // nil: no stream has ended
	out           *buffer     // frames that wait from o on; nil = none
	o             int
	blocked       blockedQueue
	settings      h2.PeerSettings
	send          h2.SendWindow
	recv          h2.ReceiveWindow
	maxHeaderList int32 // octets of a head that comes, after decoding
	accounted     int32 // octets of frames that wait, as the engine has been told
	written       int64 // octets that the socket has taken
	inLayer       int32 // octets beyond those that may have gone too: a layer does not take them back
	acks          h2.SettingsAcks
	earlyCredit   bool // what comes is given back to the window of the connection at once
	flushQueued   bool // Flush will be called at the end of the batch
	broken        bool // nothing can be written any more
}

// codec is HPACK in both directions.
type codec struct {
	dec h2.Decoder
	enc h2.Encoder
}

// hpack is the codec, which comes with the first head.
func (l *conn) hpack() *codec {
	if l.codec == nil {
		l.codec = &codec{dec: h2.Decoder{MaxList: int(l.maxHeaderList)}}
	}
	return l.codec
}

// frameHandler is the role of a link.
type frameHandler interface {
	loop.Flusher
	// handleFrame acts on a frame; an error ends the connection.
	handleFrame(f *h2.Frame) *h2.Error
	// flushed is called when all that waited has gone out.
	flushed()
	// wake leads to a step of the link.
	wake()
}

func (l *conn) init(e *Engine, sock *loop.Sock, owner frameHandler) {
	l.eng, l.sock, l.owner = e, sock, owner
	l.settings = h2.DefaultSettings()
	l.send = h2.NewSendWindow(h2.InitialWindow)
	l.recv = h2.NewReceiveWindow(h2.InitialWindow)
}

// limitHeads says how long a head that comes may be, after decoding.
func (l *conn) setMaxHeaderList(list int) {
	l.maxHeaderList = int32(list)
	l.reader.MaxBlock = max(2*list, h2.DefaultMaxBlock)
}

// readsPerEvent bounds how often one event reads before other connections have
// their turn.
const (
	readsPerEvent  = 4
	framesPerEvent = 64 // beyond them nothing more is read
)

// receive reads and handles frames, at most this many octets with each read. more reports that there may be more to read
// at once; err ends the connection. At the end of the peer's direction, or
// after an error of the socket, ended is true.
func (l *conn) receive(most int) (more, ended bool, err *h2.Error) {
	if l.eng.read == nil {
		l.eng.read = make([]byte, readBytes)
	}
	before := l.eng.frames
	for range readsPerEvent {
		room := l.eng.read
		n := copy(room, l.rest)
		if n == len(room) { // a frame larger than that is not allowed
			return false, false, nil
		}
		room = room[:min(n+most, len(room))]
		m, rerr := l.sock.Read(room[n:])
		if rerr == loop.ErrAgain {
			return false, false, nil
		}
		if rerr != nil {
			return false, true, nil
		}
		full := n+m == len(room)
		if err := l.handle(room[:n+m]); err != nil {
			return false, false, err
		}
		if !l.sock.Open() || !full && !l.sock.Readable() {
			return false, false, nil
		}
		if l.eng.frames-before >= framesPerEvent {
			break
		}
	}
	return true, false, nil
}

// handle takes all frames that stand in b, and keeps the rest.
func (l *conn) handle(b []byte) *h2.Error {
	f := &l.eng.frame
	whole := false // some frame is
	for len(b) > 0 {
		n, ok, err := l.reader.Next(b, f)
		if err != nil {
			return err
		}
		b = b[n:]
		if !ok {
			break
		}
		whole = true
		l.eng.frames++
		if err := l.countEmpty(f); err != nil {
			return err
		}
		if err := l.owner.handleFrame(f); err != nil {
			return err
		}
		if !l.sock.Open() {
			return nil
		}
	}
	switch {
	case len(b) > 0:
		l.rest = append(l.rest[:0], b...)
	case cap(l.rest) > 0:
		l.rest = nil
	}
	switch {
	case !l.incomplete():
		l.since = 0
	case whole || l.since == 0:
		l.since = l.eng.loop.Now()
	}
	return l.partialInput.charge(l.eng.gate.Heads)
}

// count holds a frame against the limits of what peers may send.
func (l *conn) countEmpty(f *h2.Frame) *h2.Error {
	if f.CarriesNothing() {
		return l.meter.Empty(l.eng.loop.Now())
	}
	return nil
}

// ignored counts a frame with n octets of a stream that is closed, which the peer
// may not have known.
func (l *conn) countLate(n int) *h2.Error { return l.meter.Late(n, l.eng.loop.Now()) }

// applySettings takes the peer's SETTINGS. each is called with the changes of
// the streams' windows.
func (l *conn) applySettings(f *h2.Frame, fromServer bool, each func(h2.Changes) *h2.Error) *h2.Error {
	if f.Ack() {
		return l.acks.Acked()
	}
	c, err := l.settings.Apply(f.Payload, fromServer)
	if err != nil {
		return err
	}
	if l.codec != nil || c.Table && min(c.LeastTable, l.settings.HeaderTableSize) < h2.DefaultTableSize {
		l.hpack().enc.Apply(c, &l.settings) // tables begin with that size, and get no larger
	}
	if c.Window != 0 || c.Peak != 0 {
		if err := each(c); err != nil {
			return err
		}
	}
	l.queue(h2.AppendSettingsAck(l.room()))
	return l.meter.Reply()
}

// ping answers PING.
func (l *conn) ping(f *h2.Frame) *h2.Error {
	l.queue(h2.AppendPing(l.room(), true, [8]byte(f.Payload)))
	return l.meter.Reply()
}

// room returns what waits to be written, to be appended to; hold takes the
// result and has it written at the end of the batch.
func (l *conn) room() []byte {
	if l.out == nil {
		l.out = l.eng.getOut()
		l.o = 0
	}
	return l.out.b
}

// roomFor is room for n octets of payload. A buffer that is grown into step by
// step would leave several times its size behind as garbage. Where much waits,
// or many connections have much, it goes out first if the peer reads.
func (l *conn) roomFor(n int) []byte {
	l.room()
	fits := func() bool { return len(l.out.b)+h2.FrameHeaderLen+n <= cap(l.out.b) }
	if fits() {
		return l.out.b
	}
	if l.pending() > 0 && (l.out.wide || l.eng.wide >= maxWideBuffers) && l.sock.Open() && l.sock.Writable() {
		if l.write(); l.pending() == 0 {
			l.out.b, l.o = l.out.b[:0], 0
		}
	}
	if !l.out.wide && !fits() {
		wide := l.eng.getWide()
		wide.b = append(wide.b, l.out.b[l.o:]...)
		l.eng.putOut(l.out)
		l.out, l.o = wide, 0
	} else if l.o > 0 && !fits() {
		l.out.b = l.out.b[:copy(l.out.b, l.out.b[l.o:])]
		l.o = 0
	}
	return l.out.b
}

func (l *conn) queue(b []byte) {
	l.out.b = b
	if !l.flushQueued {
		l.flushQueued = true
		l.eng.loop.AtEnd(l.owner)
	}
}

// pending is how many bytes wait to be written.
func (l *conn) pending() int {
	if l.out == nil {
		return 0
	}
	return len(l.out.b) - l.o
}

// place is where what is held next will stand among all octets of the
// connection.
func (l *conn) position() int64 { return l.written + int64(l.pending()) }

// left reports whether the peer may have some of what stands at the place.
func (l *conn) mayBeSent(place int64) bool { return place < l.written+int64(l.inLayer) }

// full reports that streams are to wait until the peer has read.
func (l *conn) full() bool { return l.pending() >= l.outLimit() }

// outLimit is how much may wait for the peer.
func (l *conn) outLimit() int {
	switch {
	case l.eng.short():
		return maxUnwrittenLow
	case l.sock.Writable():
		return maxBatch
	}
	return maxUnwritten
}

// account notes how much waits now.
func (l *conn) accountBuffered() {
	n := l.pending()
	if more := n - int(l.accounted); more > 0 {
		l.eng.addBuffered(more)
	} else {
		l.eng.removeBuffered(-more)
	}
	l.accounted = int32(n)
}

// flush writes what waits.
func (l *conn) flush() {
	l.flushQueued = false
	if l.out == nil || l.broken || !l.sock.Open() {
		return
	}
	l.write()
	switch {
	case l.broken || l.o == len(l.out.b):
		l.dropOut()
		l.owner.flushed()
	case l.o > maxUnwritten: // what has gone does not stay in front
		l.out.b = l.out.b[:copy(l.out.b, l.out.b[l.o:])]
		l.o = 0
	}
	if l.accounted > 0 || l.out != nil {
		l.accountBuffered()
	}
	l.blocked.wake(l)
}

// write writes as much of what waits as the socket takes.
func (l *conn) write() {
	for l.o < len(l.out.b) {
		n, err := l.sock.Write(l.out.b[l.o:])
		if err == loop.ErrAgain {
			break
		}
		if err != nil {
			l.broken = true
			break
		}
		l.o += n
		l.written += int64(n)
		l.meter.Written()
	}
	if l.inLayer = 0; l.sock.Layered() {
		l.inLayer = int32(l.pending())
	}
}

func (l *conn) dropOut() {
	if l.out != nil {
		l.eng.putOut(l.out)
		l.out, l.o = nil, 0
	}
	l.accountBuffered()
}

// passed gives octets back to the window of the connection.
func (l *conn) releaseCredit(n int) {
	if inc := l.recv.Pass(n); inc > 0 {
		l.queue(h2.AppendWindowUpdate(l.room(), 0, inc))
	}
}

// dropData passes over a piece of DATA that no stream takes.
func (l *conn) dropData(f *h2.Frame) {
	l.releaseCredit(len(f.Payload))
	if f.First {
		l.releaseCredit(int(f.Padding))
	}
}

// remember notes how a stream has ended.
func (l *conn) remember(id uint32, how h2.State) {
	if l.history == nil {
		l.history = new(h2.History)
	}
	l.history.Add(id, how)
}

// fault counts a fault of the peer.
func (l *conn) fault(f h2.Fault) { l.eng.cfg.faults[f].Inc() }

// waitLine are the streams that wait until the peer has read, or has opened the
// window of the connection, in the order in which they began to. While there
// are some, all others join the line too.
type blockedQueue struct{ streams []*stream }

func (w *blockedQueue) join(f *stream) {
	f.quota = 0
	if !f.inBlocked {
		f.inBlocked = true
		w.streams = append(w.streams, f)
	}
}

// leave takes out a stream that ends.
func (w *blockedQueue) leave(f *stream) {
	f.quota = 0
	if f.inBlocked {
		f.inBlocked = false
		if i := slices.Index(w.streams, f); i >= 0 {
			w.streams = slices.Delete(w.streams, i, i+1)
		}
	}
}

// wake lets as many of those who wait try again as there is room for; one that
// has to wait on joins at the end. The others have their turn with the link's
// next step, even if these have nothing to say any more.
func (w *blockedQueue) wake(l *conn) {
	room := min(l.outLimit()-l.pending(), l.send.Left())
	if len(w.streams) == 0 || room <= 0 || l.broken {
		return
	}
	n := min(len(w.streams), 1+(room-1)/quotaBytes)
	for i, f := range w.streams[:n] {
		w.streams[i] = nil
		f.inBlocked, f.quota = false, quotaBytes
		if f.x != nil {
			f.x.Wake()
		}
	}
	if w.streams = w.streams[n:]; len(w.streams) > 0 {
		l.owner.wake()
	} else {
		w.streams = nil
	}
}
