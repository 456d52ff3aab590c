package http1

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// upstreamSide is a connection to the container, and the gate.UpstreamSide of the
// exchange that it carries. In the pool it watches itself: whatever the
// container says then, the end included, makes it useless.
type upstreamSide struct {
	reader
	writer
	conn   *upstream.Conn
	sock   *loop.Sock // of conn
	pool   *Pool
	pooled int32 // index in the pool plus one
	status int32 // of the last head
	since  int64 // when it became idle
	age    int64 // how long it had been idle when it was taken
	until  int64 // the container has promised to leave it open; 0 = it has not

	in        *answer // in.b[:n] begins with the head that is read; nil: nothing has come, or all has gone on
	n         int
	idle      time.Duration // what the last head has promised for the time behind the answer
	said      bool          // it has
	reusable  bool          // the connection is, behind the answer
	heard     bool          // some byte of an answer has come
	foreign   bool          // and they were not of HTTP/1
	unwelcome bool          // ended without a word, by a container that is known to speak HTTP/2
	taken     bool          // the head in front of in has been dealt with
	reused    bool
	spent     bool // a body that was announced where there is none may still come
	req       *wire.Request
	client    gate.Sink // of the exchange
}

// Event closes an idle connection that speaks or ends.
func (u *upstreamSide) Event(s *loop.Sock) {
	if s.Readable() {
		u.end()
	}
}

// end closes an idle connection, and notes its age if the container did so.
func (u *upstreamSide) end() {
	if u.sock.HungUp() || u.sock.Ended() {
		u.pool.idleAge.Ended(time.Duration(u.pool.worker.Loop.Now() - u.since))
	}
	u.close()
}

// promised takes what the container's Keep-Alive field says.
func (u *upstreamSide) promised(idle time.Duration, said bool) {
	if u.until = 0; said {
		u.until = u.pool.worker.Loop.Now() + int64(gate.Retire(idle))
	}
}

func (u *upstreamSide) close() {
	if u.pooled > 0 {
		u.pool.take(u)
	}
	u.conn.Close()
}

// Send is gate.UpstreamSide.
func (u *upstreamSide) Send(c gate.ClientSide) (soon bool) {
	req, peer := c.(wire.Requester).Request()
	u.req, u.client, u.heard, u.unwelcome, u.n = req, c, false, false, 0
	u.status, u.said, u.reusable = 0, false, false
	u.reader.begin(wire.BodyUntilClose, 0, nil, 0, 0)
	u.writer.begin(req.Body == wire.BodyChunked, true)
	u.writer.hold(req.AppendHead(u.writer.room(), peer, u.pool.worker.Host))
	return false // but sooner
}

// Response is wire.Responder. It is there until the next Receive or Pump.
func (u *upstreamSide) Response() *wire.Response { return &u.in.res }

// Status is gate.UpstreamSide.
func (u *upstreamSide) Status() int { return int(u.status) }

// Sent is gate.UpstreamSide.
func (u *upstreamSide) Sent() bool { return u.writer.sent > 0 || u.sock.Begun() }

// Heard is gate.UpstreamSide.
func (u *upstreamSide) Heard() bool { return u.heard }

// Reused is gate.UpstreamSide. A connection that a container of HTTP/2 has
// closed without a word says as little about the request as a stale one.
func (u *upstreamSide) Reused() bool { return u.reused || u.unwelcome }

// Unprocessed is gate.UpstreamSide: what answers with a frame of HTTP/2 has not
// understood the request.
func (u *upstreamSide) Unprocessed() bool { return u.foreign }

// mistaken notes a container that speaks HTTP/2 alone: its first bytes are
// those of SETTINGS (RFC 9113 section 3.4).
func (u *upstreamSide) mistaken() {
	const settings = 4
	if u.n >= 4 && u.in.b[0] == 0 && u.in.b[3] == settings {
		u.foreign = true
		u.pool.worker.Choice.Refuted()
	}
}

// Unwilling is gate.UpstreamSide.
func (u *upstreamSide) Unwilling() bool { return u.sock.HungUp() || u.sock.Failed() }

// Broken is gate.Sink. No read reports a reset behind a half-close.
func (u *upstreamSide) Broken() bool {
	return u.writer.err != nil || u.reader.ended && u.sock.Failed()
}

// Receive is gate.UpstreamSide.
func (u *upstreamSide) Receive() (gate.HeadState, gate.Outcome) {
	if u.taken {
		u.n = copy(u.in.b, u.in.b[u.in.res.Size():u.n])
		u.in.res.Reset()
		u.taken = false
		u.putIn()
	}
	if u.n > 0 {
		if state, o := u.readHead(); state != gate.HeadAwaited {
			return state, o
		}
	}
	if !u.sock.Readable() {
		return gate.HeadAwaited, gate.Served
	}
	n, err := u.sock.Read(u.headRoom())
	switch {
	case err == loop.ErrAgain:
		u.putIn()
		return gate.HeadAwaited, gate.Served
	case err != nil:
		return gate.HeadFailed, u.ended(err)
	}
	u.n += n
	u.heard = true
	if state, o := u.readHead(); state != gate.HeadAwaited {
		return state, o
	}
	return gate.HeadPartial, gate.Served
}

