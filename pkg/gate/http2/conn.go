package http2

import (
	"slices"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// conn is an HTTP/2 connection in either role: its socket, the windows and SETTINGS
// of both directions, and the output buffer. downConn and upConn embed it.
type conn struct {
	eng      *Engine
	sock     *loop.Sock
	role     role
	input    input
	codec    *codec // nil until the first head is sent or received
	meter    h2.Meter
	settings h2.PeerSettings
	send     h2.SendWindow
	recv     h2.ReceiveWindow
	acks     h2.SettingsAcks

	out           *buffer // unwritten frames are out.b[outStart:]; nil = none
	outStart      int
	blocked       blockedQueue
	written       int64 // number of bytes that the socket has accepted
	inLayer       int32 // number of bytes of out that TLS may have encrypted already
	accounted     int32 // number of bytes of out that are included in Engine.buffered
	maxHeaderList int32 // maximum size of a received head list, after decoding
	earlyCredit   bool  // credit for received DATA is returned to the connection window immediately
	flushQueued   bool  // Flush will be called at the end of the iteration
	broken        bool  // a write has failed or the connection is closed
}

// codec is the HPACK state of both directions.
type codec struct {
	dec h2.Decoder
	enc h2.Encoder
}

// role is implemented by downConn and upConn.
type role interface {
	loop.Flusher
	// handleFrame applies a frame. An error ends the connection.
	handleFrame(f *h2.Frame) *h2.Error
	// flushed is called when the output buffer has become empty.
	flushed()
	// wake schedules a step of the connection.
	wake()
}

func (c *conn) init(e *Engine, sock *loop.Sock, r role) {
	c.eng, c.sock, c.role = e, sock, r
	c.settings = h2.DefaultSettings()
	c.send = h2.NewSendWindow(h2.InitialWindow)
	c.recv = h2.NewReceiveWindow(h2.InitialWindow)
}

func (c *conn) hpack() *codec {
	if c.codec == nil {
		c.codec = &codec{dec: h2.Decoder{MaxList: int(c.maxHeaderList)}}
	}
	return c.codec
}

// setMaxHeaderList limits the size of received heads, after decoding, to n bytes.
func (c *conn) setMaxHeaderList(n int) {
	c.maxHeaderList = int32(n)
	c.input.reader.MaxBlock = max(2*n, h2.DefaultMaxBlock)
}

// receive reads and handles frames. It requests at most quota bytes per read. The result
// more reports whether bytes may be left to read. The result closed reports whether the
// peer has closed its direction or the socket has failed. After an error, the caller must
// end the connection.
func (c *conn) receive(quota int) (more, closed bool, err *h2.Error) {
	if c.eng.read == nil {
		c.eng.read = make([]byte, readBytes)
	}
	before := c.eng.frames
	for range readsPerEvent {
		b := c.eng.read
		n := copy(b, c.input.partial)
		if n == len(b) { // cannot happen: the buffer is larger than the largest frame
			return false, false, nil
		}
		b = b[:min(n+quota, len(b))]
		m, rerr := c.sock.Read(b[n:])
		if rerr == loop.ErrAgain {
			return false, false, nil
		}
		if rerr != nil {
			return false, true, nil
		}
		full := n+m == len(b)
		if err := c.handle(b[:n+m]); err != nil {
			return false, false, err
		}
		if !c.sock.Open() || !full && !c.sock.Readable() {
			return false, false, nil
		}
		if c.eng.frames-before >= framesPerEvent {
			break
		}
	}
	return true, false, nil
}

// handle applies all complete frames in b and buffers the incomplete one.
func (c *conn) handle(b []byte) *h2.Error {
	f, in := &c.eng.frame, &c.input
	anyFrame := false
	for len(b) > 0 {
		n, ok, err := in.reader.Next(b, f)
		if err != nil {
			return err
		}
		b = b[n:]
		if !ok {
			break
		}
		anyFrame = true
		c.eng.frames++
		if f.CarriesNothing() {
			if err := c.meter.Empty(c.eng.loop.Now()); err != nil {
				return err
			}
		}
		if err := c.role.handleFrame(f); err != nil {
			return err
		}
		if !c.sock.Open() {
			return nil
		}
	}
	switch {
	case len(b) > 0:
		in.partial = append(in.partial[:0], b...)
	case cap(in.partial) > 0:
		in.partial = nil
	}
	switch {
	case !in.incomplete():
		in.beganAt = 0
	case anyFrame || in.beganAt == 0:
		in.beganAt = c.eng.loop.Now()
	}
	return in.charge(c.eng.gate.Heads)
}

// countLate counts a frame of n bytes that arrived on a closed stream. A peer may send
// such frames until it learns that the stream is closed.
func (c *conn) countLate(n int) *h2.Error { return c.meter.Late(n, c.eng.loop.Now()) }

// countFault counts a violation by the peer, for metrics.
func (c *conn) countFault(f h2.Fault) { c.eng.cfg.faults[f].Inc() }

// receiveSettings applies received SETTINGS. changeWindows applies a new initial window
// size to the open streams.
func (c *conn) receiveSettings(f *h2.Frame, fromServer bool, changeWindows func(h2.Changes) *h2.Error) *h2.Error {
	if f.Ack() {
		return c.acks.Acked()
	}
	ch, err := c.settings.Apply(f.Payload, fromServer)
	if err != nil {
		return err
	}
	if c.codec != nil || ch.Table && min(ch.LeastTable, c.settings.HeaderTableSize) < h2.DefaultTableSize {
		c.hpack().enc.Apply(ch, &c.settings) // the encoder never uses a table larger than the default
	}
	if ch.Window != 0 || ch.Peak != 0 {
		if err := changeWindows(ch); err != nil {
			return err
		}
	}
	c.queue(h2.AppendSettingsAck(c.outBuffer()))
	return c.meter.Reply()
}

// acknowledge replies to PING.
func (c *conn) acknowledge(ping *h2.Frame) *h2.Error {
	c.queue(h2.AppendPing(c.outBuffer(), true, [8]byte(ping.Payload)))
	return c.meter.Reply()
}

// receiveConnUpdate applies WINDOW_UPDATE of the connection.
func (c *conn) receiveConnUpdate(f *h2.Frame) *h2.Error {
	if err := c.send.Update(f.Increment, h2.Connection); err != nil {
		return err
	}
	c.blocked.wake(c)
	return nil
}

// releaseCredit returns the credit for n received bytes to the connection window.
func (c *conn) releaseCredit(n int) {
	if increment := c.recv.Release(n); increment > 0 {
		c.queue(h2.AppendWindowUpdate(c.outBuffer(), 0, increment))
	}
}

// discardData returns the credit for a piece of DATA that no stream accepts.
func (c *conn) discardData(f *h2.Frame) {
	c.releaseCredit(len(f.Payload))
	if f.First {
		c.releaseCredit(int(f.Padding))
	}
}

// outBuffer returns the output buffer. The caller appends frames to the buffer and stores
// it with c.queue.
func (c *conn) outBuffer() []byte {
	if c.out == nil {
		c.out = c.eng.getOut()
		c.outStart = 0
	}
	return c.out.b
}

// outBufferFor is like outBuffer, with space for a frame with n bytes of payload. If the
// frame does not fit into a buffer of narrowBytes, a buffer of wideBytes replaces it.
// This allocates less memory than growing the buffer step by step. If the buffer already
// has wideBytes, or if maxWideBuffers are in use, the buffered frames are first written
// to the socket to make space.
func (c *conn) outBufferFor(n int) []byte {
	c.outBuffer()
	fits := func() bool { return len(c.out.b)+h2.FrameHeaderLen+n <= cap(c.out.b) }
	if fits() {
		return c.out.b
	}
	if c.pending() > 0 && (c.out.wide || c.eng.wide >= maxWideBuffers) && c.sock.Open() && c.sock.Writable() {
		if c.write(); c.pending() == 0 {
			c.out.b, c.outStart = c.out.b[:0], 0
		}
	}
	if !c.out.wide && !fits() {
		wide := c.eng.getWide()
		wide.b = append(wide.b, c.out.b[c.outStart:]...)
		c.eng.putOut(c.out)
		c.out, c.outStart = wide, 0
	} else if c.outStart > 0 && !fits() {
		c.out.b = c.out.b[:copy(c.out.b, c.out.b[c.outStart:])]
		c.outStart = 0
	}
	return c.out.b
}

// queue stores b as the output buffer. It is written at the end of the iteration.
func (c *conn) queue(b []byte) {
	c.out.b = b
	if !c.flushQueued {
		c.flushQueued = true
		c.eng.loop.FlushLater(c.role)
	}
}

// queueFlush schedules a Flush for the end of the iteration, if frames are buffered and
// the socket is writable.
func (c *conn) queueFlush() {
	if c.pending() > 0 && c.sock.Writable() && !c.flushQueued {
		c.flushQueued = true
		c.eng.loop.FlushLater(c.role)
	}
}

// pending returns the number of buffered bytes.
func (c *conn) pending() int {
	if c.out == nil {
		return 0
	}
	return len(c.out.b) - c.outStart
}

// position returns the offset of the next queued byte, counted from the first byte that
// the connection sent.
func (c *conn) position() int64 { return c.written + int64(c.pending()) }

// mayBeSent reports whether the peer may have received the byte at this position.
func (c *conn) mayBeSent(position int64) bool { return position < c.written+int64(c.inLayer) }

// full reports whether the output buffer is full, so that streams must wait for the peer
// to read.
func (c *conn) full() bool { return c.pending() >= c.unwrittenLimit() }

func (c *conn) unwrittenLimit() int { return unwrittenLimit(c.eng.overBudget(), c.sock.Writable()) }

func (c *conn) flush() {
	c.flushQueued = false
	if c.out == nil || c.broken || !c.sock.Open() {
		return
	}
	c.write()
	switch {
	case c.broken || c.outStart == len(c.out.b):
		c.dropOut()
		c.role.flushed()
	case c.outStart > maxUnwritten:
		c.out.b = c.out.b[:copy(c.out.b, c.out.b[c.outStart:])]
		c.outStart = 0
	}
	if c.accounted > 0 || c.out != nil {
		c.account()
	}
	c.blocked.wake(c)
}

// write writes as much of the output buffer as the socket accepts.
func (c *conn) write() {
	for c.outStart < len(c.out.b) {
		n, err := c.sock.Write(c.out.b[c.outStart:])
		if err == loop.ErrAgain {
			break
		}
		if err != nil {
			c.broken = true
			break
		}
		c.outStart += n
		c.written += int64(n)
		c.meter.Written()
	}
	if c.inLayer = 0; c.sock.Layered() {
		c.inLayer = int32(c.pending())
	}
}

func (c *conn) dropOut() {
	if c.out != nil {
		c.eng.putOut(c.out)
		c.out, c.outStart = nil, 0
	}
	c.account()
}

// account updates the total of buffered bytes in c.eng by the change in c since the
// previous call.
func (c *conn) account() {
	n := c.pending()
	if more := n - int(c.accounted); more > 0 {
		c.eng.addBuffered(more)
	} else {
		c.eng.removeBuffered(-more)
	}
	c.accounted = int32(n)
}

// input is the incomplete frame or field block at the end of the received bytes.
type input struct {
	reader  h2.Reader
	partial []byte // start of an incomplete frame
	beganAt int64  // time at which the incomplete frame or field block began; 0 = none
	charged int32  // number of bytes acquired from the budget for heads
	metered bool   // true for client connections: charge uses the budget for heads
}

// incomplete reports whether a frame or a field block has begun.
func (in *input) incomplete() bool { return len(in.partial) > 0 || in.reader.InBlock() }

// charge acquires memory from the budget for heads when the incomplete frame or field
// block grows, and releases memory when it shrinks. The first exchange.FreeHeadBytes are
// not charged. It returns an error if the budget is exhausted.
func (in *input) charge(heads *exchange.Budget) *h2.Error {
	if !in.metered {
		return nil
	}
	n := max(cap(in.partial)+in.reader.Buffered()-exchange.FreeHeadBytes, 0)
	more := int64(n) - int64(in.charged)
	if more > 0 && !heads.Acquire(more) {
		return errNoMemoryForBlock
	}
	if more < 0 {
		heads.Release(-more)
	}
	in.charged = int32(n)
	return nil
}

var errNoMemoryForBlock = &h2.Error{Code: h2.EnhanceYourCalm, Fault: h2.FaultHeaderBlock, Reason: "no memory left for a field block"}

// discard drops the bytes and releases their memory.
func (in *input) discard(heads *exchange.Budget) {
	in.partial, in.reader = nil, h2.Reader{MaxBlock: in.reader.MaxBlock}
	_ = in.charge(heads)
}

// blockedQueue holds the blocked streams of a connection, oldest first. A stream is
// blocked if the output buffer is full or the connection window is exhausted. A stream
// that is woken leaves the queue and gets a quota of bytes. While other streams are in
// the queue, it may write only this quota, and then joins the queue again. A new stream
// has no quota, so it must join a queue that is not empty before it can write.
type blockedQueue struct{ streams []*stream }

func (q *blockedQueue) add(s *stream) {
	s.quota = 0
	if !s.inBlocked {
		s.inBlocked = true
		q.streams = append(q.streams, s)
	}
}

func (q *blockedQueue) remove(s *stream) {
	s.quota = 0
	if s.inBlocked {
		s.inBlocked = false
		if i := slices.Index(q.streams, s); i >= 0 {
			q.streams = slices.Delete(q.streams, i, i+1)
		}
	}
}

// wake removes the oldest streams from the queue, gives each a quota of quotaBytes, and
// wakes them. Their number depends on the free space of the output buffer and on the
// connection window. The next step of the connection wakes further streams.
func (q *blockedQueue) wake(c *conn) {
	capacity := min(c.unwrittenLimit()-c.pending(), c.send.Credit())
	if len(q.streams) == 0 || capacity <= 0 || c.broken {
		return
	}
	n := min(len(q.streams), 1+(capacity-1)/quotaBytes)
	for i, s := range q.streams[:n] {
		q.streams[i] = nil
		s.inBlocked, s.quota = false, quotaBytes
		if s.x != nil {
			s.x.Wake()
		}
	}
	if q.streams = q.streams[n:]; len(q.streams) > 0 {
		c.role.wake()
	} else {
		q.streams = nil
	}
}
