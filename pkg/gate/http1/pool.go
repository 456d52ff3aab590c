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
	maxIdleUpstreams = 16384
	minIdleUpstreams = 64 // number of idle connections that trim does not close
	reservedIdle     = 4  // number of idle connections that a burst does not use
	minReserveOpen   = 64 // number of open connections from which reservedIdle applies
	maxIdleTime      = int64(90 * time.Second)
	trimIdleTime     = int64(10 * time.Second) // idle time after which trim closes a connection
	// maxPollAge is the maximum age of a poll result that replaces a system call.
	maxPollAge = time.Millisecond
)

// Pool holds the idle upstream connections of one loop, last in first out. It is the
// exchange.Connector of HTTP/1.
type Pool struct {
	worker  *server.Worker
	dialer  *upstream.Dialer
	bufs    *buffers
	idleAge *exchange.IdleAge
	idle    []*upConn
}

// Connect implements exchange.Connector. It returns an idle connection, or a new one if
// there is none or isRetry is set. Requests wait for descriptors in order of arrival.
func (p *Pool) Connect(x *exchange.Exchange, now int64, isRetry bool) (up exchange.Upstream, next int64, o gate.Outcome) {
	first := p.dialer.FirstWaiting()
	if first == x || !isRetry && first == nil && x.Dial.Attempt == nil && !p.reserved(x) {
		if u := p.get(x.Repeatable()); u != nil {
			p.dialer.NoteServed(now)
			u.sock.SetHandler(x.Dial.Handler)
			return u, 0, gate.Undecided
		}
		if first == x && len(p.idle) > 0 {
			// The request cannot be retried, and the container may be about to close the
			// idle connections. Closing one frees a descriptor for a new connection.
			p.idle[0].close()
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

// reserved reports whether x belongs to a burst and the remaining idle connections are
// reserved for other requests. Without the reservation, the other requests would need new
// connections. These would wait in the container's listen backlog behind the connections
// of the burst.
func (p *Pool) reserved(x *exchange.Exchange) bool {
	return x.Burst && len(p.idle) <= reservedIdle && p.dialer.Open() >= minReserveOpen
}

func (p *Pool) adopt(c *upstream.Conn) *upConn {
	u := &upConn{pool: p, conn: c, sock: &c.Sock}
	u.reader.sock, u.reader.bufs = u.sock, p.bufs
	u.writer.sock, u.writer.bufs = u.sock, p.bufs
	return u
}

// reclaimable returns the connection that has been idle for longest. It returns nil if
// that connection has been idle for less than exchange.MinIdle, or if the loop does
// not have more connections than its guaranteed share.
func (p *Pool) reclaimable() *upConn {
	if p.dialer.BeyondShare() && len(p.idle) > 0 && p.worker.Loop.Now()-p.idle[0].idleSince >= int64(exchange.MinIdle) {
		return p.idle[0]
	}
	return nil
}

// Cancel implements exchange.Connector.
func (p *Pool) Cancel(x *exchange.Exchange) { p.dialer.Cancel(x) }

// quiet reports whether u has no pending bytes, EOF or error. If the request can be
// retried, the result of a recent poll is sufficient.
func (u *upConn) quiet(retryable bool) bool {
	return retryable && u.sock.QuietAtPoll(maxPollAge) || u.sock.Quiet()
}

// get takes the last idle connection that has no pending bytes, EOF or error; nil = none.
// A request that cannot be retried gets no connection that the container may be about to
// close.
func (p *Pool) get(retryable bool) *upConn {
	now := p.worker.Loop.Now()
	for n := len(p.idle); n > 0; n = len(p.idle) {
		u := p.idle[n-1]
		age := now - u.idleSince
		if u.quiet(retryable) && (u.closesAt == 0 || now < u.closesAt || retryable) {
			p.idleAge.NoteAlive(time.Duration(age))
			if !retryable && !p.idleAge.Trusts(time.Duration(age)) {
				return nil // the other connections have been idle for even longer
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

// put adds u to the idle connections. The last response of u must have been read
// completely.
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

// trim closes connections that have been idle for longer than trimIdleTime, but keeps at
// least minIdleUpstreams. It returns true if more than these remain, so that the loop
// calls it again later.
func (p *Pool) trim() (more bool) {
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
