package origin

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"strconv"
)

// eventsHead asks nginx not to gather the events (X-Accel-Buffering).
var eventsHead = []byte("HTTP/1.1 200 OK\r\nDate: " + date + "\r\nContent-Type: text/event-stream\r\n" +
	"Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n\r\n")

// appendEvent appends one event in one chunk: "data: STAMP\n\n", the stamp in
// nanoseconds by package clock.
func appendEvent(p []byte, stamp int64) []byte {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], stamp, 10)
	p = strconv.AppendInt(p, int64(len("data: ")+len(text)+2), 16)
	p = append(p, "\r\ndata: "...)
	p = append(p, text...)
	return append(p, "\n\n\r\n"...)
}

// acceptKey is Sec-WebSocket-Accept (RFC 6455 section 4.2.2).
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

const maxFrame = 1 << 20

// echo sends every whole frame back unmasked, and returns how much of p it
// used. A frame of closing is sent back and ends the connection.
func (c *conn) echo(p []byte) (used int) {
	closing := false
	for !closing {
		frame := p[used:]
		if len(frame) < 2 {
			break
		}
		size, head := uint64(frame[1]&0x7f), 2
		switch size {
		case 126:
			head = 4
		case 127:
			head = 10
		}
		masked := frame[1]&0x80 != 0
		if masked {
			head += 4
		}
		if len(frame) < head {
			break
		}
		switch size {
		case 126:
			size = uint64(binary.BigEndian.Uint16(frame[2:]))
		case 127:
			size = binary.BigEndian.Uint64(frame[2:])
		}
		if size > maxFrame {
			c.close()
			return 0
		}
		if uint64(len(frame)) < uint64(head)+size {
			break
		}
		c.out = append(c.out, frame[0])
		switch {
		case size < 126:
			c.out = append(c.out, byte(size))
		case size < 1<<16:
			c.out = binary.BigEndian.AppendUint16(append(c.out, 126), uint16(size))
		default:
			c.out = binary.BigEndian.AppendUint64(append(c.out, 127), size)
		}
		at := len(c.out)
		c.out = append(c.out, frame[head:head+int(size)]...)
		if masked {
			key := frame[head-4 : head]
			for i := range c.out[at:] {
				c.out[at+i] ^= key[i&3]
			}
		}
		closing = frame[0]&0x0f == 8
		used += head + int(size)
	}
	c.flush()
	if closing {
		c.close()
	}
	return used
}
