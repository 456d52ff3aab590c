package http1

import (
	"math"
	"strconv"

	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/wire"
)

const (
	// coalesceBytes is the maximum number of buffered bytes to which payload is appended,
	// so that one write sends both.
	coalesceBytes = 16 << 10
	// directBytes is the minimum payload that is sent without a copy.
	directBytes = 2 << 10
	// chunkBytes is the number of buffered bytes above which Write accepts no more
	// chunks.
	chunkBytes = 64 << 10
)

// writer is the exchange.Sink of an HTTP/1 message, or of one direction of a tunnel.
type writer struct {
	sock     *loop.Sock
	bufs     *buffers
	frame    *buffer // storage of out; held only while bytes are buffered
	out      []byte  // the buffered bytes are out[outStart:]
	outStart int
	chunked  bool // the payload is sent as chunks
	trailers bool // the recipient accepts trailers
	tunnel   bool // Finish is followed by a half-close
	finished bool
	sent     int64
	content  int64 // number of body bytes that Write has accepted
	check    wire.BodyCheck
	err      error
}

// begin prepares w for a message. Buffered bytes are sent first.
func (w *writer) begin(chunked, trailers bool) {
	w.chunked, w.trailers, w.finished, w.tunnel, w.content = chunked, trailers, false, false, 0
	w.check.Stop()
}

// head buffers the head of a message. The parameter out is the slice that the method
// buffered returned, to which the caller has appended this head. The parameter from is
// the index at which the head begins. If bodiless is true, the message has no body.
func (w *writer) head(out []byte, from int, bodiless bool) {
	w.check.Begin(out[from:], w.chunked, bodiless)
	w.setBuffered(out)
}

// count adds n accepted bytes of the body and returns n.
func (w *writer) count(n int) int {
	w.content += int64(n)
	w.check.Sent(n)
	return n
}

// buffered returns the buffered bytes. The caller appends to the slice and passes it to
// setBuffered.
func (w *writer) buffered() []byte {
	if w.frame == nil {
		w.frame = w.bufs.frames.get()
		w.out, w.outStart = w.frame.b[:0], 0
	}
	return w.out
}

func (w *writer) setBuffered(out []byte) { w.out, w.frame.b = out, out[:cap(out)] }

// Write implements exchange.Sink.
func (w *writer) Write(p []byte) int {
	buffered := len(w.out) - w.outStart
	if w.chunked {
		if buffered > chunkBytes {
			return 0
		}
		out := strconv.AppendUint(w.buffered(), uint64(len(p)), 16)
		out = append(append(append(out, "\r\n"...), p...), "\r\n"...)
		w.setBuffered(out)
		return w.count(len(p))
	}
	if buffered > 0 && buffered+len(p) > coalesceBytes {
		if _, empty := w.Flush(); !empty {
			return 0
		}
		buffered = 0
	}
	if buffered > 0 || len(p) < directBytes {
		w.setBuffered(append(w.buffered(), p...))
		return w.count(len(p))
	}
	n, err := w.sock.Write(p)
	if err != nil && err != loop.ErrAgain {
		w.err = err
	}
	w.sent += int64(n)
	return w.count(n)
}

// Capacity implements exchange.Sink. It returns no limit, because the free space of the
// kernel's send buffer is unknown.
func (w *writer) Capacity() int { return math.MaxInt }

// Finish implements exchange.Sink.
func (w *writer) Finish(trailers []byte) {
	w.finished = true
	w.check.End()
	if !w.chunked {
		return
	}
	out := append(w.buffered(), "0\r\n"...)
	if w.trailers {
		out = append(out, trailers...)
	}
	w.setBuffered(append(out, "\r\n"...))
}

// Flush implements exchange.Sink.
func (w *writer) Flush() (moved, empty bool) {
	for w.outStart < len(w.out) {
		n, err := w.sock.Write(w.out[w.outStart:])
		if err == loop.ErrAgain {
			return moved, false
		}
		if err != nil {
			w.err = err
			return moved, false
		}
		w.outStart += n
		w.sent += int64(n)
		moved = true
	}
	w.drop()
	if w.finished && w.tunnel {
		w.tunnel = false
		w.sock.CloseWrite()
	}
	return moved, true
}

// Broken implements exchange.Sink.
func (w *writer) Broken() bool { return w.err != nil }

// raw returns w if payload can now be written directly to the socket. It returns nil if
// the payload must be encoded, or if buffered bytes must be sent first.
func (w *writer) raw() *writer {
	if w.chunked || w.sock.Layered() || w.outStart < len(w.out) {
		return nil
	}
	return w
}

func (w *writer) drop() {
	if w.frame != nil {
		w.bufs.frames.put(w.frame)
		w.frame, w.out, w.outStart = nil, nil, 0
	}
}

func (w *writer) release() {
	w.drop()
	w.chunked, w.tunnel, w.finished, w.sent, w.content, w.err = false, false, false, 0, 0, nil
}
