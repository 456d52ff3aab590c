package http1

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// upConn is a connection to the container and implements exchange.Upstream.
type upConn struct {
	reader
	writer
	conn      *upstream.Conn
	sock      *loop.Sock // socket of conn
	pool      *Pool
	poolIndex int32 // index in the pool plus one; 0 = not in the pool
	status    int32 // status of the last head
	idleSince int64 // time at which the connection became idle
	idleTime  int64 // idle time before the current use
	// closesAt is the time from which only retryable requests may use the connection. The
	// container will soon close it, according to its Keep-Alive field; 0 = no such time.
	closesAt int64

	in             *response // in.b[:n] begins with the current head; nil = no bytes are buffered
	n              int
	idleTimeout    time.Duration // idle timeout in the last head (Keep-Alive)
	hasIdleTimeout bool          // the last head contained an idle timeout
	reusable       bool          // the response allows the connection to be reused
	responseBegan  bool          // at least one byte of a response has been received
	otherProtocol  bool          // the received bytes are HTTP/2
	emptyClose     bool          // closed without a response, perhaps because the container supports only HTTP/2
	headHandled    bool          // the head at the start of in can be discarded
	reused         bool
	desynced       bool // a head announced a body that its status forbids; do not reuse
	req            *wire.Request
	client         exchange.Sink // receives the response
}

// Event closes an idle connection that receives bytes, EOF or an error.
func (u *upConn) Event(s *loop.Sock) {
	if s.Readable() {
		u.closeIdle()
	}
}

// closeIdle closes an idle connection. If the container closed it, the idle time is
// recorded.
func (u *upConn) closeIdle() {
	if u.sock.HungUp() || u.sock.AtEOF() {
		u.pool.idleAge.NoteClose(time.Duration(u.pool.worker.Loop.Now() - u.idleSince))
	}
	u.close()
}

// noteKeepAlive sets closesAt from the idle timeout in the container's Keep-Alive field.
func (u *upConn) noteKeepAlive(idle time.Duration, announced bool) {
	if u.closesAt = 0; announced {
		u.closesAt = u.pool.worker.Loop.Now() + int64(exchange.RetireAge(idle))
	}
}

func (u *upConn) close() {
	if u.poolIndex > 0 {
		u.pool.take(u)
	}
	u.conn.Close()
}

// Send implements exchange.Upstream.
func (u *upConn) Send(req *wire.Request, peer netip.Addr, client exchange.Sink) (writesSoon bool) {
	u.req, u.client, u.responseBegan, u.otherProtocol, u.emptyClose, u.n = req, client, false, false, false, 0
	u.status, u.hasIdleTimeout, u.reusable = 0, false, false
	u.reader.begin(wire.BodyUntilClose, 0, nil, 0, 0)
	u.writer.begin(req.Body == wire.BodyChunked, true)
	out := u.writer.buffered()
	u.writer.head(req.AppendHead(out, peer, u.pool.worker.Host), len(out), false)
	return false // the head is sent later, by the next Flush
}

// Response implements exchange.Upstream.
func (u *upConn) Response() *wire.Response { return &u.in.res }

// Status implements exchange.Upstream.
func (u *upConn) Status() int { return int(u.status) }

// Sent implements exchange.Upstream.
func (u *upConn) Sent() bool { return u.writer.sent > 0 || u.sock.HasUnreported() }

// ResponseBegan implements exchange.Upstream.
func (u *upConn) ResponseBegan() bool { return u.responseBegan }

// Reused implements exchange.Upstream.
func (u *upConn) Reused() bool { return u.reused }

// ProtocolMismatch implements exchange.Upstream.
func (u *upConn) ProtocolMismatch() bool { return u.otherProtocol || u.emptyClose }

// Unprocessed implements exchange.Upstream. A container that responds with an HTTP/2
// frame has not understood the request.
func (u *upConn) Unprocessed() bool { return u.otherProtocol }

// detectHTTP2 records that the container supports only HTTP/2, if the received bytes
// begin with a SETTINGS frame (RFC 9113 section 3.4).
func detectHTTP2(u *upConn) {
	const settings = 4
	if u.n >= 4 && u.in.b[0] == 0 && u.in.b[3] == settings {
		u.otherProtocol = u.pool.worker.Choice.NotHTTP1()
	}
}

// StoppedReading implements exchange.Upstream.
func (u *upConn) StoppedReading() bool { return u.sock.HungUp() || u.sock.Failed() }

// Broken implements exchange.Sink. After the container has half-closed, the gate no
// longer reads from the socket. A reset is then visible only in the state of the socket.
func (u *upConn) Broken() bool {
	return u.writer.err != nil || u.reader.ended && u.sock.Failed()
}

// Receive implements exchange.Upstream.
func (u *upConn) Receive() (exchange.HeadState, gate.Outcome) {
	if u.headHandled {
		u.n = copy(u.in.b, u.in.b[u.in.res.Size():u.n])
		u.in.res.Reset()
		u.headHandled = false
		u.releaseEmpty()
	}
	if u.n > 0 {
		if state, o := u.readHead(); state != exchange.HeadAwaited {
			return state, o
		}
	}
	if !u.sock.Readable() {
		return exchange.HeadAwaited, gate.Undecided
	}
	n, err := u.sock.Read(u.headBuffer())
	switch {
	case err == loop.ErrAgain:
		u.releaseEmpty()
		return exchange.HeadAwaited, gate.Undecided
	case err != nil:
		return exchange.HeadFailed, u.closedOutcome(err)
	}
	u.n += n
	u.responseBegan = true
	if state, o := u.readHead(); state != exchange.HeadAwaited {
		return state, o
	}
	return exchange.HeadPartial, gate.Undecided
}

