package http1

import (
	"net/netip"
	"time"

	"go.uber.org/atomic"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// Limits of the pool of one loop.
const (
	maxIdleUpstreams = 16384 // as many as may be in use at once; those that nobody needs are trimmed
	keptUpstreams    = 64    // stay when a burst is over
	maxIdleTime      = int64(90 * time.Second)
	trimIdleTime     = int64(10 * time.Second) // when the burst that needed them is over
)

// poolStats count what all pools of a server do.
type poolStats struct{ dials, closes, reuses atomic.Int64 }

// pool keeps the idle connections to the container of one loop, last in first
// out, and makes new ones. It is the gate.Connector of HTTP/1.
type pool struct {
	eng      *engine
	gate     *gate.Gate
	bufs     *buffers
	stats    *poolStats
	host     []byte // Host where a request has none
	address  netip.Addr
	sockaddr unix.Sockaddr
	family   int
	idle     []*upstream
	starving gate.DialLine // those who lack a descriptor
	open     int           // connections, those that are being made included
	share    int           // as many are always to be had; those beyond come from the budget
	awaiting bool          // the budget has been asked for a descriptor
	served   int64         // when the last of those who lack one got one, or the first began to
}

func (p *pool) init(e *engine, address netip.AddrPort, stats *poolStats, share int) {
	p.share = share
	p.eng, p.gate, p.bufs, p.host, p.stats = e, e.gate, &e.bufs, e.host, stats
	p.address = address.Addr()
	if a := p.address.Unmap(); a.Is4() {
		p.family, p.sockaddr = unix.AF_INET, &unix.SockaddrInet4{Port: int(address.Port()), Addr: a.As4()}
	} else {
		p.family, p.sockaddr = unix.AF_INET6, &unix.SockaddrInet6{Port: int(address.Port()), Addr: a.As16()}
	}
}

// Connect is gate.Connector: an idle connection unless a fresh one is asked
// for, a new one, or a wait for one. Without a descriptor that is for the next
// that comes back, in the order of arrival; while the container does not
// listen, gate.PendingDials has its order.
func (p *pool) Connect(x *gate.Exchange, now int64, fresh bool) (up gate.UpstreamSide, next int64, o gate.Outcome, failed bool) {
	if u, ok := x.Dial().Attempt.(*upstream); ok {
		return p.attempted(x, u, now)
	}
	first := p.starving.First()
	if first == x || !fresh && first == nil {
		if u := p.get(x.Repeatable()); u != nil {
			p.served = now
			u.sock.Handle(x.Driver().(loop.Handler))
			return u, 0, gate.Served, false
		}
		if first == x && len(p.idle) > 0 {
			p.idle[0].close() // too old for this request; its descriptor is not
		}
	}
	if first != nil && first != x {
		p.starving.Join(x)
		return nil, 0, gate.Served, false
	}
	pending := &p.gate.Pending
	if pending.Holds(x) || first == nil && !pending.Clear() {
		try, next, o, failed := pending.Hold(x, now)
		if failed || !try {
			return nil, next, o, failed
		}
	}
	return p.dial(x, now)
}

// dial opens a connection for x.
func (p *pool) dial(x *gate.Exchange, now int64) (up gate.UpstreamSide, next int64, o gate.Outcome, failed bool) {
	if !p.acquire() {
		return p.starve(x, now)
	}
	fd, err := unix.Socket(p.family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		p.release()
		return p.starve(x, now)
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	err = unix.Connect(fd, p.sockaddr)
	if err != nil && err != unix.EINPROGRESS {
		_ = unix.Close(fd)
		p.release()
		return p.refused(x)
	}
	u := &upstream{pool: p}
	if err := p.eng.loop.Register(&u.sock, fd, x.Driver().(loop.Handler)); err != nil {
		_ = unix.Close(fd)
		p.release()
		return p.starve(x, now)
	}
	u.reader.sock, u.reader.bufs = &u.sock, p.bufs
	u.writer.sock, u.writer.bufs = &u.sock, p.bufs
	x.Dial().Attempt = u
	return p.attempted(x, u, now)
}

// attempted looks how far the connection that is made for x has come.
func (p *pool) attempted(x *gate.Exchange, u *upstream, now int64) (up gate.UpstreamSide, next int64, o gate.Outcome, failed bool) {
	if u.handshake == nil {
		if _, err := unix.Getpeername(u.sock.FD()); err != nil {
			if u.sock.Failed() {
				x.Dial().Attempt = nil
				u.close()
				return p.refused(x)
			}
			if p.gate.Pending.Holds(x) {
				_, next, o, failed = p.gate.Pending.Hold(x, now)
			}
			return nil, next, o, failed
		}
		loop.EaseLoopback(u.sock.FD(), p.address)
		p.stats.dials.Inc()
		u.counted = true
		p.gate.Pending.Reached()
		if p.eng.cfg.UpstreamTLS != nil {
			p.beginHandshake(x, u)
		}
	}
	if h := u.handshake; h != nil {
		if !h.done {
			return nil, 0, gate.Served, false
		}
		if h.err != nil {
			p.Cancel(x)
			if told := p.eng.cfg.UpstreamTLSFailed; told != nil {
				told(h.err)
			}
			return nil, 0, gate.UpstreamTLSFailed, true
		}
		u.handshake = nil
		u.sock.Handle(x.Driver().(loop.Handler))
	}
	x.Dial().Attempt = nil
	return u, 0, gate.Served, false
}

// refused holds x until the container listens.
func (p *pool) refused(x *gate.Exchange) (up gate.UpstreamSide, next int64, o gate.Outcome, failed bool) {
	now := loop.Nanotime()
	p.gate.Pending.Refused(now)
	p.starving.Leave(x)
	p.feed()
	_, next, o, failed = p.gate.Pending.Hold(x, now)
	return nil, next, o, failed
}

// starve makes x wait for a connection that another exchange gives back: there
// is no descriptor for a new one.
func (p *pool) starve(x *gate.Exchange, now int64) (up gate.UpstreamSide, next int64, o gate.Outcome, failed bool) {
	if p.starving.First() == nil {
		p.served = now
	}
	p.await(now)
	if p.gate.Pending.Holds(x) {
		_, next, o, failed = p.gate.Pending.Hold(x, now)
		return nil, next, o, failed
	}
	p.starving.Join(x)
	return nil, 0, gate.Served, false
}

// acquire takes a descriptor for one more connection.
func (p *pool) acquire() bool {
	if p.open >= p.share && !p.gate.Descriptors.TryAcquire() {
		return false
	}
	p.open++
	p.served = p.eng.loop.Now()
	return true
}

// release ends what acquire began.
func (p *pool) release() {
	if p.open--; p.open >= p.share {
		p.gate.Descriptors.Release()
	}
}

// await asks the budget for a descriptor on behalf of those who lack one.
// Clients give way when none has come back for a while: mostly one does, with
// the end of another exchange.
func (p *pool) await(now int64) {
	if !p.awaiting {
		p.awaiting = true
		p.gate.Descriptors.Await(func() {
			p.eng.loop.Post(func() {
				p.awaiting = false
				p.feed()
			})
		})
	}
	if now-p.served >= int64(gate.MinIdle) {
		p.gate.Descriptors.Reclaim()
	}
}

// spare is the connection that has been idle for longest, if the loop has more
// than its share.
func (p *pool) spare() *upstream {
	if p.open > p.share && len(p.idle) > 0 && p.eng.loop.Now()-p.idle[0].since >= int64(gate.MinIdle) {
		return p.idle[0]
	}
	return nil
}

// Cancel is gate.Connector.
func (p *pool) Cancel(x *gate.Exchange) {
	u := x.Dial().Attempt.(*upstream)
	x.Dial().Attempt = nil
	if u.handshake != nil {
		u.handshake.cancel()
	}
	u.close()
}

// feed lets the first of those who lack a descriptor look for a connection.
func (p *pool) feed() {
	if x := p.starving.First(); x != nil {
		x.Wake()
	}
}

// get takes an idle connection that is still good: one on which the kernel
// holds neither bytes nor an end. It is nil when there is none. Unless the
// request could be sent again, the connection must not be about to reach the
// age at which the container closes it; those that are stay, and tell by their
// end whether that was right.
func (p *pool) get(again bool) *upstream {
	now := p.eng.loop.Now()
	for n := len(p.idle); n > 0; n = len(p.idle) {
		u := p.idle[n-1]
		age := now - u.since
		if u.sock.Quiet() && (u.until == 0 || now < u.until || again) {
			p.idleAge().Alive(time.Duration(age))
			if !again && !p.idleAge().Trusts(time.Duration(age)) {
				return nil // the others are older
			}
			p.take(u)
			p.stats.reuses.Inc()
			u.reused, u.age = true, age
			return u
		}
		u.end()
	}
	return nil
}

// idleAge is what is known of how long the container leaves idle connections
// open.
func (p *pool) idleAge() *gate.IdleAge { return &p.eng.srv.idleAge }

// put keeps u for the next request. Nothing of the last answer may be unread.
func (p *pool) put(u *upstream) {
	now := p.eng.loop.Now()
	if len(p.idle) > 0 {
		p.idleAge().Alive(time.Duration(now - p.idle[0].since))
		if oldest := p.idle[0]; len(p.idle) >= maxIdleUpstreams || now-oldest.since > maxIdleTime {
			oldest.sock.Finish()
			oldest.close()
		}
	}
	u.since = now
	u.sock.Handle(u)
	p.idle = append(p.idle, u)
	u.pooled = len(p.idle)
	p.feed()
}

func (p *pool) take(u *upstream) {
	i, last := u.pooled-1, len(p.idle)-1
	copy(p.idle[i:], p.idle[i+1:])
	p.idle[last] = nil
	p.idle = p.idle[:last]
	for ; i < last; i++ {
		p.idle[i].pooled = i + 1
	}
	u.pooled = 0
}

// trim closes connections that have been idle for long, but for keptUpstreams.
func (p *pool) trim() {
	now := p.eng.loop.Now()
	n := 0
	for n < len(p.idle)-keptUpstreams && now-p.idle[n].since > trimIdleTime {
		p.idle[n].pooled = 0
		p.idle[n].close()
		n++
	}
	rest := copy(p.idle, p.idle[n:])
	clear(p.idle[rest:])
	p.idle = p.idle[:rest]
	for i, u := range p.idle {
		u.pooled = i + 1
	}
}
