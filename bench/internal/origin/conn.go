package origin

import (
	"bytes"
	"container/heap"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/bench/internal/clock"
	"github.com/queuegate/queuegate/bench/internal/socket"
	"github.com/queuegate/queuegate/bench/internal/wire"
)

type state uint8

const (
	atHead  state = iota // waiting for a request head
	atBody               // reading an upload
	delayed              // waiting for the timer of the response
	writing              // writing a response
	events               // writing a stream of events
	echoing              // echoing WebSocket messages
)

// A conn is one HTTP/1 connection.
type conn struct {
	loop       *loop
	fd         int
	state      state
	watched    uint32
	in         []byte      // bytes that were read, but not consumed yet
	out        wire.Output // bytes that were not written yet
	body       wire.Body   // body of the current upload
	request    request
	due        int64 // time at which the timer expires, as a reading of package clock
	timer      int   // index in loop.timers; -1 = no timer
	halfClosed bool  // the client has half-closed
}

func (c *conn) ready(events uint32) {
	if events&unix.EPOLLOUT != 0 {
		c.flush()
		if c.loop.conns[c.fd] != c {
			return
		}
		c.advance(nil)
	}
	if events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 && c.loop.conns[c.fd] == c {
		c.read()
	}
}

// read calls read(2) once. epoll is level-triggered, so it reports the remaining bytes
// again.
func (c *conn) read() {
	if c.halfClosed {
		c.close() // EOF, or a reset by the client
		return
	}
	n, errno := socket.Read(c.fd, c.loop.scratch)
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
	case errno != 0:
		c.close()
	case n == 0:
		c.halfClosed = true
		if c.state == atHead || c.state == atBody || c.state == events || c.state == echoing {
			c.close()
			return
		}
		c.watch(unix.EPOLLOUT * b2u(c.out.Pending()))
	default:
		c.advance(c.loop.scratch[:n])
	}
}

// advance processes the bytes in c.in, followed by the new bytes in the parameter
// received. It keeps the bytes that cannot be processed yet in c.in.
func (c *conn) advance(received []byte) {
	p := received
	if len(c.in) > 0 {
		c.in = append(c.in, received...)
		p = c.in
	}
	for {
		used, more := c.step(p)
		p = p[used:]
		if c.loop.conns[c.fd] != c {
			return
		}
		if !more {
			break
		}
	}
	c.in = append(c.in[:0], p...)
}

// step makes one state transition. It returns how many bytes of p it consumed, and
// whether to call it again.
func (c *conn) step(p []byte) (used int, more bool) {
	switch c.state {
	case atHead:
		return c.takeHead(p)
	case atBody:
		used, done, err := c.body.Take(p, nil)
		if err != nil {
			c.close()
			return 0, false
		}
		if done {
			c.begin()
		}
		return used, done
	case echoing:
		return c.echo(p), false
	}
	return 0, false
}

var h2Preface = []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")

func (c *conn) takeHead(p []byte) (used int, more bool) {
	if bytes.HasPrefix(p, h2Preface[:3]) {
		if len(p) >= len(h2Preface) {
			c.handToHTTP2(p)
		}
		return 0, false
	}
	end := bytes.Index(p, crlfcrlf)
	if end < 0 {
		if len(p) > wire.MaxHead {
			c.close()
		}
		return 0, false
	}
	r, ok := parseRequest(p[:end+2])
	if !ok {
		c.out.Bytes = append(c.out.Bytes, badRequest...)
		c.flush()
		c.close()
		return 0, false
	}
	c.request = r
	if r.body.Expected() {
		c.body, c.state = r.body, atBody
		return end + 4, true
	}
	c.begin()
	return end + 4, true
}

// begin starts the response to a complete request.
func (c *conn) begin() {
	if c.request.delay > 0 {
		c.state = delayed
		c.loop.schedule(c, clock.Now()+int64(float64(c.request.delay)*c.loop.slowness(c.request.slots)*c.loop.varied(c.request.spread)))
		return
	}
	c.reply()
}

