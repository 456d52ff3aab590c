package http1

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate/exchange"
)

// Oldest is gate.IdleConnections.
func (e *engine) Oldest(found func(exchange.IdleConnection, bool)) {
	e.loop.Post(func() { found(e.oldestIdle()) })
}

// CloseOldest is gate.IdleConnections.
func (e *engine) CloseOldest(rank exchange.Idleness) {
	e.loop.Post(func() { e.closeIdle(rank) })
}

func (e *engine) oldestIdle() (o exchange.IdleConnection, ok bool) {
	if e.bufs.pipes.free.Len() > 0 {
		return exchange.IdleConnection{Idleness: exchange.IdleUpstream}, true
	}
	if u := e.pool.spare(); u != nil {
		return exchange.IdleConnection{Idleness: exchange.IdleUpstream, Since: u.since}, true
	}
	if c := e.oldestWaiting(); c != nil {
		return exchange.IdleConnection{Idleness: exchange.IdleClient, Since: c.since}, true
	}
	if c := e.oldestReading(); c != nil {
		return exchange.IdleConnection{Idleness: exchange.UnfinishedHead, Since: c.since}, true
	}
	return o, false
}

// closeIdle closes the oldest connection of the rank, if there is still one.
func (e *engine) closeIdle(rank exchange.Idleness) {
	var c *conn
	switch rank {
	case exchange.IdleUpstream:
		if p := &e.bufs.pipes; p.free.Len() > 0 {
			p.close(p.free.Get())
		} else if u := e.pool.spare(); u != nil {
			u.sock.Finish()
			u.close()
		}
		return
	case exchange.IdleClient:
		c = e.oldestWaiting()
	case exchange.UnfinishedHead:
		c = e.oldestReading()
	}
	if c == nil {
		return
	}
	e.gate.Descriptors.NoteReclaimed()
	c.finish()
	if c.session != nil {
		c.session.close()
	}
}

// oldestWaiting is the client's connection that has waited longest for its
// next request or, after its last answer, for its end.
func (e *engine) oldestWaiting() *conn {
	silent, idle := e.oldest(&e.silent, exchange.MinSilence), e.oldest(&e.conns, exchange.MinIdle)
	if silent == nil || idle != nil && idle.since < silent.since {
		return idle
	}
	return silent
}

func (e *engine) oldestReading() *conn { return e.oldest(&e.reading, exchange.MinIdle) }

// oldest is the first connection of the list, if it has waited for long enough.
// Those that serve a request are not in order, and are put out of the way;
// those on which bytes have come are about to serve one.
func (e *engine) oldest(l *connList, enough time.Duration) *conn {
	var until *conn // the first one that was put out of the way
	for c := l.first; c != nil && c != until; {
		next := c.next
		switch {
		case c.serving():
			if until == nil {
				until = c
			}
			l.remove(c)
			l.push(c)
		case e.loop.Now()-c.since < int64(enough):
			return nil
		case c.session != nil || c.sock.Quiet():
			return c
		}
		c = next
	}
	return nil
}

// serving reports whether c has a request under way.
func (c *conn) serving() bool {
	return c.session != nil && c.session.phase != lingering && c.list != &c.eng.reading
}
