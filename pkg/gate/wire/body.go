package wire

import (
	"bytes"
	"errors"

	"github.com/queuegate/queuegate/pkg/gate/internal/field"
)

// Limits of chunked framing, for a whole body.
const (
	maxExtensionBytes = 16 << 10
	maxTrailerBytes   = 64 << 10
	maxSizeDigits     = 15 // digits of a chunk size, so that sizes are below 2^60
)

// ErrBadBody is the error for malformed chunked framing.
var ErrBadBody = errors.New("malformed chunked body")

// chunkState is the parser state of a chunked body (RFC 9112 section 7.1):
//
//	size → (space →) extension → sizeLF → data → dataCR → dataLF → size
//	sizeLF → trailer (after the chunk of size 0) → end
type chunkState uint8

const (
	chunkSize chunkState = iota
	chunkSpace
	chunkExtension
	chunkSizeLF
	chunkData
	chunkDataCR
	chunkDataLF
	chunkTrailer
)

// Decoder extracts the payload from the bytes of a body and finds its end.
type Decoder struct {
	Remaining      int64 // payload bytes left in the body, or in the chunk
	Kind           BodyKind
	state          chunkState
	Ended          bool
	sizeDigits     int32
	extensionBytes int32  // bytes of chunk extensions so far
	trailerBytes   int32  // bytes of trailers so far
	partialLine    []byte // the received part of a trailer line
	Trailer        []byte // trailer lines that may be forwarded
}

// Begin prepares d for a body. It reuses the buffers of d.
func (d *Decoder) Begin(kind BodyKind, length int64) {
	*d = Decoder{Kind: kind, Remaining: length, partialLine: d.partialLine[:0], Trailer: d.Trailer[:0]}
	if cap(d.Trailer) > 4<<10 {
		d.Trailer, d.partialLine = nil, nil
	}
	d.Ended = kind == NoBody || kind == BodyLength && length == 0
}

// Next returns the first run of payload in b. used is the number of bytes consumed,
// including that payload. Once Ended is set, the rest of b does not belong to the body.
func (d *Decoder) Next(b []byte) (data []byte, used int, err error) {
	switch d.Kind {
	case BodyLength:
		n := min(int64(len(b)), d.Remaining)
		d.Remaining -= n
		d.Ended = d.Remaining == 0
		return b[:n], int(n), nil
	case BodyUntilClose:
		return b, len(b), nil
	case BodyChunked:
		return d.chunked(b)
	}
	return nil, 0, nil
}

// Skip records that the caller has consumed n bytes of payload without Next. The kind of
// the body must be BodyLength.
func (d *Decoder) Skip(n int) {
	d.Remaining -= int64(n)
	d.Ended = d.Remaining == 0
}

// End records that the sender has closed the connection. It reports whether the body is
// complete.
func (d *Decoder) End() bool {
	if d.Kind == BodyUntilClose {
		d.Ended = true
	}
	return d.Ended
}

// Complete reports whether b contains the rest of the body. It does not change d.
func (d *Decoder) Complete(b []byte) bool {
	switch {
	case d.Ended:
		return true
	case d.Kind == BodyLength:
		return int64(len(b)) >= d.Remaining
	case d.Kind != BodyChunked || !bytes.HasSuffix(b, []byte("\n")):
		return false
	}
	ahead := *d
	ahead.partialLine, ahead.Trailer = bytes.Clone(d.partialLine), nil
	for len(b) > 0 && !ahead.Ended {
		_, n, err := ahead.chunked(b)
		if err != nil {
			return false
		}
		b = b[n:]
	}
	return ahead.Ended
}

func (d *Decoder) chunked(b []byte) (data []byte, used int, err error) {
	for used < len(b) {
		switch d.state {
		case chunkData:
			n := min(int64(len(b)-used), d.Remaining)
			data = b[used : used+int(n)]
			if d.Remaining -= n; d.Remaining == 0 {
				d.state = chunkDataCR
			}
			return data, used + int(n), nil
		case chunkTrailer:
			n, err := d.readTrailer(b[used:])
			used += n
			if err != nil || d.Ended {
				return nil, used, err
			}
		default:
			if !d.framingByte(b[used]) {
				return nil, used, ErrBadBody
			}
			used++
		}
	}
	return nil, used, nil
}

func (d *Decoder) framingByte(c byte) bool {
	switch d.state {
	case chunkSize:
		v := hexValue(c)
		if v < 0 {
			return d.sizeDigits > 0 && d.afterSize(c)
		}
		d.sizeDigits++
		d.Remaining = d.Remaining<<4 | int64(v)
		return d.sizeDigits <= maxSizeDigits
	case chunkSpace: // a space is allowed only before an extension
		return (c == ' ' || c == '\t' || c == ';') && d.afterSize(c)
	case chunkExtension:
		if c == '\r' {
			d.state = chunkSizeLF
		}
		d.extensionBytes++
		return d.extensionBytes <= maxExtensionBytes && (c >= ' ' || c == '\t' || c == '\r') && c != 0x7f
	case chunkSizeLF:
		if d.sizeDigits, d.state = 0, chunkData; d.Remaining == 0 {
			d.state = chunkTrailer
		}
		return c == '\n'
	case chunkDataCR:
		d.state = chunkDataLF
		return c == '\r'
	default:
		d.state = chunkSize
		return c == '\n'
	}
}

func (d *Decoder) afterSize(c byte) bool {
	switch c {
	case '\r':
		d.state = chunkSizeLF
	case ';':
		d.state = chunkExtension
	case ' ', '\t':
		d.state = chunkSpace
		d.extensionBytes++
		return d.extensionBytes <= maxExtensionBytes
	default:
		return false
	}
	return true
}

// readTrailer consumes bytes up to the end of the current trailer line, parses the line,
// and returns the number of these bytes. If b has only a part of the line, readTrailer
// stores this part for the next call.
func (d *Decoder) readTrailer(b []byte) (int, error) {
	n := bytes.IndexByte(b, '\n') + 1
	part := b
	if n > 0 {
		part = b[:n]
	}
	if d.trailerBytes += int32(len(part)); d.trailerBytes > maxTrailerBytes {
		return 0, ErrBadBody
	}
	d.partialLine = append(d.partialLine, part...)
	if n == 0 {
		return len(b), checkTrailerPart(d.partialLine)
	}
	line := d.partialLine
	d.partialLine = d.partialLine[:0]
	if len(line) < 2 || line[len(line)-2] != '\r' {
		return n, ErrBadBody
	}
	if len(line) == 2 {
		d.Ended = true
		return n, nil
	}
	colon := 0
	for field.IsToken(line[colon]) {
		colon++
	}
	if colon == 0 || line[colon] != ':' || !field.IsText(line[colon+1:len(line)-2]) {
		return n, ErrBadBody
	}
	if field.IsAllowedTrailer(line[:colon]) {
		d.Trailer = append(d.Trailer, line...)
	}
	return n, nil
}

// checkTrailerPart rejects an incomplete trailer line that cannot become valid.
func checkTrailerPart(line []byte) error {
	p := 0
	for p < len(line) && field.IsToken(line[p]) {
		p++
	}
	if p == len(line) || len(line) == 1 && line[0] == '\r' {
		return nil
	}
	if n := len(line); line[n-1] == '\r' {
		line = line[:n-1]
	}
	if p == len(line) || p == 0 || line[p] != ':' || !field.IsText(line[p:]) {
		return ErrBadBody
	}
	return nil
}

func hexValue(c byte) int {
	switch {
	case field.IsDigit(c):
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
