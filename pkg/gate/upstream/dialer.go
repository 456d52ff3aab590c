package upstream

import (
	"crypto/tls"
	"net/netip"
	"time"

	"go.uber.org/atomic"
	"golang.org/x/sys/unix"

	"github.com/queuegate/queuegate/pkg/gate"
	"github.com/queuegate/queuegate/pkg/gate/loop"
)

// descriptorPause is how often the first of those who lack a descriptor checks
// whether another loop has given one back. Its own loop tells.
const descriptorPause = int64(10 * time.Millisecond)

// Config says what is dialled, and how.
type Config struct {
	Address netip.AddrPort
	// TLS makes connections sessions of TLS; nil: they are plain.
	TLS *tls.Config
	// TLSFailed is told, on a loop, why no session came about. It may be nil.
	TLSFailed func(error)
	// Refused is called on a loop when the container begins to refuse
	// connections. It may be nil.
	Refused func()
}

// Stats count what the connections to the container do, of all loops.
type Stats struct{ Dials, Closes, Reuses atomic.Int64 }

// Conn is a connection to the container. Who gets it from a Dialer owns it.
type Conn struct {
	Sock loop.Sock
	// Protocol is what TLS has agreed upon (ALPN); empty without.
	Protocol string

	dialer    *Dialer
	counted   bool       // among the open connections
	handshake *handshake // under way; nil = none
}

// Close closes the connection. Closing twice is harmless.
func (c *Conn) Close() {
	if c.handshake != nil {
		c.handshake.cancel()
	}
	if c.counted {
		c.counted = false
		c.dialer.stats.Closes.Inc()
	}
	c.Sock.Close()
	c.dialer.Feed()
}

// Dialer makes the connections of one loop, one attempt at a time for each
// exchange that asks.
type Dialer struct {
	loop     *loop.Loop
	gate     *gate.Gate
	cfg      *Config
	stats    *Stats
	sockaddr unix.Sockaddr
	family   int
	line     gate.DialLine // those who lack a descriptor
}

// Init says once what d works for.
func (d *Dialer) Init(l *loop.Loop, g *gate.Gate, c *Config, s *Stats) {
	d.loop, d.gate, d.cfg, d.stats = l, g, c, s
	if a := c.Address.Addr().Unmap(); a.Is4() {
		d.family, d.sockaddr = unix.AF_INET, &unix.SockaddrInet4{Port: int(c.Address.Port()), Addr: a.As4()}
	} else {
		d.family, d.sockaddr = unix.AF_INET6, &unix.SockaddrInet6{Port: int(c.Address.Port()), Addr: a.As16()}
	}
}

// Result is what has become of an attempt to connect.
type Result struct {
	Conn    *Conn        // nil: none yet, or none at all
	Next    int64        // without a connection: when to call again at the latest; 0 = no bound
	Failed  bool         // there will be none
	Outcome gate.Outcome // why, with Failed
}

// Lacking is the exchange that has waited longest for a descriptor, or nil.
func (d *Dialer) Lacking() *gate.Exchange { return d.line.First() }

// Wait lets x wait for a descriptor behind those who do so already.
func (d *Dialer) Wait(x *gate.Exchange) Result {
	d.line.Join(x)
	return Result{}
}

// Feed lets the first of those who lack a descriptor try again.
func (d *Dialer) Feed() {
	if x := d.line.First(); x != nil {
		x.Wake()
	}
}

// NewConn returns a connection whose Sock is not registered yet.
func (d *Dialer) NewConn() *Conn { return &Conn{dialer: d} }

// Connect makes a connection for x, and is called with each step of x until
// the result says that this has ended. While the container does not listen,
// gate.PendingDials says whose turn it is. protocols is what TLS offers.
func (d *Dialer) Connect(x *gate.Exchange, now int64, protocols ...string) Result {
	if c, ok := x.Dial().Attempt.(*Conn); ok {
		return d.attempted(x, c, now, protocols)
	}
	pending := &d.gate.Pending
	if pending.Holds(x) || d.line.First() == nil && !pending.Clear() {
		if try, next, o, failed := pending.Hold(x, now); failed || !try {
			return Result{Next: next, Outcome: o, Failed: failed}
		}
	}
	fd, err := unix.Socket(d.family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return d.lack(x, now)
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	err = unix.Connect(fd, d.sockaddr)
	if err != nil && err != unix.EINPROGRESS {
		_ = unix.Close(fd)
		return d.refused(x)
	}
	c := d.NewConn()
	if err := d.loop.Register(&c.Sock, fd, x.Driver().(loop.Handler)); err != nil {
		_ = unix.Close(fd)
		return d.lack(x, now)
	}
	x.Dial().Attempt = c
	return d.attempted(x, c, now, protocols)
}

// attempted looks how far the connection that is made for x has come.
func (d *Dialer) attempted(x *gate.Exchange, c *Conn, now int64, protocols []string) Result {
	if !c.counted {
		if _, err := unix.Getpeername(c.Sock.FD()); err != nil {
			if c.Sock.Failed() {
				d.Cancel(x)
				return d.refused(x)
			}
			return d.held(x, now)
		}
		loop.EaseLoopback(c.Sock.FD(), d.cfg.Address.Addr())
		d.stats.Dials.Inc()
		c.counted = true
		d.gate.Pending.Reached()
		if d.cfg.TLS != nil {
			c.beginHandshake(x, protocols)
		}
	}
	if h := c.handshake; h != nil {
		switch {
		case !h.done:
			return Result{}
		case h.err != nil:
			d.Cancel(x)
			if told := d.cfg.TLSFailed; told != nil {
				told(h.err)
			}
			return Result{Outcome: gate.UpstreamTLSFailed, Failed: true}
		}
		c.handshake = nil
	}
	x.Dial().Attempt = nil
	return Result{Conn: c}
}

// held is the result for one that waits, which is held no longer than its time.
func (d *Dialer) held(x *gate.Exchange, now int64) (r Result) {
	if d.gate.Pending.Holds(x) {
		_, r.Next, r.Outcome, r.Failed = d.gate.Pending.Hold(x, now)
	}
	return r
}

// refused holds x until the container listens.
func (d *Dialer) refused(x *gate.Exchange) (r Result) {
	now := loop.Nanotime()
	if d.gate.Pending.Refused(now) && d.cfg.Refused != nil {
		d.cfg.Refused()
	}
	d.line.Leave(x)
	d.Feed()
	_, r.Next, r.Outcome, r.Failed = d.gate.Pending.Hold(x, now)
	return r
}

// lack makes x wait for a connection that another exchange gives back: there
// is no descriptor for a new one.
func (d *Dialer) lack(x *gate.Exchange, now int64) Result {
	if d.gate.Pending.Holds(x) {
		return d.held(x, now)
	}
	d.line.Join(x)
	if d.line.First() == x {
		return Result{Next: now + descriptorPause}
	}
	return Result{}
}

// Cancel ends the attempt that is under way for x.
func (d *Dialer) Cancel(x *gate.Exchange) {
	if c, ok := x.Dial().Attempt.(*Conn); ok {
		x.Dial().Attempt = nil
		c.Close()
	}
}
