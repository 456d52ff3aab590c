package http2

import (
	"iter"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/server"
)

// clients are the client connections of one loop.
type clients struct {
	eng     *Engine
	idle    connSet // connections without an incomplete frame or field block; streams may be open
	reading connSet // connections with an incomplete frame or field block, or whose reading is paused
}

type connSet = server.IdleSet[downConn, *downConn]

func (s *clients) init(e *Engine) {
	s.eng = e
	s.idle.Init(e.worker, exchange.IdleClient, exchange.MinIdle)
	s.reading.Init(e.worker, exchange.PartialHead, exchange.MinIdle)
}

func (s *clients) add(c *downConn) {
	s.idle.Touch(c)
	s.eng.cfg.connections.Inc()
}

func (s *clients) remove(c *downConn) {
	c.Set().Remove(c)
	s.eng.cfg.connections.Dec()
	s.eng.worker.NoteEnd()
}

// all yields all connections. The body of the range loop may remove the current one.
func (s *clients) all() iter.Seq[*downConn] {
	return func(yield func(*downConn) bool) {
		for _, l := range []*connSet{&s.idle, &s.reading} {
			for c := range l.All() {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// Busy implements server.IdleConn.
func (c *downConn) Busy() bool { return len(c.table.open) > 0 }

// Quiet implements server.IdleConn.
func (c *downConn) Quiet() bool { return c.input.beganAt != 0 || c.sock.Quiet() }

// Reclaim implements server.IdleConn.
func (c *downConn) Reclaim() { c.retire() }
