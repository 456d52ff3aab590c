package http2

import (
	"math"

	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// lingering is the state of a lingering close. The gate has shut down its direction of
// the connection, and discards the bytes that the client still sends. Closing a socket
// with unread bytes would send a TCP reset, which can destroy responses that the client
// has not read yet (RFC 9112 section 9.6 describes the same for HTTP/1).
type lingering struct {
	discarded  int32 // number of bytes discarded
	unread     int32 // number of bytes that the client had not acknowledged at progressAt
	progressAt int64
	deadline   int64
}

// close begins a lingering close.
func (c *downConn) close() {
	now := c.eng.loop.Now()
	c.enter(closing)
	c.lastServed = 0
	c.lingering = &lingering{unread: math.MaxInt32, progressAt: now, deadline: now + lingerTotal}
	c.queue(c.outBuffer())
	c.lingering.extend(c)
}

// extend sets the next deadline of the connection. It returns false if the client has
// made no progress within the timeout. The progress is checked at an interval, because
// the kernel reports no event when the client acknowledges bytes.
func (l *lingering) extend(c *downConn) bool {
	now := c.eng.loop.Now()
	unread := int32(c.pending() + c.sock.Unsent())
	if unread < l.unread {
		l.unread, l.progressAt = unread, now
		c.eng.worker.NoteEnd()
	}
	timeout := lingerTimeout
	if unread > 0 {
		timeout = lingerReadTimeout
	}
	if now >= min(l.progressAt+timeout, l.deadline) {
		return false
	}
	c.deadline = min(now+lingerCheckInterval, l.progressAt+timeout, l.deadline)
	c.handle.SetDeadline(c.deadline)
	return true
}

// read reads and discards received bytes.
func (l *lingering) read(c *downConn) {
	if c.pending() > 0 {
		c.flush()
	}
	if c.eng.read == nil {
		c.eng.read = make([]byte, readBytes)
	}
	for range readsPerEvent {
		n, err := c.sock.Read(c.eng.read)
		if err == loop.ErrAgain {
			return
		}
		if l.discarded += int32(n); err != nil || l.discarded > maxLingerBytes {
			c.abort()
			return
		}
	}
	c.handle.Wake()
}
