package load

import (
	"errors"
	"fmt"

	"github.com/queuegate/queuegate/bench/internal/wire"
)

var errFrame = errors.New("malformed or unexpected WebSocket frame")

// webSocket sends binary messages of spec.Body bytes and awaits their echo
// (RFC 6455), one at a time on a connection.
type webSocket struct {
	worker    *worker
	handshake []byte
	frame     []byte
}

func newWebSocket(w *worker) *webSocket {
	s := &webSocket{worker: w}
	s.handshake = []byte("GET " + w.spec.Path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	size := w.spec.Body
	const final, binaryMessage, masked = 0x80, 2, 0x80
	s.frame = wire.AppendFrameHead(s.frame, final|binaryMessage, masked, uint64(size))
	key := [4]byte{0x12, 0x34, 0x56, 0x78}
	s.frame = append(s.frame, key[:]...)
	for i := range size {
		s.frame = append(s.frame, byte(i)^key[i&3])
	}
	return s
}

func (s *webSocket) open(c *conn) bool {
	c.out.Bytes = append(c.out.Bytes, s.handshake...)
	return false
}

func (s *webSocket) send(c *conn, due int64) {
	c.busy, c.due = true, due
	c.out.Bytes = append(c.out.Bytes, s.frame...)
}

func (s *webSocket) receive(c *conn, p []byte) (used int, err error) {
	if !c.opened {
		n, whole, err := c.answer.feed(p, nil)
		if err != nil || !whole {
			return n, err
		}
		if c.answer.status != 101 {
			return n, fmt.Errorf("upgrade answered with status %d", c.answer.status)
		}
		used = n
		s.worker.opened(c, 1)
	}
	for {
		frame := p[used:]
		head, size, masked, ok := wire.FrameHead(frame)
		if !ok {
			return used, nil
		}
		if frame[0] != s.frame[0] || masked || size != uint64(s.worker.spec.Body) || !c.busy {
			return used, errFrame
		}
		if uint64(len(frame)) < uint64(head)+size {
			return used, nil
		}
		used += head + int(size)
		c.busy = false
		s.worker.finished(c, c.due, outcome{status: 200})
	}
}

func (s *webSocket) lost(c *conn, why error) (again bool) {
	if c.busy {
		c.busy = false
		s.worker.finished(c, c.due, outcome{failure: why, held: true})
	}
	return false
}
