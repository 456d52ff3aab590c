package exchange

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Timeouts holds the deadlines of a request, in ns on the engine's clock; 0 = none. The
// timeouts start at the arrival of the request.
type Timeouts struct {
	Arrived         int64
	requestDeadline int64 // deadline for the end of the response or of the tunnel
	startDeadline   int64 // deadline for the first byte of a response; 0 once it has arrived
	lastActivity    int64 // time of the last byte in either direction
	idleTimeout     int64 // in ns; 0 = unlimited
}

// Begin starts the timeouts of a request that arrived at now.
func (c *Timeouts) Begin(s *settings, now int64) {
	*c = Timeouts{Arrived: now, lastActivity: now, idleTimeout: int64(s.IdleTimeout)}
	if d := s.RequestTimeout; d > 0 {
		c.requestDeadline = now + int64(d)
	}
	if d := s.ResponseStartTimeout; d > 0 {
		c.startDeadline = now + int64(d)
	}
}

// ResponseStarted records the first response head, which may be interim.
func (c *Timeouts) ResponseStarted() { c.startDeadline = 0 }

// NoteActivity records that bytes were transferred in either direction.
func (c *Timeouts) NoteActivity(now int64) { c.lastActivity = now }

// BeginTunnel removes all timeouts except the idle timeout. Instead it limits the
// duration of the tunnel to longest; 0 = unlimited.
func (c *Timeouts) BeginTunnel(now int64, longest time.Duration) {
	c.requestDeadline, c.startDeadline = 0, 0
	if longest > 0 {
		c.requestDeadline = now + int64(longest)
	}
}

// KeepRequestDeadline removes all timeouts except the request timeout.
func (c *Timeouts) KeepRequestDeadline() { *c = Timeouts{requestDeadline: c.requestDeadline} }

// NextDeadline returns the time at which the next timeout expires, if no bytes are
// transferred until then; 0 = no timeout is set.
func (c *Timeouts) NextDeadline() int64 {
	d := gate.Earliest(c.requestDeadline, c.startDeadline)
	if c.idleTimeout > 0 {
		d = gate.Earliest(d, c.lastActivity+c.idleTimeout)
	}
	return d
}

// Expired returns the outcome of an expired timeout; Undecided = none has expired.
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
