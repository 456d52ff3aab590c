package http1

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// readQuota bounds how often one step reads before others have their turn.
const readQuota = 8

// reader is the gate.Source of a body that comes over HTTP/1, or of one
// direction of a tunnel. It holds at most one buffer of bytes: it reads again
// only when all that it read before has been taken.
type reader struct {
	sock          *loop.Sock
	bufs          *buffers
	body          wire.Decoder
	buf           []byte // buf[r:w] has not been decoded yet
	r, w          int
	decoded       []byte     // payload that has been decoded and not been taken yet
	bodyStart     int        // where the body begins in the first buffer
	bulk          *buffer    // that of a long body; nil: buf is the one that held the head
	pipe          *loop.Pipe // a long body goes through it and not through buf
	largeAcquired bool       // memory has been acquired for a large fill of pipe
	exact         bool       // reads never go past the end of a body with a length
	readingAhead  bool       // readAhead allocated bulk and acquired memory for all of it
	eof           bool       // readAhead has read the end of the connection
	truncated     bool       // readAhead has read an error
	received      bool       // bytes have been read from the socket: the body cannot be rewound
	ended         bool       // all has been given on, the end included
	taken         int64
	err           error
}

// begin readies r for a body of which buf[at:end] has been read already.
func (r *reader) begin(kind wire.BodyKind, length int64, buf []byte, at, end int) {
	r.body.Begin(kind, length)
	r.buf, r.r, r.w, r.bodyStart = buf, at, end, at
	r.decoded, r.exact, r.received, r.ended, r.taken, r.err, r.eof, r.truncated = nil, false, false, false, 0, nil, false, false
}

// rewind makes the body come again from its beginning, if all that has been
// read of it is there yet; whole asks for all of it.
func (r *reader) rewind(whole bool, kind wire.BodyKind, length int64) bool {
	if r.received || whole && !r.body.Ended {
		return false
	}
	exact := r.exact
	r.begin(kind, length, r.buf, r.bodyStart, r.w)
	r.exact = exact
	return true
}

// Taken implements exchange.Source.
func (r *reader) Taken() int64 { return r.taken }

// Ended implements exchange.Source.
func (r *reader) Ended() bool { return r.ended }

// Failed implements exchange.Source.
func (r *reader) Failed() bool { return r.err != nil }

// Malformed implements exchange.Source.
func (r *reader) Malformed() bool { return errors.Is(r.err, wire.ErrBadBody) }

// whole reports whether all of the body has been read from the socket, so that
// what follows there has its place.
func (r *reader) whole() bool { return r.body.Ended && r.err == nil }

// Pump implements exchange.Source. What is at hand goes behind what waits in dst, so that a
// head and a small body leave together.
func (r *reader) Pump(dst exchange.Sink) (moved bool) {
	for range readQuota {
		if r.writeDecoded(dst) {
			moved = true
		}
		m, empty := dst.Flush()
		moved = moved || m
		if !empty || len(r.decoded) > 0 || r.ended || r.err != nil || dst.Broken() {
			return moved
		}
		if r.pipe != nil || r.trySplice(dst) {
			m, more := r.splice(dst)
			moved = moved || m
			if !more {
				return moved
			}
			continue
		}
		if !r.fill(dst.Capacity()) {
			return moved
		}
		moved = true
	}
	return moved
}

// writeDecoded hands dst what stands in the buffer, until dst is full. It reports
// whether dst took any.
func (r *reader) writeDecoded(dst exchange.Sink) (took bool) {
	for r.err == nil && !r.ended && r.pipe == nil {
		if len(r.decoded) > 0 {
			n := dst.Write(r.decoded)
			r.taken += int64(n)
			took = took || n > 0
			if r.decoded = r.decoded[n:]; len(r.decoded) > 0 {
				return took
			}
		}
		switch {
		case r.body.Ended:
			dst.Finish(r.body.Trailer)
			r.ended = true
			return true
		case r.r == r.w:
			return took
		}
		var n int
		r.decoded, n, r.err = r.body.Next(r.buf[r.r:r.w])
		r.r += n
	}
	return took
}

