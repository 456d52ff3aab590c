package exchange

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Timeouts are the instants at which a request runs out of time, in ns on the
// engine's clock; 0 = never. All begin with the request's arrival, so that
// time spent in the queue counts.
type Timeouts struct {
	Arrived         int64
	requestDeadline int64 // deadline of the response, or of a tunnel
	startDeadline   int64 // first byte of an answer; 0 once there is one
	lastActivity    int64 // last byte in either direction
	idleTimeout     int64 // longest time without a byte, in ns
}

// Begin starts the clocks of a request that arrived at now.
func (c *Timeouts) Begin(g *Gate, now int64) {
	*c = Timeouts{Arrived: now, lastActivity: now, idleTimeout: int64(g.IdleTimeout)}
	if d := g.RequestTimeout; d > 0 {
		c.requestDeadline = now + int64(d)
	}
	if d := g.ResponseStartTimeout; d > 0 {
		c.startDeadline = now + int64(d)
	}
}

// ResponseStarted says that an answer has begun; an interim one counts.
func (c *Timeouts) ResponseStarted() { c.startDeadline = 0 }

// NoteActivity says that bytes have gone either way.
func (c *Timeouts) NoteActivity(now int64) { c.lastActivity = now }

// BeginTunnel turns the clocks of a request into those of a tunnel, which lives
// for longest at most; 0 = no bound.
func (c *Timeouts) BeginTunnel(now int64, longest time.Duration) {
	c.requestDeadline, c.startDeadline = 0, 0
	if longest > 0 {
		c.requestDeadline = now + int64(longest)
	}
}

// KeepRequestDeadline leaves the request clock alone running.
func (c *Timeouts) KeepRequestDeadline() { *c = Timeouts{requestDeadline: c.requestDeadline} }

// NextDeadline is the earliest instant at which Expired may say something new.
func (c *Timeouts) NextDeadline() int64 {
	d := gate.Earliest(c.requestDeadline, c.startDeadline)
	if c.idleTimeout > 0 {
		d = gate.Earliest(d, c.lastActivity+c.idleTimeout)
	}
	return d
}

// Expired tells whether a clock has run out, and which.
func (c *Timeouts) Expired(now int64) gate.Outcome {
	switch {
	case c.requestDeadline != 0 && now >= c.requestDeadline:
		return gate.RequestTimeout
	case c.startDeadline != 0 && now >= c.startDeadline:
		return gate.ResponseStartTimeout
	case c.idleTimeout > 0 && now >= c.lastActivity+c.idleTimeout:
		return gate.IdleTimeout
	}
	return gate.Undecided
}