// Pump implements exchange.Source.
func (u *upConn) Pump(dst exchange.Sink) bool {
	moved := u.reader.Pump(dst)
	u.releaseDrained()
	return moved
}

// ReadAhead implements exchange.Upstream.
func (u *upConn) ReadAhead() (moved, complete bool) {
	moved, complete = u.reader.readAhead()
	u.releaseDrained()
	return moved, complete
}

// releaseDrained releases the response buffer once it has no more bytes of the body.
func (u *upConn) releaseDrained() {
	if u.in != nil && !u.reader.ended && (u.reader.bulk != nil || u.reader.drained()) {
		if u.reader.bulk == nil {
			u.reader.buf, u.reader.r, u.reader.w = nil, 0, 0
		}
		u.pool.bufs.putResponse(u.in)
		u.in, u.n = nil, 0
	}
}

func (u *upConn) closedOutcome(err error) gate.Outcome {
	if !u.reused && !u.responseBegan {
		u.emptyClose = u.pool.worker.Choice.MissedHTTP1(u.pool.worker.Loop.Now()) // some HTTP/2-only containers close HTTP/1 connections
	}
	if u.reused && !u.responseBegan {
		u.pool.idleAge.NoteClose(time.Duration(u.idleTime))
	}
	if errors.Is(err, io.EOF) {
		return gate.UpstreamClosed
	}
	return gate.UpstreamReset
}

func (u *upConn) readHead() (exchange.HeadState, gate.Outcome) {
	r := &u.in.res
	complete, err := r.ScanResponse(u.in.b[:u.n])
	if complete && err == nil {
		err = r.Parse(u.req.Method)
	}
	if err != nil {
		detectHTTP2(u)
		return exchange.HeadFailed, gate.UpstreamMalformed
	}
	if !complete {
		return exchange.HeadAwaited, gate.Undecided
	}
	u.pool.worker.Choice.SpeaksHTTP1()
	if u.req.ExtendedConnect() && r.Status >= 200 && r.Status < 300 {
		return exchange.HeadFailed, gate.UpstreamMalformed // a 2xx would tell the client that the tunnel is open
	}
	u.status, u.reusable = int32(r.Status), r.Reusable()
	u.idleTimeout, u.hasIdleTimeout = r.KeepAlive()
	u.desynced = u.desynced || r.AnnouncesBody()
	switch {
	case r.Status == 101:
		u.reader.begin(wire.BodyUntilClose, 0, u.in.b, r.Size(), u.n)
		u.writer.begin(false, false)
		u.writer.tunnel = true
		return exchange.HeadSwitched, gate.Undecided
	case r.Status < 200:
		u.headHandled = true
		return exchange.HeadInterim, gate.Undecided
	}
	u.reader.begin(r.Body, r.Length, u.in.b, r.Size(), u.n)
	return exchange.HeadFinal, gate.Undecided
}

// readBuffer returns the free part of the response buffer. The buffer is allocated only
// when bytes arrive, because many requests may wait for a response.
func (u *upConn) readBuffer() []byte {
	if u.in == nil {
		u.in = u.pool.bufs.getResponse()
	} else if u.n == len(u.in.b) {
		u.in.b = grow(u.in.b)
	}
	return u.in.b[u.n:]
}

// headBuffer returns space for the head and for as much of the body as the client would
// accept now.
func (u *upConn) headBuffer() []byte {
	b := u.readBuffer()
	capacity := u.client.Capacity()
	if capacity >= len(b) || u.sock.Layered() {
		return b
	}
	n := u.sock.Peek(b)
	if n <= 0 {
		return b
	}
	return b[:min(len(b), headEnd(b[:n])+capacity)]
}

// headEnd returns the offset in b at which the head ends. If b does not contain the end
// of the head, it returns len(b).
func headEnd(b []byte) int {
	for _, end := range [...]string{"\r\n\r\n", "\n\n"} {
		if i := bytes.Index(b, []byte(end)); i >= 0 {
			return i + len(end)
		}
	}
	return len(b)
}

func (u *upConn) releaseEmpty() {
	if u.in != nil && u.n == 0 {
		u.pool.bufs.putResponse(u.in)
		u.in = nil
	}
}

// sentAsAnnounced reports whether the body sent has the announced length. Otherwise the
// container would not find the start of the next request.
func sentAsAnnounced(w *writer, req *wire.Request) bool {
	switch req.Body {
	case wire.NoBody:
		return w.content == 0
	case wire.BodyLength:
		return w.content == req.Length
	}
	return w.finished
}

// Complete implements exchange.Upstream. It closes the connection if bytes follow the
// response.
func (u *upConn) Complete(open bool) {
	clean := !open && sentAsAnnounced(&u.writer, u.req) && len(u.reader.leftover()) == 0 && !u.desynced && u.reusable && !u.StoppedReading()
	u.release()
	if clean {
		u.noteKeepAlive(u.idleTimeout, u.hasIdleTimeout)
		u.pool.put(u)
	} else {
		u.close()
	}
}

// HangUp implements exchange.Upstream. A half-close tells the container that the client
// has disconnected.
func (u *upConn) HangUp(bool) {
	u.writer.drop()
	u.sock.CloseWrite()
}

// Abort implements exchange.Upstream.
func (u *upConn) Abort() {
	u.release()
	u.close()
}

func (u *upConn) release() {
	u.reader.release()
	u.writer.release()
	u.req, u.client, u.n, u.headHandled = nil, nil, 0, false
	u.releaseEmpty()
}
