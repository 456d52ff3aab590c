package http2

import (
	"math"
	"time"

	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// ending is what a client's connection keeps while it is closing.
type lingeringClose struct {
	dropped    int32 // octets that came while closing
	unread     int32 // octets that the client had not taken when it took some last
	progressAt int64 // when that was
	deadline   int64 // when closing ends at the latest
}

// How long a client may take to take what is left for it, and to close.
const (
	closeTimeout = int64(time.Second)      // once it has all
	readTimeout  = int64(5 * time.Second)  // until it takes some
	closeTotal   = int64(10 * time.Second) // in any case
	// closeCheck is how often it is looked at what the client has taken: nothing else
	// tells that it takes what is in the kernel. A shutdown that is about to cut it
	// has to know in time.
	closeCheck = int64(200 * time.Millisecond)
	// maxDropped bounds what is read of a client that goes on sending: enough for
	// what was on its way.
	maxDropped = 1 << 20
)

// close ends the connection once what waits has gone out. The client may still
// send: a reset, which unread bytes would cause, could overtake what it has not
// read (RFC 9112 section 9.6 has the same for HTTP/1).
func (c *downConn) close() {
	now := c.eng.loop.Now()
	c.state, c.lastServed = closing, 0
	c.lingering = &lingeringClose{unread: math.MaxInt32, progressAt: now, deadline: now + closeTotal}
	c.queue(c.room())
	c.lingering.continues(c)
}

// goesOn reports whether the client may still take what is left for it, or close
// the connection, and sees to it that it is looked at again.
func (e *lingeringClose) continues(c *downConn) bool {
	now := c.eng.loop.Now()
	left := int32(c.pending() + c.sock.Unsent())
	if left < e.unread {
		e.unread, e.progressAt = left, now
		c.eng.worker.Departed()
	}
	patience := closeTimeout
	if left > 0 {
		patience = readTimeout
	}
	if now >= min(e.progressAt+patience, e.deadline) {
		return false
	}
	c.deadline = min(now+closeCheck, e.progressAt+patience, e.deadline)
	c.handle.Until(c.deadline)
	return true
}

// linger reads and drops what the client still sends.
func (e *lingeringClose) linger(c *downConn) {
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
		if e.dropped += int32(n); err != nil || e.dropped > maxDropped {
			c.abort()
			return
		}
	}
	c.handle.Wake()
}
