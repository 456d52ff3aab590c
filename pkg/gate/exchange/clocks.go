package exchange

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// Clocks are the instants at which a request runs out of time, in ns on the
// engine's clock; 0 = never. All begin with the request's arrival, so that
// time spent in the queue counts.
type Clocks struct {
	Arrived int64
	request int64 // deadline of the response, or of a tunnel
	start   int64 // first byte of an answer; 0 once there is one
	active  int64 // last byte in either direction
	idle    int64 // longest time without a byte, in ns
}

// Begin starts the clocks of a request that arrived at now.
func (c *Clocks) Begin(g *Gate, now int64) {
	*c = Clocks{Arrived: now, active: now, idle: int64(g.IdleTimeout)}
	if d := g.RequestTimeout; d > 0 {
		c.request = now + int64(d)
	}
	if d := g.ResponseStartTimeout; d > 0 {
		c.start = now + int64(d)
	}
}

// Started says that an answer has begun; an interim one counts.
func (c *Clocks) Started() { c.start = 0 }

// Moved says that bytes have gone either way.
func (c *Clocks) Moved(now int64) { c.active = now }

// Switched turns the clocks of a request into those of a tunnel, which lives
// for longest at most; 0 = no bound.
func (c *Clocks) Switched(now int64, longest time.Duration) {
	c.request, c.start = 0, 0
	if longest > 0 {
		c.request = now + int64(longest)
	}
}

// KeepRequest leaves the request clock alone running.
func (c *Clocks) KeepRequest() { *c = Clocks{request: c.request} }

// Next is the earliest instant at which Expired may say something new.
func (c *Clocks) Next() int64 {
	d := gate.Earliest(c.request, c.start)
	if c.idle > 0 {
		d = gate.Earliest(d, c.active+c.idle)
	}
	return d
}

// Expired tells whether a clock has run out, and which.
func (c *Clocks) Expired(now int64) gate.Outcome {
	switch {
	case c.request != 0 && now >= c.request:
		return gate.RequestTimeout
	case c.start != 0 && now >= c.start:
		return gate.ResponseStartTimeout
	case c.idle > 0 && now >= c.active+c.idle:
		return gate.IdleTimeout
	}
	return gate.Undecided
}
