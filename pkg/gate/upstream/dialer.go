package upstream

import (
	"crypto/tls"
	"net/netip"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// Config configures connections to the container.
type Config struct {
	Address netip.AddrPort
	// TLS enables TLS; nil = plaintext.
	TLS *tls.Config
	// TLSFailed is called on a loop with the error of each failed handshake. It may be
	// nil.
	TLSFailed func(error)
}

// Stats counts the connections of all loops to the container.
type Stats struct{ Dials, Closes, Reuses atomic.Int64 }

// Conn is a connection to the container. The receiver of a Result owns it.
type Conn struct {
	Sock loop.Sock
	// Protocol is the protocol selected by ALPN; empty without TLS.
	Protocol string

	dialer            *Dialer
	hasDescriptor     bool      // the connection is included in Dialer.open
	counted           bool      // the connection was established and is included in Stats.Dials
	session           *tls.Conn // TLS session of a handshake in progress; nil = none
	handshakeDeadline int64
}

// Close closes the connection. Closing twice is harmless.
func (c *Conn) Close() {
	if c.counted {
		c.counted = false
		c.dialer.stats.Closes.Inc()
	}
	c.Sock.Close()
	if c.hasDescriptor {
		c.hasDescriptor = false
		c.dialer.release()
	}
	c.dialer.WakeFirst()
}

// Dialer opens the connections of one loop. Each exchange has at most one attempt at a
// time.
type Dialer struct {
	loop       *loop.Loop
	gate       *exchange.Gate
	cfg        *Config
	choice     *Choice
	stats      *Stats
	target     loop.Target
	queue      exchange.WaitQueue // exchanges that wait for a descriptor
	open       int                // number of open connections, including those being established
	connecting int                // number of connections being established
	// share is the number of connections guaranteed to the loop. Each connection beyond
	// this number needs a descriptor from the budget that all loops share.
	share    int
	attempts uint32 // number of attempts to open a connection
	awaiting bool   // a descriptor has been requested from the budget
	// lastServed is the time of the latest of these events: the loop acquired a
	// descriptor, a queued exchange got an idle connection, or an exchange had to wait
	// while the queue was empty. If it is long ago, await closes an idle connection.
	lastServed int64
	// handshakeSlots limits concurrent TLS handshakes to one. A handshake that waits for
	// the container holds no slot.
	handshakeSlots chan struct{}
}

// Init sets the dependencies of d. share is the number of connections guaranteed to the
// loop. Call it once, before any other method.
func (d *Dialer) Init(l *loop.Loop, g *exchange.Gate, c *Config, choice *Choice, s *Stats, share int) {
	d.loop, d.gate, d.cfg, d.choice, d.stats, d.share = l, g, c, choice, s, share
	d.target = loop.NewTarget(c.Address)
	d.handshakeSlots = make(chan struct{}, 1)
}

// Result is the result of an attempt to connect.
type Result struct {
	Conn *Conn // nil: not connected
	// Next is the latest time at which the caller must call Connect again, if there is
	// neither a Conn nor an Outcome; 0 = no bound.
	Next int64
	// Outcome is the outcome with which the exchange ends, because it gets no connection.
	// Undecided means that a later call of Connect may still return a connection.
	Outcome gate.Outcome
}

// Attempts returns the number of connection attempts.
func (d *Dialer) Attempts() uint32 { return d.attempts }

// Open returns the number of connections, including those being established.
func (d *Dialer) Open() int { return d.open }

// Connecting returns the number of connections being established.
func (d *Dialer) Connecting() int { return d.connecting }

// FirstWaiting returns the exchange that has waited longest for a descriptor; nil =
// none.
func (d *Dialer) FirstWaiting() *exchange.Exchange { return d.queue.First() }

// Enqueue queues x behind the exchanges that wait for a descriptor, so that x does not
// overtake them. In three cases it returns false and changes nothing: the queue is empty
// or x is already the first in it; x has an attempt in progress; or x is in the connect
// queue.
func (d *Dialer) Enqueue(x *exchange.Exchange) bool {
	first := d.queue.First()
	if first == nil || first == x || x.Dial.Attempt != nil || d.inConnectQueue(x) {
		return false
	}
	d.queue.Add(x)
	return true
}

// inConnectQueue reports whether x waits in the connect queue for the container to
// listen. It returns false once the container listens.
func (d *Dialer) inConnectQueue(x *exchange.Exchange) bool {
	p := &d.gate.Connects
	return p.Contains(x) && !p.Clear()
}

// CanOpenExtra reports whether a connection may be opened before a request needs it.
func (d *Dialer) CanOpenExtra() bool {
	return d.queue.First() == nil && d.gate.Connects.MayOpenExtra() && (d.open < d.share || d.gate.Descriptors.Free() > 0)
}

// WakeFirst makes the first exchange that waits for a descriptor try again.
func (d *Dialer) WakeFirst() {
	if x := d.queue.First(); x != nil {
		x.Wake()
	}
}

// NewConn returns a connection whose Sock is not registered.
func (d *Dialer) NewConn() *Conn { return &Conn{dialer: d} }

// Connect opens a connection for x. Call it in each step of x until the Result has a Conn
// or an Outcome. While the container does not listen, exchange.ConnectQueue decides which
// exchange attempts to connect. If connections use TLS, the container can select one of
// the given protocols by ALPN.
func (d *Dialer) Connect(x *exchange.Exchange, now int64, protocols ...string) Result {
	if c, ok := x.Dial.Attempt.(*Conn); ok {
		return d.continueAttempt(x, c, now, protocols)
	}
	pending := &d.gate.Connects
	if x.Dial.Detects && !pending.Clear() {
		return Result{Outcome: x.Dial.LastFailure}
	}
	if pending.Contains(x) || d.queue.First() == nil && !pending.Clear() {
		if try, next, o := pending.Enqueue(x, now); o != gate.Undecided || !try {
			return Result{Next: next, Outcome: o}
		}
	}
	if !d.acquire() {
		return d.waitForDescriptor(x, now)
	}
	fd, err := d.loop.Connect(&d.target)
	if err != nil {
		d.release()
		if err == loop.ErrRefused {
			return d.handleRefused(x)
		}
		return d.waitForDescriptor(x, now)
	}
	c := d.NewConn()
	if err := d.loop.Register(&c.Sock, fd, x.Dial.Handler); err != nil {
		d.loop.CloseDescriptor(fd)
		d.release()
		return d.waitForDescriptor(x, now)
	}
	c.hasDescriptor = true
	d.attempts++
	d.connecting++
	x.Dial.Attempt = c
	return d.continueAttempt(x, c, now, protocols)
}

// continueAttempt checks the progress of the connection attempt for x.
func (d *Dialer) continueAttempt(x *exchange.Exchange, c *Conn, now int64, protocols []string) Result {
	if !c.counted {
		if !c.Sock.Connected() {
			if c.Sock.Failed() {
				d.Cancel(x)
				return d.handleRefused(x)
			}
			return d.continueWait(x, now)
		}
		c.Sock.TuneLoopback(d.cfg.Address.Addr())
		d.stats.Dials.Inc()
		c.counted = true
		d.gate.Connects.NoteReached()
		if d.cfg.TLS != nil {
			c.startHandshake(x, protocols)
		}
	}
	if c.session != nil {
		done, err := c.handshakeDone(now)
		switch {
		case err != nil:
			d.Cancel(x)
			if failed := d.cfg.TLSFailed; failed != nil {
				failed(err)
			}
			return Result{Outcome: gate.UpstreamTLSFailed}
		case !done:
			return Result{Next: c.handshakeDeadline}
		}
	}
	d.connecting--
	x.Dial.Attempt = nil
	return Result{Conn: c}
}

// continueWait returns the result for x while x has no connection. If x is in the connect
// queue, the result has the time of the next call. If the wait has failed, for example
// because it took too long, the result has the outcome with which x ends.
func (d *Dialer) continueWait(x *exchange.Exchange, now int64) (r Result) {
	if d.gate.Connects.Contains(x) {
		_, r.Next, r.Outcome = d.gate.Connects.Enqueue(x, now)
	}
	return r
}

// handleRefused handles a refused connection of x and adds x to the connect queue.
func (d *Dialer) handleRefused(x *exchange.Exchange) (r Result) {
	now := d.loop.Nanotime()
	if d.gate.Connects.NoteRefused(now) {
		d.choice.Reset()
	}
	d.queue.Remove(x)
	d.WakeFirst()
	if x.Dial.Detects {
		return Result{Outcome: x.Dial.LastFailure}
	}
	_, r.Next, r.Outcome = d.gate.Connects.Enqueue(x, now)
	return r
}

// waitForDescriptor makes x wait for a descriptor or an idle connection. Usually it moves
// x to the descriptor queue. There is one exception: if x is in the connect queue because
// the container does not listen, x stays in the connect queue. It continues to attempt to
// connect from there.
func (d *Dialer) waitForDescriptor(x *exchange.Exchange, now int64) Result {
	if d.queue.First() == nil {
		d.lastServed = now
	}
	d.await(now)
	if d.inConnectQueue(x) {
		return d.continueWait(x, now)
	}
	d.queue.Add(x)
	return Result{}
}

// acquire takes a descriptor for a connection.
func (d *Dialer) acquire() bool {
	if d.open >= d.share && !d.gate.Descriptors.TryAcquire() {
		return false
	}
	d.open++
	d.lastServed = d.loop.Now()
	return true
}

// release releases a descriptor that acquire has taken.
func (d *Dialer) release() {
	if d.open--; d.open >= d.share {
		d.gate.Descriptors.Release()
	}
}

// BeyondShare reports whether the loop has more connections than its guaranteed share.
func (d *Dialer) BeyondShare() bool { return d.open > d.share }

// NoteServed records that an exchange of the queue has got an idle connection.
func (d *Dialer) NoteServed(now int64) { d.lastServed = now }

// await requests a descriptor from the budget for the exchanges in the queue. If none of
// them has been served for MinIdle, it also closes an idle connection.
func (d *Dialer) await(now int64) {
	if !d.awaiting {
		d.awaiting = true
		d.gate.Descriptors.Await(func() {
			d.loop.Post(func() {
				d.awaiting = false
				d.WakeFirst()
			})
		})
	}
	if now-d.lastServed >= int64(exchange.MinIdle) {
		d.gate.Descriptors.Reclaim()
	}
}

// Cancel cancels the connection attempt of x.
func (d *Dialer) Cancel(x *exchange.Exchange) {
	if c, ok := x.Dial.Attempt.(*Conn); ok {
		d.connecting--
		x.Dial.Attempt = nil
		c.Close()
	}
}
