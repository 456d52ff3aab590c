package http1

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// upstream is a connection to the container. In the pool it watches itself:
// whatever the container says then, the end included, makes it useless.
type upstream struct {
	sock   loop.Sock
	pool   *upstreamPool
	pooled int   // index in the pool plus one
	since  int64 // when it became idle
	age    int64 // how long it had been idle when it was taken
	until  int64 // the container has promised to leave it open; 0 = it has not
	reused bool
	spent  bool // a body that was announced where there is none may still come
}

// Limits of the pool of one loop.
const (
	maxIdleUpstreams = 16384 // as many as may be in use at once; those that nobody needs are trimmed
	maxIdleTime      = int64(90 * time.Second)
	trimIdleTime     = int64(10 * time.Second) // when the burst that needed them is over
)

// upstreamPool keeps the idle connections of one loop, last in first out, and
// those who wait for the container to listen.
type upstreamPool struct {
	eng      *engine
	addr     unix.Sockaddr
	inet     int
	idleAge  *gate.IdleAge
	idle     []*upstream
	held     []*worker // in order of arrival; the first one tries
	starving []*worker // those who lack a descriptor, likewise
	tryAt    int64     // not before
	down     int64     // since when connections are refused; 0 = they are not
}

func (p *upstreamPool) init(e *engine) {
	p.eng, p.idleAge = e, &e.srv.idleAge
	ap := e.srv.cfg.Upstream
	if a := ap.Addr().Unmap(); a.Is4() {
		p.inet, p.addr = unix.AF_INET, &unix.SockaddrInet4{Port: int(ap.Port()), Addr: a.As4()}
	} else {
		p.inet, p.addr = unix.AF_INET6, &unix.SockaddrInet6{Port: int(ap.Port()), Addr: a.As16()}
	}
	p.down = e.loop.Now()
}

// get takes an idle connection that is still good: one on which the kernel
// holds neither bytes nor an end. It is nil when there is none. Unless the
// request could be sent again, the connection must not be about to reach the
// age at which the container closes it; those that are stay, and tell by their
// end whether that was right.
func (p *upstreamPool) get(again bool) *upstream {
	now := p.eng.loop.Now()
	for n := len(p.idle); n > 0; n = len(p.idle) {
		u := p.idle[n-1]
		age := now - u.since
		if u.sock.Quiet() && (u.until == 0 || now < u.until || again) {
			p.idleAge.Alive(time.Duration(age))
			if !again && !p.idleAge.Trusts(time.Duration(age)) {
				return nil // the others are older
			}
			p.take(u)
			p.eng.srv.reuses.Inc()
			u.reused, u.age = true, age
			return u
		}
		u.end()
	}
	return nil
}

// end closes an idle connection, and notes its age if the container did so.
func (u *upstream) end() {
	if u.sock.HungUp() || u.sock.Ended() {
		u.pool.idleAge.Ended(time.Duration(u.pool.eng.loop.Now() - u.since))
	}
	u.close()
}

