package origin

import (
	"crypto/sha1"
	"encoding/base64"
	"strconv"

	"github.com/queuegate/queuegate/bench/internal/wire"
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
		head, size, masked, ok := wire.FrameHead(frame)
		if !ok {
			break
		}
		if size > maxFrame {
			c.close()
			return 0
		}
		if uint64(len(frame)) < uint64(head)+size {
			break
		}
		c.out.Bytes = wire.AppendFrameHead(c.out.Bytes, frame[0], 0, size)
		at := len(c.out.Bytes)
		c.out.Bytes = append(c.out.Bytes, frame[head:head+int(size)]...)
		if masked {
			key := frame[head-4 : head]
			for i := range c.out.Bytes[at:] {
				c.out.Bytes[at+i] ^= key[i&3]
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
