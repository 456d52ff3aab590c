package http1

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

// readQuota is the maximum number of reads per step. It keeps one connection from
// starving the loop.
const readQuota = 8

// reader is the exchange.Source of an HTTP/1 body, or of one direction of a tunnel.
// Except in readAhead, it reads only when the receiver has accepted everything read
// before.
type reader struct {
	sock          *loop.Sock
	bufs          *buffers
	body          wire.Decoder
	buf           []byte // buf[r:w] is not yet decoded
	r, w          int
	decoded       []byte     // payload that the receiver has not yet accepted
	bodyStart     int        // offset of the body in the first buffer
	bulk          *buffer    // buffer of a long body; nil = the body is read into the buffer of the head
	pipe          *loop.Pipe // nil = the body is not spliced
	largeAcquired bool       // largeFill bytes are acquired from the budget
	exact         bool       // a body with Content-Length: read no bytes after it
	readingAhead  bool       // bulk was allocated by readAhead
	eof           bool       // readAhead has received EOF
	truncated     bool       // readAhead has received an error
	received      bool       // bytes have been read from the socket, so rewind must fail
	ended         bool       // the payload and its end have been passed to the sink
	consumed      int64
	err           error
}

// begin prepares r for a body. buf[at:end] is the part already read.
func (r *reader) begin(kind wire.BodyKind, length int64, buf []byte, at, end int) {
	r.body.Begin(kind, length)
	r.buf, r.r, r.w, r.bodyStart = buf, at, end, at
	r.decoded, r.exact, r.received, r.ended, r.consumed, r.err, r.eof, r.truncated = nil, false, false, false, 0, nil, false, false
}

// rewind restarts the body if all bytes read so far are still buffered. If complete is
// true, the whole body must be buffered.
func (r *reader) rewind(complete bool, kind wire.BodyKind, length int64) bool {
	if r.received || complete && !r.body.Ended {
		return false
	}
	exact := r.exact
	r.begin(kind, length, r.buf, r.bodyStart, r.w)
	r.exact = exact
	return true
}

// Consumed implements exchange.Source.
func (r *reader) Consumed() int64 { return r.consumed }

// Ended implements exchange.Source.
func (r *reader) Ended() bool { return r.ended }

// Failed implements exchange.Source.
func (r *reader) Failed() bool { return r.err != nil }

// Malformed implements exchange.Source.
func (r *reader) Malformed() bool { return errors.Is(r.err, wire.ErrBadBody) }

// isComplete reports whether the whole body has been decoded, so that the start of the
// next message is known.
func (r *reader) isComplete() bool { return r.body.Ended && r.err == nil }

// buffersEnd reports whether the end of the body has been decoded or is in the buffer.
func (r *reader) buffersEnd() bool { return r.err == nil && r.body.Complete(r.buf[r.r:r.w]) }

// Pump implements exchange.Source.
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