// put keeps u for the next request. Nothing of the last answer may be unread.
func (p *upstreamPool) put(u *upstream) {
	now := p.eng.loop.Now()
	if len(p.idle) > 0 {
		p.idleAge.Alive(time.Duration(now - p.idle[0].since))
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

// promised takes what the container's Keep-Alive field says.
func (u *upstream) promised(idle time.Duration, said bool) {
	if u.until = 0; said {
		u.until = u.pool.eng.loop.Now() + int64(gate.Retire(idle))
	}
}

func (p *upstreamPool) take(u *upstream) {
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
func (p *upstreamPool) trim() {
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

// Event closes an idle connection that speaks or ends.
func (u *upstream) Event(s *loop.Sock) {
	if s.Readable() {
		u.end()
	}
}

func (u *upstream) close() {
	if u.pooled > 0 {
		u.pool.take(u)
	}
	if u.sock.Open() {
		u.pool.eng.srv.closes.Inc()
	}
	u.sock.Close()
	u.pool.feed()
}

// dial opens a connection. It returns nil and Served when the container does
// not accept one, which it notes, or not before the deadline, or when there is
// no descriptor left; nil and another outcome when to try again is of no use.
func (w *worker) dial(deadline int64) (*upstream, gate.Outcome) {
	p := &w.eng.up
	fd, err := unix.Socket(p.inet, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if w.starved = err != nil; w.starved {
		return nil, gate.Served
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	err = unix.Connect(fd, p.addr)
	if err != nil && err != unix.EINPROGRESS {
		_ = unix.Close(fd)
		p.refused(loop.Nanotime())
		return nil, gate.Served
	}
	u := &upstream{pool: p}
	if rerr := w.eng.loop.Register(&u.sock, fd, w.task); rerr != nil {
		_ = unix.Close(fd)
		return nil, gate.Served
	}
	if err == unix.EINPROGRESS && !w.awaitConnect(u, deadline) {
		u.sock.Close()
		return nil, gate.Served
	}
	loop.EaseLoopback(fd, w.srv.cfg.Upstream.Addr())
	w.srv.dials.Inc()
	p.reached(w.srv)
	if w.srv.cfg.UpstreamTLS != nil {
		w.up = u // for a panic in between
		outcome := w.secure(u)
		w.up = nil
		if outcome != gate.Served {
			u.close()
			return nil, outcome
		}
	}
	return u, gate.Served
}

// awaitConnect waits for a connection attempt that the kernel did not decide
// at once.
func (w *worker) awaitConnect(u *upstream, deadline int64) bool {
	for {
		if _, err := unix.Getpeername(u.sock.FD()); err == nil {
			return true
		}
		if u.sock.Failed() {
			w.eng.up.refused(w.now())
			return false
		}
		if w.conn.gone() || w.eng.loop.Closing() || deadline != 0 && w.now() >= deadline {
			return false
		}
		w.task.Wait(deadline)
	}
}

// connect gets a connection to the container: an idle one unless fresh is
// asked for, a new one, or one that it waits for.
func (w *worker) connect(fresh bool) (*upstream, gate.Outcome) {
	p := &w.eng.up
	if !fresh {
		if u := p.get(w.again()); u != nil {
			u.sock.Handle(w.task)
			return u, gate.Served
		}
	}
	if len(p.starving) > 0 {
		return w.starve()
	}
	if len(p.held) == 0 || p.down == 0 {
		if u, why := w.dial(w.clocks.Next()); u != nil || why != gate.Served {
			return u, why
		}
		if w.starved {
			return w.starve()
		}
	}
	return w.hold()
}

// reached notes that the container listens and releases those who wait.
func (p *upstreamPool) reached(s *Server) {
	if p.down != 0 {
		if c := s.gate.Contact; c != nil {
			c.Listening(true)
		}
		s.listened.Store(true)
	}
	p.down, p.tryAt = 0, 0
	for _, w := range p.held {
		w.task.Wake()
	}
}

// refused notes that the container does not listen.
func (p *upstreamPool) refused(now int64) {
	if p.down != 0 {
		return
	}
	p.down = now
	if c := p.eng.srv.gate.Contact; c != nil {
		c.Listening(false)
	}
}

// hold waits until the container listens. The first in line makes the
// attempts; its success releases the others.
func (w *worker) hold() (*upstream, gate.Outcome) {
	p := &w.eng.up
	if w.gate.ConcurrencyLimit == 0 && w.srv.held.Load() >= int64(w.gate.QueueCapacity) {
		return nil, gate.QueueFull
	}
	w.srv.held.Inc()
	p.held = append(p.held, w)
	defer func() {
		w.srv.held.Dec()
		p.unhold(w)
	}()

	patience := w.gate.UpstreamWait
	if w.srv.listened.Load() {
		patience = w.gate.UpstreamRestartWait
	}
	giveUp := w.now() + int64(patience)
	for {
		now := w.now()
		switch {
		case w.conn.gone() || w.eng.loop.Closing():
			return nil, gate.ClientGone
		case now >= giveUp:
			return nil, gate.UpstreamNotListening
		}
		if o := w.clocks.Expired(now); o != gate.Served {
			return nil, o
		}
		first := p.held[0] == w
		if p.down == 0 || first && now >= p.tryAt {
			if u, why := w.dial(gate.Earliest(w.clocks.Next(), giveUp)); u != nil || why != gate.Served {
				return u, why
			}
			now = loop.Nanotime()
			p.tryAt = now + gate.QuickPace(now-p.down)
			first = p.held[0] == w
		}
		until := gate.Earliest(w.clocks.Next(), giveUp)
		if first {
			until = gate.Earliest(until, p.tryAt)
		}
		w.task.Wait(until)
	}
}

// unhold takes w out of the line; whoever is first now goes on trying.
func (p *upstreamPool) unhold(w *worker) {
	for i, h := range p.held {
		if h == w {
			p.held = append(p.held[:i], p.held[i+1:]...)
			break
		}
	}
	if len(p.held) > 0 {
		p.held[0].task.Wake()
	}
}
