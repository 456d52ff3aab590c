package upstream

import (
	"crypto/tls"
	"net/netip"

	"go.uber.org/atomic"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/exchange"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// Config says what is dialled, and how.
type Config struct {
	Address netip.AddrPort
	// TLS makes connections sessions of TLS; nil: they are plain.
	TLS *tls.Config
	// TLSFailed is called, on a loop, with the reason why no session came about. It may be nil.
	TLSFailed func(error)
}

// Stats count what the connections to the container do, of all loops.
type Stats struct{ Dials, Closes, Reuses atomic.Int64 }

// Conn is a connection to the container. Who gets it from a Dialer owns it.
type Conn struct {
	Sock loop.Sock
	// Protocol is what TLS has agreed upon (ALPN); empty without.
	Protocol string

	dialer            *Dialer
	hasDescriptor     bool      // a descriptor of the budget
	counted           bool      // among the open connections
	session           *tls.Conn // whose handshake is under way; nil = none
	handshakeDeadline int64     // when the handshake is to be over
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

// Dialer makes the connections of one loop, one attempt at a time for each
// exchange that asks.
type Dialer struct {
	loop       *loop.Loop
	gate       *exchange.Gate
	cfg        *Config
	choice     *Choice
	stats      *Stats
	target     loop.Target
	queue      exchange.WaitQueue // exchanges waiting for a descriptor
	open       int                // open connections, including those being established
	share      int                // connections guaranteed to the loop; further ones need a descriptor from the budget
	attempts   uint32             // attempts to open a connection
	awaiting   bool               // a descriptor has been requested from the budget
	lastServed int64              // when an exchange in line last got a descriptor, or when the first one joined
	// handshakeSlots bounds the TLS handshakes that compute, not wait for the container.
	handshakeSlots chan struct{}
}

// Init says once what d works for. share is how many connections the loop may
// have whatever clients hold.
func (d *Dialer) Init(l *loop.Loop, g *exchange.Gate, c *Config, choice *Choice, s *Stats, share int) {
	d.loop, d.gate, d.cfg, d.choice, d.stats, d.share = l, g, c, choice, s, share
	d.target = loop.NewTarget(c.Address)
	d.handshakeSlots = make(chan struct{}, 1)
}

// Result is what has become of an attempt to connect.
type Result struct {
	Conn    *Conn        // nil: none yet, or none at all
	Next    int64        // without a connection: when to call again at the latest; 0 = no bound
	Outcome gate.Outcome // why no connection is possible; Undecided = one may follow
}

// Attempts is how many times the Dialer has begun to make a connection.
func (d *Dialer) Attempts() uint32 { return d.attempts }

// Open is how many connections there are, those that are being made included.
func (d *Dialer) Open() int { return d.open }

// FirstWaiting is the exchange that has waited longest for a descriptor, or nil.
func (d *Dialer) FirstWaiting() *exchange.Exchange { return d.queue.First() }

// Enqueue makes x, which is to have a connection, wait behind those who lack a
// descriptor, and reports whether it did. One whose attempt is under way goes on
// with it, and one that is held until the container listens stays held.
func (d *Dialer) Enqueue(x *exchange.Exchange) bool {
	first := d.queue.First()
	if first == nil || first == x || x.Dial.Attempt != nil || d.inConnectQueue(x) {
		return false
	}
	d.queue.Add(x)
	return true
}

// inConnectQueue reports that x is held because the container does not listen. Once it
// does, those who were held are like others.
func (d *Dialer) inConnectQueue(x *exchange.Exchange) bool {
	p := &d.gate.Connects
	return p.Holds(x) && !p.Clear()
}

// CanOpenExtra reports that nothing speaks against one more connection than those that
// are needed.
func (d *Dialer) CanOpenExtra() bool {
	return d.queue.First() == nil && d.gate.Connects.Clear() && (d.open < d.share || d.gate.Descriptors.Free() > 0)
}

// WakeFirst lets the first of those who lack a descriptor try again.
func (d *Dialer) WakeFirst() {
	if x := d.queue.First(); x != nil {
		x.Wake()
	}
}

// NewConn returns a connection whose Sock is not registered yet.
func (d *Dialer) NewConn() *Conn { return &Conn{dialer: d} }

// Connect makes a connection for x, and is called with each step of x until
// the result says that this has ended. While the container does not listen,
// exchange.ConnectQueue says whose turn it is. protocols is what TLS offers.
func (d *Dialer) Connect(x *exchange.Exchange, now int64, protocols ...string) Result {
	if c, ok := x.Dial.Attempt.(*Conn); ok {
		return d.continueAttempt(x, c, now, protocols)
	}
	pending := &d.gate.Connects
	if x.Dial.Detects && !pending.Clear() {
		return Result{Outcome: x.Dial.Why}
	}
	if pending.Holds(x) || d.queue.First() == nil && !pending.Clear() {
		if try, next, o := pending.Hold(x, now); o != gate.Undecided || !try {
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
			return d.refused(x)
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
	x.Dial.Attempt = c
	return d.continueAttempt(x, c, now, protocols)
}

// continueAttempt looks how far the connection that is made for x has come.
func (d *Dialer) continueAttempt(x *exchange.Exchange, c *Conn, now int64, protocols []string) Result {
	if !c.counted {
		if !c.Sock.Connected() {
			if c.Sock.Failed() {
				d.Cancel(x)
				return d.refused(x)
			}
			return d.continueWait(x, now)
		}
		c.Sock.TuneLoopback(d.cfg.Address.Addr())
		d.stats.Dials.Inc()
		c.counted = true
		d.gate.Connects.Reached()
		if d.cfg.TLS != nil {
			c.startHandshake(x, protocols)
		}
	}
	if c.session != nil {
		over, err := c.handshakeDone(now)
		switch {
		case err != nil:
			d.Cancel(x)
			if failed := d.cfg.TLSFailed; failed != nil {
				failed(err)
			}
			return Result{Outcome: gate.UpstreamTLSFailed}
		case !over:
			return Result{Next: c.handshakeDeadline}
		}
	}
	x.Dial.Attempt = nil
	return Result{Conn: c}
}

// continueWait is the result for one that waits, which is held no longer than its time.
func (d *Dialer) continueWait(x *exchange.Exchange, now int64) (r Result) {
	if d.gate.Connects.Holds(x) {
		_, r.Next, r.Outcome = d.gate.Connects.Hold(x, now)
	}
	return r
}

// refused holds x until the container listens.
func (d *Dialer) refused(x *exchange.Exchange) (r Result) {
	now := d.loop.Nanotime()
	if d.gate.Connects.Refused(now) {
		d.choice.Forget()
	}
	d.queue.Remove(x)
	d.WakeFirst()
	if x.Dial.Detects {
		return Result{Outcome: x.Dial.Why}
	}
	_, r.Next, r.Outcome = d.gate.Connects.Hold(x, now)
	return r
}

// waitForDescriptor makes x wait for a connection that another exchange gives back: there
// is no descriptor for a new one. Only while the container does not listen does
// one that is held stay so, and try again when its turn has come.
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

// acquire takes a descriptor for one more connection.
func (d *Dialer) acquire() bool {
	if d.open >= d.share && !d.gate.Descriptors.TryAcquire() {
		return false
	}
	d.open++
	d.lastServed = d.loop.Now()
	return true
}

// release ends what acquire began.
func (d *Dialer) release() {
	if d.open--; d.open >= d.share {
		d.gate.Descriptors.Release()
	}
}

// BeyondShare reports that the loop has more connections than are always to be
// had.
func (d *Dialer) BeyondShare() bool { return d.open > d.share }

// NoteServed notes that one of those who lack a descriptor got a connection that
// had been idle.
func (d *Dialer) NoteServed(now int64) { d.lastServed = now }

// await asks the budget for a descriptor on behalf of those who lack one.
// Clients give way when none has come back for a while: mostly one does, with
// the end of another exchange.
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

// Cancel ends the attempt that is under way for x.
func (d *Dialer) Cancel(x *exchange.Exchange) {
	if c, ok := x.Dial.Attempt.(*Conn); ok {
		x.Dial.Attempt = nil
		c.Close()
	}
}