// Pump is gate.Source. The buffer that the head came in is kept only for as long
// as some of the body is in it.
func (u *upstreamSide) Pump(dst gate.Sink) bool {
	moved := u.reader.Pump(dst)
	if u.in != nil && !u.reader.ended && (u.reader.bulk != nil || u.reader.drained()) {
		if u.reader.bulk == nil {
			u.reader.buf, u.reader.r, u.reader.w = nil, 0, 0
		}
		u.pool.bufs.putAnswer(u.in)
		u.in, u.n = nil, 0
	}
	return moved
}

// ended tells what the end of the connection means when no answer has come.
func (u *upstreamSide) ended(err error) gate.Outcome {
	if !u.reused && !u.heard {
		u.unwelcome = u.pool.worker.Choice.Suspect() // some that speak HTTP/2 alone close without a word
	}
	if u.reused && !u.heard {
		u.pool.idleAge.Ended(time.Duration(u.age))
	}
	if errors.Is(err, io.EOF) {
		return gate.UpstreamClosed
	}
	return gate.UpstreamReset
}

// readHead evaluates the head in front of in.
func (u *upstreamSide) readHead() (gate.HeadState, gate.Outcome) {
	r := &u.in.res
	complete, err := r.ScanAnswer(u.in.b[:u.n])
	if complete && err == nil {
		err = r.Decide(u.req.Method)
	}
	if err != nil {
		u.mistaken()
		return gate.HeadFailed, gate.UpstreamMalformed
	}
	if !complete {
		return gate.HeadAwaited, gate.Served
	}
	u.status, u.reusable = int32(r.Status), r.Reusable()
	u.idle, u.said = r.KeepAlive()
	u.spent = u.spent || r.AnnouncesBody()
	switch {
	case r.Status == 101:
		u.reader.begin(wire.BodyUntilClose, 0, u.in.b, r.Size(), u.n)
		u.writer.begin(false, false)
		u.writer.tunnel = true
		return gate.HeadSwitched, gate.Served
	case r.Status < 200:
		u.taken = true
		return gate.HeadInterim, gate.Served
	}
	u.reader.begin(r.Body, r.Length, u.in.b, r.Size(), u.n)
	return gate.HeadFinal, gate.Served
}

// room is where the container's next bytes go. The buffer comes with the first
// of them: requests that wait for their answer are many.
func (u *upstreamSide) room() []byte {
	if u.in == nil {
		u.in = u.pool.bufs.answer()
	} else if u.n == len(u.in.b) {
		u.in.b = grow(u.in.b)
	}
	return u.in.b[u.n:]
}

// headRoom is room for the head and for what the client takes of the body, no
// more: answers to clients that take nothing may be many.
func (u *upstreamSide) headRoom() []byte {
	b := u.room()
	takes := u.client.Room()
	if takes >= len(b) || u.sock.Layered() {
		return b
	}
	n := u.sock.Peek(b)
	if n <= 0 {
		return b
	}
	return b[:min(len(b), headEnd(b[:n])+takes)]
}

// headEnd is where a head that may end in b does, if that can be told at a glance.
func headEnd(b []byte) int {
	for _, end := range [...]string{"\r\n\r\n", "\n\n"} {
		if i := bytes.Index(b, []byte(end)); i >= 0 {
			return i + len(end)
		}
	}
	return len(b)
}

// putIn gives back a buffer in which nothing has come.
func (u *upstreamSide) putIn() {
	if u.in != nil && u.n == 0 {
		u.pool.bufs.putAnswer(u.in)
		u.in = nil
	}
}

// Complete is gate.UpstreamSide. Bytes behind the answer belong to no request.
func (u *upstreamSide) Complete(open bool) {
	clean := !open && len(u.reader.leftover()) == 0 && !u.spent && u.reusable && !u.Unwilling()
	u.release()
	if clean {
		u.promised(u.idle, u.said)
		u.pool.put(u)
	} else {
		u.close()
	}
}

// HangUp is gate.UpstreamSide: the container learns of the client's departure
// from a half-close.
func (u *upstreamSide) HangUp() {
	u.writer.drop()
	u.sock.CloseWrite()
}

// Abort is gate.UpstreamSide.
func (u *upstreamSide) Abort() {
	u.release()
	u.close()
}

// release gives back all but the connection.
func (u *upstreamSide) release() {
	u.reader.release()
	u.writer.release()
	u.req, u.client, u.n, u.taken = nil, nil, 0, false
	u.putIn()
}
