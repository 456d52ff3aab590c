package http1

import (
	"net/netip"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// downSide implements exchange.Downstream for a request over HTTP/1.
type downSide struct {
	reader
	writer
	session    *session
	keepAlive  bool // the connection stays open after the response
	untilClose bool // the response body ends with the connection
}

func (c *downSide) init(s *session) {
	c.session = s
	c.reader.bufs, c.writer.bufs = &s.eng.bufs, &s.eng.bufs
}

func (c *downSide) attach(sock *loop.Sock) { c.reader.sock, c.writer.sock = sock, sock }

func (c *downSide) begin() {
	s := c.session
	c.reader.begin(s.req.Body, s.req.Length, s.buf.b, s.r, s.w)
	c.reader.exact = s.req.Body == wire.BodyLength
	c.writer.begin(false, false)
	c.keepAlive, c.untilClose = false, false
}

func (c *downSide) release() {
	c.reader.release()
	c.writer.release()
}

// describe fills the Record of x from the request head.
func (c *downSide) describe(x *exchange.Exchange) {
	s := c.session
	s.req.Describe(x.Reset(), s.eng.worker.Host)
	x.Peer, x.Encrypted = s.conn.peer, s.conn.sock.Layered()
}

// Request implements exchange.Downstream.
func (c *downSide) Request() (*wire.Request, netip.Addr) {
	return &c.session.req, c.session.conn.peer.Addr()
}

// Disconnected implements exchange.Downstream.
func (c *downSide) Disconnected() bool { return c.session.disconnected() }

// Closing implements exchange.Downstream.
func (c *downSide) Closing() bool { return c.session.eng.loop.Closing() }

// CheckDisconnected implements exchange.Downstream.
func (c *downSide) CheckDisconnected() bool {
	s := c.session
	return s.disconnected() || !s.eng.gate.AllowHalfClose && s.conn.sock.AtEOF()
}

// ExpectsContinue implements exchange.Downstream.
func (c *downSide) ExpectsContinue() bool {
	return c.session.req.Expect && !c.reader.received && c.reader.consumed == 0 && len(c.reader.leftover()) == 0
}

// Upgrades implements exchange.Downstream.
func (c *downSide) Upgrades(res *wire.Response) bool {
	r := &c.session.req
	return r.Upgrade && r.Offers(res)
}

// FullyRead implements exchange.Downstream.
func (c *downSide) FullyRead() bool { return c.reader.isComplete() }

// Received implements exchange.Downstream. The rest of a body with a known length may
// still be in the kernel's receive buffer. It counts as received, except over TLS, where
// the length of the decrypted bytes is not known.
func (c *downSide) Received() bool {
	r := &c.reader
	return r.buffersEnd() || r.err == nil && r.body.Kind == wire.BodyLength && !r.sock.Layered() && r.body.Remaining-int64(r.w-r.r) <= int64(r.sock.Buffered())
}

// Idempotent implements exchange.Downstream.
func (c *downSide) Idempotent() bool { return c.session.req.Idempotent() }

// Rewind implements exchange.Downstream.
func (c *downSide) Rewind(complete bool) bool {
	r := &c.session.req
	return c.reader.rewind(complete, r.Body, r.Length)
}

// Continue implements exchange.Downstream.
func (c *downSide) Continue() {
	c.writer.setBuffered(append(c.writer.buffered(), "HTTP/1.1 100 Continue\r\n\r\n"...))
}

// Interim implements exchange.Downstream. It sends nothing to a client that uses
// HTTP/1.0, because HTTP/1.0 has no interim responses.
func (c *downSide) Interim(res *wire.Response) {
	if c.session.req.Minor > 0 {
		c.writer.setBuffered(res.AppendHead(c.writer.buffered(), wire.Framing{Interim: true}, nil))
	}
}

// Respond implements exchange.Downstream. If the upload is unfinished, the response
// announces that the connection will close, because the gate may never find the start of
// the next request.
func (c *downSide) Respond(res *wire.Response) {
	c.respond(res, c.reader.isComplete(), c.session.x.ServerTiming())
}

// Promise implements exchange.Downstream. If the end of the request body is already in
// the buffer, the connection can stay open for another request.
func (c *downSide) Promise(res *wire.Response) { c.respond(res, c.reader.buffersEnd(), nil) }

// respond sends the final response head for Respond and Promise. The parameter complete
// reports whether the gate has the whole request body. If it does not, the connection
// cannot be used for another request, and the response announces that it will close.
func (c *downSide) respond(res *wire.Response, complete bool, timing []byte) {
	s := c.session
	unknown := res.Body == wire.BodyChunked || res.Body == wire.BodyUntilClose
	chunked := unknown && s.req.Minor > 0
	c.keepAlive = s.req.KeepAlive() && (chunked || !unknown) && complete && !s.eng.gate.Drain.Active()
	c.untilClose = unknown && !chunked
	c.writer.begin(chunked, s.req.Minor > 0)
	f := wire.Framing{Chunked: chunked, Close: !c.keepAlive, KeepAlive: s.req.Minor == 0, Timing: timing, Load: s.x.LoadReport(res)}
	out := c.writer.buffered()
	c.writer.head(res.AppendHead(out, f, s.eng.worker.Date()), len(out), res.Body == wire.NoBody)
}

// Finish implements exchange.Sink.
func (c *downSide) Finish(trailers []byte) { c.writer.Finish(c.session.x.ResponseTrailers(trailers)) }

// Switch implements exchange.Downstream.
func (c *downSide) Switch(res *wire.Response) {
	c.writer.begin(false, false)
	c.writer.tunnel = true
	c.writer.setBuffered(res.AppendHead(c.writer.buffered(), wire.Framing{Interim: true}, nil))
	c.reader.begin(wire.BodyUntilClose, 0, c.reader.buf, c.reader.r, c.reader.w)
}

// Drop implements exchange.Downstream. If the end of the connection marks the end of the
// response body, Drop resets the connection. The reason is that the client may have
// closed only its sending direction and may still read. Then it would take a FIN for the
// end of a complete body.
func (c *downSide) Drop() {
	if c.untilClose {
		c.session.conn.reset()
		return
	}
	c.session.conn.close()
}

// Broken implements exchange.Sink. At the end of the request body, or of the client's
// direction of a tunnel, the gate stops reading. Then no read can detect a reset, so
// Broken asks the socket.
func (c *downSide) Broken() bool {
	return c.writer.err != nil || c.reader.ended && c.writer.sock.Failed()
}

// discardBody discards the body bytes in the buffer. It reports whether that completes
// the body.
func (c *downSide) discardBody() bool {
	r := &c.reader
	for r.err == nil && !r.body.Ended && r.r < r.w {
		var n int
		_, n, r.err = r.body.Next(r.buf[r.r:r.w])
		r.r += n
	}
	r.decoded = nil
	return r.isComplete()
}
