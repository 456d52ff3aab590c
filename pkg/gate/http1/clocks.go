package http1

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
)

// clocks are the instants, on the loop's clock in ns, at which a request runs
// out of time; 0 = never. All begin with the request's arrival, so that time
// spent in the queue counts.
type clocks struct {
	arrived int64
	request int64 // end of the answer
	start   int64 // first byte of an answer; 0 once there is one
	tunnel  int64 // end of a tunnel
	active  int64 // last byte in either direction
	idle    int64 // longest time without a byte, in ns
}

func (c *clocks) begin(g *gate.Gate, now int64) {
	*c = clocks{arrived: now, active: now, idle: int64(g.IdleTimeout)}
	if d := g.RequestTimeout; d > 0 {
		c.request = now + int64(d)
	}
	if d := g.ResponseStartTimeout; d > 0 {
		c.start = now + int64(d)
	}
}

// switched turns the clocks of a request into those of a tunnel.
func (c *clocks) switched(now int64, longest time.Duration) {
	c.request, c.start = 0, 0
	if longest > 0 {
		c.tunnel = now + int64(longest)
	}
}

// next is the earliest instant at which expired may say something new.
func (c *clocks) next() int64 {
	d := earliest(earliest(c.request, c.start), c.tunnel)
	if c.idle > 0 {
		d = earliest(d, c.active+c.idle)
	}
	return d
}

// expired tells which clock has run out; Served means none.
func (c *clocks) expired(now int64) gate.Outcome {
	switch {
	case c.request != 0 && now >= c.request, c.tunnel != 0 && now >= c.tunnel:
		return gate.RequestTimeout
	case c.start != 0 && now >= c.start:
		return gate.ResponseStartTimeout
	case c.idle > 0 && now >= c.active+c.idle:
		return gate.IdleTimeout
	}
	return gate.Served
}

// earliest is the earlier of two instants, where 0 means never.
func earliest(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