// minRead is how much is read for a receiver that takes nothing: it may be the
// end of the body.
const minRead = 256

// fill reads more of the body, for a receiver that takes this much. A stream that
// is idle, or that its receiver holds up, keeps no large buffer.
func (r *reader) fill(takes int) bool {
	if !r.eof && !r.truncated && !r.sock.Readable() || takes == 0 && r.body.Kind == wire.BodyLength {
		r.putBulk()
		return false
	}
	if takes < minRead || r.readingAhead {
		r.putBulk()
	}
	if r.bulk == nil {
		r.bulk = r.bufs.bulk(takes)
		r.buf = r.bulk.b
	}
	r.r, r.w = 0, 0
	room := r.buf[:min(len(r.buf), max(takes, minRead))]
	if r.exact && r.body.Left < int64(len(room)) {
		room = room[:r.body.Left]
	}
	n, err := r.read(room)
	switch {
	case err == nil:
		r.w, r.received = n, true
	case err == loop.ErrAgain:
		r.putBulk()
		return false
	case errors.Is(err, io.EOF) && r.body.End():
	case errors.Is(err, io.EOF):
		r.err = io.ErrUnexpectedEOF
	default:
		r.err = err
	}
	return true
}

// read reads from the socket, unless readAhead has already seen its end or an
// error.
func (r *reader) read(b []byte) (int, error) {
	switch {
	case r.eof:
		return 0, io.EOF
	case r.truncated:
		return 0, io.ErrUnexpectedEOF
	}
	return r.sock.Read(b)
}

// maxAhead limits the bytes of a body that are read while the receiver accepts
// none.
const maxAhead = 64 << 10

// readAhead reads the rest of a body of up to maxAhead bytes while the receiver
// accepts none, into memory from the body budget. It reports whether bytes have
// been read, and whether the whole body has.
func (r *reader) readAhead() (moved, whole bool) {
	for {
		switch {
		case r.body.Ended:
			return moved, true
		case r.err != nil || r.pipe != nil:
			return moved, false
		case r.body.Complete(r.buf[r.r:r.w]):
			return moved, true
		case r.eof || r.truncated:
			return moved, r.eof && r.body.Kind == wire.BodyUntilClose
		case !r.sock.Readable() || (r.bulk == nil || r.w == len(r.buf)) && !r.growAhead():
			return moved, false
		}
		switch n, err := r.sock.Read(r.buf[r.w:]); {
		case err == loop.ErrAgain:
			return moved, false
		case errors.Is(err, io.EOF):
			r.eof, moved = true, true
		case err != nil:
			r.truncated = true
		default:
			r.w, r.received, moved = r.w+n, true, true
		}
	}
}

// growAhead moves the unread bytes into a larger buffer from the budget. It reports
// whether that buffer has room for more of the body.
func (r *reader) growAhead() bool {
	rest := r.w - r.r
	live := len(r.decoded) + rest // r.run ends at r.r
	size := min(max(2*live, smallBytes), maxAhead)
	if r.body.Kind == wire.BodyLength {
		size = int(min(int64(live-rest)+r.body.Left, maxAhead))
	}
	if size <= live || !r.bufs.bodies.Acquire(int64(size)) {
		return false
	}
	bulk := &buffer{b: make([]byte, size)}
	copy(bulk.b, r.buf[r.r-len(r.decoded):r.w])
	run := len(r.decoded)
	r.putBulk()
	r.bulk, r.readingAhead, r.buf = bulk, true, bulk.b
	r.decoded, r.r, r.w = bulk.b[:run], run, live
	return true
}

// drained reports that nothing is left in the buffer, and that the body goes on.
func (r *reader) drained() bool { return r.r == r.w && len(r.decoded) == 0 && !r.body.Ended }

