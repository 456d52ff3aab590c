package http2

import (
	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// Part is HTTP/2 on one loop, towards clients and towards the container.
type Part struct {
	*Engine
	router upstream.Router
	pool   *Pool
}

// NewPart makes the part of HTTP/2 that belongs to l. http1 finds connections
// over HTTP/1.1.
func NewPart(l *loop.Loop, g *gate.Gate, c *Config, s *Stats, d *upstream.Dialer, choice *upstream.Choice, up *upstream.Stats, http1 gate.Connector) *Part {
	p := &Part{}
	p.Engine = NewEngine(l, g, c, s, &p.router)
	p.pool = NewPool(p.Engine, d, choice, up)
	p.router = upstream.Router{Choice: choice, HTTP1: http1, HTTP2: p.pool}
	return p
}

// Connector finds connections over either protocol.
func (p *Part) Connector() gate.Connector { return &p.router }

// IdleUpstreams is the number of connections to the container that carry
// nothing.
func (p *Part) IdleUpstreams() int {
	idle, _ := p.pool.Idle()
	return idle
}
