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
	maxIdleUpstreams = 16384 // as many as may be in use at once; those that are not needed are trimmed
	minIdleUpstreams = 64    // stay when a burst is over
	reservedIdle     = 4     // idle ones are not for clients that begin many requests at once,
	minReserveOpen   = 64    // where there are as many as this
	maxIdleTime      = int64(90 * time.Second)
	maxEventAge      = 500 * time.Microsecond
	trimIdleTime     = int64(10 * time.Second) // when the burst that needed them is over
)

// Pool keeps the idle connections to the container of one loop, last in first
// out, and has new ones made. It is the exchange.Connector of HTTP/1.
type Pool struct {
	worker  *server.Worker
	dialer  *upstream.Dialer
	bufs    *buffers
	idleAge *exchange.IdleAge // how long the container keeps idle connections open
	idle    []*upConn
}

// Connect implements exchange.Connector: an idle connection unless a fresh one is asked
// for, else a new one. Without a descriptor that is the next that comes back,
// in the order of arrival.
func (p *Pool) Connect(x *exchange.Exchange, now int64, fresh bool) (up exchange.Upstream, next int64, o gate.Outcome) {
	first := p.dialer.Lacking()
	if first == x || !fresh && first == nil && x.Dial.Attempt == nil && !p.reserved(x) {
		if u := p.get(x.Repeatable()); u != nil {
			p.dialer.Served(now)
			u.sock.SetHandler(x.Dial.Handler)
			return u, 0, gate.Undecided
		}
		if first == x && len(p.idle) > 0 {
			p.idle[0].close() // too old for this request; its descriptor is not
		}
	}
	if p.dialer.Queues(x) {
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

// reserved reports that x leaves the idle connections that there are to others:
// who needs a new one stands in the container's backlog behind a crowd's. A
// container that has few connections may not serve more at once.
func (p *Pool) reserved(x *exchange.Exchange) bool {
	return x.Burst && len(p.idle) <= reservedIdle && p.dialer.Open() >= minReserveOpen
}

// adopt makes a side of a new connection.
func (p *Pool) adopt(c *upstream.Conn) *upConn {
	u := &upConn{pool: p, conn: c, sock: &c.Sock}
	u.reader.sock, u.reader.bufs = u.sock, p.bufs
	u.writer.sock, u.writer.bufs = u.sock, p.bufs
	return u
}

// reclaimable is the connection that has been idle for longest, if the loop has more
// than its share.
func (p *Pool) reclaimable() *upConn {
	if p.dialer.BeyondShare() && len(p.idle) > 0 && p.worker.Loop.Now()-p.idle[0].idleSince >= int64(exchange.MinIdle) {
		return p.idle[0]
	}
	return nil
}

// Cancel implements exchange.Connector.
func (p *Pool) Cancel(x *exchange.Exchange) { p.dialer.Cancel(x) }

// get takes an idle connection that is still good: one on which the kernel
// holds neither bytes nor an end. It is nil when there is none. Unless the
// request could be sent again, the connection must not be about to reach the
// age at which the container closes it; those that are stay, and tell by their
// end whether that was right.
func (p *Pool) get(again bool) *upConn {
	now := p.worker.Loop.Now()
	for n := len(p.idle); n > 0; n = len(p.idle) {
		u := p.idle[n-1]
		age := now - u.idleSince
		if quiet(u, again) && (u.closesAt == 0 || now < u.closesAt || again) {
			p.idleAge.NoteAlive(time.Duration(age))
			if !again && !p.idleAge.Trusts(time.Duration(age)) {
				return nil // the others are older
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

// quiet reports whether the container has sent nothing on an idle connection, nor closed
// it. For a request that can be sent again, the events of the loop are proof enough.
func quiet(u *upConn, again bool) bool {
	if again {
		return u.sock.QuietSincePoll(maxEventAge)
	}
	return u.sock.Quiet()
}

// put keeps u for the next request. Nothing of the last answer may be unread.
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
	p.dialer.Feed()
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

// trim closes connections that have been idle for long, but for minIdleUpstreams.
func (p *Pool) trim() {
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
}