// leftover is what has been read beyond the body.
func (r *reader) leftover() []byte { return r.buf[r.r:r.w] }

// release gives the buffers back, with whatever is left in them.
func (r *reader) release() {
	r.putBulk()
	r.putPipe()
	r.buf, r.decoded, r.r, r.w = nil, nil, 0, 0
}

func (r *reader) putBulk() {
	switch {
	case r.bulk == nil:
		return
	case r.readingAhead:
		r.bufs.bodies.Release(int64(len(r.bulk.b)))
	default:
		r.bufs.putBulk(r.bulk)
	}
	r.bulk, r.readingAhead, r.buf, r.r, r.w = nil, false, nil, 0, 0
}

// minSplice is the shortest rest of a body for which a pipe pays.
const minSplice = 256 << 10

// rawSink is a sink whose socket takes payload as it is.
type rawSink interface{ raw() *writer }

// trySplice reports whether the rest of the body is to go through a pipe, which
// r then has: a long one whose end is known by its length, with nothing of it
// in a buffer, between sockets without a layer.
func (r *reader) trySplice(dst exchange.Sink) bool {
	if r.body.Kind != wire.BodyLength || r.body.Left < minSplice || r.r < r.w || len(r.decoded) > 0 || r.bufs.pipes.unsupported || !r.sock.Readable() || r.sock.Layered() {
		return false
	}
	to, ok := dst.(rawSink)
	if !ok || to.raw() == nil {
		return false
	}
	r.pipe = r.bufs.pipes.get()
	return r.pipe != nil
}

// splice moves one pipe full, at most. It reports false when nothing more can
// be moved now.
func (r *reader) splice(dst exchange.Sink) (moved, more bool) {
	sink, ok := dst.(rawSink)
	if !ok { // what is inside was for a client that has left
		r.putPipe()
		return true, true
	}
	to := sink.raw()
	if r.pipe.Buffered() == 0 {
		n, err := r.pipe.Fill(r.sock, min(r.body.Left, r.fillBytes()))
		switch {
		case err == nil:
			r.received, moved = true, true
			r.body.Skip(n)
			r.taken += int64(n)
		case err == loop.ErrAgain:
			r.putPipe() // an idle stream keeps no pipe
			return false, false
		case err == unix.EINVAL || err == unix.ENOSYS:
			r.putPipe()
			r.bufs.pipes.unsupported = true
			return false, true
		case errors.Is(err, io.EOF):
			r.err = io.ErrUnexpectedEOF
			return true, false
		default:
			r.err = err
			return true, false
		}
	}
	n, err := r.pipe.Drain(to.sock)
	to.sent += int64(to.count(n))
	if err != nil && err != loop.ErrAgain {
		to.err = err
		return true, false
	}
	if err != nil || r.pipe.Buffered() > 0 {
		return moved || n > 0, false
	}
	r.releaseFill()
	if r.body.Ended {
		r.putPipe()
	}
	return true, true
}

// putPipe gives the pipe back. One that still holds bytes is of no use to
// others.
func (r *reader) putPipe() {
	if r.pipe != nil {
		r.releaseFill()
		r.bufs.pipes.put(r.pipe)
		r.pipe = nil
	}
}

// Sizes of what goes into a pipe at a time. A large fill costs less, but what is
// inside when the receiver stops reading stays there.
const (
	largeFill = 1 << 20
	smallFill = 64 << 10
)

// fillBytes is how much may go into the pipe: a large fill if the gate has
// memory left for one.
func (r *reader) fillBytes() int64 {
	r.largeAcquired = r.largeAcquired || r.bufs.bodies.Acquire(largeFill)
	if r.largeAcquired {
		return largeFill
	}
	return smallFill
}

// releaseFill gives back what a large fill took.
func (r *reader) releaseFill() {
	if r.largeAcquired {
		r.largeAcquired = false
		r.bufs.bodies.Release(largeFill)
	}
}
