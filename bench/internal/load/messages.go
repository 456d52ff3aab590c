package load

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/queuegate/queuegate/bench/internal/clock"
	"github.com/queuegate/queuegate/bench/internal/wire"
)

var errFrame = errors.New("malformed or unexpected WebSocket frame")

// webSocket sends binary messages and waits for their echo (RFC 6455). A connection
// carries one message at a time.
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
		n, isComplete, err := c.response.feed(p, nil)
		if err != nil || !isComplete {
			return n, err
		}
		if c.response.status != 101 {
			return n, fmt.Errorf("upgrade got status %d", c.response.status)
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
		s.worker.finishRequest(c, c.due, outcome{status: 200})
	}
}

func (s *webSocket) lost(c *conn, cause error) (reconnect bool) {
	if c.busy {
		c.busy = false
		s.worker.finishRequest(c, c.due, outcome{failure: cause, keepBusy: true})
	}
	return false
}

var errEvent = errors.New("malformed event")

// events receives a stream of server-sent events on each connection. The data of each
// event is the time at which the server sent it: a reading of package clock, in decimal.
type events struct {
	worker  *worker
	request []byte
	texts   map[*conn][]byte // text of the incomplete event
	current *conn
	took    func([]byte)
	fault   error
}

func newEvents(w *worker) *events {
	e := &events{worker: w, texts: map[*conn][]byte{}}
	e.request = []byte("GET " + w.spec.Path + " HTTP/1.1\r\nHost: " + host + "\r\nAccept: text/event-stream\r\n\r\n")
	e.took = e.take
	return e
}

func (e *events) open(c *conn) bool {
	c.out.Bytes = append(c.out.Bytes, e.request...)
	return false
}

func (e *events) send(*conn, int64) { panic("BUG: events are not asked for one by one") }

func (e *events) receive(c *conn, p []byte) (used int, err error) {
	e.current, e.fault = c, nil
	used, isComplete, err := c.response.feed(p, e.took)
	switch {
	case err != nil:
		return used, err
	case e.fault != nil:
		return used, e.fault
	case c.response.status != 0 && c.response.status != 200:
		return used, fmt.Errorf("events got status %d", c.response.status)
	case isComplete:
		return used, errCut
	}
	return used, nil
}

// take parses events.
func (e *events) take(body []byte) {
	now := clock.Now()
	text := append(e.texts[e.current], body...)
	for {
		end := bytes.Index(text, []byte("\n\n"))
		if end < 0 {
			break
		}
		stamp, ok := parseStamp(text[:end])
		if !ok {
			e.fault = errEvent
			return
		}
		text = text[end+2:]
		e.worker.opened(e.current, 1)
		e.worker.tally.received(now, now-stamp)
	}
	e.texts[e.current] = append(e.texts[e.current][:0], text...)
}

func (e *events) lost(c *conn, cause error) (reconnect bool) {
	e.worker.tally.Errors[reason(cause)]++
	return false
}

func parseStamp(event []byte) (int64, bool) {
	digits, ok := bytes.CutPrefix(event, []byte("data: "))
	stamp, err := strconv.ParseUint(string(digits), 10, 63)
	return int64(stamp), ok && err == nil
}
