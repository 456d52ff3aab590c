// Package wire parses HTTP/1.1 and WebSocket incrementally and without allocation, for
// the load and the origin.
package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strconv"
	"syscall"

	"github.com/queuegate/queuegate/bench/internal/socket"
)

// MaxHead is the maximum size in bytes of a head, or of a line between chunks.
const MaxHead = 64 << 10

// ErrChunk reports a malformed chunked body.
var ErrChunk = errors.New("malformed chunk")

// Filler is the content of all bodies.
var Filler = bytes.Repeat([]byte("0123456789abcdef"), 16<<10)

// A Body tracks which part of a message body has not been received yet.
type Body struct {
	// Remaining is the number of bytes of the body that have not been received. If the
	// body is chunked, it counts only the current chunk and the CRLF after this chunk.
	Remaining int64
	Chunked   bool
	last      bool // the last chunk was received; trailers follow
}

// Expected reports whether a body follows the head: a chunked body, or a body with a
// length above 0. It is valid only before the first call of Take.
func (b *Body) Expected() bool { return b.Chunked || b.Remaining > 0 }

// Take consumes the bytes of p that belong to the body. It passes the data of the body,
// without the chunk framing, to the function in its second parameter, which may be nil.
// The first result is the number of consumed bytes. The second result reports whether the
// body is complete.
//
// Take does not consume an incomplete chunk-size line or trailer line. The caller must
// pass such a line again when more bytes have arrived.
func (b *Body) Take(p []byte, to func([]byte)) (used int, done bool, err error) {
	for {
		n := min(b.Remaining, int64(len(p)-used))
		data := n
		if b.Chunked { // Remaining includes the CRLF after the chunk, which is not data
			data = max(0, min(n, b.Remaining-2))
		}
		if to != nil && data > 0 {
			to(p[used : used+int(data)])
		}
		b.Remaining -= n
		used += int(n)
		if b.Remaining > 0 {
			return used, false, nil
		}
		if !b.Chunked {
			return used, true, nil
		}
		end := bytes.IndexByte(p[used:], '\n')
		if end < 0 {
			if len(p)-used > MaxHead {
				return used, false, ErrChunk
			}
			return used, false, nil
		}
		line := bytes.TrimSuffix(p[used:used+end], []byte("\r"))
		used += end + 1
		if b.last {
			if len(line) == 0 {
				return used, true, nil
			}
			continue // a trailer
		}
		line, _, _ = bytes.Cut(line, []byte(";"))
		size, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 62)
		if err != nil {
			return used, false, ErrChunk
		}
		if size == 0 {
			b.last = true
		} else {
			b.Remaining = int64(size) + 2
		}
	}
}

// Framing is what a head says about the body and the connection.
type Framing struct {
	Body  Body
	Known bool // a field determines the length of the body
	Close bool // the connection closes after the message
}

var (
	crlf, colon                     = []byte("\r\n"), []byte(":")
	contentLength, transferEncoding = []byte("content-length"), []byte("transfer-encoding")
	connection, closing, comma      = []byte("connection"), []byte("close"), []byte(",")
)

// ReadFraming parses field lines with CRLF. It is only as strict as the harness needs,
// because its peers are proxies.
func ReadFraming(fields []byte) (f Framing, ok bool) {
	for len(fields) > 0 {
		var field []byte
		field, fields, _ = bytes.Cut(fields, crlf)
		name, value, found := bytes.Cut(field, colon)
		if !found {
			return f, false
		}
		// The length excludes most other names.
		switch {
		case len(name) == len(connection) && bytes.EqualFold(name, connection):
			for option := range bytes.SplitSeq(value, comma) {
				f.Close = f.Close || bytes.EqualFold(bytes.TrimSpace(option), closing)
			}
		case len(name) == len(contentLength) && bytes.EqualFold(name, contentLength):
			n, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
			if err != nil || n < 0 {
				return f, false
			}
			f.Known, f.Body.Remaining = true, n
		case len(name) == len(transferEncoding) && bytes.EqualFold(name, transferEncoding):
			f.Known, f.Body.Chunked = true, true
		}
	}
	if f.Body.Chunked {
		f.Body.Remaining = 0 // RFC 9112 section 6.3
	}
	return f, true
}

// FrameHead parses the head of a WebSocket frame (RFC 6455 section 5.2). The result head
// is the length of the head in bytes, including the masking key. The result size is the
// length of the payload. If p does not contain the complete head, ok is false.
func FrameHead(p []byte) (head int, size uint64, masked, ok bool) {
	if len(p) < 2 {
		return 0, 0, false, false
	}
	head, size, masked = 2, uint64(p[1]&0x7f), p[1]&0x80 != 0
	switch {
	case size == 126 && len(p) >= 4:
		head, size = 4, uint64(binary.BigEndian.Uint16(p[2:]))
	case size == 127 && len(p) >= 10:
		head, size = 10, binary.BigEndian.Uint64(p[2:])
	case size >= 126:
		return 0, 0, false, false
	}
	if masked {
		head += 4
	}
	return head, size, masked, len(p) >= head
}

// AppendFrameHead appends a WebSocket frame head without the masking key. mask is 0x80
// for a masked frame, otherwise 0.
func AppendFrameHead(p []byte, first, mask byte, size uint64) []byte {
	switch {
	case size < 126:
		return append(p, first, mask|byte(size))
	case size < 1<<16:
		return binary.BigEndian.AppendUint16(append(p, first, mask|126), uint16(size))
	}
	return binary.BigEndian.AppendUint64(append(p, first, mask|127), size)
}

// Output is pending output: bytes, followed by filler.
type Output struct {
	Bytes []byte
	Fill  int64 // how many bytes of Filler to write after Bytes
}

// Write queues p. It never fails.
func (o *Output) Write(p []byte) (int, error) {
	o.Bytes = append(o.Bytes, p...)
	return len(p), nil
}

// Pending reports whether output is pending.
func (o *Output) Pending() bool { return len(o.Bytes) > 0 || o.Fill > 0 }

// Drop discards pending output.
func (o *Output) Drop() { o.Bytes, o.Fill = o.Bytes[:0], 0 }

// Flush writes as much as the socket accepts. If Bytes and the filler are at most 16 KiB
// together, Flush passes both to the socket in one system call.
func (o *Output) Flush(fd int) (written int64, err syscall.Errno) {
	for o.Pending() {
		if n := len(o.Bytes); n > 0 && o.Fill > 0 && n+int(o.Fill) <= 16<<10 {
			o.Bytes = append(o.Bytes, Filler[:o.Fill]...)
			o.Fill = 0
		}
		p := o.Bytes
		if len(p) == 0 {
			p = Filler[:min(o.Fill, int64(len(Filler)))]
		}
		n, errno := socket.Write(fd, p)
		if errno == syscall.EAGAIN || errno == syscall.EINTR {
			return written, 0
		} else if errno != 0 {
			return written, errno
		}
		written += int64(n)
		if len(o.Bytes) > 0 {
			o.Bytes = o.Bytes[:copy(o.Bytes, o.Bytes[n:])]
		} else {
			o.Fill -= int64(n)
		}
		if n < len(p) {
			return written, 0
		}
	}
	return written, 0
}