func (c *conn) reply() {
	r := &c.request
	switch r.route {
	case routeRoot, routeSlots:
		if r.route == routeSlots {
			c.loop.slots = int(r.size)
		}
		response := rootResponse
		if r.close {
			response = rootResponseClose
		}
		c.out.Bytes = append(c.out.Bytes, response...)
	case routeBytes:
		c.out.Bytes = append(c.out.Bytes, "HTTP/1.1 200 OK\r\nDate: "+date+"\r\nContent-Type: application/octet-stream\r\nContent-Length: "...)
		c.out.Bytes = strconv.AppendInt(c.out.Bytes, r.size, 10)
		if r.close {
			c.out.Bytes = append(c.out.Bytes, "\r\nConnection: close"...)
		}
		c.out.Bytes = append(c.out.Bytes, "\r\n\r\n"...)
		c.out.Fill = r.size
	case routeEvents:
		c.out.Bytes = append(c.out.Bytes, eventsHead...)
		c.state = events
		c.flush()
		if c.loop.conns[c.fd] == c {
			c.loop.schedule(c, clock.Now()+int64(r.every))
		}
		return
	case routeWebSocket:
		c.out.Bytes = append(c.out.Bytes, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "...)
		c.out.Bytes = append(c.out.Bytes, acceptKey(r.key)...)
		c.out.Bytes = append(c.out.Bytes, "\r\n\r\n"...)
		c.state = echoing
		c.flush()
		return
	default:
		c.out.Bytes = append(c.out.Bytes, notFound...)
	}
	c.state = writing
	c.flush()
}

func (c *conn) expired(now int64) {
	switch c.state {
	case delayed:
		c.reply()
		if c.loop.conns[c.fd] == c {
			c.advance(nil) // a pipelined request may be buffered
		}
	case events:
		// Skip this event if the client has not received the previous output yet. So the
		// output of a slow client does not grow.
		if !c.out.Pending() {
			c.out.Bytes = appendEvent(c.out.Bytes, clock.Now())
			c.flush()
		}
		if c.loop.conns[c.fd] == c {
			next := c.due + int64(c.request.every)
			if next < now {
				next = now + int64(c.request.every)
			}
			c.loop.schedule(c, next)
		}
	}
}

// flush writes pending output, and ends the response when everything is written.
func (c *conn) flush() {
	if _, errno := c.out.Flush(c.fd); errno != 0 {
		c.close()
		return
	}
	if c.out.Pending() {
		c.watch(unix.EPOLLOUT | socket.Readable*b2u(!c.halfClosed && c.state == echoing))
		return
	}
	if c.state == writing {
		c.state = atHead
		if c.request.close || c.halfClosed {
			c.close()
			return
		}
	}
	c.watch(socket.Readable * b2u(!c.halfClosed))
}

func (c *conn) watch(events uint32) {
	if err := c.loop.poller.Modify(c.fd, &c.watched, events); err != nil {
		c.close()
	}
}

func (c *conn) forget() {
	if c.timer >= 0 {
		heap.Remove(&c.loop.timers, c.timer)
	}
	c.loop.conns[c.fd] = nil
}

func (c *conn) close() {
	if c.loop.conns[c.fd] != c {
		return
	}
	c.forget()
	socket.Close(c.fd)
}

func (c *conn) handToHTTP2(seen []byte) {
	c.forget()
	if err := c.loop.poller.Remove(c.fd); err != nil {
		socket.Close(c.fd)
		return
	}
	c.loop.h2.serve(c.fd, append([]byte(nil), seen...))
}

func b2u(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// date is the Date of all responses, so that they stay the same.
var date = time.Now().UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")

// X-Accel-Buffering turns off the buffering of events in nginx.
var eventsHead = []byte("HTTP/1.1 200 OK\r\nDate: " + date + "\r\nContent-Type: text/event-stream\r\n" +
	"Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n\r\n")

// appendEvent appends the event "data: STAMP\n\n" as one chunk. STAMP is the parameter
// stamp, a reading of package clock in nanoseconds.
func appendEvent(p []byte, stamp int64) []byte {
	event := fmt.Appendf(nil, "data: %d\n\n", stamp)
	return fmt.Appendf(p, "%x\r\n%s\r\n", len(event), event)
}

// acceptKey returns the value of Sec-WebSocket-Accept (RFC 6455 section 4.2.2).
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

const maxFrame = 1 << 20

// echo sends each complete frame back unmasked, and returns the number of bytes that it
// consumed. After a close frame it ends the connection.
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
