package http2

import (
	"iter"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/wire/h2"
)

// clients are the connections of clients on one loop, and the
// gate.IdleConnections of those, and of those to the container, that carry no
// stream.
type clients struct {
	eng     *Engine
	idle    connList // in the order in which they began to wait; some have streams
	reading connList // a frame or a field block has begun
}

// connList is a list of connections.
type connList struct{ first, last *downConn }

func (l *connList) pushBack(c *downConn) {
	c.idleList = l
	if c.prev = l.last; c.prev != nil {
		c.prev.next = c
	} else {
		l.first = c
	}
	l.last = c
}

func (l *connList) remove(c *downConn) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		l.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		l.last = c.prev
	}
	c.next, c.prev = nil, nil
}

// moveTo makes c the last one in l to have begun to wait.
func (c *downConn) moveTo(l *connList) {
	c.idleSince = c.eng.loop.Now()
	if c.idleList != l || l.last != c {
		c.idleList.remove(c)
		l.pushBack(c)
	}
}

// add begins to count c.
func (s *clients) add(c *downConn) {
	c.idleSince = s.eng.loop.Now()
	s.idle.pushBack(c)
	s.eng.cfg.connections.Inc()
}

// remove ends what add began.
func (s *clients) remove(c *downConn) {
	c.idleList.remove(c)
	s.eng.cfg.connections.Dec()
	s.eng.worker.Departed()
}

// all are the connections; one may be removed when it is its turn.
func (s *clients) all() iter.Seq[*downConn] {
	return func(yield func(*downConn) bool) {
		for _, l := range []*connList{&s.idle, &s.reading} {
			for c := l.first; c != nil; {
				next := c.next
				if !yield(c) {
					return
				}
				c = next
			}
		}
	}
}

// Oldest is gate.IdleConnections.
func (s *clients) Oldest(found func(exchange.IdleConnection, bool)) {
	s.eng.loop.Post(func() {
		if u := s.eng.pool.spareConn(); u != nil {
			found(exchange.IdleConnection{Idleness: exchange.IdleUpstream, Since: u.lastReadAt}, true)
		} else if c := s.oldest(&s.idle); c != nil {
			found(exchange.IdleConnection{Idleness: exchange.IdleClient, Since: c.idleSince}, true)
		} else if c := s.oldest(&s.reading); c != nil {
			found(exchange.IdleConnection{Idleness: exchange.UnfinishedHead, Since: c.idleSince}, true)
		} else {
			found(exchange.IdleConnection{}, false)
		}
	})
}

// CloseOldest is gate.IdleConnections.
func (s *clients) CloseOldest(rank exchange.Idleness) {
	s.eng.loop.Post(func() {
		l := &s.idle
		switch rank {
		case exchange.IdleUpstream:
			if u := s.eng.pool.spareConn(); u != nil {
				u.retire(h2.NoError, gate.UpstreamClosed)
			}
			return
		case exchange.UnfinishedHead:
			l = &s.reading
		}
		if c := s.oldest(l); c != nil {
			s.eng.gate.Descriptors.NoteReclaimed()
			c.retire()
		}
	})
}

// oldest is the first connection of the list, if it has waited for long enough.
// Those with streams are not in order, and are put out of the way; those on
// which bytes have come are about to have one.
func (s *clients) oldest(l *connList) *downConn {
	var until *downConn // the first one that was put out of the way
	for c := l.first; c != nil && c != until; {
		next := c.next
		switch {
		case len(c.table.open) > 0:
			if until == nil {
				until = c
			}
			l.remove(c)
			l.pushBack(c)
		case s.eng.loop.Now()-c.idleSince < int64(exchange.MinIdle):
			return nil
		case c.input.since != 0 || c.sock.Quiet():
			return c
		}
		c = next
	}
	return nil
}
