package http1

import (
	"time"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/server"
	"github.com/queuegate/queuegate/pkg/gate/upstream"
)

// Limits of the pool of one loop.
const (
	maxIdleUpstreams = 16384 // equals the number that may be in use at once; trim closes connections that are not needed
	minIdleUpstreams = 64    // number of idle connections that trim keeps
	reservedIdle     = 4     // number of idle connections that a burst does not use
	minReserveOpen   = 64    // number of open connections from which reservedIdle applies
	maxIdleTime      = int64(90 * time.Second)
	trimIdleTime     = int64(10 * time.Second) // idle time after which trim closes a connection
	maxPollAge       = time.Millisecond        // maximum age of a poll that showed an idle connection without events
)

// Pool holds the idle connections of one loop to the container, last in first out, and
// requests new connections. It is the exchange.Connector of HTTP/1.
type Pool struct {
	worker  *server.Worker
	dialer  *upstream.Dialer
	bufs    *buffers
	idleAge *exchange.IdleAge // estimates how long the container keeps idle connections open
	idle    []*upConn
}

// Connect implements exchange.Connector. It returns an idle connection, or a new one if
// there is none or fresh is set. If no descriptor is available, requests wait for
// released ones in order of arrival.
func (p *Pool) Connect(x *exchange.Exchange, now int64, fresh bool) (up exchange.Upstream, next int64, o gate.Outcome) {
	first := p.dialer.FirstWaiting()
	if first == x || !fresh && first == nil && x.Dial.Attempt == nil && !p.reserved(x) {
		if u := p.get(x.Repeatable()); u != nil {
			p.dialer.NoteServed(now)
			u.sock.SetHandler(x.Dial.Handler)
			return u, 0, gate.Undecided
		}
		if first == x && len(p.idle) > 0 {
			p.idle[0].close() // too old for this request; closing it frees a descriptor
		}
	}
	if p.dialer.Enqueue(x) {
		return nil, 0, gate.Undecided
	}
	r := p.dialer.Connect(x, now, "http/1.1")
	if r.Conn == nil {
		return nil, r.Next, r.Outcome
	}
	u := p.adopt(r.Conn)
	u.sock.SetHandler(x.Dial.Handler)
	return u, 0, gate.Undecided
}

// reserved reports whether x must leave the remaining idle connections to other requests.
// A request that needs a new connection waits in the container's backlog behind the
// requests of a burst. A container that serves only a few connections at once may not
// serve it in the meantime.
func (p *Pool) reserved(x *exchange.Exchange) bool {
	return x.Burst && len(p.idle) <= reservedIdle && p.dialer.Open() >= minReserveOpen
}

// adopt wraps a new connection.
func (p *Pool) adopt(c *upstream.Conn) *upConn {
	u := &upConn{pool: p, conn: c, sock: &c.Sock}
	u.reader.sock, u.reader.bufs = u.sock, p.bufs
	u.writer.sock, u.writer.bufs = u.sock, p.bufs
	return u
}

// reclaimable returns the connection that has been idle for longest, and for at least
// exchange.MinIdle; nil = none. It returns nil if the loop has no more than its share of
// connections.
func (p *Pool) reclaimable() *upConn {
	if p.dialer.BeyondShare() && len(p.idle) > 0 && p.worker.Loop.Now()-p.idle[0].idleSince >= int64(exchange.MinIdle) {
		return p.idle[0]
	}
	return nil
}

// Cancel implements exchange.Connector.
func (p *Pool) Cancel(x *exchange.Exchange) { p.dialer.Cancel(x) }

// quiet reports whether u has no pending bytes, EOF or error. For a request that can be
// retried, the result of a recent poll is sufficient.
func (u *upConn) quiet(retryable bool) bool {
	return retryable && u.sock.QuietAtPoll(maxPollAge) || u.sock.Quiet()
}

// get returns an idle connection on which the kernel holds neither bytes nor EOF; nil =
// none. If the request cannot be retried (retryable is false), the connection must not be
// close to the age at which the container closes it. Connections close to that age stay
// in the pool. Their end shows whether the estimate of the age was right.
func (p *Pool) get(retryable bool) *upConn {
	now := p.worker.Loop.Now()
	for n := len(p.idle); n > 0; n = len(p.idle) {
		u := p.idle[n-1]
		age := now - u.idleSince
		if u.quiet(retryable) && (u.closesAt == 0 || now < u.closesAt || retryable) {
			p.idleAge.NoteAlive(time.Duration(age))
			if !retryable && !p.idleAge.Trusts(time.Duration(age)) {
				return nil // all other connections are older
			}
			p.take(u)
			p.worker.Stats.Reuses.Inc()
			u.reused, u.idleTime = true, age
			return u
		}
		u.closeIdle()
	}
	return nil
}

// put adds u to the idle connections. Its last response must have been read completely.
func (p *Pool) put(u *upConn) {
	now := p.worker.Loop.Now()
	if len(p.idle) > 0 {
		p.idleAge.NoteAlive(time.Duration(now - p.idle[0].idleSince))
		if oldest := p.idle[0]; len(p.idle) >= maxIdleUpstreams || now-oldest.idleSince > maxIdleTime {
			oldest.sock.Finish()
			oldest.close()
		}
	}
	u.idleSince = now
	u.sock.SetHandler(u)
	p.idle = append(p.idle, u)
	u.poolIndex = int32(len(p.idle))
	if len(p.idle) > minIdleUpstreams {
		p.worker.Loop.ScheduleTrim()
	}
	p.dialer.WakeFirst()
}

func (p *Pool) take(u *upConn) {
	i, last := int(u.poolIndex)-1, len(p.idle)-1
	copy(p.idle[i:], p.idle[i+1:])
	p.idle[last] = nil
	p.idle = p.idle[:last]
	for ; i < last; i++ {
		p.idle[i].poolIndex = int32(i) + 1
	}
	u.poolIndex = 0
}

// trim closes connections that have been idle for trimIdleTime, except
// minIdleUpstreams. It returns whether more may have to be closed later.
func (p *Pool) trim() (again bool) {
	now := p.worker.Loop.Now()
	n := 0
	for n < len(p.idle)-minIdleUpstreams && now-p.idle[n].idleSince > trimIdleTime {
		p.idle[n].poolIndex = 0
		p.idle[n].close()
		n++
	}
	rest := copy(p.idle, p.idle[n:])
	clear(p.idle[rest:])
	p.idle = p.idle[:rest]
	for i, u := range p.idle {
		u.poolIndex = int32(i) + 1
	}
	return len(p.idle) > minIdleUpstreams
}
