package http1

import (
	"errors"
	"io"
	"strconv"

	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

const (
	// bulkBytes is the size of the buffer through which a long body goes.
	bulkBytes = 64 << 10
	// coalesceBytes is the most payload that is copied behind a head so that
	// both leave in one write.
	coalesceBytes = 16 << 10
	// burst bounds how often one conversation moves bytes before the others
	// of its loop have their turn.
	burst = 8
)

// pump moves one body, or one direction of a tunnel, from src to dst. It
// holds at most one buffer of bytes: it reads again only when all it read
// before has been written.
type pump struct {
	src, dst *loop.Sock
	body     wire.Decoder
	chunked  bool   // dst gets chunks; else the payload as it is
	trailers bool   // dst may have them
	buf      []byte // where src is read into; buf[r:w] is not decoded yet
	r, w     int
	out      []byte // what dst gets next is out[o:]; may lie in buf
	o        int
	frame    []byte // storage for heads and chunks
	bulk     *bulk
	pipe     *loop.Pipe // a long body goes through it and not through buf
	limit    bool       // reads never go past the end of a body with a length

	payload int64 // bytes of the body moved
	written int64 // bytes that dst took, heads and framing included
	done    bool  // everything has been written
	srcErr  error
	dstErr  error
}

// bulk is a large buffer, borrowed for as long as a body is under way.
type bulk struct{ b []byte }

// begin readies p. The bytes in buf[r:w] have been read already; head goes
// out first.
func (p *pump) begin(src, dst *loop.Sock, head []byte, buf []byte, r, w int) {
	p.src, p.dst = src, dst
	p.frame, p.out, p.o = head, head, 0
	p.buf, p.r, p.w = buf, r, w
	p.payload, p.written = 0, 0
	p.done, p.srcErr, p.dstErr = false, nil, nil
	p.limit = false
}

// preload puts payload that has been read already behind the head, as much
// as is worth copying.
func (p *pump) preload() {
	for !p.body.Ended && p.r < p.w && len(p.frame) < coalesceBytes {
		b := p.buf[p.r:p.w]
		if p.body.Kind != wire.BodyChunked && len(b) > coalesceBytes {
			break
		}
		data, n, err := p.body.Next(b)
		p.r += n
		if err != nil {
			p.srcErr = err
			break
		}
		p.appendData(data)
	}
	p.finishFrame()
	p.out = p.frame
}

// finishFrame adds what follows the payload, once.
func (p *pump) finishFrame() {
	if p.body.Ended && p.chunked && p.srcErr == nil {
		p.chunked = false
		p.frame = append(p.frame, "0\r\n"...)
		if p.trailers {
			p.frame = append(p.frame, p.body.Trailer...)
		}
		p.frame = append(p.frame, "\r\n"...)
	}
}

func (p *pump) appendData(data []byte) {
	if len(data) == 0 {
		return
	}
	p.payload += int64(len(data))
	if !p.chunked {
		p.frame = append(p.frame, data...)
		return
	}
	p.frame = strconv.AppendUint(p.frame, uint64(len(data)), 16)
	p.frame = append(p.frame, "\r\n"...)
	p.frame = append(p.frame, data...)
	p.frame = append(p.frame, "\r\n"...)
}

// flush writes what is ready and reports whether all of it has gone.
func (p *pump) flush() (moved, empty bool) {
	for p.o < len(p.out) {
		n, err := p.dst.Write(p.out[p.o:])
		if err == loop.ErrAgain {
			return moved, false
		}
		if err != nil {
			p.dstErr = err
			return moved, false
		}
		p.o += n
		p.written += int64(n)
		moved = true
	}
	return moved, true
}

// step moves what can be moved now and reports whether anything was. It ends
// with done, srcErr or dstErr.
func (p *pump) step(b *bulkPool) (moved bool) {
	for range burst {
		if p.done || p.dstErr != nil {
			return moved
		}
		m, empty := p.flush()
		moved = moved || m
		if !empty {
			return moved
		}
		p.out, p.o = nil, 0
		if p.srcErr != nil {
			return moved
		}
		if p.pipe != nil || p.splices(b) {
			m, more := p.splice(b)
			moved = moved || m
			if !more {
				return moved
			}
			continue
		}
		if p.body.Ended {
			p.done = true
			return true
		}
		if p.r == p.w {
			m := p.fill(b)
			moved = moved || m
			if p.srcErr != nil || !m {
				return moved
			}
		}
		p.decode()
	}
	return moved
}

// fill reads more of the body.
func (p *pump) fill(b *bulkPool) bool {
	if !p.src.Readable() {
		p.putBulk(b) // an idle stream keeps no large buffer
		return false
	}
	if p.bulk == nil {
		p.bulk = b.get()
		p.buf = p.bulk.b
	}
	p.r, p.w = 0, 0
	room := p.buf
	if p.limit && p.body.Left < int64(len(room)) {
		room = room[:p.body.Left]
	}
	n, err := p.src.Read(room)
	switch {
	case err == nil:
		p.w = n
		return true
	case err == loop.ErrAgain:
		p.putBulk(b)
		return false
	case errors.Is(err, io.EOF):
		if p.body.End() {
			p.frame = p.frame[:0]
			p.finishFrame()
			p.out = p.frame
			return true
		}
		p.srcErr = io.ErrUnexpectedEOF
	default:
		p.srcErr = err
	}
	return true
}

// decode makes out from the bytes at hand.
func (p *pump) decode() {
	if p.body.Kind != wire.BodyChunked && !p.chunked {
		data, n, _ := p.body.Next(p.buf[p.r:p.w])
		p.r += n
		p.payload += int64(len(data))
		if len(data) > 0 {
			p.out = data
		}
		return
	}
	if len(p.out) == 0 {
		p.frame = p.frame[:0]
	}
	for p.r < p.w && !p.body.Ended {
		data, n, err := p.body.Next(p.buf[p.r:p.w])
		p.r += n
		if err != nil {
			p.srcErr = err
			break
		}
		p.appendData(data)
	}
	p.finishFrame()
	p.out = p.frame
}

// read reports whether all of the body has been read from src, so that what
// follows it there has its place.
func (p *pump) read() bool { return p.body.Ended && p.srcErr == nil }

// release gives the large buffer back, with whatever is left in it.
func (p *pump) release(b *bulkPool) {
	p.putBulk(b)
	b.putPipe(p)
	p.r, p.w = 0, 0
	p.buf, p.out, p.o = nil, nil, 0
	p.src, p.dst = nil, nil
	if cap(p.frame) > 2*bulkBytes {
		p.frame = nil
	}
}

func (p *pump) putBulk(b *bulkPool) {
	if p.bulk != nil {
		b.put(p.bulk)
		p.bulk, p.buf = nil, nil
		p.r, p.w = 0, 0
	}
}

// bulkPool keeps the large buffers and the pipes of one loop.
type bulkPool struct {
	free  []*bulk
	pipes []*loop.Pipe
	plain bool // the kernel does not splice
}

// maxFreeBulks bounds the memory that stays behind after a burst of long
// bodies: 16 × 64 KiB.
const maxFreeBulks = 16

func (b *bulkPool) get() *bulk {
	if n := len(b.free); n > 0 {
		x := b.free[n-1]
		b.free = b.free[:n-1]
		return x
	}
	return &bulk{b: make([]byte, bulkBytes)}
}

func (b *bulkPool) put(x *bulk) {
	if len(b.free) < maxFreeBulks {
		b.free = append(b.free, x)
	}
}