// writeDecoded writes buffered payload to dst. It reports whether dst accepted any.
func (r *reader) writeDecoded(dst exchange.Sink) (took bool) {
	for r.err == nil && !r.ended && r.pipe == nil {
		if len(r.decoded) > 0 {
			n := dst.Write(r.decoded)
			r.consumed += int64(n)
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

// minRead is the minimum number of bytes requested by a read. A body of unknown length is
// read even if the receiver has no capacity, because the next bytes may be its end.
const minRead = 256

// fill reads more of the body for a receiver that would accept capacity bytes. It
// releases the buffer if nothing can be read, so that idle and blocked streams hold none.
func (r *reader) fill(capacity int) bool {
	if !r.eof && !r.truncated && !r.sock.Readable() || capacity == 0 && r.body.Kind == wire.BodyLength {
		r.putBulk()
		return false
	}
	if capacity < minRead || r.readingAhead {
		r.putBulk()
	}
	if r.bulk == nil {
		r.bulk = r.bufs.bulk(capacity)
		r.buf = r.bulk.b
	}
	r.r, r.w = 0, 0
	dst := r.buf[:min(len(r.buf), max(capacity, minRead))]
	if r.exact && r.body.Remaining < int64(len(dst)) {
		dst = dst[:r.body.Remaining]
	}
	n, err := r.read(dst)
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

// read reads from the socket. If readAhead has already received EOF, read returns io.EOF.
// If readAhead has received an error, read returns io.ErrUnexpectedEOF.
func (r *reader) read(b []byte) (int, error) {
	switch {
	case r.eof:
		return 0, io.EOF
	case r.truncated:
		return 0, io.ErrUnexpectedEOF
	}
	return r.sock.Read(b)
}

// maxAhead is the maximum size of the buffer that readAhead allocates.
const maxAhead = 64 << 10

// readAhead reads the rest of a body into a buffer while the receiver accepts no bytes.
// The buffer has at most maxAhead bytes and is charged to the budget for bodies. The
// result moved reports whether bytes or EOF were read. The result complete reports
// whether the end of the body has been received.
func (r *reader) readAhead() (moved, complete bool) {
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

// growAhead moves the bytes that the receiver has not accepted into a larger buffer. The
// buffer is charged to the budget for bodies. growAhead reports whether there is space
// for more bytes.
func (r *reader) growAhead() bool {
	rest := r.w - r.r
	// The decoded bytes end where the rest begins, so one copy moves both.
	live := len(r.decoded) + rest
	size := min(max(2*live, smallBytes), maxAhead)
	if r.body.Kind == wire.BodyLength {
		size = int(min(int64(live-rest)+r.body.Remaining, maxAhead))
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

func (r *reader) drained() bool { return r.r == r.w && len(r.decoded) == 0 && !r.body.Ended }

func (r *reader) leftover() []byte { return r.buf[r.r:r.w] }

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

// minSplice is the minimum number of remaining bytes for which a pipe costs less than
// copying.
const minSplice = 256 << 10

type rawSink interface{ raw() *writer }

// trySplice obtains a pipe if the rest of the body can be spliced. The rest must have a
// known length of at least minSplice, and no bytes may be buffered. The sink must send
// the payload unencoded. Neither socket may have a layer such as TLS.
func (r *reader) trySplice(dst exchange.Sink) bool {
	if r.body.Kind != wire.BodyLength || r.body.Remaining < minSplice || r.r < r.w || len(r.decoded) > 0 || r.bufs.pipes.unsupported || !r.sock.Readable() || r.sock.Layered() {
		return false
	}
	to, ok := dst.(rawSink)
	if !ok || to.raw() == nil {
		return false
	}
	r.pipe = r.bufs.pipes.get()
	return r.pipe != nil
}

// splice fills the pipe at most once and drains it. The result more reports whether the
// caller may continue at once. If it is false, no more bytes can be moved now.
func (r *reader) splice(dst exchange.Sink) (moved, more bool) {
	sink, ok := dst.(rawSink)
	if !ok { // dst discards the payload
		r.putPipe()
		return true, true
	}
	to := sink.raw()
	if r.pipe.Buffered() == 0 {
		n, err := r.pipe.Fill(r.sock, min(r.body.Remaining, r.fillBytes()))
		switch {
		case err == nil:
			r.received, moved = true, true
			r.body.Skip(n)
			r.consumed += int64(n)
		case err == loop.ErrAgain:
			r.putPipe() // an idle stream holds no pipe
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

func (r *reader) putPipe() {
	if r.pipe != nil {
		r.releaseFill()
		r.bufs.pipes.put(r.pipe)
		r.pipe = nil
	}
}

// Maximum numbers of bytes moved from the socket into the pipe at once. The larger number
// costs less CPU time. But its bytes occupy memory while the receiver does not read, so
// they are charged to the budget for bodies.
const (
	largeFill = 1 << 20
	smallFill = 64 << 10
)

func (r *reader) fillBytes() int64 {
	r.largeAcquired = r.largeAcquired || r.bufs.bodies.Acquire(largeFill)
	if r.largeAcquired {
		return largeFill
	}
	return smallFill
}

func (r *reader) releaseFill() {
	if r.largeAcquired {
		r.largeAcquired = false
		r.bufs.bodies.Release(largeFill)
	}
}
